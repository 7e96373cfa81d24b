//! Errors of media.

use std::path::PathBuf;

use fsdyno_record::Bytes;

use crate::block::BlockError;

/// The reason why a medium cannot be used. Each message has the path and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The path does not exist.
    #[error("'{}' does not exist; create it first: mkdir -p '{}'", .0.display(), .0.display())]
    Missing(PathBuf),
    /// The path is not a directory.
    #[error("'{}' is not a directory; name one on the file system to be measured", .0.display())]
    NotADirectory(PathBuf),
    /// The directory is not writable.
    #[error("no permission to write in '{}'; name a directory of your own", .0.display())]
    NotWritable(PathBuf),
    /// Its file system is mounted read-only.
    #[error("'{}' is on a file system that is mounted read-only", .0.display())]
    ReadOnly(PathBuf),
    /// The directory is on a pseudo file system of the kernel, in which users create no files.
    #[error("no file can be created on {kind}, where '{}' is; name a directory on a disk", .path.display())]
    KernelFilesystem {
        /// The directory.
        path: PathBuf,
        /// Its file system.
        kind: &'static str,
    },
    /// The work does not fit.
    #[error(
        "'{}' has {have} free, but the work needs about {need}; \
         name another directory or make the work smaller with --set", .path.display()
    )]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// The space that is free for this user.
        have: Bytes,
        /// File data plus one block for each file.
        need: Bytes,
    },
    /// There are too few free inodes.
    #[error(
        "'{}' has {have} free inodes, but the work needs {need}; \
         name another directory or make the work smaller with --set", .path.display()
    )]
    NoInodes {
        /// The directory.
        path: PathBuf,
        /// The number of inodes that are free for this user.
        have: u64,
        /// Maximum number of files and directories that exist at one time.
        need: u64,
    },
    /// A name of the workload is too long.
    #[error("'{}' allows names of {have} bytes, but the work has one of {need}", .path.display())]
    NameTooLong {
        /// The directory.
        path: PathBuf,
        /// The maximum length of a name on the file system, in bytes.
        have: usize,
        /// The length of the longest name of the work, in bytes.
        need: usize,
    },
    /// The medium needs privileges that this process lacks.
    #[error(
        "--on {0} needs root to set up a loop device and to mount its file system; run it as \
         root (sudo fsdyno ...), or use --on DIRECTORY or --on lab"
    )]
    NeedsRoot(String),
    /// Loop devices are not available here.
    #[error(
        "no loop device can be set up here (/dev/loop-control: {0}); run modprobe loop, or give the \
         container access to the loop devices of its host"
    )]
    NoLoops(String),
    /// The medium does not fit.
    #[error("{what} may need {need}, but {have} are available; use a smaller one")]
    NoSpaceForMedium {
        /// The medium as given.
        what: String,
        /// The available space.
        have: Bytes,
        /// The space that it needs when full.
        need: Bytes,
    },
    /// The path to clean is not fsdyno's, or is in use.
    #[error("'{}' is not removed: {why}", .path.display())]
    NotOurs {
        /// The subdirectory.
        path: PathBuf,
        /// The reason not to remove it.
        why: String,
    },
    /// An error of a drive.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A system call failed.
    #[error("failed to {what} '{}': {source}", .path.display())]
    Io {
        /// The attempted action, such as "create" or "remove".
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
}

impl MediaError {
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
        error: rustix::io::Errno,
    ) -> MediaError {
        MediaError::io_error(what, path, error.into())
    }

    pub(crate) fn io_error(
        what: &'static str,
        path: impl Into<PathBuf>,
        source: std::io::Error,
    ) -> MediaError {
        MediaError::Io { what, path: path.into(), source }
    }
}
