//! The system calls that are recorded, and their kinds in a trace.

use fsdyno_trace::CallKind as K;
use libc::c_long;

use crate::bpf::layout::{CLOSING, NUMBERS, OPENED, SAMPLE, Shape, VECTOR, file, memory, text};

/// A recorded system call.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its number.
    pub number: c_long,
    /// Its kind.
    pub kind: K,
    /// The data of its arguments that the BPF programs record.
    pub shape: Shape,
}

/// Returns the row of a call whose slots are recorded at its return.
const fn row(number: c_long, kind: K, slots: &[u64]) -> Row {
    Row { number, kind, shape: Shape::new(&[], slots) }
}

/// Returns the row of a call whose slots are recorded at its entry.
const fn begins(number: c_long, kind: K, slots: &[u64]) -> Row {
    Row { number, kind, shape: Shape::new(slots, &[]) }
}

/// The recorded system calls of x86-64.
pub const CALLS: &[Row] = &[
    row(libc::SYS_open, K::Open, &[text(0), OPENED]),
    row(libc::SYS_openat, K::Open, &[text(1), OPENED, file(0)]),
    row(libc::SYS_openat2, K::Open, &[text(1), memory(2, 16), OPENED, file(0)]),
    row(libc::SYS_creat, K::Open, &[text(0), OPENED]),
    begins(libc::SYS_close, K::Close, &[file(0)]),
    row(libc::SYS_close_range, K::Close, &[]),
    row(libc::SYS_dup, K::Dup, &[file(0)]),
    row(libc::SYS_dup2, K::Dup, &[file(0)]),
    row(libc::SYS_dup3, K::Dup, &[file(0)]),
    row(libc::SYS_fcntl, K::Lock, &[file(0), memory(2, 24)]),
    row(libc::SYS_read, K::Read, &[file(0)]),
    row(libc::SYS_readv, K::Read, &[file(0), VECTOR]),
    row(libc::SYS_pread64, K::Read, &[file(0)]),
    row(libc::SYS_preadv, K::Read, &[file(0), VECTOR]),
    row(libc::SYS_preadv2, K::Read, &[file(0), VECTOR]),
    row(libc::SYS_write, K::Write, &[file(0), SAMPLE]),
    row(libc::SYS_writev, K::Write, &[file(0), VECTOR]),
    row(libc::SYS_pwrite64, K::Write, &[file(0), SAMPLE]),
    row(libc::SYS_pwritev, K::Write, &[file(0), VECTOR]),
    row(libc::SYS_pwritev2, K::Write, &[file(0), VECTOR]),
    row(libc::SYS_lseek, K::Seek, &[file(0)]),
    row(libc::SYS_sendfile, K::Copy, &[file(0), file(1), memory(2, 8)]),
    row(libc::SYS_copy_file_range, K::Copy, &[file(0), file(2), memory(1, 8), memory(3, 8)]),
    row(libc::SYS_splice, K::Copy, &[file(0), file(2), memory(1, 8), memory(3, 8)]),
    row(libc::SYS_ioctl, K::Copy, &[file(0), memory(2, 32), file(2)]),
    row(libc::SYS_truncate, K::Truncate, &[text(0)]),
    row(libc::SYS_ftruncate, K::Truncate, &[file(0)]),
    row(libc::SYS_fallocate, K::Fallocate, &[file(0)]),
    row(libc::SYS_fsync, K::Sync, &[file(0)]),
    row(libc::SYS_fdatasync, K::Sync, &[file(0)]),
    row(libc::SYS_sync_file_range, K::Sync, &[file(0)]),
    row(libc::SYS_syncfs, K::Sync, &[file(0)]),
    row(libc::SYS_sync, K::SyncAll, &[]),
    row(libc::SYS_stat, K::Stat, &[text(0)]),
    row(libc::SYS_lstat, K::Stat, &[text(0)]),
    row(libc::SYS_fstat, K::Stat, &[file(0)]),
    row(libc::SYS_newfstatat, K::Stat, &[text(1), file(0)]),
    row(libc::SYS_statx, K::Stat, &[text(1), file(0)]),
    row(libc::SYS_access, K::Access, &[text(0)]),
    row(libc::SYS_faccessat, K::Access, &[text(1), file(0)]),
    row(libc::SYS_faccessat2, K::Access, &[text(1), file(0)]),
    row(libc::SYS_readlink, K::Readlink, &[text(0)]),
    row(libc::SYS_readlinkat, K::Readlink, &[text(1), file(0)]),
    row(libc::SYS_getdents, K::Readdir, &[file(0)]),
    row(libc::SYS_getdents64, K::Readdir, &[file(0)]),
    row(libc::SYS_mkdir, K::Mkdir, &[text(0)]),
    row(libc::SYS_mkdirat, K::Mkdir, &[text(1), file(0)]),
    row(libc::SYS_rmdir, K::Rmdir, &[text(0)]),
    row(libc::SYS_unlink, K::Unlink, &[text(0)]),
    row(libc::SYS_unlinkat, K::Unlink, &[text(1), file(0)]),
    row(libc::SYS_rename, K::Rename, &[text(0), text(1)]),
    row(libc::SYS_renameat, K::Rename, &[text(1), text(3), file(0), file(2)]),
    row(libc::SYS_renameat2, K::Rename, &[text(1), text(3), file(0), file(2)]),
    row(libc::SYS_link, K::Link, &[text(0), text(1)]),
    row(libc::SYS_linkat, K::Link, &[text(1), text(3), file(0), file(2)]),
    row(libc::SYS_symlink, K::Symlink, &[text(0), text(1)]),
    row(libc::SYS_symlinkat, K::Symlink, &[text(0), text(2), file(1)]),
    row(libc::SYS_mknod, K::Mknod, &[text(0)]),
    row(libc::SYS_mknodat, K::Mknod, &[text(1), file(0)]),
    row(libc::SYS_chmod, K::Chmod, &[text(0)]),
    row(libc::SYS_fchmod, K::Chmod, &[file(0)]),
    row(libc::SYS_fchmodat, K::Chmod, &[text(1), file(0)]),
    row(FCHMODAT2, K::Chmod, &[text(1), file(0)]),
    row(libc::SYS_chown, K::Chown, &[text(0)]),
    row(libc::SYS_fchown, K::Chown, &[file(0)]),
    row(libc::SYS_lchown, K::Chown, &[text(0)]),
    row(libc::SYS_fchownat, K::Chown, &[text(1), file(0)]),
    row(libc::SYS_utime, K::Utimes, &[text(0)]),
    row(libc::SYS_utimes, K::Utimes, &[text(0)]),
    row(libc::SYS_futimesat, K::Utimes, &[text(1), file(0)]),
    row(libc::SYS_utimensat, K::Utimes, &[text(1), memory(2, 32), file(0)]),
    row(libc::SYS_setxattr, K::Setxattr, &[text(0), text(1)]),
    row(libc::SYS_lsetxattr, K::Setxattr, &[text(0), text(1)]),
    row(libc::SYS_fsetxattr, K::Setxattr, &[file(0), text(1)]),
    row(libc::SYS_getxattr, K::Getxattr, &[text(0), text(1)]),
    row(libc::SYS_lgetxattr, K::Getxattr, &[text(0), text(1)]),
    row(libc::SYS_fgetxattr, K::Getxattr, &[file(0), text(1)]),
    row(libc::SYS_listxattr, K::Listxattr, &[text(0)]),
    row(libc::SYS_llistxattr, K::Listxattr, &[text(0)]),
    row(libc::SYS_flistxattr, K::Listxattr, &[file(0)]),
    row(libc::SYS_removexattr, K::Removexattr, &[text(0), text(1)]),
    row(libc::SYS_lremovexattr, K::Removexattr, &[text(0), text(1)]),
    row(libc::SYS_fremovexattr, K::Removexattr, &[file(0), text(1)]),
    row(libc::SYS_flock, K::Lock, &[file(0)]),
    row(libc::SYS_chdir, K::Chdir, &[text(0)]),
    row(libc::SYS_fchdir, K::Chdir, &[file(0)]),
    row(libc::SYS_statfs, K::Statfs, &[text(0)]),
    row(libc::SYS_fstatfs, K::Statfs, &[file(0)]),
    row(libc::SYS_fadvise64, K::Advise, &[file(0)]),
    row(libc::SYS_readahead, K::Advise, &[file(0)]),
    row(libc::SYS_mmap, K::Map, &[file(4)]),
    row(libc::SYS_munmap, K::Unmap, &[]),
    row(libc::SYS_msync, K::Msync, &[]),
    begins(libc::SYS_execve, K::Exec, &[text(0), CLOSING]),
    begins(libc::SYS_execveat, K::Exec, &[text(1), CLOSING, file(0)]),
    row(libc::SYS_wait4, K::Wait, &[]),
    row(libc::SYS_waitid, K::Wait, &[memory(2, 24)]),
];

/// fchmodat2(2) of Linux 6.6, which the crate `libc` does not have.
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

/// The recorded commands of ioctl(2).
pub const IOCTL: &[u32] = &[FICLONE, FICLONERANGE];

/// True unless the arguments of a call show that it is not recorded: other commands of fcntl(2) and ioctl(2), and
/// anonymous mappings.
pub fn is_wanted(number: c_long, args: &[u64; 6]) -> bool {
    match number {
        libc::SYS_fcntl => FCNTL.contains(&(args[1] as i32)),
        libc::SYS_ioctl => IOCTL.contains(&(args[1] as u32)),
        libc::SYS_mmap => args[3] as i32 & libc::MAP_ANONYMOUS == 0,
        _ => true,
    }
}

/// The kinds by number.
const KINDS: [Option<K>; NUMBERS as usize] = {
    let mut all = [None; NUMBERS as usize];
    let mut at = 0;
    while at < CALLS.len() {
        all[CALLS[at].number as usize] = Some(CALLS[at].kind);
        at += 1;
    }
    all
};

/// Returns the kind of a recorded call; None if the call is not recorded.
pub fn kind(number: c_long) -> Option<K> {
    static ALL: [Option<K>; NUMBERS as usize] = KINDS;
    ALL.get(usize::try_from(number).ok()?).copied().flatten()
}
