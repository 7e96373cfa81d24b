//! The interface of a workload: phases of ops, their exact counts, and the tree that they leave.

use std::collections::BTreeMap;

use fsdyno_record::trial::ReplayReport;
use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::item_limit::ItemLimit;
use crate::items::{Items, LimitedOps};
use crate::op::Payload;
use crate::op_source::{OpSource, WorkUnits};

/// Exact number of ops by kind.
///
/// Counts that only the file system determines (such as the number of getdents64(2) calls on a
/// directory) are omitted, and the workload's doc states this.
pub type OpCounts = BTreeMap<OpKind, u64>;

/// A share of the work: that of rank `rank` among `ranks` threads or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The rank, from zero.
    pub rank: u32,
    /// Number of ranks, at least one.
    pub ranks: u32,
}

impl Share {
    /// All the work, done by one rank.
    pub const WHOLE: Share = Share { rank: 0, ranks: 1 };
}

/// The step between two phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// No separate step: the caches stay as they are, but the previous phase is synced for its times and
    /// verified before this one begins.
    None,
    /// Nothing at all, as in the original benchmark: the previous phase is neither synced nor verified, and
    /// has no synced or durable time.
    BackToBack,
    /// Sync the file system.
    Sync,
    /// Sync, then drop the caches.
    Drop,
    /// Sync, unmount, mount.
    Remount,
}

impl GapKind {
    /// Every kind.
    pub const ALL: [GapKind; 5] =
        [GapKind::None, GapKind::BackToBack, GapKind::Sync, GapKind::Drop, GapKind::Remount];

    /// Returns the kind with this name; [`GapKind::None`] for any other string, which no parameter accepts.
    pub fn named(word: &str) -> GapKind {
        GapKind::ALL.into_iter().find(|kind| kind.name() == word).unwrap_or(GapKind::None)
    }

    /// Returns the name in records and `--set`.
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
    /// True if the tree on disk is verified after it (before the next gap).
    pub verify: bool,
    /// Number of threads that can share it.
    pub threads: Threads,
}

impl PhaseSpec {
    /// If a phase follows another back to back, moves the verification of the first to after the second:
    /// nothing may be read between the two.
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
    /// The requested number.
    Any,
    /// A number set by the workload's own parameters.
    Exactly(u32),
}

impl Threads {
    /// Returns the number of threads if `requested` threads are requested.
    pub fn count_of(self, requested: u32) -> u32 {
        match self {
            Threads::One => 1,
            Threads::Any => requested.max(1),
            Threads::Exactly(threads) => threads.max(1),
        }
    }
}

/// The expected entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Directory, file or symbolic link, and its contents.
    pub kind: ExpectedKind,
    /// Its permission bits, if the workload sets them.
    pub mode: Option<u32>,
    /// Its modification time in seconds, if the workload sets it.
    pub mtime: Option<i64>,
    /// The group of hard links to which it belongs, if it has several links.
    pub links: Option<Links>,
}

/// The expected kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedKind {
    /// A directory.
    Directory,
    /// A regular file with one content from its beginning to its end.
    File(Payload),
    /// A regular file of this many bytes, whose contents [`Tree::piece`] returns part by part.
    Pieces(u64),
    /// A regular file of this many bytes, whose order only the file system determines: an archive of
    /// a tree. The tree unpacked from it can be verified, so its bytes need not be.
    Sized(u64),
    /// A symbolic link; [`Tree::target`] returns its target.
    Symlink,
}

/// The hard links of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// The group; names in one group refer to one inode.
    pub group: u64,
    /// Number of links to the inode.
    pub count: u64,
}

impl Expected {
    /// A directory.
    pub const DIRECTORY: Expected = Expected::new(ExpectedKind::Directory);
    /// A symbolic link.
    pub const SYMLINK: Expected = Expected::new(ExpectedKind::Symlink);

    /// Creates an expected entry of this kind with any attributes.
    pub const fn new(kind: ExpectedKind) -> Expected {
        Expected { kind, mode: None, mtime: None, links: None }
    }

    /// Creates an expected regular file with this content.
    pub const fn file(payload: Payload) -> Expected {
        Expected::new(ExpectedKind::File(payload))
    }

    /// Creates an expected regular file of this many bytes that consists of pieces.
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

    /// Requires the entry to be one of several hard links.
    pub const fn with_links(self, links: Links) -> Expected {
        Expected { links: Some(links), ..self }
    }
}

/// The tree that a phase leaves, in closed form: the verifier walks the file system, looks up
/// each path and compares the totals, so that missing and extra entries are always found.
pub trait Tree {
    /// Returns the expected entry at `path` (below the trial's root, without a leading slash), or `None` if nothing
    /// may exist there.
    fn lookup(&self, path: &[u8]) -> Option<Expected>;
    /// Returns the expected number of files (all entries except directories; each hard link counts).
    fn files(&self) -> u64;
    /// Returns the expected number of directories, excluding the trial's root.
    fn directories(&self) -> u64;
    /// Returns the content of a file of [`ExpectedKind::Pieces`] from byte `offset` on, up to the end of one
    /// payload (at most the rest of the file); `offset` is below the file's length.
    fn piece(&self, _path: &[u8], _offset: u64) -> Option<Payload> {
        None
    }
    /// Returns the target of the symbolic link at `path`.
    fn target(&self, _path: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Requirements of a workload on its file system, computed before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Maximum number of bytes of file data that exist at the same time.
    pub bytes: Bytes,
    /// Maximum number of files and directories that exist at the same time.
    pub inodes: u64,
    /// Length of the longest single name in bytes.
    pub longest_name: usize,
}

/// The creation of the tree that the first phase finds, outside the measured time.
pub struct Prefill<'a> {
    /// The ops that create the tree.
    pub ops: Box<dyn OpSource + Send + 'a>,
    /// The tree after them.
    pub tree: Box<dyn Tree + 'a>,
}

/// Facts about a recording that is replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The type of file system that it was made on, or empty if unknown.
    pub file_system: String,
    /// True if an op with a result other than the recorded one can fail the trial.
    pub strict: bool,
    /// Sentences about the fidelity of the replay to the recording.
    pub notes: Vec<String>,
    /// The fidelity of the replay in numbers.
    pub report: ReplayReport,
}

/// A command given by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellCommand {
    /// A line for sh(1) that runs before the command and is not measured.
    pub setup: Option<String>,
    /// The line for sh(1) that is timed.
    pub command: String,
}

/// A workload with its parameters bound.
pub trait Workload: Send + Sync {
    /// Returns the timed phases, in order.
    fn phases(&self) -> Vec<PhaseSpec>;
    /// Returns the ops of a phase that belong to `share`.
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_>;
    /// Returns the number of ops of each kind in the whole phase if `ranks` threads share it.
    fn counts(&self, phase: usize, ranks: u32) -> OpCounts;
    /// Returns the parameters that have no effect with the values of the other ones; plans omit them.
    fn unused_params(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the work of the whole phase in the workload's own units, if ops alone do not express it.
    fn work_units(&self, _phase: usize) -> WorkUnits {
        WorkUnits::new()
    }
    /// Returns the unit of [`Workload::work_units`] whose rate represents the phase in tables, or `None` if files or
    /// bytes do.
    fn unit(&self, _phase: usize) -> Option<&'static str> {
        None
    }
    /// Returns the tree after a phase.
    fn tree(&self, phase: usize) -> Box<dyn Tree + '_>;
    /// Returns the space, inodes and name length that the workload requires.
    fn needs(&self) -> Needs;

    /// Returns the maximum number of the [`Needs::bytes`] bytes that a store must hold if it omits blocks of one
    /// repeated byte.
    fn stored(&self) -> Bytes {
        if self.zeros() == 100 { Bytes(0) } else { self.needs().bytes }
    }

    /// Returns the tree that the first phase finds, if its creation is not part of the work: one thread
    /// creates it before that phase, outside the measured time.
    fn prefill(&self) -> Option<Prefill<'_>> {
        None
    }

    /// Returns the percentage of its contents that is zeros ([`crate::Contents::zero_share`]).
    fn zeros(&self) -> u64 {
        0
    }

    /// Returns the time after which a phase is stopped by [`OpSource::finish`], or `None` if it ends by itself.
    ///
    /// The work of such a phase is not known in advance: its [`Workload::counts`] and
    /// [`Workload::work_units`] are empty, and [`Workload::tree`] is the tree before it. The `_after`
    /// methods compute the actual values from the work that each rank's source reports as done.
    fn limit(&self, _phase: usize) -> Option<Nanos> {
        None
    }

    /// Returns the rank whose end ends the phase: when it has no more ops, the others are requested to
    /// finish ([`OpSource::finish`]).
    ///
    /// The work of the others is not known in advance: [`Workload::counts`], [`Workload::work_units`]
    /// and [`Workload::tree`] assume the maximum that they can do; the exact values are computed
    /// afterwards, as for a phase with a limit.
    fn ends_with(&self, _phase: usize) -> Option<u32> {
        None
    }

    /// Returns the phase that a stonewall can end, and the unit of its items, or `None` if there is no such phase.
    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        None
    }

    /// Returns the workload that replaces this one from the phase of [`Workload::stonewalled`] on, once each of the
    /// `shares` shares has done `max_items` items of that phase or all its items, or `None` if this workload
    /// continues.
    fn after_stonewall(&self, _max_items: u64, _shares: u32) -> Option<Box<dyn Workload>> {
        None
    }

    /// Returns the ops of a share in the phase of [`Workload::stonewalled`], item by item, or `None` if it has no ops
    /// there.
    fn items(&self, _share: Share) -> Option<Box<dyn Items + Send + '_>> {
        None
    }

    /// Returns the ops of [`Workload::ops`]; `limit` limits the items in the phase of [`Workload::stonewalled`].
    fn ops_until<'a>(
        &'a self,
        phase: usize,
        share: Share,
        limit: Box<dyn ItemLimit + 'a>,
    ) -> Box<dyn OpSource + Send + 'a> {
        let is_stonewalled =
            self.stonewalled().is_some_and(|(stonewalled_phase, _)| stonewalled_phase == phase);
        match is_stonewalled.then(|| self.items(share)).flatten() {
            Some(items) => Box::new(LimitedOps::new(items, limit)),
            None => self.ops(phase, share),
        }
    }

    /// Returns facts about the recording that the workload replays, if it replays one.
    fn recording(&self) -> Option<Recording> {
        None
    }

    /// Returns the command that its only phase runs; that phase has no ops. The agent runs only commands that were
    /// given on the command line.
    fn command(&self) -> Option<&ShellCommand> {
        None
    }

    /// Returns the number of slots of open files that its threads share, or `None` if each thread has its own files.
    /// If slots are shared, directory slots are file slots, and slot 0 is the trial's root.
    fn shared_slots(&self) -> Option<u16> {
        None
    }

    /// Returns true if it continues until its file system is full: then its phases are known exactly
    /// only afterwards, as with a [`Workload::limit`], and [`OpSource::handle_full`] ends them.
    fn fills_file_system(&self) -> bool {
        false
    }

    /// Returns the [`Workload::counts`] of a phase in which rank `r` has done `done[r]` ([`OpSource::done`]).
    fn counts_after(&self, phase: usize, done: &[u64]) -> OpCounts {
        self.counts(phase, done.len() as u32)
    }

    /// Returns the [`Workload::work_units`] of a phase in which rank `r` has done `done[r]`.
    fn work_units_after(&self, phase: usize, _done: &[u64]) -> WorkUnits {
        self.work_units(phase)
    }

    /// Returns the [`Workload::tree`] after a phase in which rank `r` has done `done[r]`.
    fn tree_after(&self, phase: usize, _done: &[u64]) -> Box<dyn Tree + '_> {
        self.tree(phase)
    }
}
