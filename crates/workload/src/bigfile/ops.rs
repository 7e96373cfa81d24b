//! Who writes the file, reads it, and seeks in it.

use crate::bigfile::places::{NAME, Places, SOUGHT, of_rank};
use crate::contents::LONGEST_SLICE;
use crate::op::{Call, DirSlot, FileSlot, Op, OpenFlags, Payload};
use crate::workload::{OpSource, Share};

const ROOT: DirSlot = DirSlot::ROOT;
const FILE: FileSlot = FileSlot(0);
const READ: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };
const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };
const NEW: OpenFlags = OpenFlags { exclusive: true, ..WRITE };
const CREATE: Call = Call::Create { dir: ROOT, file: FILE, flags: NEW, mode: 0o644 };

/// Names the file.
fn name(op: &mut Op) {
    op.name.clear();
    op.name.push(NAME);
}

/// What the next op of a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepStep {
    Open,
    Write,
    Close,
    End,
}

/// From the beginning to the end.
pub struct Sweep<'a> {
    places: &'a Places,
    version: u64,
    new: bool,
    at: u64,
    step: SweepStep,
}

impl<'a> Sweep<'a> {
    /// Writes `version` of all blocks; into a `new` file, or into the one that is there.
    pub fn new(places: &'a Places, version: u64, new: bool) -> Sweep<'a> {
        Sweep { places, version, new, at: 0, step: SweepStep::Open }
    }
}

impl OpSource for Sweep<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let places = self.places;
        (op.call, self.step) = match self.step {
            SweepStep::Open => {
                name(op);
                let open = Call::Open { dir: ROOT, file: FILE, flags: WRITE };
                (if self.new { CREATE } else { open }, SweepStep::Write)
            }
            SweepStep::Write => {
                let payload = places.payload(self.version, places.block, self.at);
                self.at += u64::from(payload.length);
                let over = self.at == places.size;
                let then = if over { SweepStep::Close } else { SweepStep::Write };
                (Call::Write { file: FILE, payload }, then)
            }
            SweepStep::Close => (Call::Close { file: FILE }, SweepStep::End),
            SweepStep::End => return false,
        };
        true
    }
}

/// What the next op of a seeker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeekStep {
    Open,
    Unit,
    Sync,
    Close,
    End,
}

/// Reads or writes at random: every `ranks`th of the places.
pub struct Seek<'a> {
    places: &'a Places,
    read: bool,
    left: u64,
    next: u64,
    ranks: u64,
    done: u64,
    step: SeekStep,
}

impl<'a> Seek<'a> {
    /// The random reads, or writes, of a rank.
    pub fn new(places: &'a Places, read: bool, share: Share) -> Seek<'a> {
        let all = if read { places.reads } else { places.writes };
        Seek {
            places,
            read,
            left: of_rank(all, share),
            next: u64::from(share.rank),
            ranks: u64::from(share.ranks),
            done: 0,
            step: SeekStep::Open,
        }
    }

    fn unit(&mut self) -> Call {
        let places = self.places;
        let order = if self.read { &places.read_order } else { &places.write_order };
        let offset = order.at(self.next % order.length()) * places.unit;
        (self.next, self.left, self.done) = (self.next + self.ranks, self.left - 1, self.done + 1);
        match self.read {
            true => Call::ReadAt { file: FILE, offset, length: places.unit as u32 },
            false => {
                let payload = places.payload(SOUGHT, places.unit, offset);
                Call::WriteAt { file: FILE, offset, payload }
            }
        }
    }

    /// What follows an open, a read, a write or an fsync.
    fn then(&self) -> SeekStep {
        if self.left > 0 { SeekStep::Unit } else { SeekStep::Close }
    }
}

impl OpSource for Seek<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        (op.call, self.step) = match self.step {
            SeekStep::Open => {
                name(op);
                let flags = if self.read { READ } else { WRITE };
                (Call::Open { dir: ROOT, file: FILE, flags }, self.then())
            }
            SeekStep::Unit => {
                let (call, every) = (self.unit(), self.places.fsync);
                let synced = !self.read && every > 0 && self.done % every == 0;
                (call, if synced { SeekStep::Sync } else { self.then() })
            }
            SeekStep::Sync => (Call::Fsync { file: FILE }, self.then()),
            SeekStep::Close => (Call::Close { file: FILE }, SeekStep::End),
            SeekStep::End => return false,
        };
        true
    }
}

/// Reserves the whole file; where the file system cannot, and the source is asked for another way, writes
/// zeros.
pub struct Reserve<'a> {
    places: &'a Places,
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
    /// The whole of the file.
    pub fn new(places: &'a Places) -> Reserve<'a> {
        Reserve { places, step: ReserveStep::Create }
    }
}

impl OpSource for Reserve<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let size = self.places.size;
        (op.call, self.step) = match self.step {
            ReserveStep::Create => {
                name(op);
                (CREATE, ReserveStep::Fallocate)
            }
            ReserveStep::Fallocate => {
                (Call::Fallocate { file: FILE, length: size }, ReserveStep::Close)
            }
            ReserveStep::Zeros(at) => {
                let length = (size - at).min(LONGEST_SLICE as u64);
                let end = at + length;
                let then = if end < size { ReserveStep::Zeros(end) } else { ReserveStep::Close };
                (Call::Write { file: FILE, payload: Payload::zeros(at, length as u32) }, then)
            }
            ReserveStep::Close => (Call::Close { file: FILE }, ReserveStep::End),
            ReserveStep::End => return false,
        };
        true
    }

    /// Only what is made beforehand may be made otherwise: a phase that reserves is of fallocate alone.
    fn unsupported(&mut self) -> bool {
        let may = self.places.offline && self.step == ReserveStep::Close;
        if may {
            self.step = ReserveStep::Zeros(0);
        }
        may
    }
}
