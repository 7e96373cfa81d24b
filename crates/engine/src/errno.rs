//! Error numbers with their names, for messages.

use std::fmt;

/// An error number of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Returns the error of this thread's last failed call.
    pub fn last() -> Errno {
        Errno::from_error(&std::io::Error::last_os_error())
    }

    /// Converts an error of the standard library; EIO if it has no number.
    pub fn from_error(error: &std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Returns the name in errno.h, or `None` for numbers that no file system returns.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// Returns a remedy for the user, if known.
    pub fn hint(self) -> Option<&'static str> {
        match self.0 {
            libc::ENOSPC => Some("use a larger medium, or fewer or smaller files"),
            libc::EDQUOT => Some("raise the quota, or use fewer or smaller files"),
            libc::EACCES | libc::EPERM => Some("use a directory that this user may write to"),
            libc::EROFS => Some("use a file system that is mounted writable"),
            libc::EMFILE | libc::ENFILE => Some("raise the limit of open files (ulimit -n)"),
            _ => None,
        }
    }
}

impl fmt::Display for Errno {
    /// Formats the error: `No space left on device (ENOSPC)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = std::io::Error::from_raw_os_error(self.0).to_string();
        let message = message.split(" (os error").next().unwrap_or_default();
        match self.name() {
            Some(name) => write!(f, "{message} ({name})"),
            None => write!(f, "{message} (error {})", self.0),
        }
    }
}

macro_rules! names {
    ($($name:ident)+) => { &[$((libc::$name, stringify!($name))),+] };
}

/// Errors that file system calls return.
const NAMES: &[(i32, &str)] = names!(
    EPERM ENOENT EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV
    ENOTDIR EISDIR EINVAL ENFILE EMFILE ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK ERANGE
    ENAMETOOLONG ENOTEMPTY ELOOP ENODATA EOVERFLOW EOPNOTSUPP ESTALE EUCLEAN EDQUOT
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_text_and_its_name() {
        assert_eq!(Errno(libc::ENOSPC).to_string(), "No space left on device (ENOSPC)");
        assert_eq!(Errno(libc::EUCLEAN).name(), Some("EUCLEAN"));
        assert!(Errno(9999).to_string().ends_with("(error 9999)"));
    }
}
