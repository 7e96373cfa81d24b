//! The calls with which a rank fills its parts and then keeps them in a steady state.

use fsdyno_record::Nanos;

use crate::items::Items;
use crate::op::{Call, Compound, DirSlot, FileSlot, Op, OpenFlags, Payload};
use crate::op_source::OpSource;
use crate::steady::parts::{Parts, Walk};
use crate::steady::paths::Path;
use crate::steady::population::{Action, Operation, Population};
use crate::workload::Share;

const FILE: FileSlot = FileSlot(0);
const READ: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };
const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };
const CREATE: OpenFlags = OpenFlags { exclusive: true, ..WRITE };
const APPEND: OpenFlags = OpenFlags { append: true, ..WRITE };
const TRUNCATE: OpenFlags = OpenFlags { truncate: true, ..WRITE };
const CREATE_FILE: Call =
    Call::Create { dir: DirSlot::ROOT, file: FILE, flags: CREATE, mode: 0o644 };

/// The next call of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    First,
    Data,
    Fsync,
    Close,
}

/// The calls after the open of a new or an existing file, up to its close.
struct Transfer {
    action: Action,
    payload: Payload,
    fsync: bool,
    /// Number of bytes transferred so far.
    done: u32,
    step: Step,
}

impl Transfer {
    const NONE: Transfer = Transfer {
        action: Action::Stat,
        payload: Payload { id: 0, offset: 0, length: 0 },
        fsync: false,
        done: 0,
        step: Step::First,
    };

    fn begin(action: Action, payload: Payload, fsync: bool) -> Transfer {
        let mut transfer = Transfer { action, payload, fsync, done: 0, step: Step::Data };
        if payload.length == 0 && action != Action::Read {
            transfer.finish_data();
        }
        transfer
    }

    /// Moves to the step after the data.
    fn finish_data(&mut self) {
        self.step = if self.fsync { Step::Fsync } else { Step::Close };
    }

    /// Returns the next call and advances, if the file is open.
    fn call(&mut self, block: u32) -> Option<Call> {
        Some(match self.step {
            Step::First => return None,
            Step::Data => self.data_call(block),
            Step::Fsync => {
                self.step = Step::Close;
                Call::Fsync { file: FILE }
            }
            Step::Close => {
                self.step = Step::First;
                Call::Close { file: FILE }
            }
        })
    }

    fn data_call(&mut self, block: u32) -> Call {
        let remaining = self.payload.length - self.done;
        let length = remaining.min(block);
        let offset = self.payload.offset + u64::from(self.done);
        let payload = Payload { offset, length, ..self.payload };
        self.done += length;
        if remaining == 0 || (remaining == length && self.action != Action::Read) {
            self.finish_data();
        }
        match self.action {
            Action::Read => Call::Read { file: FILE, length: block },
            Action::Append => Call::Append { file: FILE, payload },
            _ => Call::Write { file: FILE, payload },
        }
    }
}

/// Fills the parts of a rank: in each part, the directories first, then the files.
pub struct Fill<'a> {
    parts: &'a Parts,
    share: Share,
    part: u32,
    population: Option<Population>,
    directory: u64,
    file: usize,
    transfer: Transfer,
}

impl<'a> Fill<'a> {
    /// Creates the fill of a rank's parts, with nothing done.
    pub fn new(parts: &'a Parts, share: Share) -> Fill<'a> {
        let part = share.rank;
        let directory = parts.directory_range(part.min(parts.count)).0;
        Fill { parts, share, part, population: None, directory, file: 0, transfer: Transfer::NONE }
    }

    /// Sets the op to the next call in the current part; returns false if there is none.
    fn next_in_part(&mut self, op: &mut Op) -> bool {
        let (parts, part) = (self.parts, self.part);
        if self.directory < parts.directory_range(part).1 {
            parts.paths.write(Path::Directory(self.directory), &mut op.name);
            op.call = Call::Mkdir { dir: DirSlot::ROOT, mode: 0o755 };
            self.directory += 1;
            return true;
        }
        let population = self.population.get_or_insert_with(|| parts.population(part));
        let Some(file) = population.files().get(self.file).copied() else { return false };
        self.file += 1;
        parts.write_file_path((part, population), file.serial, file.name(0), &mut op.name);
        op.call = CREATE_FILE;
        self.transfer = Transfer::begin(Action::Create, population.content(file, 0), false);
        true
    }
}

impl OpSource for Fill<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if let Some(call) = self.transfer.call(self.parts.block) {
            op.call = call;
            return true;
        }
        while self.part < self.parts.count {
            if self.next_in_part(op) {
                return true;
            }
            let rank = self.part.saturating_add(self.share.ranks);
            *self = Fill::new(self.parts, Share { rank, ..self.share });
        }
        false
    }
}

/// The operations of a rank's parts, call by call.
pub struct Operations<'a> {
    parts: &'a Parts,
    walk: Walk<'a>,
    transfer: Transfer,
    is_ending: bool,
}

impl<'a> Operations<'a> {
    /// Creates the operations of a rank's parts, with nothing done.
    pub fn new(parts: &'a Parts, share: Share) -> Operations<'a> {
        Operations {
            parts,
            walk: Walk::new(parts, share),
            transfer: Transfer::NONE,
            is_ending: false,
        }
    }

    /// Sets the op to the first call of the next operation, which is often its only call; returns false at the end.
    fn begin(&mut self, op: &mut Op) -> bool {
        if self.is_ending {
            return false;
        }
        let Some((index, operation)) = self.walk.step() else { return false };
        let Operation { action, file, payload, .. } = operation;
        let (parts, progress) = (self.parts, &self.walk.progress[index]);
        let part = (progress.part, &progress.population);
        op.due = parts.due_time(progress.part, progress.done_count - 1);
        op.call = first_call(&operation);
        match action {
            Action::Readdir => {
                let directory = parts.directory(progress.part, operation.word);
                parts.paths.write(Path::Directory(directory), &mut op.name);
            }
            _ => parts.write_file_path(part, file.serial, operation.name, &mut op.name),
        }
        match action {
            Action::Rename | Action::Link => {
                parts.write_file_path(part, file.serial, operation.new_name, &mut op.second_name);
            }
            Action::Create | Action::Write | Action::Append | Action::Read => {
                self.transfer = Transfer::begin(action, payload, operation.fsync);
            }
            Action::Stat | Action::Unlink | Action::Readdir => {}
        }
        true
    }
}

/// An item is an operation.
impl Items for Operations<'_> {
    fn item_boundary(&mut self) -> Option<(u64, bool)> {
        (self.transfer.step == Step::First).then(|| (self.walk.done, self.walk.has_next()))
    }

    fn set_max_items(&mut self, max_items: u64) {
        self.is_ending |= self.walk.done >= max_items;
    }
}

impl OpSource for Operations<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        match self.transfer.call(self.parts.block) {
            Some(call) => {
                op.call = call;
                op.due = Nanos(0);
                true
            }
            None => self.begin(op),
        }
    }

    fn finish(&mut self) {
        self.is_ending = true;
    }

    fn done(&self) -> u64 {
        self.walk.done
    }
}

/// Returns the first call of an operation.
fn first_call(operation: &Operation) -> Call {
    let dir = DirSlot::ROOT;
    let open = |flags| Call::Open { dir, file: FILE, flags };
    match operation.action {
        Action::Create => CREATE_FILE,
        Action::Write if operation.truncate => open(TRUNCATE),
        Action::Write => open(WRITE),
        Action::Append => open(APPEND),
        Action::Read => open(READ),
        Action::Stat => Call::Stat { dir },
        Action::Rename => Call::Rename { dir, to: dir },
        Action::Link => Call::Link { dir, to: dir },
        Action::Unlink => Call::Unlink { dir },
        Action::Readdir => Call::Compound(Compound::Scan { dir }),
    }
}
