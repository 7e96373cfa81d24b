//! Partitions in the kernel's table only (linux/blkpg.h), and the page cache of a device.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{NoArg, Setter, ioctl};

use super::layout::Part;

/// linux/fs.h `BLKPG`, `_IO(0x12, 105)`.
const BLKPG: rustix::ioctl::Opcode = 0x1269;

/// linux/fs.h `BLKFLSBUF`, `_IO(0x12, 97)`.
const BLKFLSBUF: rustix::ioctl::Opcode = 0x1261;

const ADD_PARTITION: i32 = 1;
const DEL_PARTITION: i32 = 2;

/// `struct blkpg_partition`.
#[repr(C)]
struct Partition {
    start: i64,
    length: i64,
    number: i32,
    device_name: [u8; 64],
    volume_name: [u8; 64],
}

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct Argument {
    operation: i32,
    flags: i32,
    data_length: i32,
    data: *mut Partition,
}

/// Adds a partition to the kernel's table of a drive; nothing is written to the drive.
///
/// # Errors
/// `BUSY` if it would overlap another partition, `INVAL` if the drive supports no partitions.
pub fn add(drive: BorrowedFd<'_>, number: u32, part: Part) -> Result<(), Errno> {
    let bounds = (i64::try_from(part.start.0), i64::try_from(part.size.0));
    let (Ok(start), Ok(length)) = bounds else { return Err(Errno::INVAL) };
    blkpg(drive, ADD_PARTITION, number, start, length)
}

/// Removes a partition from the kernel's table.
///
/// # Errors
/// `BUSY` while it is open, `NXIO` if it does not exist.
pub fn remove(drive: BorrowedFd<'_>, number: u32) -> Result<(), Errno> {
    blkpg(drive, DEL_PARTITION, number, 0, 0)
}

fn blkpg(
    drive: BorrowedFd<'_>,
    operation: i32,
    number: u32,
    start: i64,
    length: i64,
) -> Result<(), Errno> {
    let number = i32::try_from(number).map_err(|_| Errno::INVAL)?;
    let names = ([0; 64], [0; 64]);
    let mut data = Partition { start, length, number, device_name: names.0, volume_name: names.1 };
    let data_length = size_of::<Partition>() as i32;
    let argument = Argument { operation, flags: 0, data_length, data: &raw mut data };
    // SAFETY: BLKPG reads a blkpg_ioctl_arg and the blkpg_partition that it points to, both of which
    // have the kernel's layout and outlive the call; it writes neither.
    unsafe { ioctl(drive, Setter::<BLKPG, Argument>::new(argument)) }
}

/// Drops the page cache of a device. A whole drive has a page cache of its own, which does not see writes made through
/// a partition, so it is dropped before the drive is read.
pub fn drop_cache(device: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: BLKFLSBUF takes no argument and touches no memory of this process.
    unsafe { ioctl(device, NoArg::<BLKFLSBUF>::new()) }
}
