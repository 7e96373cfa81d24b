//! PostMark's calls: what a run of it does for each deed of its pool, and to its directories.

use crate::numbered::Numbered;
use crate::op::{Call, DirSlot, FileSlot, Name, Op, OpenFlags, Payload};
use crate::postmark::mt19937::Mt19937;
use crate::postmark::pool::{Deed, File, Pool, PoolSpec};
use crate::postmark::stdio;
use crate::workload::OpSource;

const FILE: FileSlot = FileSlot(0);
const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };
const READ_WRITE: OpenFlags = OpenFlags { read: true, ..WRITE };
const READ: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };
/// fopen(3) with `w` and `a`.
const TRUNCATE: OpenFlags = OpenFlags { truncate: true, ..WRITE };
const CREATE_OR_APPEND: OpenFlags = OpenFlags { create: true, append: true, ..WRITE };
const APPEND: OpenFlags = OpenFlags { append: true, ..READ_WRITE };

/// A part of a run, with what it does to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The files to begin with are created.
    Fill,
    /// The transactions.
    Transact,
    /// What is left is deleted.
    Empty,
}

impl Part {
    /// The part that begins with what this one leaves; the first begins with nothing, too.
    pub fn next(self) -> Part {
        match self {
            Part::Fill => Part::Transact,
            Part::Transact => Part::Empty,
            Part::Empty => Part::Fill,
        }
    }
}

/// What decides a run's calls.
#[derive(Clone, Debug)]
pub struct Run {
    /// What decides its deeds.
    pub spec: PoolSpec,
    /// Where the draws for files begin.
    pub(crate) draws: Mt19937,
    /// Block that files are read in, in bytes.
    pub read: u32,
    /// Block that files are written in, in bytes.
    pub write: u32,
    /// Whether blocks go through stdio's buffer.
    pub buffered: bool,
    /// Whether each file has a content of its own.
    pub own: bool,
    /// `l0`, `l1` ...
    pub(crate) locations: Numbered,
    /// `s0`, `s1` ...
    pub(crate) subdirectories: Numbered,
    /// `1`, `2` ...
    pub(crate) files: Numbered,
}

impl Run {
    /// A run with PostMark's default blocks, and contents of the files' own.
    pub fn new(spec: PoolSpec) -> Run {
        Run {
            draws: Pool::draws(&spec),
            spec,
            read: 512,
            write: 512,
            buffered: true,
            own: true,
            locations: Numbered::new("l", 1),
            subdirectories: Numbered::new("s", 1),
            files: Numbered::new("", 1),
        }
    }

    /// How many directories the run makes: those of several locations, and all subdirectories.
    pub fn directories(&self) -> u64 {
        let locations = self.spec.weights.len() as u64;
        self.places_below() + if locations > 1 { locations } else { 0 }
    }

    /// Subdirectories of all locations.
    fn places_below(&self) -> u64 {
        if self.spec.subdirectories > 1 { self.spec.places() } else { 0 }
    }

    /// Length of the longest name, in bytes, where so many files are created.
    pub fn longest_name(&self, created: u64) -> usize {
        let last = |count: u64| count.saturating_sub(1);
        let locations = self.locations.length_of(last(self.spec.weights.len() as u64));
        let below = self.subdirectories.length_of(last(u64::from(self.spec.subdirectories)));
        self.files.length_of(created).max(locations).max(below)
    }

    /// The pool when a part begins: all deeds before it are done, without any op.
    pub fn pool(&self, part: Part) -> Pool<'_> {
        let mut pool = Pool::new(&self.spec, &self.draws);
        if part != Part::Fill {
            while pool.fill().is_some() {}
        }
        if part == Part::Empty {
            while let Ok(Some(_)) = pool.transact() {}
        }
        pool
    }

    /// The calls that move a deed's bytes.
    pub fn transfer(&self, deed: Deed) -> Transfer {
        let (bytes, block, reads) = match deed {
            Deed::Create(file) => (file.size, self.write, false),
            Deed::Append(_, bytes) => (bytes, self.write, false),
            Deed::Read(file) => (file.size, self.read, true),
            Deed::Delete(_) => return Transfer::Nothing,
        };
        match (self.buffered, reads) {
            (false, _) => Transfer::Direct { left: Some(bytes), block },
            (true, false) => Transfer::Written(stdio::Writes::new(u64::from(bytes), block)),
            (true, true) => Transfer::Read(stdio::Reads::new(u64::from(bytes), block)),
        }
    }

    /// The bytes of a file from byte `offset` on that one write put there. Their place in the content
    /// is their place in the file, or in contents=same that in the write.
    pub fn payload(&self, file: File, offset: u64, in_write: u64, length: u32) -> Payload {
        match self.own {
            true => Payload { id: file.number, offset, length },
            false => Payload { id: 0, offset: in_write, length },
        }
    }

    /// Writes the path of a place with its slash: `l1/s7/`, or nothing.
    fn name_place(&self, name: &mut Name, place: u32) {
        name.clear();
        let inner = self.spec.subdirectories.max(1);
        if self.spec.weights.len() > 1 {
            self.locations.push(name, u64::from(place / inner));
            name.push(b"/");
        }
        if inner > 1 {
            self.subdirectories.push(name, u64::from(place % inner));
            name.push(b"/");
        }
    }
}

/// Lengths of the calls that move a file's bytes.
#[derive(Clone, Debug)]
pub enum Transfer {
    /// None: the file is deleted.
    Nothing,
    /// One call for each block and one for what is left, be it nothing.
    Direct {
        /// Bytes before the next call; none after the last.
        left: Option<u32>,
        /// Length of all calls but the last.
        block: u32,
    },
    /// By fwrite(3).
    Written(stdio::Writes),
    /// By fread(3).
    Read(stdio::Reads),
}

impl Transfer {
    /// How many calls these are, before the first.
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

/// The ops of a phase with files.
pub struct Deeds<'a> {
    run: &'a Run,
    pool: Pool<'a>,
    part: Part,
    deed: Deed,
    step: Step,
    transfer: Transfer,
    /// Bytes of the deed that were written.
    written: u64,
}

/// What the next op is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The first of the next deed.
    Deed,
    /// stdio's fstat(2), by which it sizes its buffer.
    Stat,
    /// A read or a write, or the end of them.
    Transfer,
}

impl<'a> Deeds<'a> {
    /// The ops of a part.
    pub fn new(run: &'a Run, part: Part) -> Deeds<'a> {
        Deeds {
            run,
            pool: run.pool(part),
            part,
            deed: Deed::Delete(File { number: 0, place: 0, size: 0 }),
            step: Step::Deed,
            transfer: Transfer::Nothing,
            written: 0,
        }
    }

    fn deed(&mut self, op: &mut Op) -> bool {
        let next = match self.part {
            Part::Fill => self.pool.fill(),
            // That the files suffice was found when the workload was built.
            Part::Transact => self.pool.transact().unwrap_or_default(),
            Part::Empty => self.pool.empty(),
        };
        let Some(deed) = next else { return false };
        let run = self.run;
        self.deed = deed;
        self.transfer = run.transfer(deed);
        self.written = 0;
        self.step = if run.buffered { Step::Stat } else { Step::Transfer };
        let (dir, file) = (DirSlot::ROOT, FILE);
        let named = match deed {
            Deed::Create(named) => {
                let (flags, mode) =
                    if run.buffered { (TRUNCATE, 0o666) } else { (READ_WRITE, 0o644) };
                op.call = Call::Create { dir, file, flags, mode };
                named
            }
            Deed::Read(named) => {
                op.call = Call::Open { dir, file, flags: READ };
                named
            }
            Deed::Append(named, _) => {
                let flags = if run.buffered { CREATE_OR_APPEND } else { APPEND };
                op.call = Call::Open { dir, file, flags };
                named
            }
            Deed::Delete(named) => {
                op.call = Call::Unlink { dir };
                self.step = Step::Deed;
                named
            }
        };
        run.name_place(&mut op.name, named.place);
        run.files.push(&mut op.name, named.number);
        true
    }

    fn transfer(&mut self, op: &mut Op) {
        let Some(length) = self.transfer.next() else {
            op.call = Call::Close { file: FILE };
            self.step = Step::Deed;
            return;
        };
        let done = self.written;
        op.call = match self.deed {
            Deed::Create(file) => {
                let payload = self.run.payload(file, done, done, length);
                Call::Write { file: FILE, payload }
            }
            Deed::Append(file, _) => {
                let payload = self.run.payload(file, u64::from(file.size) + done, done, length);
                Call::Append { file: FILE, payload }
            }
            Deed::Read(_) | Deed::Delete(_) => Call::Read { file: FILE, length },
        };
        self.written += u64::from(length);
    }
}

impl OpSource for Deeds<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        match self.step {
            Step::Deed => return self.deed(op),
            Step::Stat => {
                op.call = Call::StatFile { file: FILE };
                self.step = Step::Transfer;
            }
            Step::Transfer => self.transfer(op),
        }
        true
    }
}

/// mkdir or rmdir of each location's subdirectories, one location after the other; several locations
/// are themselves made first and removed last.
pub struct Directories<'a> {
    run: &'a Run,
    make: bool,
    done: u64,
}

impl<'a> Directories<'a> {
    /// To make them, or to remove them.
    pub fn new(run: &'a Run, make: bool) -> Directories<'a> {
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
        let inner = run.places_below();
        let before = if make { run.directories() - inner } else { 0 };
        op.call = match make {
            true => Call::Mkdir { dir: DirSlot::ROOT, mode: 0o700 },
            false => Call::Rmdir { dir: DirSlot::ROOT },
        };
        match done.checked_sub(before).filter(|place| *place < inner) {
            Some(place) => {
                run.name_place(&mut op.name, place as u32);
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
