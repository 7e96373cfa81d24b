//! The errors of the calls, with Linux's numbers.

/// An error that a file system call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Errno {
    /// The operation is not permitted: a hard link to a directory.
    #[error("operation not permitted (EPERM)")]
    NotPermitted,
    /// A name does not exist.
    #[error("no such file or directory (ENOENT)")]
    Missing,
    /// A slot is not open, or not open for this kind of access.
    #[error("bad file descriptor (EBADF)")]
    BadSlot,
    /// A name ends in `.` or `..` although the call does not allow that.
    #[error("device or resource busy (EBUSY)")]
    Busy,
    /// A name exists.
    #[error("file exists (EEXIST)")]
    Exists,
    /// A component of a path is not a directory.
    #[error("not a directory (ENOTDIR)")]
    NotDirectory,
    /// The call needs a file, but the name or slot is that of a directory.
    #[error("is a directory (EISDIR)")]
    IsDirectory,
    /// An argument is invalid, such as a new name of a directory below itself.
    #[error("invalid argument (EINVAL)")]
    Invalid,
    /// A file would be larger than 2^63 - 1 bytes.
    #[error("file too large (EFBIG)")]
    TooLarge,
    /// A name has more than 255 bytes.
    #[error("file name too long (ENAMETOOLONG)")]
    NameTooLong,
    /// A directory is not empty.
    #[error("directory not empty (ENOTEMPTY)")]
    NotEmpty,
    /// A path leads through more than 40 symbolic links, or ends in one that must not be followed.
    #[error("too many levels of symbolic links (ELOOP)")]
    Loop,
    /// The operation is not modelled, such as copying or packing a tree with a symbolic link, or changing a packed
    /// archive.
    #[error("operation not supported (EOPNOTSUPP)")]
    NotSupported,
}

impl Errno {
    /// Returns the number in Linux's errno.h.
    pub fn number(self) -> i32 {
        match self {
            Errno::NotPermitted => 1,
            Errno::Missing => 2,
            Errno::BadSlot => 9,
            Errno::Busy => 16,
            Errno::Exists => 17,
            Errno::NotDirectory => 20,
            Errno::IsDirectory => 21,
            Errno::Invalid => 22,
            Errno::TooLarge => 27,
            Errno::NameTooLong => 36,
            Errno::NotEmpty => 39,
            Errno::Loop => 40,
            Errno::NotSupported => 95,
        }
    }
}
