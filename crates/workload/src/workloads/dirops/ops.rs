//! The ops of a share.

use super::{DIRECTORY, Dirops, FILE, SLOT};
use crate::items::Items;
use crate::op::{Call, DirSlot, Op, ProgressPoint};
use crate::op_source::OpSource;
use crate::permutation::Order;
use crate::workload::Share;

/// The next op of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Mkdir,
    OpenDir,
    FirstFile,
    File,
    Write,
    Close,
    End,
}

pub(super) struct Ops<'a> {
    pub(super) work: &'a Dirops,
    pub(super) order: &'a Order,
    /// True if names are numbered and in forward order, so that each name is the previous one plus one.
    pub(super) in_sequence: bool,
    /// The first call on every file.
    pub(super) call: Call,
    /// The step after it.
    pub(super) then: Step,
    pub(super) index: u64,
    pub(super) end: u64,
    /// Distance between consecutive indices of this share.
    pub(super) stride: u64,
    pub(super) step: Step,
    pub(super) number: u64,
    /// Number of ops of rank 0 before this rank opens the directory.
    pub(super) opens_after: u64,
}

impl Ops<'_> {
    /// Returns the same ops for the files whose index is the share's rank modulo the number of ranks.
    pub(super) fn every(self, share: Share) -> Self {
        let (index, stride) = (u64::from(share.rank), u64::from(share.ranks.max(1)));
        Ops { index, stride, end: self.work.files, in_sequence: false, ..self }
    }

    /// Sets the op to the next file's first op: create, stat or unlink.
    fn file(&mut self, op: &mut Op) {
        if self.index >= self.end {
            return self.leave(op);
        }
        self.number = self.order.at(self.index);
        self.index += self.stride;
        self.work.names.finish(&mut op.name, self.number);
        op.call = self.call;
        self.step = self.then;
    }

    #[inline(always)]
    fn write(&mut self, op: &mut Op) {
        op.call = Call::Write { file: FILE, payload: self.work.payload(self.number) };
        self.step = Step::Close;
    }

    #[inline(never)]
    fn other(&mut self, op: &mut Op) -> bool {
        match self.step {
            Step::File => self.file(op),
            Step::FirstFile => {
                op.after = ProgressPoint::default();
                self.work.names.begin(&mut op.name);
                self.file(op);
            }
            Step::Write => self.write(op),
            Step::Close => {
                op.call = Call::Close { file: FILE };
                self.step = Step::File;
            }
            Step::Mkdir | Step::OpenDir => self.directory(op),
            Step::End => return false,
        }
        true
    }

    #[cold]
    fn leave(&mut self, op: &mut Op) {
        op.name.clear();
        op.name.push(DIRECTORY);
        op.call = Call::CloseDir { slot: SLOT };
        self.step = Step::End;
    }

    #[cold]
    fn directory(&mut self, op: &mut Op) {
        op.name.clear();
        op.name.push(DIRECTORY);
        if self.step == Step::Mkdir {
            op.call = Call::Mkdir { dir: DirSlot::ROOT, mode: 0o755 };
            self.step = Step::OpenDir;
        } else {
            op.call = Call::OpenDir { dir: DirSlot::ROOT, slot: SLOT };
            op.after = ProgressPoint { thread: 0, ops: self.opens_after };
            self.step = Step::FirstFile;
        }
    }
}

/// An item is a file; the index of the first one is the share's rank.
impl Items for Ops<'_> {
    fn item_boundary(&mut self) -> Option<(u64, bool)> {
        let between = matches!(self.step, Step::FirstFile | Step::File);
        between.then_some((self.index / self.stride, self.index < self.end))
    }

    fn end_after(&mut self, most: u64) {
        let first = self.index % self.stride;
        self.end = self.end.min(most.saturating_mul(self.stride).saturating_add(first));
    }
}

impl OpSource for Ops<'_> {
    /// Handles the most frequent ops on a fast path, because each instruction here adds to every latency;
    /// the result equals that of [`Ops::other`]. If each file has only one op, the call of the previous
    /// file is still set.
    fn next(&mut self, op: &mut Op) -> bool {
        if self.step == Step::File && self.in_sequence && self.index < self.end {
            if op.name.increment() {
                self.number = self.index;
                self.index += 1;
                if self.then != Step::File {
                    op.call = self.call;
                    self.step = self.then;
                }
                return true;
            }
        } else if self.step == Step::Close {
            op.call = Call::Close { file: FILE };
            self.step = Step::File;
            return true;
        } else if self.step == Step::Write {
            self.write(op);
            return true;
        }
        self.other(op)
    }
}
