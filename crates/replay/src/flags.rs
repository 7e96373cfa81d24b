//! Converts numeric flags of the kernel that made the recording to the flags of ops.

use fsdyno_trace::Compressibility;
use fsdyno_workload::replay::format::ZEROS;
use fsdyno_workload::{Advice, AllocateMode, OpenFlags, RenameFlag};

/// O_CREAT.
pub const CREATE: u32 = 0o100;
/// O_EXCL.
const EXCLUSIVE: u32 = 0o200;
/// O_TMPFILE without O_DIRECTORY.
const TEMPORARY: u32 = 0o20000000;
/// O_DIRECT.
pub const DIRECT: u32 = 0o40000;

/// Permission bits that a replay sets: not set-user-ID or set-group-ID, because the source of a trace may be untrusted.
pub const MODE: u32 = 0o1777;

/// Returns the flags of an open, from their x86-64 values; `None` for O_TMPFILE. O_DIRECT is omitted.
pub fn open(flags: u32) -> Option<OpenFlags> {
    if flags & TEMPORARY != 0 {
        return None;
    }
    let has = |bits: u32| flags & bits == bits;
    let (create, directory) = (has(CREATE), has(0o200000));
    Some(OpenFlags {
        read: flags & 3 != 1,
        write: flags & 3 != 0,
        create,
        exclusive: create && has(EXCLUSIVE),
        truncate: has(0o1000),
        append: has(0o2000),
        directory: directory && !create,
        nofollow: has(0o400000),
        nonblock: has(0o4000),
        noctty: has(0o400),
        direct: false,
        dsync: has(0o10000) && !has(0o4010000),
        sync: has(0o4010000),
    })
}

/// Returns the mode of a fallocate, if it is replayed.
pub fn allocate(mode: u32) -> Option<AllocateMode> {
    Some(match mode {
        0 => AllocateMode::Extend,
        1 => AllocateMode::KeepSize,
        3 => AllocateMode::PunchHole,
        0x10 => AllocateMode::Zero,
        0x11 => AllocateMode::ZeroKeepSize,
        _ => return None,
    })
}

/// Returns the flag of a renameat2; `None` if there are no flags, an error for flags that are not replayed.
pub fn rename(flags: u32) -> Result<Option<RenameFlag>, ()> {
    match flags {
        0 => Ok(None),
        1 => Ok(Some(RenameFlag::NoReplace)),
        2 => Ok(Some(RenameFlag::Exchange)),
        _ => Err(()),
    }
}

/// Returns the advice of a posix_fadvise.
pub fn advice(advice: u32) -> Option<Advice> {
    Some(match advice {
        0 => Advice::Normal,
        1 => Advice::Random,
        2 => Advice::Sequential,
        3 => Advice::WillNeed,
        4 => Advice::DontNeed,
        5 => Advice::NoReuse,
        _ => return None,
    })
}

/// Returns the class of contents, as its number in `fsdyno_workload::contents::CLASSES`.
pub fn class(class: Compressibility) -> u8 {
    match class {
        Compressibility::Zeros => ZEROS,
        Compressibility::High => 1,
        Compressibility::Medium => 2,
        Compressibility::Low => 3,
        Compressibility::Unknown | Compressibility::Incompressible => 0,
    }
}
