//! What can be wrong with a place to work in.

use std::path::PathBuf;

use fsdyno_record::Bytes;

use crate::block::BlockError;

/// Why a directory cannot be used. Each message names the place and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// There is nothing at the path.
    #[error("'{}' does not exist; make it first: mkdir -p '{}'", .0.display(), .0.display())]
    Missing(PathBuf),
    /// The path is something else.
    #[error("'{}' is not a directory; name one on the file system to be measured", .0.display())]
    NotADirectory(PathBuf),
    /// Nothing can be made in it.
    #[error("no permission to write in '{}'; name a directory of your own", .0.display())]
    NotWritable(PathBuf),
    /// Its file system is mounted read-only.
    #[error("'{}' is on a file system that is mounted read-only", .0.display())]
    ReadOnly(PathBuf),
    /// Nobody can make a file there.
    #[error("no file can be made on {kind}, where '{}' is; name a directory on a disk", .path.display())]
    OfTheKernel {
        /// The directory.
        path: PathBuf,
        /// Its file system.
        kind: &'static str,
    },
    /// The work does not fit.
    #[error(
        "'{}' has {have} free, and the work needs about {need}; \
         name another directory or make the work smaller with --set", .path.display()
    )]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// Free for this user.
        have: Bytes,
        /// File data plus one block for each file.
        need: Bytes,
    },
    /// There are too few inodes left.
    #[error(
        "'{}' has {have} free inodes, and the work needs {need}; \
         name another directory or make the work smaller with --set", .path.display()
    )]
    NoInodes {
        /// The directory.
        path: PathBuf,
        /// Free for this user.
        have: u64,
        /// Files and directories that exist at once.
        need: u64,
    },
    /// A name of the workload does not fit.
    #[error("'{}' takes names of {have} bytes, and the work has one of {need}", .path.display())]
    NameTooLong {
        /// The directory.
        path: PathBuf,
        /// The longest name that the file system takes.
        have: usize,
        /// The longest name of the work.
        need: usize,
    },
    /// A medium that takes privileges, and this process has none.
    #[error(
        "--on {0} needs root, to set up a loop device and to mount what is made on it; run it as \
         root (sudo fsdyno ...), or use --on DIRECTORY or --on lab"
    )]
    NeedsRoot(String),
    /// No loop device can be made here.
    #[error(
        "no loop device can be made here (/dev/loop-control: {0}); modprobe loop brings them, and in \
         a container only its host can give them"
    )]
    NoLoops(String),
    /// The medium does not fit.
    #[error("{what} may take {need}, and there is room for {have}; take a smaller one")]
    NoRoomForMedium {
        /// As it was typed.
        what: String,
        /// What there is.
        have: Bytes,
        /// What it takes when it is full.
        need: Bytes,
    },
    /// What is to be cleaned is not fsdyno's, or is in use.
    #[error("'{}' stays as it is: {why}", .path.display())]
    NotOurs {
        /// The subdirectory.
        path: PathBuf,
        /// What speaks against removing it.
        why: String,
    },
    /// It is a drive that is left alone.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A system call failed.
    #[error("{what} '{}': {source}", .path.display())]
    Io {
        /// The attempt, as in "create" or "remove".
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
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
