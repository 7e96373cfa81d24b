//! The layout of the data that the programs in the kernel keep and write.

/// Offsets in the state of a thread.
pub mod state {
    /// CLOCK_MONOTONIC when the thread was last put on a processor.
    pub const SINCE: i16 = 0;
    /// CPU time of the thread until then.
    pub const USED: i16 = 8;
    /// CPU time outside recorded calls, up to the start of the last recorded call.
    pub const THINK: i16 = 16;
    /// CPU time at the end of the last recorded call.
    pub const MARK: i16 = 24;
    /// CLOCK_MONOTONIC at the start of the current call.
    pub const BEGIN: i16 = 32;
    /// The slots of the end of the current call ([`Shape::end`](super::Shape::end)); 0 if it is not recorded.
    pub const SHAPE: i16 = 40;
    /// The number of the current call.
    pub const NUMBER: i16 = 48;
    /// The number of the thread's writes of at least 512 bytes.
    pub const WRITES: i16 = 56;
    /// 1 from the recording of an exec to the end of that call.
    pub const EXECS: i16 = 64;
    /// CLOCK_MONOTONIC when the thread began to wait for a processor; 0 if it runs or sleeps.
    pub const READY: i16 = 72;
    /// Time for which the thread has waited for a processor.
    pub const DELAY: i16 = 80;
    /// The value of [`DELAY`] at the start of the current call.
    pub const DELAY_BEFORE: i16 = 88;
    /// The length of a state in bytes.
    pub const LENGTH: u32 = 96;
}

/// Offsets in a record.
pub mod record {
    /// u32: the kind.
    pub const KIND: i16 = 0;
    /// u32: the thread ID.
    pub const THREAD: i16 = 4;
    /// The number of records that were lost before this one.
    pub const LOST: i16 = 8;
    /// CLOCK_MONOTONIC at the start.
    pub const BEGIN: i16 = 16;
    /// CLOCK_MONOTONIC at the end.
    pub const END: i16 = 24;
    /// CPU time of the thread outside recorded calls so far.
    pub const THINK: i16 = 32;
    /// The number of the call.
    pub const NUMBER: i16 = 40;
    /// The slots of the parts.
    pub const SHAPE: i16 = 48;
    /// The six arguments.
    pub const ARGS: i16 = 56;
    /// The result, as a seventh argument ([`RESULT_INDEX`](super::RESULT_INDEX)).
    pub const RESULT: i16 = 104;
    /// Time within the call for which the thread waited for a processor.
    pub const DELAY: i16 = 112;
    /// The first part. A part has its header ([`HEADER`](super::HEADER)), then its bytes, padded to 8.
    pub const PARTS: i16 = 120;
}

/// The length of the header of a part: its slot and its length in bytes, both u32.
pub const HEADER: i16 = 8;

/// A mask of the offsets in a record, for the verifier: parts begin below it.
pub const PARTS_END: i32 = 0x3fff;

/// Offsets in the part of a file, after its header.
pub mod file {
    /// The inode number.
    pub const INODE: i16 = 0;
    /// The size in bytes.
    pub const SIZE: i16 = 8;
    /// The magic number of the file system.
    pub const MAGIC: i16 = 16;
    /// The file position.
    pub const POSITION: i16 = 24;
    /// u32: the device of the file system.
    pub const DEVICE: i16 = 32;
    /// u32: the device of a device file.
    pub const RDEV: i16 = 36;
    /// u32: the number of links.
    pub const LINKS: i16 = 40;
    /// u32: type and permissions.
    pub const MODE: i16 = 44;
    /// u32: the mode of the open file (FMODE_CREATED and others).
    pub const FILE_MODE: i16 = 48;
    /// u32: the flags of open(2).
    pub const FLAGS: i16 = 52;
    /// The length of the part in bytes.
    pub const LENGTH: i32 = 56;
}

/// The length of a part that could not be read.
pub const UNREAD: u32 = u32::MAX;

/// Kind of record: a call begins.
pub const BEGINS: i32 = 1;
/// Kind of record: a call ended.
pub const ENDS: i32 = 2;
/// Kind of record: a thread was created. Arguments: its thread ID, its process ID, the flags of clone.
pub const SPAWNS: i32 = 3;
/// Kind of record: a thread executed another program. Argument: its former thread ID.
pub const EXECS: i32 = 4;
/// Kind of record: a thread ends. Argument: its status.
pub const EXITS: i32 = 5;

/// Index of the counter of lost records.
pub const LOST: u32 = 0;
/// Index of the counter of system calls made by 32-bit programs.
pub const FOREIGN: u32 = 1;
/// The number of counters.
pub const COUNTERS: u32 = 2;

/// Call numbers below this one can have a shape.
pub const NUMBERS: u32 = 512;

/// Maximum length of a string in bytes.
pub const MAX_TEXT: i32 = 4096;
/// Maximum length of a sample in bytes.
pub const MAX_SAMPLE: i32 = 4096;
/// Maximum number of buffers of a vectored call.
pub const MAX_VECTOR: i32 = 512;
/// Maximum length in bytes of the bitmap of descriptors that exec closes: one bit for each of 4096 descriptors.
pub const MAX_BITS: i32 = 512;

/// The index of an argument that denotes the result.
pub const RESULT_INDEX: u16 = 6;

/// The kind of a part: the low four bits of a slot. The next three bits are the index of the argument, the
/// others a length in words of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A NUL-terminated string at an address.
    Text = 1,
    /// Bytes at an address.
    Memory = 2,
    /// The list of buffers of a vectored call; the next argument is their number.
    Vector = 3,
    /// The first bytes written by every 16th write of at least 512 bytes.
    Sample = 4,
    /// The file of a descriptor: [`File`](super::parts::File).
    File = 5,
    /// A bitmap of the descriptors that exec closes.
    Closing = 6,
}

/// The slots of the entry to a call and of its return: four slots of 16 bits each. An entry without slots is not
/// recorded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// At the entry.
    pub begin: u64,
    /// At the end, combined with [`Shape::RECORDED`].
    pub end: u64,
}

impl Shape {
    /// The bit that marks a recorded call. (The last slot does not use it.)
    pub const RECORDED: u64 = 1 << 63;

    /// The shape of a recorded call with these slots at its entry and its end.
    pub const fn new(begin: &[u64], end: &[u64]) -> Shape {
        Shape { begin: slots(begin), end: slots(end) | Shape::RECORDED }
    }
}

const fn slots(all: &[u64]) -> u64 {
    let (mut sum, mut at) = (0, 0);
    while at < all.len() {
        sum |= all[at] << (16 * at);
        at += 1;
    }
    sum
}

/// Returns the slot of a part: its kind, its argument, and its length in bytes if it is memory.
const fn slot(part: Part, arg: u16, length: u16) -> u64 {
    (part as u16 | (arg << 4) | ((length / 8) << 7)) as u64
}

/// The slot of the string at the address in an argument.
pub const fn text(arg: u16) -> u64 {
    slot(Part::Text, arg, 0)
}

/// The slot of bytes at the address in an argument.
pub const fn memory(arg: u16, length: u16) -> u64 {
    slot(Part::Memory, arg, length)
}

/// The slot of the file of the descriptor in an argument.
pub const fn file(arg: u16) -> u64 {
    slot(Part::File, arg, 0)
}

/// The slot of the file that the call opened.
pub const OPENED: u64 = file(RESULT_INDEX);

/// The slot of the list of buffers of a vectored call.
pub const VECTOR: u64 = slot(Part::Vector, 1, 0);

/// The slot of the first bytes that a call writes.
pub const SAMPLE: u64 = slot(Part::Sample, 1, 0);

/// The slot of the descriptors that exec closes.
pub const CLOSING: u64 = slot(Part::Closing, 0, 0);
