//! Durability guarantees of file systems after fsync(2), and their repair commands.

use serde::Deserialize;

/// The directory entries that become durable through fsync(2) of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Names {
    /// The file's own names, and the directories on their paths.
    WithFile,
    /// None: the directory must be synced too, as the manual page of fsync(2) says.
    WithDirectory,
}

/// The durability guarantee of a kind of file system that can be crash-tested.
///
/// All guarantees include this for rename(2): a file with a durable name that is renamed has the old or the new name,
/// and the target name of a rename refers to that file or to the previous one. The journals of file systems with
/// [`Names::WithFile`] provide it, because a rename is one transaction; POSIX does not specify crashes, but every
/// program that replaces a file relies on it.
///
/// The manual page of fsync(2) says: "Calling fsync() does not necessarily ensure that the entry in the directory
/// containing the file has also reached disk. For that an explicit fsync() on a file descriptor for the directory is
/// also needed." Guarantees beyond that are the file system's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guarantee {
    /// Names that fsync(2) of a file makes durable.
    pub names: Names,
    /// True if sync(2) and syncfs(2) make everything durable. For FUSE, the kernel forwards them to the server only
    /// if `sync_fs` is set, which only virtiofs does (fs/fuse/inode.c, fuse_sync_fs).
    #[serde(default = "yes", rename = "whole")]
    pub sync_covers_everything: bool,
    /// Command that repairs it unattended, or empty if no command does so safely.
    #[serde(default)]
    pub repair: Vec<String>,
    /// Command to try if the file system cannot be mounted even after the repair; it may discard the journal. Empty if
    /// the tool has none.
    #[serde(default)]
    pub last_resort: Vec<String>,
    /// Source of the guarantee.
    pub source: String,
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    #[test]
    fn repair_commands_use_tools_of_the_package() {
        for filesystem in catalog::all() {
            let Some(guarantee) = &filesystem.guarantee else { continue };
            for command in [&guarantee.repair, &guarantee.last_resort] {
                let Some(tool) = command.first() else { continue };
                assert!(filesystem.tools.contains(tool), "{}: {tool}", filesystem.name);
                assert!(command.iter().any(|word| word == "{device}"), "{}", filesystem.name);
            }
            assert!(!guarantee.source.is_empty(), "{}", filesystem.name);
        }
    }

    #[test]
    fn a_process_that_serves_a_file_system_gets_no_sync() {
        let whole = |kind| Guarantee::of(kind).map(|guarantee| guarantee.sync_covers_everything);
        assert_eq!((whole("ext4"), whole("fuse2fs")), (Some(true), Some(false)));
        assert!(whole("tmpfs").is_none() && !Guarantee::kinds().any(|kind| kind == "raw"));
    }
}
