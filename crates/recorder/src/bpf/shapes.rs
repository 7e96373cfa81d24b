//! The shapes of all calls that the programs in the kernel record.

use libc::c_long;

use super::layout::{NUMBERS, Shape};
use crate::table::CALLS;

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
pub fn all() -> impl Iterator<Item = (u32, Shape)> {
    let others = OTHERS.into_iter().map(|number| (number, Shape::new(&[], &[])));
    let calls = CALLS.iter().map(|it| (it.number, it.shape)).chain(others);
    calls.filter_map(|(number, shape)| {
        u32::try_from(number).ok().filter(|it| *it < NUMBERS).map(|number| (number, shape))
    })
}
