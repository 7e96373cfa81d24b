//! Checks that this host can make, mount and check a file system, before anything is changed.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use fsdyno_filesystem::{Filesystem, HARMLESS, array, catalog};
use fsdyno_lab::{Modules, find_program};
use fsdyno_record::plan::{FilesystemPlan, RaidPlan};

use crate::error::VenueError;
use crate::tools;

/// Checks that this host has what a file system and its array, if any, need.
///
/// # Errors
/// Something is missing; the message says how to install it.
pub fn check(filesystem: &FilesystemPlan, raid: Option<RaidPlan>) -> Result<(), VenueError> {
    // The file system's own kind, and that of the lower file system, if any.
    let mut kinds = vec![filesystem.kind.as_str(), filesystem.made_kind()];
    kinds.dedup();
    for kind in kinds {
        let kind = catalog::get(kind).map_err(|error| VenueError::Failed(error.to_string()))?;
        check_kind(kind)?;
    }
    check_commands(filesystem)?;
    if filesystem.pool.is_some() {
        return Err(VenueError::Missing(format!(
            "{} requires --on lab: on a host, its pool would be visible to the whole machine",
            filesystem.kind
        )));
    }
    raid.map_or(Ok(()), check_arrays)
}

fn check_kind(known: &Filesystem) -> Result<(), VenueError> {
    let kind = &known.name;
    if !has_filesystem(known) {
        return Err(VenueError::Missing(format!(
            "this host's kernel {} does not support {kind}; use --on lab, whose kernels do",
            release()
        )));
    }
    let missing = tools::missing(known);
    if !missing.is_empty() {
        return Err(VenueError::Missing(format!(
            "{kind} needs {}; apt-get install {}",
            missing.join(", "),
            known.package
        )));
    }
    Ok(())
}

/// Checks the programs of the commands; those of `fuse:` are not in the catalog.
fn check_commands(filesystem: &FilesystemPlan) -> Result<(), VenueError> {
    for argv in [&filesystem.mkfs, &filesystem.mount_command] {
        if let Some(argument) = argv.iter().find(|argument| is_device_path(argument)) {
            return Err(VenueError::Missing(format!(
                "'{argument}' is a device of this machine; the command may use only {{device}}"
            )));
        }
        if let Some(program) = argv.first().filter(|program| find_program(program).is_err()) {
            let remedy = match program.contains('/') {
                true => "it must be an executable file",
                false => "install it",
            };
            let spec = &filesystem.spec;
            return Err(VenueError::Missing(format!("'{spec}' needs {program}; {remedy}")));
        }
    }
    Ok(())
}

/// Returns true if an argument of a command, or a part of it, is the path of a device node or of a link to one.
fn is_device_path(argument: &str) -> bool {
    argument.split([',', '=', ':']).any(|path| {
        let kind = fs::metadata(path).map(|metadata| metadata.file_type());
        kind.is_ok_and(|kind| kind.is_block_device() || kind.is_char_device())
            && !HARMLESS.contains(&path)
    })
}

fn check_arrays(raid: RaidPlan) -> Result<(), VenueError> {
    if !Path::new("/proc/mdstat").exists() && !has_module("md-mod") {
        return Err(VenueError::Missing(format!(
            "--raid {raid} needs the md driver, which this host's kernel does not have; use --on lab"
        )));
    }
    if find_program(array::TOOL).is_err() {
        let package = array::PACKAGE;
        return Err(VenueError::Missing(format!(
            "--raid {raid} needs {}; apt-get install {package}",
            array::TOOL
        )));
    }
    Ok(())
}

/// Returns true if the running kernel supports a file system, built in or by modules.
pub fn has_filesystem(kind: &Filesystem) -> bool {
    let release = release();
    let modules = Modules::open(&Path::new("/lib/modules").join(&release), &release).ok();
    let proc_filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    kind.mount.kind.is_empty() || supports(kind, &proc_filesystems, modules.as_ref())
}

/// Returns true if a kernel supports a file system, according to its /proc/filesystems and its modules on disk.
pub(crate) fn supports(
    kind: &Filesystem,
    proc_filesystems: &str,
    modules: Option<&Modules>,
) -> bool {
    let loadable = modules.is_some_and(|modules| {
        kind.modules.iter().all(|module| modules.accepts(module)) && !kind.modules.is_empty()
    });
    is_listed(proc_filesystems, &kind.mount.kind) || loadable
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Searches the lines `[nodev]<tab>type` (proc(5)) for a type.
fn is_listed(filesystems: &str, mount_type: &str) -> bool {
    filesystems.lines().any(|line| line.rsplit('\t').next() == Some(mount_type))
}

/// Returns true if the running kernel has a module with this name, loadable or built in.
fn has_module(name: &str) -> bool {
    let folder = PathBuf::from("/lib/modules").join(release());
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let text = fs::read_to_string(folder.join(list)).unwrap_or_default();
        text.lines().filter_map(module_of).any(|module| module == name)
    })
}

/// Returns the module that a line names: xfs for `kernel/fs/xfs/xfs.ko.zst: ...`.
fn module_of(line: &str) -> Option<String> {
    let file = line.split(':').next()?.rsplit('/').next()?;
    Some(file.split_once(".ko")?.0.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_device_is_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        let link = link.display().to_string();
        assert!(is_device_path(&link) && is_device_path(&format!("-odev={link},ro")));
        for harmless in ["{device}", "/dev/fuse", "-o", "log=/dev/null", "/no/such/node"] {
            assert!(!is_device_path(harmless), "{harmless}");
        }
        let command = vec!["sh".to_string(), link];
        let error = check_commands(&FilesystemPlan { mkfs: command, ..Default::default() });
        assert!(error.unwrap_err().to_string().contains("is a device of this machine"));
    }

    #[test]
    fn only_whole_type_names_match() {
        let text = "nodev\tsysfs\nnodev\ttmpfs\n\text3\n\text4\n";
        assert!(is_listed(text, "ext4") && is_listed(text, "tmpfs"));
        assert!(!is_listed(text, "ext") && !is_listed(text, "xt4"));
        let kind = |name: &str| catalog::get(name).unwrap();
        assert!(supports(kind("ext4"), text, None) && !supports(kind("xfs"), text, None));
        // No common kernel has reiser4.
        assert!(has_filesystem(kind("raw")) && !has_filesystem(kind("reiser4")));
    }

    #[test]
    fn the_name_of_a_module_is_that_of_its_file() {
        assert_eq!(module_of("kernel/fs/xfs/xfs.ko.zst: kernel/lib/x.ko").as_deref(), Some("xfs"));
        assert_eq!(module_of("kernel/drivers/md/md-mod.ko").as_deref(), Some("md-mod"));
        assert_eq!(module_of("nothing").as_deref(), None);
    }

    #[test]
    fn a_missing_driver_or_program_is_reported_before_any_work() {
        let error_of = |spec_text: &str| {
            let spec = fsdyno_filesystem::Spec::parse(spec_text).unwrap();
            let kind = catalog::get(&spec.kind).unwrap();
            let plan = kind.plan(&spec, fsdyno_filesystem::Context::Host, None).unwrap();
            check(&plan, None).unwrap_err().to_string()
        };
        assert!(
            error_of("reiser4").contains("does not support reiser4; use --on lab"),
            "{}",
            error_of("reiser4")
        );
        // Both the upper and the lower file system are checked.
        if has_filesystem(catalog::get("overlayfs").unwrap()) {
            assert!(
                error_of("overlayfs:reiser4").contains("does not support reiser4; use --on lab")
            );
        }
        if has_filesystem(catalog::get("fuse").unwrap()) {
            let message = error_of("fuse: no-such-fuse {device} {mount}");
            assert!(message.contains("needs no-such-fuse; install it"), "{message}");
            let message = error_of("fuse: /no/such-fuse {device} {mount}");
            assert!(
                message.contains("needs /no/such-fuse; it must be an executable file"),
                "{message}"
            );
        }
    }
}
