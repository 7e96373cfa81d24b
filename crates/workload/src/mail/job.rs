//! Jobs: the work on one message as a list of steps.

use fsdyno_record::Nanos;

use crate::mail::step::Step;
use crate::op::ProgressPoint;

/// The division of a message into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// One call per line.
    Lines,
    /// Blocks of this many bytes.
    Blocks(u32),
    /// The records of a tar archive, in which the member's header is at this position in its record.
    Records(u64),
}

/// Size of an archive block in bytes; headers and padding are multiples of it.
pub const BLOCK: u64 = 512;
/// Size of GNU tar's default record in bytes: 20 blocks, which is also the size of its buffer.
pub const RECORD: u64 = 20 * BLOCK;
/// Bytes per read: the size of the buffer of perl 5.8 [MEM] (5.36 reads 8,192 [RUN]).
pub const READ: u32 = 4096;

/// The work on one message.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The calls.
    pub steps: &'static [Step],
    /// The message, by its number in the stores.
    pub message: u64,
    /// The number from which its name in a maildir is computed.
    pub number: u64,
    /// The number of the maildir.
    pub maildir: u64,
    /// Number of bytes before the message in a maildir file, such as `Return-Path`, or zero in a store.
    pub prefix_length: u32,
    /// The division into writes.
    pub split: Split,
    /// The progress that the first call waits for.
    pub after: ProgressPoint,
    /// Compute time before the first call.
    pub compute: Nanos,
}

impl Job {
    /// Creates a job of these steps with default parameters.
    pub fn new(steps: &'static [Step]) -> Job {
        Job {
            steps,
            message: 0,
            number: 0,
            maildir: 0,
            prefix_length: 0,
            split: Split::Blocks(READ),
            after: ProgressPoint::default(),
            compute: Nanos(0),
        }
    }
}

/// Progress of a step that repeats its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of calls made.
    pub part: u64,
    /// Number of bytes done.
    pub offset: u64,
    /// Number of bytes that remain.
    pub remaining: u64,
}

impl Progress {
    /// Returns the progress at the start of `length` bytes.
    pub fn start(length: u64) -> Progress {
        Progress { part: 0, offset: 0, remaining: length }
    }

    /// Counts a call of at most `max` bytes.
    pub fn advance(&mut self, max: u64) {
        let count = max.min(self.remaining);
        self.part += 1;
        self.offset += count;
        self.remaining -= count;
    }
}

/// Returns the position of the next header in its record, after a member of `length` bytes.
pub fn next_header(position: u64, length: u64) -> u64 {
    (position + BLOCK + length.next_multiple_of(BLOCK)) % RECORD
}
