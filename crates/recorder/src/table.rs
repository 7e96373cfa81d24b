//! The system calls that are recorded, and their kinds in a trace.

use fsdyno_trace::CallKind as K;
use libc::c_long;

/// The recorded system calls of x86-64.
pub const CALLS: &[(c_long, K)] = &[
    (libc::SYS_open, K::Open),
    (libc::SYS_openat, K::Open),
    (libc::SYS_openat2, K::Open),
    (libc::SYS_creat, K::Open),
    (libc::SYS_close, K::Close),
    (libc::SYS_close_range, K::Close),
    (libc::SYS_dup, K::Dup),
    (libc::SYS_dup2, K::Dup),
    (libc::SYS_dup3, K::Dup),
    (libc::SYS_fcntl, K::Lock),
    (libc::SYS_read, K::Read),
    (libc::SYS_readv, K::Read),
    (libc::SYS_pread64, K::Read),
    (libc::SYS_preadv, K::Read),
    (libc::SYS_preadv2, K::Read),
    (libc::SYS_write, K::Write),
    (libc::SYS_writev, K::Write),
    (libc::SYS_pwrite64, K::Write),
    (libc::SYS_pwritev, K::Write),
    (libc::SYS_pwritev2, K::Write),
    (libc::SYS_lseek, K::Seek),
    (libc::SYS_sendfile, K::Copy),
    (libc::SYS_copy_file_range, K::Copy),
    (libc::SYS_splice, K::Copy),
    (libc::SYS_ioctl, K::Copy),
    (libc::SYS_truncate, K::Truncate),
    (libc::SYS_ftruncate, K::Truncate),
    (libc::SYS_fallocate, K::Fallocate),
    (libc::SYS_fsync, K::Sync),
    (libc::SYS_fdatasync, K::Sync),
    (libc::SYS_sync_file_range, K::Sync),
    (libc::SYS_syncfs, K::Sync),
    (libc::SYS_sync, K::SyncAll),
    (libc::SYS_stat, K::Stat),
    (libc::SYS_lstat, K::Stat),
    (libc::SYS_fstat, K::Stat),
    (libc::SYS_newfstatat, K::Stat),
    (libc::SYS_statx, K::Stat),
    (libc::SYS_access, K::Access),
    (libc::SYS_faccessat, K::Access),
    (libc::SYS_faccessat2, K::Access),
    (libc::SYS_readlink, K::Readlink),
    (libc::SYS_readlinkat, K::Readlink),
    (libc::SYS_getdents, K::Readdir),
    (libc::SYS_getdents64, K::Readdir),
    (libc::SYS_mkdir, K::Mkdir),
    (libc::SYS_mkdirat, K::Mkdir),
    (libc::SYS_rmdir, K::Rmdir),
    (libc::SYS_unlink, K::Unlink),
    (libc::SYS_unlinkat, K::Unlink),
    (libc::SYS_rename, K::Rename),
    (libc::SYS_renameat, K::Rename),
    (libc::SYS_renameat2, K::Rename),
    (libc::SYS_link, K::Link),
    (libc::SYS_linkat, K::Link),
    (libc::SYS_symlink, K::Symlink),
    (libc::SYS_symlinkat, K::Symlink),
    (libc::SYS_mknod, K::Mknod),
    (libc::SYS_mknodat, K::Mknod),
    (libc::SYS_chmod, K::Chmod),
    (libc::SYS_fchmod, K::Chmod),
    (libc::SYS_fchmodat, K::Chmod),
    (FCHMODAT2, K::Chmod),
    (libc::SYS_chown, K::Chown),
    (libc::SYS_fchown, K::Chown),
    (libc::SYS_lchown, K::Chown),
    (libc::SYS_fchownat, K::Chown),
    (libc::SYS_utime, K::Utimes),
    (libc::SYS_utimes, K::Utimes),
    (libc::SYS_futimesat, K::Utimes),
    (libc::SYS_utimensat, K::Utimes),
    (libc::SYS_setxattr, K::Setxattr),
    (libc::SYS_lsetxattr, K::Setxattr),
    (libc::SYS_fsetxattr, K::Setxattr),
    (libc::SYS_getxattr, K::Getxattr),
    (libc::SYS_lgetxattr, K::Getxattr),
    (libc::SYS_fgetxattr, K::Getxattr),
    (libc::SYS_listxattr, K::Listxattr),
    (libc::SYS_llistxattr, K::Listxattr),
    (libc::SYS_flistxattr, K::Listxattr),
    (libc::SYS_removexattr, K::Removexattr),
    (libc::SYS_lremovexattr, K::Removexattr),
    (libc::SYS_fremovexattr, K::Removexattr),
    (libc::SYS_flock, K::Lock),
    (libc::SYS_chdir, K::Chdir),
    (libc::SYS_fchdir, K::Chdir),
    (libc::SYS_statfs, K::Statfs),
    (libc::SYS_fstatfs, K::Statfs),
    (libc::SYS_fadvise64, K::Advise),
    (libc::SYS_readahead, K::Advise),
    (libc::SYS_mmap, K::Map),
    (libc::SYS_munmap, K::Unmap),
    (libc::SYS_msync, K::Msync),
    (libc::SYS_execve, K::Exec),
    (libc::SYS_execveat, K::Exec),
    (libc::SYS_wait4, K::Wait),
    (libc::SYS_waitid, K::Wait),
];

/// fchmodat2(2) of Linux 6.6, which the C library's crate does not have.
pub const FCHMODAT2: c_long = 452;

/// The commands of fcntl(2) that are recorded: those that duplicate descriptors, set flags, or lock.
pub const FCNTL: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];

/// FICLONE of ioctl(2).
pub const FICLONE: u32 = 0x4004_9409;

/// FICLONERANGE of ioctl(2).
pub const FICLONERANGE: u32 = 0x4020_940d;

/// Returns the kind of a recorded call; None if the call is not recorded.
pub fn kind(number: c_long) -> Option<K> {
    CALLS.iter().find(|(known, _)| *known == number).map(|(_, kind)| *kind)
}
