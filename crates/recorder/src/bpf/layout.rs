//! The layout of what the programs in the kernel keep and write.

/// Offsets in the state of a thread.
pub mod state {
    /// CLOCK_MONOTONIC when it began to run on its processor.
    pub const SINCE: i16 = 0;
    /// Its CPU time until then.
    pub const USED: i16 = 8;
    /// Its CPU time outside recorded calls, up to the begin of the last one.
    pub const THINK: i16 = 16;
    /// Its CPU time at the end of the last recorded call.
    pub const MARK: i16 = 24;
    /// CLOCK_MONOTONIC at the begin of the call that it is in.
    pub const BEGIN: i16 = 32;
    /// The slots of the end of that call; 0 if it is not recorded.
    pub const SHAPE: i16 = 40;
    /// The number of the call.
    pub const NUMBER: i16 = 48;
    /// The number of its writes.
    pub const WRITES: i16 = 56;
    /// 1 from an exec to the end of that call.
    pub const EXECS: i16 = 64;
    /// The length.
    pub const LENGTH: u32 = 72;
}

/// Offsets in a record.
pub mod record {
    /// u32: the kind.
    pub const KIND: i16 = 0;
    /// u32: the thread.
    pub const THREAD: i16 = 4;
    /// The number of records that were lost before.
    pub const LOST: i16 = 8;
    /// CLOCK_MONOTONIC at the begin.
    pub const BEGIN: i16 = 16;
    /// CLOCK_MONOTONIC at the end.
    pub const END: i16 = 24;
    /// CPU time of the thread outside recorded calls so far.
    pub const THINK: i16 = 32;
    /// The number of the call.
    pub const NUMBER: i16 = 40;
    /// The slots.
    pub const SHAPE: i16 = 48;
    /// The six arguments.
    pub const ARGS: i16 = 56;
    /// The result: behind the arguments, as if it were one more.
    pub const RESULT: i16 = 104;
    /// The begin of the parts: each has its slot and its length (both u32), and its bytes, padded to 8.
    pub const PARTS: i16 = 112;
}

/// The length of a part that could not be read.
pub const UNREAD: u32 = u32::MAX;

/// Kinds of records: a call begins.
pub const BEGINS: i32 = 1;
/// A call ended.
pub const ENDS: i32 = 2;
/// A thread was made: its number, that of its process, the flags of clone.
pub const SPAWNS: i32 = 3;
/// A thread runs another program: its former number.
pub const EXECS: i32 = 4;
/// A thread ends: its status.
pub const EXITS: i32 = 5;

/// Counters: lost records.
pub const LOST: u32 = 0;
/// Calls of 32-bit programs.
pub const FOREIGN: u32 = 1;
/// The number of counters.
pub const COUNTERS: u32 = 2;

/// The number of calls that have a shape.
pub const NUMBERS: u32 = 512;

/// The most bytes of a text.
pub const TEXT_MOST: i32 = 4096;
/// The most bytes of a sample.
pub const SAMPLE_MOST: i32 = 4096;
/// The most buffers of a vectored call.
pub const VECTOR_MOST: i32 = 512;
/// The most bytes of the descriptors that exec closes: 4096 of them.
pub const BITS_MOST: i32 = 512;

/// The argument that stands for the result.
pub const OF_RESULT: u16 = 6;

/// The kind of a part, by the low four bits of a slot; the next three are the argument, the others
/// a number of words of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A text at an address.
    Text = 1,
    /// Bytes at an address.
    Memory = 2,
    /// The list of buffers of a vectored call, whose number is the next argument.
    Vector = 3,
    /// Bytes that are written, of every 16th write of at least 512 bytes.
    Sample = 4,
    /// The file of a descriptor: [`File`](super::parts::File).
    File = 5,
    /// The descriptors that exec closes, as bits.
    Closing = 6,
}

/// The slots of a call's begin and end: four each, of 16 bits. Nothing is recorded at a begin
/// without slots.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// At the begin.
    pub begin: u64,
    /// At the end; [`Shape::RECORDED`] is part of it.
    pub end: u64,
}

impl Shape {
    /// The call is recorded. (The last slot is not as long as that.)
    pub const RECORDED: u64 = 1 << 63;
}
