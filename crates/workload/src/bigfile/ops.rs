//! Sequential writes, random accesses and the reservation of the file.

use crate::bigfile::layout::{Layout, NAME, RANDOM, items_of_rank};
use crate::contents::MAX_SLICE;
use crate::op::{Call, DirSlot, FileSlot, Op, OpenFlags, Payload};
use crate::op_source::OpSource;
use crate::workload::Share;

const ROOT: DirSlot = DirSlot::ROOT;
const FILE: FileSlot = FileSlot(0);
const READ: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };
const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };
const NEW: OpenFlags = OpenFlags { exclusive: true, ..WRITE };
const CREATE: Call = Call::Create { dir: ROOT, file: FILE, flags: NEW, mode: 0o644 };

/// Sets the op's name to the file's.
fn set_name(op: &mut Op) {
    op.name.clear();
    op.name.push(NAME);
}

/// The next op of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepStep {
    Open,
    Write,
    Close,
    End,
}

/// A sequential write of the whole file.
pub struct Sweep<'a> {
    layout: &'a Layout,
    version: u64,
    is_new: bool,
    offset: u64,
    step: SweepStep,
}

impl<'a> Sweep<'a> {
    /// Creates a sweep that writes `version` of all blocks, to a new file if `is_new`, else to the existing one.
    pub fn new(layout: &'a Layout, version: u64, is_new: bool) -> Sweep<'a> {
        Sweep { layout, version, is_new, offset: 0, step: SweepStep::Open }
    }
}

impl OpSource for Sweep<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let layout = self.layout;
        (op.call, self.step) = match self.step {
            SweepStep::Open => {
                set_name(op);
                let open = Call::Open { dir: ROOT, file: FILE, flags: WRITE };
                (if self.is_new { CREATE } else { open }, SweepStep::Write)
            }
            SweepStep::Write => {
                let payload = layout.payload(self.version, layout.block, self.offset);
                self.offset += u64::from(payload.length);
                let is_end = self.offset == layout.size;
                let next_step = if is_end { SweepStep::Close } else { SweepStep::Write };
                (Call::Write { file: FILE, payload }, next_step)
            }
            SweepStep::Close => (Call::Close { file: FILE }, SweepStep::End),
            SweepStep::End => return false,
        };
        true
    }
}

/// The next op of a [`RandomIo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RandomIoStep {
    Open,
    Unit,
    Sync,
    Close,
    End,
}

/// Random reads or writes: every `ranks`-th unit of the order.
pub struct RandomIo<'a> {
    layout: &'a Layout,
    read: bool,
    remaining: u64,
    next: u64,
    ranks: u64,
    done: u64,
    step: RandomIoStep,
}

impl<'a> RandomIo<'a> {
    /// Creates the random reads of a rank if `read`, else its random writes.
    pub fn new(layout: &'a Layout, read: bool, share: Share) -> RandomIo<'a> {
        let count = if read { layout.reads } else { layout.writes };
        RandomIo {
            layout,
            read,
            remaining: items_of_rank(count, share),
            next: u64::from(share.rank),
            ranks: u64::from(share.ranks),
            done: 0,
            step: RandomIoStep::Open,
        }
    }

    fn next_unit(&mut self) -> Call {
        let layout = self.layout;
        let order = if self.read { &layout.read_order } else { &layout.write_order };
        let offset = order.at(self.next % order.length()) * layout.unit;
        (self.next, self.remaining, self.done) =
            (self.next + self.ranks, self.remaining - 1, self.done + 1);
        match self.read {
            true => Call::ReadAt { file: FILE, offset, length: layout.unit as u32 },
            false => {
                let payload = layout.payload(RANDOM, layout.unit, offset);
                Call::WriteAt { file: FILE, offset, payload }
            }
        }
    }

    /// Returns the step after an open, a read, a write or an fsync.
    fn next_step(&self) -> RandomIoStep {
        if self.remaining > 0 { RandomIoStep::Unit } else { RandomIoStep::Close }
    }
}

impl OpSource for RandomIo<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        (op.call, self.step) = match self.step {
            RandomIoStep::Open => {
                set_name(op);
                let flags = if self.read { READ } else { WRITE };
                (Call::Open { dir: ROOT, file: FILE, flags }, self.next_step())
            }
            RandomIoStep::Unit => {
                let (call, fsync_interval) = (self.next_unit(), self.layout.fsync);
                let needs_fsync =
                    !self.read && fsync_interval > 0 && self.done % fsync_interval == 0;
                (call, if needs_fsync { RandomIoStep::Sync } else { self.next_step() })
            }
            RandomIoStep::Sync => (Call::Fsync { file: FILE }, self.next_step()),
            RandomIoStep::Close => (Call::Close { file: FILE }, RandomIoStep::End),
            RandomIoStep::End => return false,
        };
        true
    }
}

/// Reserves the whole file; writes zeros if the file system does not support fallocate and a
/// fallback is allowed.
pub struct Reserve<'a> {
    layout: &'a Layout,
    step: ReserveStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReserveStep {
    Create,
    Fallocate,
    Zeros(u64),
    Close,
    End,
}

impl<'a> Reserve<'a> {
    /// Creates the reservation of the whole file.
    pub fn new(layout: &'a Layout) -> Reserve<'a> {
        Reserve { layout, step: ReserveStep::Create }
    }
}

impl OpSource for Reserve<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let size = self.layout.size;
        (op.call, self.step) = match self.step {
            ReserveStep::Create => {
                set_name(op);
                (CREATE, ReserveStep::Fallocate)
            }
            ReserveStep::Fallocate => {
                (Call::Fallocate { file: FILE, length: size }, ReserveStep::Close)
            }
            ReserveStep::Zeros(offset) => {
                let length = (size - offset).min(MAX_SLICE as u64);
                let end = offset + length;
                let next_step =
                    if end < size { ReserveStep::Zeros(end) } else { ReserveStep::Close };
                (
                    Call::Write { file: FILE, payload: Payload::zeros(offset, length as u32) },
                    next_step,
                )
            }
            ReserveStep::Close => (Call::Close { file: FILE }, ReserveStep::End),
            ReserveStep::End => return false,
        };
        true
    }

    /// Allows the fallback only in the prefill: a phase that reserves space consists of fallocate alone.
    fn handle_unsupported(&mut self) -> bool {
        // In the prefill, the file is created before the first phase. `step` is already the one after fallocate.
        let can_fall_back = self.layout.prebuilt && self.step == ReserveStep::Close;
        if can_fall_back {
            self.step = ReserveStep::Zeros(0);
        }
        can_fall_back
    }
}
