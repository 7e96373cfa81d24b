//! PostMark's calls: the calls of each action on its pool, and those on its directories.

use crate::items::Items;
use crate::numbered::Numbered;
use crate::op::{Call, DirSlot, FileSlot, Name, Op, OpenFlags, Payload};
use crate::op_source::OpSource;
use crate::postmark::mt19937::Mt19937;
use crate::postmark::pool::{Action, File, Pool, PoolSpec};
use crate::postmark::stdio;

const FILE: FileSlot = FileSlot(0);
const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };
const READ_WRITE: OpenFlags = OpenFlags { read: true, ..WRITE };
const READ: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };
/// Flags of fopen(3) with `w`.
const TRUNCATE: OpenFlags = OpenFlags { truncate: true, ..WRITE };
/// Flags of fopen(3) with `a`.
const CREATE_OR_APPEND: OpenFlags = OpenFlags { create: true, append: true, ..WRITE };
const APPEND: OpenFlags = OpenFlags { append: true, ..READ_WRITE };

/// A stage of a run, by its effect on the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Creates the initial files.
    Fill,
    /// Performs the transactions.
    Transact,
    /// Deletes the remaining files.
    Empty,
}

impl Stage {
    /// Returns the stage that begins with the files that this one leaves; for the last stage, which leaves none, the
    /// first.
    pub fn next(self) -> Stage {
        match self {
            Stage::Fill => Stage::Transact,
            Stage::Transact => Stage::Empty,
            Stage::Empty => Stage::Fill,
        }
    }
}

/// The parameters of the calls of a run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The parameters of its actions.
    pub spec: PoolSpec,
    /// The random number generator in the state before the first draw for the files.
    pub(crate) draws: Mt19937,
    /// Block size of reads, in bytes.
    pub read_block: u32,
    /// Block size of writes, in bytes.
    pub write_block: u32,
    /// True if blocks go through stdio's buffer.
    pub buffered: bool,
    /// True if each file has its own content.
    pub own_content: bool,
    /// Names of the locations: `l0`, `l1` ...
    pub(crate) locations: Numbered,
    /// Names of the subdirectories: `s0`, `s1` ...
    pub(crate) subdirectories: Numbered,
    /// Names of the files: `1`, `2` ...
    pub(crate) files: Numbered,
}

impl RunSpec {
    /// Creates a run with PostMark's default block sizes and different content for each file.
    pub fn new(spec: PoolSpec) -> RunSpec {
        RunSpec {
            draws: Pool::draws(&spec),
            spec,
            read_block: 512,
            write_block: 512,
            buffered: true,
            own_content: true,
            locations: Numbered::new("l", 1),
            subdirectories: Numbered::new("s", 1),
            files: Numbered::new("", 1),
        }
    }

    /// Returns the number of directories of the run: one per location if there are several, and all subdirectories.
    pub fn directory_count(&self) -> u64 {
        let locations = self.spec.weights.len() as u64;
        self.subdirectory_count() + if locations > 1 { locations } else { 0 }
    }

    /// Returns the number of subdirectories of all locations.
    fn subdirectory_count(&self) -> u64 {
        if self.spec.subdirectories > 1 { self.spec.file_directories() } else { 0 }
    }

    /// Returns the length of the longest name, in bytes, if `created` files are created.
    pub fn longest_name(&self, created: u64) -> usize {
        let max_number = |count: u64| count.saturating_sub(1);
        let locations = self.locations.length_of(max_number(self.spec.weights.len() as u64));
        let subdirectories =
            self.subdirectories.length_of(max_number(u64::from(self.spec.subdirectories)));
        self.files.length_of(created).max(locations).max(subdirectories)
    }

    /// Returns the pool at the beginning of a stage: all earlier actions are done, without generating ops.
    pub fn pool(&self, stage: Stage) -> Pool<'_> {
        let mut pool = Pool::new(&self.spec, &self.draws);
        if stage != Stage::Fill {
            while pool.create_next().is_some() {}
        }
        if stage == Stage::Empty {
            while let Ok(Some(_)) = pool.next_action() {}
        }
        pool
    }

    /// Returns the calls that transfer an action's bytes.
    pub fn transfer(&self, action: Action) -> Transfer {
        let (bytes, block, reads) = match action {
            Action::Create(file) => (file.size, self.write_block, false),
            Action::Append(_, bytes) => (bytes, self.write_block, false),
            Action::Read(file) => (file.size, self.read_block, true),
            Action::Delete(_) => return Transfer::None,
        };
        match (self.buffered, reads) {
            (false, _) => Transfer::Direct { remaining: Some(bytes), block },
            (true, false) => Transfer::Written(stdio::Writes::new(u64::from(bytes), block)),
            (true, true) => Transfer::Read(stdio::Reads::new(u64::from(bytes), block)),
        }
    }

    /// Returns the bytes that one write stores at byte `offset` of a file. Their offset in the content is their offset
    /// in the file, or, with contents=same, their offset in the write.
    pub fn payload(&self, file: File, offset: u64, offset_in_write: u64, length: u32) -> Payload {
        match self.own_content {
            true => Payload { id: file.number, offset, length },
            false => Payload { id: 0, offset: offset_in_write, length },
        }
    }

    /// Writes the path of a directory with a slash at its end, such as `l1/s7/`, or an empty path.
    fn write_directory_name(&self, name: &mut Name, directory: u32) {
        name.clear();
        let inner = self.spec.subdirectories.max(1);
        if self.spec.weights.len() > 1 {
            self.locations.push(name, u64::from(directory / inner));
            name.push(b"/");
        }
        if inner > 1 {
            self.subdirectories.push(name, u64::from(directory % inner));
            name.push(b"/");
        }
    }
}

/// Lengths of the calls that transfer a file's bytes.
#[derive(Clone, Debug)]
pub enum Transfer {
    /// None: the file is deleted.
    None,
    /// One call per block and one for the remaining bytes, even if there are none.
    Direct {
        /// Number of bytes before the next call, or `None` after the last.
        remaining: Option<u32>,
        /// Length of all calls but the last.
        block: u32,
    },
    /// Writes by fwrite(3).
    Written(stdio::Writes),
    /// Reads by fread(3).
    Read(stdio::Reads),
}

impl Transfer {
    /// Returns the number of calls; correct only before the first one is made.
    pub fn count_calls(self) -> u64 {
        match self {
            Transfer::None => 0,
            Transfer::Direct { remaining, block } => {
                remaining.map_or(0, |bytes| u64::from(bytes / block) + 1)
            }
            Transfer::Written(calls) => calls.count_calls(),
            Transfer::Read(calls) => calls.count_calls(),
        }
    }
}

impl Iterator for Transfer {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match self {
            Transfer::None => None,
            Transfer::Direct { remaining, block } => {
                let length = (*remaining)?;
                *remaining = length.checked_sub(*block);
                Some(length.min(*block))
            }
            Transfer::Written(calls) => calls.next(),
            Transfer::Read(calls) => calls.next(),
        }
    }
}

/// The ops of a phase that works on files.
pub struct ActionOps<'a> {
    run: &'a RunSpec,
    pool: Pool<'a>,
    stage: Stage,
    action: Action,
    step: Step,
    transfer: Transfer,
    /// Number of bytes of the current action that have been transferred.
    transferred: u64,
    /// The next action, if it was already taken from the pool.
    pending: Option<Action>,
}

/// The next op of the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The first op of the next action.
    Action,
    /// The fstat(2) with which stdio determines the size of its buffer.
    Stat,
    /// A read or a write, or the close after them.
    Transfer,
}

impl<'a> ActionOps<'a> {
    /// Creates the ops of a stage.
    pub fn new(run: &'a RunSpec, stage: Stage) -> ActionOps<'a> {
        ActionOps {
            run,
            pool: run.pool(stage),
            stage,
            action: Action::Delete(File { number: 0, directory: 0, size: 0 }),
            step: Step::Action,
            transfer: Transfer::None,
            transferred: 0,
            pending: None,
        }
    }

    fn start_action(&mut self, op: &mut Op) -> bool {
        let next = match self.stage {
            _ if self.pending.is_some() => self.pending.take(),
            Stage::Fill => self.pool.create_next(),
            // There are enough files, which was checked when the workload was built.
            Stage::Transact => self.pool.next_action().unwrap_or_default(),
            Stage::Empty => self.pool.delete_next(),
        };
        let Some(action) = next else { return false };
        let run = self.run;
        self.action = action;
        self.transfer = run.transfer(action);
        self.transferred = 0;
        self.step = if run.buffered { Step::Stat } else { Step::Transfer };
        let dir = DirSlot::ROOT;
        let file = match action {
            Action::Create(file) => {
                let (flags, mode) =
                    if run.buffered { (TRUNCATE, 0o666) } else { (READ_WRITE, 0o644) };
                op.call = Call::Create { dir, file: FILE, flags, mode };
                file
            }
            Action::Read(file) => {
                op.call = Call::Open { dir, file: FILE, flags: READ };
                file
            }
            Action::Append(file, _) => {
                let flags = if run.buffered { CREATE_OR_APPEND } else { APPEND };
                op.call = Call::Open { dir, file: FILE, flags };
                file
            }
            Action::Delete(file) => {
                op.call = Call::Unlink { dir };
                self.step = Step::Action;
                file
            }
        };
        run.write_directory_name(&mut op.name, file.directory);
        run.files.push(&mut op.name, file.number);
        true
    }

    fn transfer_op(&mut self, op: &mut Op) {
        let Some(length) = self.transfer.next() else {
            op.call = Call::Close { file: FILE };
            self.step = Step::Action;
            return;
        };
        let done = self.transferred;
        op.call = match self.action {
            Action::Create(file) => {
                let payload = self.run.payload(file, done, done, length);
                Call::Write { file: FILE, payload }
            }
            Action::Append(file, _) => {
                let payload = self.run.payload(file, u64::from(file.size) + done, done, length);
                Call::Append { file: FILE, payload }
            }
            Action::Read(_) | Action::Delete(_) => Call::Read { file: FILE, length },
        };
        self.transferred += u64::from(length);
    }
}

/// An item is a transaction.
impl Items for ActionOps<'_> {
    fn item_boundary(&mut self) -> Option<(u64, bool)> {
        if self.step != Step::Action {
            return None;
        }
        self.pending = self.pool.finish_transaction();
        self.pending.is_none().then(|| self.pool.transactions())
    }

    fn set_max_items(&mut self, max_items: u64) {
        self.pool.set_max_transactions(max_items);
    }
}

impl OpSource for ActionOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        match self.step {
            Step::Action => return self.start_action(op),
            Step::Stat => {
                op.call = Call::StatFile { file: FILE };
                self.step = Step::Transfer;
            }
            Step::Transfer => self.transfer_op(op),
        }
        true
    }
}

/// The ops that create or remove each location's subdirectories, one location after the other. The directories of
/// several locations are created first and removed last.
pub struct Directories<'a> {
    run: &'a RunSpec,
    is_creation: bool,
    done: u64,
}

impl<'a> Directories<'a> {
    /// Creates the directories if `is_creation`, else removes them.
    pub fn new(run: &'a RunSpec, is_creation: bool) -> Directories<'a> {
        Directories { run, is_creation, done: 0 }
    }
}

impl OpSource for Directories<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let Directories { run, is_creation, done } = *self;
        if done == run.directory_count() {
            return false;
        }
        self.done += 1;
        let subdirectories = run.subdirectory_count();
        let location_count = if is_creation { run.directory_count() - subdirectories } else { 0 };
        op.call = match is_creation {
            true => Call::Mkdir { dir: DirSlot::ROOT, mode: 0o700 },
            false => Call::Rmdir { dir: DirSlot::ROOT },
        };
        match done.checked_sub(location_count).filter(|directory| *directory < subdirectories) {
            Some(directory) => {
                run.write_directory_name(&mut op.name, directory as u32);
                op.name.truncate(op.name.as_bytes().len() - 1);
            }
            None => {
                op.name.clear();
                run.locations
                    .push(&mut op.name, if is_creation { done } else { done - subdirectories });
            }
        }
        true
    }
}
