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
    pub fn directories(&self) -> u64 {
        let locations = self.spec.weights.len() as u64;
        self.all_subdirectories() + if locations > 1 { locations } else { 0 }
    }

    /// Returns the number of subdirectories of all locations.
    fn all_subdirectories(&self) -> u64 {
        if self.spec.subdirectories > 1 { self.spec.file_directories() } else { 0 }
    }

    /// Returns the length of the longest name, in bytes, if `created` files are created.
    pub fn longest_name(&self, created: u64) -> usize {
        let last = |count: u64| count.saturating_sub(1);
        let locations = self.locations.length_of(last(self.spec.weights.len() as u64));
        let below = self.subdirectories.length_of(last(u64::from(self.spec.subdirectories)));
        self.files.length_of(created).max(locations).max(below)
    }

    /// Returns the pool at the beginning of a stage: all earlier actions are done, without generating ops.
    pub fn pool(&self, stage: Stage) -> Pool<'_> {
        let mut pool = Pool::new(&self.spec, &self.draws);
        if stage != Stage::Fill {
            while pool.fill().is_some() {}
        }
        if stage == Stage::Empty {
            while let Ok(Some(_)) = pool.transact() {}
        }
        pool
    }

    /// Returns the calls that transfer an action's bytes.
    pub fn transfer(&self, action: Action) -> Transfer {
        let (bytes, block, reads) = match action {
            Action::Create(file) => (file.size, self.write_block, false),
            Action::Append(_, bytes) => (bytes, self.write_block, false),
            Action::Read(file) => (file.size, self.read_block, true),
            Action::Delete(_) => return Transfer::Nothing,
        };
        match (self.buffered, reads) {
            (false, _) => Transfer::Direct { left: Some(bytes), block },
            (true, false) => Transfer::Written(stdio::Writes::new(u64::from(bytes), block)),
            (true, true) => Transfer::Read(stdio::Reads::new(u64::from(bytes), block)),
        }
    }

    /// Returns the bytes that one write puts at byte `offset` of a file. Their offset in the content is their offset in
    /// the file, or, with contents=same, their offset in the write.
    pub fn payload(&self, file: File, offset: u64, in_write: u64, length: u32) -> Payload {
        match self.own_content {
            true => Payload { id: file.number, offset, length },
            false => Payload { id: 0, offset: in_write, length },
        }
    }

    /// Writes the path of a directory with a slash at its end, such as `l1/s7/`, or an empty path.
    fn name_directory(&self, name: &mut Name, directory: u32) {
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
    Nothing,
    /// One call per block and one for the rest, even if the rest is empty.
    Direct {
        /// Number of bytes left before the next call; none after the last.
        left: Option<u32>,
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
    pub fn calls(self) -> u64 {
        match self {
            Transfer::Nothing => 0,
            Transfer::Direct { left, block } => {
                left.map_or(0, |bytes| u64::from(bytes / block) + 1)
            }
            Transfer::Written(calls) => calls.calls(),
            Transfer::Read(calls) => calls.calls(),
        }
    }
}

impl Iterator for Transfer {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match self {
            Transfer::Nothing => None,
            Transfer::Direct { left, block } => {
                let all = (*left)?;
                *left = all.checked_sub(*block);
                Some(all.min(*block))
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
    /// The next action, if it is already known.
    known: Option<Action>,
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
            transfer: Transfer::Nothing,
            transferred: 0,
            known: None,
        }
    }

    fn action(&mut self, op: &mut Op) -> bool {
        let next = match self.stage {
            _ if self.known.is_some() => self.known.take(),
            Stage::Fill => self.pool.fill(),
            // There are enough files, which was checked when the workload was built.
            Stage::Transact => self.pool.transact().unwrap_or_default(),
            Stage::Empty => self.pool.empty(),
        };
        let Some(action) = next else { return false };
        let run = self.run;
        self.action = action;
        self.transfer = run.transfer(action);
        self.transferred = 0;
        self.step = if run.buffered { Step::Stat } else { Step::Transfer };
        let (dir, file) = (DirSlot::ROOT, FILE);
        let named = match action {
            Action::Create(named) => {
                let (flags, mode) =
                    if run.buffered { (TRUNCATE, 0o666) } else { (READ_WRITE, 0o644) };
                op.call = Call::Create { dir, file, flags, mode };
                named
            }
            Action::Read(named) => {
                op.call = Call::Open { dir, file, flags: READ };
                named
            }
            Action::Append(named, _) => {
                let flags = if run.buffered { CREATE_OR_APPEND } else { APPEND };
                op.call = Call::Open { dir, file, flags };
                named
            }
            Action::Delete(named) => {
                op.call = Call::Unlink { dir };
                self.step = Step::Action;
                named
            }
        };
        run.name_directory(&mut op.name, named.directory);
        run.files.push(&mut op.name, named.number);
        true
    }

    fn transfer(&mut self, op: &mut Op) {
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
        self.known = self.pool.transact_on();
        self.known.is_none().then(|| self.pool.transactions())
    }

    fn end_after(&mut self, most: u64) {
        self.pool.end_after(most);
    }
}

impl OpSource for ActionOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        match self.step {
            Step::Action => return self.action(op),
            Step::Stat => {
                op.call = Call::StatFile { file: FILE };
                self.step = Step::Transfer;
            }
            Step::Transfer => self.transfer(op),
        }
        true
    }
}

/// The ops that create or remove each location's subdirectories, one location after the other. The directories of
/// several locations are created first and removed last.
pub struct Directories<'a> {
    run: &'a RunSpec,
    make: bool,
    done: u64,
}

impl<'a> Directories<'a> {
    /// Creates the directories if `make`, else removes them.
    pub fn new(run: &'a RunSpec, make: bool) -> Directories<'a> {
        Directories { run, make, done: 0 }
    }
}

impl OpSource for Directories<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let Directories { run, make, done } = *self;
        if done == run.directories() {
            return false;
        }
        self.done += 1;
        let inner = run.all_subdirectories();
        let before = if make { run.directories() - inner } else { 0 };
        op.call = match make {
            true => Call::Mkdir { dir: DirSlot::ROOT, mode: 0o700 },
            false => Call::Rmdir { dir: DirSlot::ROOT },
        };
        match done.checked_sub(before).filter(|directory| *directory < inner) {
            Some(directory) => {
                run.name_directory(&mut op.name, directory as u32);
                op.name.truncate(op.name.as_bytes().len() - 1);
            }
            None => {
                op.name.clear();
                run.locations.push(&mut op.name, if make { done } else { done - inner });
            }
        }
        true
    }
}
