//! What a workload is: phases of ops, their exact counts, and the tree they leave.

use std::collections::BTreeMap;

use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::op::{Op, Payload};

/// Exact number of ops by kind.
///
/// A count that only the file system decides (how many getdents64(2) calls a directory takes) is
/// left out and said so in the workload's doc.
pub type OpCounts = BTreeMap<OpKind, u64>;

/// Which part of the work: rank `rank` of `ranks` threads or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// From zero.
    pub rank: u32,
    /// At least one.
    pub ranks: u32,
}

impl Share {
    /// All the work in one hand.
    pub const WHOLE: Share = Share { rank: 0, ranks: 1 };
}

/// What lies before a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// Nothing of its own: the caches stay as they are, but the phase before is synced for its times
    /// and verified before this one begins.
    None,
    /// Nothing at all, as in the original: the phase before is neither synced nor verified, and has
    /// no synced or durable time.
    BackToBack,
    /// sync the file system.
    Sync,
    /// sync, then drop the caches.
    Drop,
    /// sync, unmount, mount.
    Remount,
}

impl GapKind {
    /// Every kind.
    pub const ALL: [GapKind; 5] =
        [GapKind::None, GapKind::BackToBack, GapKind::Sync, GapKind::Drop, GapKind::Remount];

    /// The kind of this name; [`GapKind::None`] for another word, which no parameter takes.
    pub fn named(word: &str) -> GapKind {
        GapKind::ALL.into_iter().find(|kind| kind.name() == word).unwrap_or(GapKind::None)
    }

    /// The name in records and `--set`.
    pub fn name(self) -> &'static str {
        match self {
            GapKind::None => "none",
            GapKind::BackToBack => "back-to-back",
            GapKind::Sync => "sync",
            GapKind::Drop => "drop",
            GapKind::Remount => "remount",
        }
    }
}

/// One timed phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseSpec {
    /// Its name in records and tables.
    pub name: &'static str,
    /// What lies before it.
    pub gap: GapKind,
    /// Whether the tree on disk is verified after it (before the next gap).
    pub verify: bool,
    /// How many threads can share it.
    pub threads: Threads,
}

impl PhaseSpec {
    /// The phases with what is to be verified of one that another follows back to back verified
    /// after that one: between the two nothing may be read.
    pub fn chained(mut phases: Vec<PhaseSpec>) -> Vec<PhaseSpec> {
        for next in 1..phases.len() {
            if phases[next].gap == GapKind::BackToBack {
                phases[next].verify |= std::mem::take(&mut phases[next - 1].verify);
            }
        }
        phases
    }
}

/// How many threads issue the ops of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One, as in the original.
    One,
    /// As many as are asked for.
    Any,
    /// So many, by the workload's own parameters.
    Exactly(u32),
}

impl Threads {
    /// How many there are where `asked` were asked for.
    pub fn of(self, asked: u32) -> u32 {
        match self {
            Threads::One => 1,
            Threads::Any => asked.max(1),
            Threads::Exactly(threads) => threads.max(1),
        }
    }
}

/// What a phase did, counted in the workload's own units: `files read`, `transactions`. The names of
/// all that are bytes, and of nothing else, end in `bytes`.
pub type Books = BTreeMap<&'static str, u64>;

/// A stream of ops. The caller hands in the same `Op` each time.
pub trait OpSource {
    /// Rewrites `op` into the next one; false at the end.
    fn next(&mut self, op: &mut Op) -> bool;

    /// Asks it to end soon, as the phase's time is up: it goes on until no file of it is open and
    /// what it began is done, then [`OpSource::next`] is false. Only a source of a phase with a
    /// [`Workload::limit`], or with an end by [`Workload::ends_with`], heeds it.
    fn finish(&mut self) {}

    /// Tells it that the op it handed out last failed for want of space (ENOSPC); whether that is the
    /// end that its phase waits for. If so, the op counts as not done, and what follows cleans up.
    fn full(&mut self) -> bool {
        false
    }

    /// Tells it that the file system does not know the op that it handed out last (EOPNOTSUPP); whether
    /// there is another way. If so, the op counts as not done, and what follows goes that way.
    fn unsupported(&mut self) -> bool {
        false
    }

    /// How much is done of the phase, in units of its own that [`Workload::tree_after`] and its like
    /// understand; right once [`OpSource::next`] was false.
    fn done(&self) -> u64 {
        0
    }
}

/// No ops: the share of a rank that has nothing to do.
#[derive(Clone, Copy, Debug)]
pub struct NoOps;

impl OpSource for NoOps {
    fn next(&mut self, _: &mut Op) -> bool {
        false
    }
}

/// What must be found at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// What it is.
    pub kind: ExpectedKind,
    /// Its permission bits, where the workload sets them.
    pub mode: Option<u32>,
    /// Its modification time in seconds, where the workload sets it.
    pub mtime: Option<i64>,
    /// Which hard links are one file, where it has several.
    pub links: Option<Links>,
}

/// What may be at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedKind {
    /// A directory.
    Directory,
    /// A regular file with one content from its beginning to its end.
    File(Payload),
    /// A regular file of so many bytes, whose contents [`Tree::piece`] tells part by part.
    Pieces(u64),
    /// A regular file of so many bytes, in an order that only the file system decided: an archive of
    /// a tree. What is unpacked from it can be verified, so its bytes need not be.
    Sized(u64),
    /// A symbolic link; [`Tree::target`] tells where it points.
    Symlink,
}

/// The hard links of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Names of one group are one inode.
    pub group: u64,
    /// How many links the inode has.
    pub count: u64,
}

impl Expected {
    /// A directory.
    pub const DIRECTORY: Expected = Expected::new(ExpectedKind::Directory);
    /// A symbolic link.
    pub const SYMLINK: Expected = Expected::new(ExpectedKind::Symlink);

    /// Something of this kind, with whatever attributes.
    pub const fn new(kind: ExpectedKind) -> Expected {
        Expected { kind, mode: None, mtime: None, links: None }
    }

    /// A regular file with this content.
    pub const fn file(payload: Payload) -> Expected {
        Expected::new(ExpectedKind::File(payload))
    }

    /// A regular file of so many bytes made of pieces.
    pub const fn pieces(length: u64) -> Expected {
        Expected::new(ExpectedKind::Pieces(length))
    }

    /// The same, with these permission bits.
    pub const fn with_mode(self, mode: u32) -> Expected {
        Expected { mode: Some(mode), ..self }
    }

    /// The same, with this modification time in seconds.
    pub const fn with_mtime(self, mtime: i64) -> Expected {
        Expected { mtime: Some(mtime), ..self }
    }

    /// The same, as one of several hard links.
    pub const fn with_links(self, links: Links) -> Expected {
        Expected { links: Some(links), ..self }
    }
}

/// The tree a phase leaves, in closed form: the verifier walks what is there, looks each path up,
/// and compares the totals, so that nothing lost and nothing extra can hide.
pub trait Tree {
    /// What must be at `path` (below the trial's root, without a leading slash); none if nothing
    /// may be there.
    fn lookup(&self, path: &[u8]) -> Option<Expected>;
    /// How many files there must be (whatever is no directory, each hard link counted).
    fn files(&self) -> u64;
    /// How many directories there must be, the trial's root not counted.
    fn directories(&self) -> u64;
    /// The content of a file of [`ExpectedKind::Pieces`] from byte `offset` on, as far as it is one
    /// payload (the rest of the file at most); `offset` is below the file's length.
    fn piece(&self, _path: &[u8], _offset: u64) -> Option<Payload> {
        None
    }
    /// Where the symbolic link at `path` points.
    fn target(&self, _path: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// What a workload needs of its file system, found before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Most bytes of file data that exist at once.
    pub bytes: Bytes,
    /// Most files and directories that exist at once.
    pub inodes: u64,
    /// Longest single name.
    pub longest_name: usize,
}

/// What there is before the first phase.
pub struct Beforehand<'a> {
    /// The ops that make it.
    pub ops: Box<dyn OpSource + Send + 'a>,
    /// The tree after them.
    pub tree: Box<dyn Tree + 'a>,
}

/// A workload with its parameters bound.
pub trait Workload: Send + Sync {
    /// The timed phases, in order.
    fn phases(&self) -> Vec<PhaseSpec>;
    /// The ops of a phase that fall to `share`.
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_>;
    /// How many ops of each kind the whole phase has where `ranks` threads share it.
    fn counts(&self, phase: usize, ranks: u32) -> OpCounts;
    /// Parameters that decide nothing as the others are; plans leave them out.
    fn idle_params(&self) -> &'static [&'static str] {
        &[]
    }
    /// What the whole phase comes to in the workload's own units, where ops alone do not say it.
    fn books(&self, _phase: usize) -> Books {
        Books::new()
    }
    /// The unit of [`Workload::books`] whose rate stands for the phase in tables; none where files or
    /// bytes do.
    fn unit(&self, _phase: usize) -> Option<&'static str> {
        None
    }
    /// The tree after a phase.
    fn tree(&self, phase: usize) -> Box<dyn Tree + '_>;
    /// What it needs.
    fn needs(&self) -> Needs;

    /// Most bytes of [`Needs::bytes`] that a store has to keep which keeps no block of one repeated byte.
    fn stored(&self) -> Bytes {
        if self.zeros() == 100 { Bytes(0) } else { self.needs().bytes }
    }

    /// What the first phase finds, where making it is no part of the work: it is made by one thread before
    /// that phase, and is in no figure.
    fn beforehand(&self) -> Option<Beforehand<'_>> {
        None
    }

    /// How many percent of its contents are zeros ([`crate::Contents::thin`]).
    fn zeros(&self) -> u64 {
        0
    }

    /// After how long a phase is to be stopped, by [`OpSource::finish`]; none if it ends by itself.
    ///
    /// Nobody knows beforehand what such a phase will have done: of it [`Workload::counts`] and
    /// [`Workload::books`] are empty and [`Workload::tree`] is the tree before it. What is true of it
    /// afterwards is asked for with what each rank's source says that it has done.
    fn limit(&self, _phase: usize) -> Option<Nanos> {
        None
    }

    /// The rank with whose end a phase ends: when that has no more ops, the others are asked to finish
    /// ([`OpSource::finish`]).
    ///
    /// Nobody knows beforehand what the others will have done: [`Workload::counts`], [`Workload::books`]
    /// and [`Workload::tree`] are of the most that they do, and what is true is asked for afterwards, as of
    /// a phase with a limit.
    fn ends_with(&self, _phase: usize) -> Option<u32> {
        None
    }

    /// Whether it goes on until its file system is full: then what is true of its phases is only known
    /// afterwards, as with a [`Workload::limit`], and [`OpSource::full`] ends them.
    fn fills(&self) -> bool {
        false
    }

    /// [`Workload::counts`] of a phase of which rank `r` has done `done[r]` ([`OpSource::done`]).
    fn counts_after(&self, phase: usize, done: &[u64]) -> OpCounts {
        self.counts(phase, done.len() as u32)
    }

    /// [`Workload::books`] of a phase of which rank `r` has done `done[r]`.
    fn books_after(&self, phase: usize, _done: &[u64]) -> Books {
        self.books(phase)
    }

    /// [`Workload::tree`] after a phase of which rank `r` has done `done[r]`.
    fn tree_after(&self, phase: usize, _done: &[u64]) -> Box<dyn Tree + '_> {
        self.tree(phase)
    }
}
