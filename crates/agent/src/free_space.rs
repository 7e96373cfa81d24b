//! Checks before the first op whether the work can fit on the file system.
//!
//! The space that a file system needs in addition to names and bytes is not known, so only work that certainly cannot
//! fit is refused. Other work may still run out of space, and that error says where.

use std::os::fd::BorrowedFd;

use fsdyno_record::Bytes;
use fsdyno_workload::Needs;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

/// The free space of a file system for this user; a field is `None` if the file system has no limit of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Free space.
    pub bytes: Option<Bytes>,
    /// The number of files and directories that can still be created.
    pub inodes: Option<u64>,
}

impl FreeSpace {
    /// Queries the file system of `root`.
    ///
    /// # Errors
    /// Errors from fstatvfs(3).
    pub fn read(root: BorrowedFd<'_>) -> std::io::Result<FreeSpace> {
        let stat = rustix::fs::fstatvfs(root)?;
        let is_root = geteuid().is_root();
        let blocks = if is_root { stat.f_bfree } else { stat.f_bavail };
        let inodes = if is_root { stat.f_ffree } else { stat.f_favail };
        Ok(FreeSpace {
            // A tmpfs without a limit reports no blocks, and btrfs no inodes.
            bytes: (stat.f_blocks > 0).then(|| Bytes(blocks.saturating_mul(stat.f_frsize))),
            inodes: (stat.f_files > 0).then_some(inodes),
        })
    }

    /// Checks that `needs` fit.
    ///
    /// # Errors
    /// If they do not fit, a message with the amounts needed and free.
    pub fn check_fits(&self, needs: &Needs) -> Result<(), String> {
        let hint = "make the work smaller with --set, or use a larger medium";
        if let Some(bytes) = self.bytes.filter(|bytes| *bytes < needs.bytes) {
            return Err(format!(
                "the workload needs {} of file data at once, but only {bytes} are free; {hint}",
                needs.bytes
            ));
        }
        if let Some(inodes) = self.inodes.filter(|inodes| *inodes < needs.inodes) {
            return Err(format!(
                "the workload needs {} files and directories at once, but there are only \
                 {inodes} free inodes; {hint}",
                needs.inodes
            ));
        }
        Ok(())
    }
}

/// Raises this process's limit on open files to the hard limit: hundreds of threads, each with a few open files, exceed
/// the default soft limit, which a process may raise itself.
pub fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // If the kernel refuses, the op that runs out reports it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: FreeSpace = FreeSpace { bytes: Some(Bytes(4096)), inodes: Some(10) };

    fn needs(bytes: u64, inodes: u64) -> Needs {
        Needs { bytes: Bytes(bytes), inodes, longest_name: 0 }
    }

    #[test]
    fn needs_up_to_the_free_space_fit_and_one_more_does_not() {
        assert_eq!(FREE.check_fits(&needs(4096, 10)), Ok(()));
        let text = FREE.check_fits(&needs(4097, 10)).unwrap_err();
        assert!(text.contains("of file data at once, but only 4 KiB are free"), "{text}");
        let text = FREE.check_fits(&needs(0, 11)).unwrap_err();
        assert!(text.contains("11 files and directories") && text.contains("10 free inodes"));
    }

    #[test]
    fn a_file_system_without_a_limit_refuses_nothing() {
        let free = FreeSpace { bytes: None, inodes: None };
        assert_eq!(free.check_fits(&needs(u64::MAX, u64::MAX)), Ok(()));
    }

    #[test]
    fn the_free_space_of_a_real_file_system_is_read() {
        use std::os::fd::AsFd;
        let folder = std::fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
        let free = FreeSpace::read(folder.as_fd()).unwrap();
        assert_eq!(free.check_fits(&needs(0, 0)), Ok(()));
        assert!(free.check_fits(&needs(u64::MAX, 0)).is_err(), "no disk is that large");
    }
}
