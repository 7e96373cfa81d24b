//! Looks up file systems by magic number, tool, kernel module, or a name that is not in the catalog.

use crate::foreign::foreign_filesystems;
pub use crate::foreign::foreign_hint;
use crate::{array, catalog};

/// Returns the name of the file system with this magic number in statfs(2).
pub fn by_magic(magic_number: u64) -> Option<&'static str> {
    let known = catalog::all().iter().map(|kind| (kind.name.as_str(), kind.magic));
    let foreign =
        foreign_filesystems().iter().map(|(name, foreign)| (name.as_str(), foreign.magic));
    known.chain(foreign).find(|(_, magic)| *magic == Some(magic_number)).map(|(name, _)| name)
}

/// Returns the Debian package of a program that a file system of the catalog or an array needs.
pub fn package_of(tool: &str) -> Option<&'static str> {
    let has = |tools: &[String]| tools.iter().any(|name| name == tool);
    let kind = catalog::all().iter().find(|kind| has(&kind.tools) || has(&kind.more_tools));
    let array = (tool == array::TOOL).then_some(array::PACKAGE);
    kind.map(|kind| kind.package.as_str()).or(array)
}

/// Returns how to get a kernel with a module that no distribution ships.
pub fn kernel_hint_of(module: &str) -> Option<&'static str> {
    with_module(module)?.kernel_hint.as_deref()
}

/// Returns text that lists the Debian kernels with this module and suggests one to request; `None` if all have it.
pub fn kernels_note(module: &str) -> Option<String> {
    with_module(module)?.kernels()
}

fn with_module(module: &str) -> Option<&'static catalog::Filesystem> {
    let uses = |modules: &[String]| modules.iter().any(|name| name == module);
    catalog::all().iter().find(|kind| uses(&kind.modules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_magic_number_a_tool_and_a_foreign_name_are_known() {
        assert_eq!((by_magic(0xef53), by_magic(0x2fc1_2fc1)), (Some("ext4"), Some("zfs")));
        assert_eq!(by_magic(0), None);
        let package = |tool| package_of(tool).unwrap_or_default();
        assert_eq!((package("debugfs"), package("mke2fs")), ("e2fsprogs", "e2fsprogs"));
        assert_eq!((package("fuse2fs"), package("mdadm")), ("fuse2fs", "mdadm"));
        assert_eq!((package("xfs_db"), package("mkfs.jfs")), ("xfsprogs", "jfsutils"));
        assert!(foreign_hint("ntfs").unwrap().contains("ntfs-3g {device}"));
        assert!(foreign_hint("apfs").unwrap().contains("cannot make apfs"));
        assert_eq!(foreign_hint("ext4"), None);
        assert!(kernel_hint_of("reiser4").is_some() && kernel_hint_of("xfs").is_none());
        assert!(kernels_note("ntfs3").unwrap().ends_with("--kernel 6.12"));
        assert!(kernels_note("zfs").unwrap().ends_with("--kernel 7.0.0-14-generic"));
        assert_eq!(kernels_note("xfs"), None);
    }

    #[test]
    fn magic_numbers_and_names_are_unique() {
        let mut magics: Vec<u64> = catalog::all().iter().filter_map(|kind| kind.magic).collect();
        magics.extend(foreign_filesystems().values().filter_map(|other| other.magic));
        let count = magics.len();
        magics.sort_unstable();
        magics.dedup();
        assert_eq!(magics.len(), count);
        assert!(
            foreign_filesystems().len() > 18
                && foreign_filesystems().keys().all(|name| catalog::get(name).is_err())
        );
    }
}
