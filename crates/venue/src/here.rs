//! What this host can make, mount and check, asked before anything is touched.

use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_filesystem::{array, catalog};
use fsdyno_lab::find_program;
use fsdyno_record::plan::{FilesystemPlan, RaidPlan};

use crate::error::VenueError;
use crate::tools;

/// Whether this host has what a file system needs, and an array where there is one.
///
/// # Errors
/// What is missing, with what brings it.
pub fn check(filesystem: &FilesystemPlan, raid: Option<RaidPlan>) -> Result<(), VenueError> {
    let kind = &filesystem.kind;
    if !has_filesystem(&filesystem.mount_type) {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        return Err(VenueError::Missing(format!(
            "this host's kernel {release} has no {kind}; take --on lab, whose kernels have it"
        )));
    }
    let known = catalog::get(kind).map_err(|error| VenueError::Died(error.to_string()))?;
    let missing = tools::missing(known);
    if !missing.is_empty() {
        return Err(VenueError::Missing(format!(
            "{kind} needs {}; apt-get install {}",
            missing.join(", "),
            known.package
        )));
    }
    raid.map_or(Ok(()), check_arrays)
}

fn check_arrays(raid: RaidPlan) -> Result<(), VenueError> {
    if !Path::new("/proc/mdstat").exists() && !has_module("md-mod") {
        return Err(VenueError::Missing(format!(
            "--raid {raid} needs the md driver, which this host's kernel does not have; take --on lab"
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

/// Whether the running kernel can mount this type: it does already, or has a module for it.
pub fn has_filesystem(mount_type: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    listed(&known, mount_type) || has_module(mount_type)
}

/// A line is `[nodev]<tab>type` (proc(5)).
fn listed(filesystems: &str, mount_type: &str) -> bool {
    filesystems.lines().any(|line| line.rsplit('\t').next() == Some(mount_type))
}

/// Whether the running kernel has a module of this name, to load or built in.
fn has_module(name: &str) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let folder = PathBuf::from("/lib/modules").join(release);
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let text = fs::read_to_string(folder.join(list)).unwrap_or_default();
        text.lines().filter_map(module_of).any(|module| module == name)
    })
}

/// `kernel/fs/xfs/xfs.ko.zst: ...` is the module xfs.
fn module_of(line: &str) -> Option<String> {
    let file = line.split(':').next()?.rsplit('/').next()?;
    Some(file.split_once(".ko")?.0.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_found_whole() {
        let text = "nodev\tsysfs\nnodev\ttmpfs\n\text3\n\text4\n";
        assert!(listed(text, "ext4") && listed(text, "tmpfs"));
        assert!(!listed(text, "ext") && !listed(text, "xt4"));
        assert!(has_filesystem("proc") && !has_filesystem("no-such-fs"));
    }

    #[test]
    fn a_module_is_known_by_its_file() {
        assert_eq!(module_of("kernel/fs/xfs/xfs.ko.zst: kernel/lib/x.ko").as_deref(), Some("xfs"));
        assert_eq!(module_of("kernel/drivers/md/md-mod.ko").as_deref(), Some("md-mod"));
        assert_eq!(module_of("nothing").as_deref(), None);
    }

    #[test]
    fn what_the_kernel_has_not_is_said_before_any_work() {
        let kind = catalog::get("ext4").unwrap();
        let spec = fsdyno_filesystem::Spec::parse("ext4").unwrap();
        let mut plan = kind.plan(&spec, fsdyno_filesystem::Context::Host, None).unwrap();
        plan.mount_type = "no-such-fs".into();
        let error = check(&plan, None).unwrap_err().to_string();
        assert!(error.contains("has no ext4; take --on lab"), "{error}");
    }
}
