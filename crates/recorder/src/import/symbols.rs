//! The names of flags and errors, as strace(1) prints them.

use libc::*;

macro_rules! named {
    ($table:ident: $type:ty = $($name:ident)*) => {
        const $table: &[(&str, $type)] = &[$((stringify!($name), $name as $type)),*];
    };
}

named! { FLAGS: u64 =
    O_RDONLY O_WRONLY O_RDWR O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_DSYNC O_SYNC O_DIRECT O_DIRECTORY
    O_NOFOLLOW O_NOATIME O_CLOEXEC O_PATH O_TMPFILE
    AT_SYMLINK_NOFOLLOW AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH AT_EACCESS
    F_OK R_OK W_OK X_OK SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE
    PROT_NONE PROT_READ PROT_WRITE PROT_EXEC MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE MAP_FIXED MAP_ANONYMOUS
    MAP_DENYWRITE MAP_NORESERVE MAP_POPULATE MAP_STACK
    S_IFREG S_IFDIR S_IFLNK S_IFCHR S_IFBLK S_IFIFO S_IFSOCK S_ISUID S_ISGID S_ISVTX
    F_DUPFD F_DUPFD_CLOEXEC F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW
    FD_CLOEXEC LOCK_SH LOCK_EX LOCK_UN LOCK_NB F_RDLCK F_WRLCK F_UNLCK
    RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT
    FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_ZERO_RANGE FALLOC_FL_COLLAPSE_RANGE FALLOC_FL_INSERT_RANGE
    POSIX_FADV_NORMAL POSIX_FADV_RANDOM POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED POSIX_FADV_DONTNEED
    POSIX_FADV_NOREUSE XATTR_CREATE XATTR_REPLACE
    CLONE_VM CLONE_FS CLONE_FILES CLONE_THREAD CLONE_VFORK
}

named! { ERRORS: i64 =
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV
    ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK
    ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA EOVERFLOW EOPNOTSUPP ENOTSUP ESTALE EDQUOT ECANCELED EKEYEXPIRED
}

/// Returns the number of an error.
pub fn errno(name: &str) -> Option<i64> {
    ERRORS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// Returns the value of a number (decimal, octal, hexadecimal, negative), or of flags joined by `|`. Flags with unknown
/// names are ignored.
pub fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let text = text.split("/*").next().unwrap_or(text).trim();
    if text == "NULL" {
        return Some(0);
    }
    text.split('|').try_fold(0i64, |sum, part| Some(sum | parse_one(part.trim())?))
}

fn parse_one(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(|it| it as i64);
    }
    if let Some(digits) = text.strip_prefix("~[").or(text.strip_prefix('-')) {
        return digits.trim_end_matches(']').parse::<i64>().ok().map(|it| -it);
    }
    if text.len() > 1 && text.starts_with('0') {
        return i64::from_str_radix(text, 8).ok();
    }
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return text.parse::<u64>().ok().map(|it| it as i64);
    }
    if let Some((_, value)) = FLAGS.iter().find(|(known, _)| *known == text) {
        return Some(*value as i64);
    }
    let is_name =
        !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    is_name.then_some(0)
}
