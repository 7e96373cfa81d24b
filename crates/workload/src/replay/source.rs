//! The ops of one rank of a replay, read in place from the compiled form.

use fsdyno_record::Nanos;

use crate::differences::Differences;
use crate::op::{Expect, Op, ProgressPoint};
use crate::op_source::OpSource;
use crate::replay::code::decode;
use crate::replay::format::{
    Boundary, Compiled, EXPECT_ERRNO, EXPECT_RESULT, EXPECT_SUCCESS, OP_SIZE, OpRecord, decode_time,
};

/// The order of the calls of different threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Calls that share a file, a directory entry or an open file are in their recorded order.
    Resource,
    /// All calls are in their recorded order.
    Total,
    /// No order between threads.
    None,
}

impl Order {
    /// Returns the name in `--set` and records.
    pub fn name(self) -> &'static str {
        match self {
            Order::Resource => "resource",
            Order::Total => "total",
            Order::None => "none",
        }
    }
}

/// The time spent between calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// The processor time of the recorded thread.
    Cpu,
    /// Nothing.
    None,
    /// The wall time of the recorded thread: its processor time, and the rest of the time asleep.
    Wall,
}

/// The options of a replay that concern its ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The order of the calls of different threads.
    pub order: Order,
    /// The time spent between calls.
    pub think: Think,
    /// The factor by which the time between calls is divided.
    pub speed: u64,
}

/// Appends the directory of a copy, with a slash.
pub(super) fn copy_directory(copy: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("copy{copy:03}/").as_bytes());
}

/// The ops of one rank.
pub struct Source<'a> {
    compiled: &'a Compiled,
    bytes: &'a [u8],
    options: Options,
    /// The rank within its copy, and the number of the copy's first rank.
    rank: u32,
    first_rank: u32,
    /// Offset that is added to the number of each slot.
    first_slot: u16,
    /// The directory of its copy, with a slash, or empty for the only copy.
    directory: Vec<u8>,
    position: usize,
    /// The number of ops of each rank before this phase.
    before: Option<Boundary<'a>>,
    differences: Differences,
}

impl<'a> Source<'a> {
    /// Creates the source of the ops in `bytes` for rank `rank` of copy `copy` out of `copies`.
    pub fn new(
        compiled: &'a Compiled,
        bytes: &'a [u8],
        (rank, copy, copies): (u32, u32, u32),
        options: Options,
    ) -> Source<'a> {
        let mut directory = Vec::new();
        if copies > 1 {
            copy_directory(copy, &mut directory);
        }
        let slots = compiled.number("slots") as u16;
        Source {
            compiled,
            bytes,
            options,
            rank,
            first_rank: copy * compiled.rank_count(),
            first_slot: slots.wrapping_mul(copy as u16),
            directory,
            position: 0,
            before: None,
            differences: Differences::default(),
        }
    }

    /// Restricts the ops to those between two boundaries; `None` means the beginning or the end.
    #[must_use]
    pub fn limit_to(mut self, from: Option<Boundary<'a>>, to: Option<Boundary<'a>>) -> Source<'a> {
        let offset = |boundary: Boundary<'_>| boundary.ops(self.rank) as usize * OP_SIZE;
        let (start, end) = (from.map_or(0, offset), to.map_or(self.bytes.len(), offset));
        self.bytes = self.bytes.get(start..end).unwrap_or_default();
        self.before = from;
        self
    }

    /// Sets the points that the op waits for.
    #[inline]
    fn set_wait_points(&self, record: &OpRecord, op: &mut Op) {
        op.also_after.clear();
        op.after = ProgressPoint::default();
        // A point in an earlier phase does not need a wait.
        let point = |rank: u16, ops: u32| {
            let before = self.before.map_or(0, |before| before.ops(u32::from(rank)));
            let ops = ops.checked_sub(before).filter(|ops| *ops > 0)?;
            Some(ProgressPoint { thread: self.first_rank + u32::from(rank), ops: u64::from(ops) })
        };
        match self.options.order {
            Order::Resource if record.waits > 0 => {
                let mut index = record.first_wait;
                let mut has_first = false;
                loop {
                    let (rank, ops, is_last) = self.compiled.wait_point(index);
                    match point(rank, ops) {
                        Some(point) if has_first => op.also_after.push(point),
                        Some(point) => (op.after, has_first) = (point, true),
                        None => {}
                    }
                    if is_last {
                        break;
                    }
                    index += 1;
                }
            }
            Order::Total if u32::from(record.before_rank) != self.rank => {
                op.after = point(record.before_rank, record.before_ops).unwrap_or_default();
            }
            Order::Resource | Order::Total | Order::None => {}
        }
    }
}

impl OpSource for Source<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let bytes = self
            .bytes
            .get(self.position..self.position + OP_SIZE)
            .and_then(|bytes| bytes.first_chunk::<OP_SIZE>());
        let Some(bytes) = bytes else { return false };
        let record = OpRecord::read(bytes);
        let Some(call) = decode(&record, self.first_slot) else { return false };
        self.position += OP_SIZE;
        op.call = call;
        op.name.clear();
        if record.dir == 0 {
            op.name.push(&self.directory);
        }
        op.name.push(self.compiled.string(record.name));
        op.second_name.clear();
        if record.to == 0 {
            op.second_name.push(&self.directory);
        }
        op.second_name.push(self.compiled.string(record.second_name));
        op.expect = match record.expect {
            EXPECT_SUCCESS => Expect::Success,
            EXPECT_ERRNO => Expect::Errno,
            EXPECT_RESULT => Expect::Result,
            _ => Expect::Any,
        };
        op.result = record.result;
        self.set_wait_points(&record, op);
        let compute = decode_time(record.compute);
        let speed = self.options.speed.max(1);
        (op.compute, op.think) = match self.options.think {
            Think::None => (Nanos(0), Nanos(0)),
            Think::Cpu => (Nanos(compute / speed), Nanos(0)),
            Think::Wall => {
                let idle = decode_time(record.wall).saturating_sub(compute);
                (Nanos(compute / speed), Nanos(idle / speed))
            }
        };
        true
    }

    fn handle_difference(&mut self, op: &Op, result: i64) -> bool {
        self.differences.add(op, result, (self.position / OP_SIZE) as u64);
        true
    }

    fn differences(&mut self) -> Differences {
        std::mem::take(&mut self.differences)
    }
}
