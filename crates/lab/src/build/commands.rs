//! The kernels and modules that fsdyno can build, their names, and the commands.

/// The names of the kernels that can be built, with the command for each.
const BUILDS: &[(&str, &str)] =
    &[("reiser4", "fsdyno kernel build reiser4 --linux SOURCE --reiser4 SOURCE")];

/// The modules that can be built for a distribution's kernel, with the command for each, without the release.
const MODULE_BUILDS: &[(&str, &str)] = &[("zfs", "fsdyno kernel build zfs --kernel")];

/// Returns the command that builds a module for a kernel of Debian, if there is one.
pub fn module_command(module: &str, release: &str) -> Option<String> {
    if !release.ends_with("-amd64") {
        return None;
    }
    let (_, command) = MODULE_BUILDS.iter().find(|(built, _)| module == *built)?;
    Some(format!("{command} {release}"))
}

/// Returns true if a kernel that was built on this host is the requested one.
pub fn is_requested(release: &str, request: &str) -> bool {
    release == request || name(release) == Some(request)
}

/// Returns the command that builds the requested kernel, if there is one.
pub fn command_for(request: &str) -> Option<&'static str> {
    let (_, command) =
        BUILDS.iter().find(|(built, _)| request == *built || name(request) == Some(built))?;
    Some(command)
}

/// Returns the part of a release after its last dash.
fn name(release: &str) -> Option<&str> {
    Some(release.rsplit_once('-')?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_or_module_that_can_be_built_has_a_command_and_no_other_has_one() {
        assert!(command_for("reiser4").unwrap().starts_with("fsdyno kernel build reiser4 "));
        assert_eq!(command_for("5.10.223-reiser4"), command_for("reiser4"));
        assert_eq!(command_for("6.1.0-56-amd64"), None);
        let command = module_command("zfs", "6.1.0-56-amd64");
        assert_eq!(command.as_deref(), Some("fsdyno kernel build zfs --kernel 6.1.0-56-amd64"));
        assert_eq!(module_command("zfs", "7.0.0-14-generic"), None);
        assert_eq!(module_command("ext4", "6.1.0-56-amd64"), None);
        assert!(
            is_requested("5.10.262-reiser4", "reiser4")
                && !is_requested("5.10.262-reiser4", "5.10")
        );
    }
}
