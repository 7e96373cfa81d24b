//! The ops of a share.

use super::{DIRECTORY, DIRECTORY_SLOT, Dirops, FILE};
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
    /// True if names are numbered and in forward order; each name is then the previous one plus one.
    pub(super) is_in_sequence: bool,
    /// The first call on every file.
    pub(super) call: Call,
    /// The step after it.
    pub(super) next_step: Step,
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
    /// Returns these ops for the files whose index is the share's rank modulo the number of ranks.
    pub(super) fn interleaved(self, share: Share) -> Self {
        let (index, stride) = (u64::from(share.rank), u64::from(share.ranks.max(1)));
        Ops { index, stride, end: self.work.files, is_in_sequence: false, ..self }
    }

    /// Sets the op to the next file's first op: create, stat or unlink.
    fn file_op(&mut self, op: &mut Op) {
        if self.index >= self.end {
            return self.close_directory(op);
        }
        self.number = self.order.at(self.index);
        self.index += self.stride;
        self.work.names.write_number(&mut op.name, self.number);
        op.call = self.call;
        self.step = self.next_step;
    }

    #[inline(always)]
    fn write_op(&mut self, op: &mut Op) {
        op.call = Call::Write { file: FILE, payload: self.work.payload(self.number) };
        self.step = Step::Close;
    }

    #[inline(never)]
    fn next_on_slow_path(&mut self, op: &mut Op) -> bool {
        match self.step {
            Step::File => self.file_op(op),
            Step::FirstFile => {
                op.after = ProgressPoint::default();
                self.work.names.write_prefix(&mut op.name);
                self.file_op(op);
            }
            Step::Write => self.write_op(op),
            Step::Close => {
                op.call = Call::Close { file: FILE };
                self.step = Step::File;
            }
            Step::Mkdir | Step::OpenDir => self.open_directory(op),
            Step::End => return false,
        }
        true
    }

    #[cold]
    fn close_directory(&mut self, op: &mut Op) {
        op.name.clear();
        op.name.push(DIRECTORY);
        op.call = Call::CloseDir { slot: DIRECTORY_SLOT };
        self.step = Step::End;
    }

    #[cold]
    fn open_directory(&mut self, op: &mut Op) {
        op.name.clear();
        op.name.push(DIRECTORY);
        if self.step == Step::Mkdir {
            op.call = Call::Mkdir { dir: DirSlot::ROOT, mode: 0o755 };
            self.step = Step::OpenDir;
        } else {
            op.call = Call::OpenDir { dir: DirSlot::ROOT, slot: DIRECTORY_SLOT };
            op.after = ProgressPoint { thread: 0, ops: self.opens_after };
            self.step = Step::FirstFile;
        }
    }
}

/// An item is a file; the index of the first one is the share's rank.
impl Items for Ops<'_> {
    fn item_boundary(&mut self) -> Option<(u64, bool)> {
        let is_between_files = matches!(self.step, Step::FirstFile | Step::File);
        is_between_files.then_some((self.index / self.stride, self.index < self.end))
    }

    fn set_max_items(&mut self, max_items: u64) {
        let first = self.index % self.stride;
        self.end = self.end.min(max_items.saturating_mul(self.stride).saturating_add(first));
    }
}

impl OpSource for Ops<'_> {
    /// Handles the most frequent ops on a fast path, because each instruction here adds to every latency;
    /// the result equals that of [`Ops::next_on_slow_path`]. If each file has only one op, the call of the previous
    /// file is still set.
    fn next(&mut self, op: &mut Op) -> bool {
        if self.step == Step::File && self.is_in_sequence && self.index < self.end {
            if op.name.increment() {
                self.number = self.index;
                self.index += 1;
                if self.next_step != Step::File {
                    op.call = self.call;
                    self.step = self.next_step;
                }
                return true;
            }
        } else if self.step == Step::Close {
            op.call = Call::Close { file: FILE };
            self.step = Step::File;
            return true;
        } else if self.step == Step::Write {
            self.write_op(op);
            return true;
        }
        self.next_on_slow_path(op)
    }
}
