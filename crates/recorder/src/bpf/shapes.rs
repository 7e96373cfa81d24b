//! For each call, the arguments whose data the programs in the kernel capture.

use libc::c_long;

use super::layout::{NUMBERS, OF_RESULT, Part, Shape};
use crate::table::{CALLS, FCHMODAT2};

/// Returns the slot of a part: its kind, its argument, and its length in bytes if it is memory.
const fn slot(part: Part, arg: u16, length: u16) -> u64 {
    (part as u16 | (arg << 4) | ((length / 8) << 7)) as u64
}

const fn text(arg: u16) -> u64 {
    slot(Part::Text, arg, 0)
}

const fn memory(arg: u16, length: u16) -> u64 {
    slot(Part::Memory, arg, length)
}

const fn file(arg: u16) -> u64 {
    slot(Part::File, arg, 0)
}

/// The file that the call opened.
const OPENED: u64 = file(OF_RESULT);

fn slots(all: &[u64]) -> u64 {
    all.iter().enumerate().fold(0, |sum, (at, it)| sum | it << (16 * at))
}

/// Calls that invalidate assumptions of the recorder, and io_uring_setup, because io_uring is not recorded.
const OTHERS: [c_long; 7] = [
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_io_uring_setup,
];

/// Returns the shapes of all calls by call number.
pub fn all() -> Vec<(u32, Shape)> {
    let numbers = CALLS.iter().map(|(number, _)| *number).chain(OTHERS);
    let shape = |number: c_long| {
        let begin = match number {
            libc::SYS_close => slots(&[file(0)]),
            libc::SYS_execve => slots(&[text(0), slot(Part::Closing, 0, 0)]),
            libc::SYS_execveat => slots(&[text(1), slot(Part::Closing, 0, 0)]),
            _ => 0,
        };
        let shape = Shape { begin, end: slots(&at_end(number)) | Shape::RECORDED };
        u32::try_from(number).ok().filter(|it| *it < NUMBERS).map(|number| (number, shape))
    };
    numbers.filter_map(shape).collect()
}

/// Returns the slots of a call's end.
fn at_end(number: c_long) -> Vec<u64> {
    match number {
        libc::SYS_open | libc::SYS_creat => vec![text(0), OPENED],
        libc::SYS_openat => vec![text(1), OPENED],
        libc::SYS_openat2 => vec![text(1), memory(2, 16), OPENED],
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_lseek | libc::SYS_ftruncate => vec![file(0)],
        libc::SYS_fallocate | libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_syncfs => {
            vec![file(0)]
        }
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => vec![file(0), VECTOR],
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => vec![file(0), VECTOR],
        libc::SYS_write | libc::SYS_pwrite64 => vec![file(0), slot(Part::Sample, 1, 0)],
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => vec![file(0)],
        libc::SYS_fcntl => vec![file(0), memory(2, 24)],
        libc::SYS_sendfile => vec![file(0), file(1), memory(2, 8)],
        libc::SYS_copy_file_range | libc::SYS_splice => {
            vec![file(0), file(2), memory(1, 8), memory(3, 8)]
        }
        libc::SYS_ioctl => vec![file(0), memory(2, 32)],
        libc::SYS_mmap => vec![file(4)],
        libc::SYS_waitid => vec![memory(2, 24)],
        libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_faccessat | libc::SYS_faccessat2 => {
            vec![text(1), file(0)]
        }
        libc::SYS_readlinkat | libc::SYS_mkdirat | libc::SYS_unlinkat | libc::SYS_mknodat => {
            vec![text(1), file(0)]
        }
        libc::SYS_fchmodat | FCHMODAT2 | libc::SYS_fchownat => vec![text(1), file(0)],
        libc::SYS_futimesat => vec![text(1), file(0)],
        libc::SYS_utimensat => vec![text(1), memory(2, 32), file(0)],
        libc::SYS_rename | libc::SYS_link | libc::SYS_symlink => vec![text(0), text(1)],
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => {
            vec![text(1), text(3), file(0), file(2)]
        }
        libc::SYS_symlinkat => vec![text(0), text(2), file(1)],
        libc::SYS_setxattr | libc::SYS_lsetxattr | libc::SYS_getxattr | libc::SYS_lgetxattr => {
            vec![text(0), text(1)]
        }
        libc::SYS_removexattr | libc::SYS_lremovexattr => vec![text(0), text(1)],
        libc::SYS_fsetxattr | libc::SYS_fgetxattr | libc::SYS_fremovexattr => {
            vec![file(0), text(1)]
        }
        libc::SYS_close
        | libc::SYS_close_range
        | libc::SYS_sync
        | libc::SYS_munmap
        | libc::SYS_msync
        | libc::SYS_wait4
        | libc::SYS_execve
        | libc::SYS_execveat => vec![],
        number if takes_path(number) => vec![text(0)],
        number if OTHERS.contains(&number) => vec![],
        // The first argument is a descriptor.
        _ => vec![file(0)],
    }
}

const VECTOR: u64 = slot(Part::Vector, 1, 0);

/// True for a call whose first argument is a path and whose other arguments need no capture.
fn takes_path(number: c_long) -> bool {
    [
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_access,
        libc::SYS_readlink,
        libc::SYS_mkdir,
        libc::SYS_rmdir,
        libc::SYS_unlink,
        libc::SYS_mknod,
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_truncate,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_chdir,
        libc::SYS_statfs,
        libc::SYS_listxattr,
        libc::SYS_llistxattr,
    ]
    .contains(&number)
}
