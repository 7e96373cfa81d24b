//! The interface of a workload: phases of ops, their exact counts, and the tree they leave.

use std::collections::BTreeMap;

use fsdyno_record::trial::ReplayReport;
use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::differences::Differences;
use crate::op::{Op, Payload};
use crate::until::{Items, Until};
use crate::wall::Wall;

/// Exact number of ops by kind.
///
/// A count that only the file system decides (such as the getdents64(2) calls of a directory) is
/// omitted, and the workload's doc says so.
pub type OpCounts = BTreeMap<OpKind, u64>;

/// A share of the work: that of rank `rank` among `ranks` threads or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// From zero.
    pub rank: u32,
    /// At least one.
    pub ranks: u32,
}

impl Share {
    /// All the work, done by one rank.
    pub const WHOLE: Share = Share { rank: 0, ranks: 1 };
}

/// The step between two phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// No step of its own: the caches stay as they are, but the phase before is synced for its
    /// times and verified before this one begins.
    None,
    /// Nothing at all, as in the original benchmark: the phase before is neither synced nor verified, and has
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

    /// The kind of this name; [`GapKind::None`] for any other word, which no parameter accepts.
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
    /// The step before it.
    pub gap: GapKind,
    /// Verifies the tree on disk after it (before the next gap).
    pub verify: bool,
    /// Number of threads that can share it.
    pub threads: Threads,
}

impl PhaseSpec {
    /// If a phase follows another back to back, moves the verification of the first to after the second:
    /// between the two nothing may be read.
    pub fn chained(mut phases: Vec<PhaseSpec>) -> Vec<PhaseSpec> {
        for next in 1..phases.len() {
            if phases[next].gap == GapKind::BackToBack {
                phases[next].verify |= std::mem::take(&mut phases[next - 1].verify);
            }
        }
        phases
    }
}

/// Number of threads that issue the ops of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One, as in the original benchmark.
    One,
    /// As many as are requested.
    Any,
    /// This many, as set by the workload's own parameters.
    Exactly(u32),
}

impl Threads {
    /// The number of threads for `requested` ones.
    pub fn of(self, requested: u32) -> u32 {
        match self {
            Threads::One => 1,
            Threads::Any => requested.max(1),
            Threads::Exactly(threads) => threads.max(1),
        }
    }
}

/// Work done in a phase, in the workload's own units: `files read`, `transactions`. A unit's name
/// ends in `bytes` if and only if it counts bytes.
pub type WorkUnits = BTreeMap<&'static str, u64>;

/// A stream of ops. The caller passes the same `Op` each time.
pub trait OpSource {
    /// Rewrites `op` into the next one; false at the end.
    fn next(&mut self, op: &mut Op) -> bool;

    /// Requests an early end because the phase's time is up: the source goes on until all its files
    /// are closed and its current work is complete, then [`OpSource::next`] returns false. Only a
    /// source of a phase with a [`Workload::limit`], or one that ends by [`Workload::ends_with`],
    /// reacts.
    fn finish(&mut self) {}

    /// Reports that the last op failed for lack of space (ENOSPC); returns true if the phase is
    /// meant to end so. Then the op counts as not done, and the ops that follow clean up.
    fn full(&mut self) -> bool {
        false
    }

    /// Reports that the file system does not support the last op (EOPNOTSUPP); returns true if
    /// there is another way. Then the op counts as not done, and the ops that follow use it.
    fn unsupported(&mut self) -> bool {
        false
    }

    /// Reports that the last op had a result other than [`Op::expect`]: the negative error number, or what it
    /// returned. Returns true if the phase goes on; then the op counts as done.
    fn differed(&mut self, _op: &Op, _result: i64) -> bool {
        false
    }

    /// The ops with unexpected results, for a source that continues after them.
    fn differences(&mut self) -> Differences {
        Differences::default()
    }

    /// The amount of the phase that is done, in units that [`Workload::tree_after`] and similar
    /// methods understand; valid once [`OpSource::next`] has returned false.
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

/// The expected entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Directory, file or symbolic link, and its contents.
    pub kind: ExpectedKind,
    /// Its permission bits, where the workload sets them.
    pub mode: Option<u32>,
    /// Its modification time in seconds, where the workload sets it.
    pub mtime: Option<i64>,
    /// The group of hard links it belongs to, if it has several.
    pub links: Option<Links>,
}

/// The expected kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedKind {
    /// A directory.
    Directory,
    /// A regular file with one content from its beginning to its end.
    File(Payload),
    /// A regular file of this many bytes, whose contents [`Tree::piece`] gives part by part.
    Pieces(u64),
    /// A regular file of this many bytes, in an order that only the file system decided: an archive
    /// of a tree. The tree unpacked from it can be verified, so its bytes need not be.
    Sized(u64),
    /// A symbolic link; [`Tree::target`] gives its target.
    Symlink,
}

/// The hard links of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Names of one group are one inode.
    pub group: u64,
    /// Number of links that the inode has.
    pub count: u64,
}

impl Expected {
    /// A directory.
    pub const DIRECTORY: Expected = Expected::new(ExpectedKind::Directory);
    /// A symbolic link.
    pub const SYMLINK: Expected = Expected::new(ExpectedKind::Symlink);

    /// An entry of this kind with any attributes.
    pub const fn new(kind: ExpectedKind) -> Expected {
        Expected { kind, mode: None, mtime: None, links: None }
    }

    /// A regular file with this content.
    pub const fn file(payload: Payload) -> Expected {
        Expected::new(ExpectedKind::File(payload))
    }

    /// A regular file of this many bytes, made of pieces.
    pub const fn pieces(length: u64) -> Expected {
        Expected::new(ExpectedKind::Pieces(length))
    }

    /// Requires these permission bits.
    pub const fn with_mode(self, mode: u32) -> Expected {
        Expected { mode: Some(mode), ..self }
    }

    /// Requires this modification time in seconds.
    pub const fn with_mtime(self, mtime: i64) -> Expected {
        Expected { mtime: Some(mtime), ..self }
    }

    /// Requires it to be one of several hard links.
    pub const fn with_links(self, links: Links) -> Expected {
        Expected { links: Some(links), ..self }
    }
}

/// The tree that a phase leaves, in closed form: the verifier walks the file system, looks each
/// path up and compares the totals, so that nothing lost and nothing extra can hide.
pub trait Tree {
    /// The expected entry at `path` (below the trial's root, without a leading slash); none if
    /// nothing may be there.
    fn lookup(&self, path: &[u8]) -> Option<Expected>;
    /// Expected number of files (all entries but directories, each hard link counted).
    fn files(&self) -> u64;
    /// Expected number of directories, without the trial's root.
    fn directories(&self) -> u64;
    /// The content of a file of [`ExpectedKind::Pieces`] from byte `offset` on, up to the end of one payload
    /// payload (the rest of the file at most); `offset` is below the file's length.
    fn piece(&self, _path: &[u8], _offset: u64) -> Option<Payload> {
        None
    }
    /// Target of the symbolic link at `path`.
    fn target(&self, _path: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Requirements of a workload on its file system, computed before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Maximum number of bytes of file data that exist at once.
    pub bytes: Bytes,
    /// Maximum number of files and directories that exist at once.
    pub inodes: u64,
    /// Longest single name.
    pub longest_name: usize,
}

/// The preparation of the first phase's tree, outside the measured time.
pub struct Prefill<'a> {
    /// The ops that make it.
    pub ops: Box<dyn OpSource + Send + 'a>,
    /// The tree after them.
    pub tree: Box<dyn Tree + 'a>,
}

/// Facts of a recording that is replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The type of file system that it was made on; empty if unknown.
    pub file_system: String,
    /// True if an op with a result other than the recorded one can fail the trial.
    pub strict: bool,
    /// How faithful the replay is to the recording, in sentences.
    pub notes: Vec<String>,
    /// The same in numbers.
    pub report: ReplayReport,
}

/// A command of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellCommand {
    /// A line for sh(1) that runs before it and is not measured.
    pub setup: Option<String>,
    /// The line for sh(1) that is timed.
    pub command: String,
}

/// A workload with its parameters bound.
pub trait Workload: Send + Sync {
    /// The timed phases, in order.
    fn phases(&self) -> Vec<PhaseSpec>;
    /// The ops of a phase that fall to `share`.
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_>;
    /// Number of ops of each kind in the whole phase if `ranks` threads share it.
    fn counts(&self, phase: usize, ranks: u32) -> OpCounts;
    /// Parameters without effect under the values of the others; plans omit them.
    fn unused_params(&self) -> &'static [&'static str] {
        &[]
    }
    /// Work of the whole phase in the workload's own units, if ops alone do not express it.
    fn work_units(&self, _phase: usize) -> WorkUnits {
        WorkUnits::new()
    }
    /// The unit of [`Workload::work_units`] whose rate represents the phase in tables; none if files or
    /// bytes do.
    fn unit(&self, _phase: usize) -> Option<&'static str> {
        None
    }
    /// The tree after a phase.
    fn tree(&self, phase: usize) -> Box<dyn Tree + '_>;
    /// Space, inodes and name length it requires.
    fn needs(&self) -> Needs;

    /// Maximum number of the [`Needs::bytes`] bytes that a store has to hold if it omits blocks of one repeated
    /// byte.
    fn stored(&self) -> Bytes {
        if self.zeros() == 100 { Bytes(0) } else { self.needs().bytes }
    }

    /// The tree that the first phase finds, if creating it is not part of the work: one thread
    /// creates it before that phase, outside the measurement.
    fn prefill(&self) -> Option<Prefill<'_>> {
        None
    }

    /// Percentage of its contents that is zeros ([`crate::Contents::thin`]).
    fn zeros(&self) -> u64 {
        0
    }

    /// Time after which a phase is stopped by [`OpSource::finish`]; none if it ends by itself.
    ///
    /// The work of such a phase is not known in advance: its [`Workload::counts`] and
    /// [`Workload::work_units`] are empty, and [`Workload::tree`] is the tree before it. The `_after`
    /// methods compute them from the work that each rank's source reports as done.
    fn limit(&self, _phase: usize) -> Option<Nanos> {
        None
    }

    /// The rank whose end ends the phase: when it has no more ops, the others are requested to
    /// finish ([`OpSource::finish`]).
    ///
    /// The work of the others is not known in advance: [`Workload::counts`], [`Workload::work_units`]
    /// and [`Workload::tree`] assume the maximum that they can do; the exact values are computed
    /// afterwards, as for a phase with a limit.
    fn ends_with(&self, _phase: usize) -> Option<u32> {
        None
    }

    /// The phase that can end by a stonewall, and the unit of its items; none if no phase can end that way.
    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        None
    }

    /// Returns the workload that replaces this one from the phase of [`Workload::stonewalled`] on, once each of `shares`
    /// shares has done `most` items of that phase, or all that it has; None if this one continues.
    fn after_stonewall(&self, _most: u64, _shares: u32) -> Option<Box<dyn Workload>> {
        None
    }

    /// What a share does in the phase of [`Workload::stonewalled`], item by item; none if it has no part in it.
    fn items(&self, _share: Share) -> Option<Box<dyn Items + Send + '_>> {
        None
    }

    /// The ops of [`Workload::ops`], except that in the phase of [`Workload::stonewalled`] the items stop when `wall` says so.
    fn ops_until<'a>(
        &'a self,
        phase: usize,
        share: Share,
        wall: Box<dyn Wall + 'a>,
    ) -> Box<dyn OpSource + Send + 'a> {
        let is_walled = self.stonewalled().is_some_and(|(walled, _)| walled == phase);
        match is_walled.then(|| self.items(share)).flatten() {
            Some(items) => Box::new(Until::new(items, wall)),
            None => self.ops(phase, share),
        }
    }

    /// Facts of the recording that it replays, if it does.
    fn recording(&self) -> Option<Recording> {
        None
    }

    /// The command that its one phase runs, which then has no ops; the agent runs it only if it was given on the command line.
    fn command(&self) -> Option<&ShellCommand> {
        None
    }

    /// Number of slots of open files that its threads share; none if each thread has its own files. Directory
    /// slots then are file slots, and slot 0 is the trial's root.
    fn shared_slots(&self) -> Option<u16> {
        None
    }

    /// Returns true if it goes on until its file system is full: then its phases are known exactly
    /// only afterwards, as with a [`Workload::limit`], and [`OpSource::full`] ends them.
    fn fills(&self) -> bool {
        false
    }

    /// [`Workload::counts`] of a phase of which rank `r` has done `done[r]` ([`OpSource::done`]).
    fn counts_after(&self, phase: usize, done: &[u64]) -> OpCounts {
        self.counts(phase, done.len() as u32)
    }

    /// [`Workload::work_units`] of a phase of which rank `r` has done `done[r]`.
    fn work_units_after(&self, phase: usize, _done: &[u64]) -> WorkUnits {
        self.work_units(phase)
    }

    /// [`Workload::tree`] after a phase of which rank `r` has done `done[r]`.
    fn tree_after(&self, phase: usize, _done: &[u64]) -> Box<dyn Tree + '_> {
        self.tree(phase)
    }
}
