//! What a workload is: phases of ops, their exact counts, and the tree they leave.

use std::collections::BTreeMap;

use fsdyno_record::{Bytes, OpKind};

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
    /// Nothing: the phase follows at once.
    None,
    /// sync the file system.
    Sync,
    /// sync, then drop the caches.
    Drop,
    /// sync, unmount, mount.
    Remount,
}

impl GapKind {
    /// The name in records and `--set`.
    pub fn name(self) -> &'static str {
        match self {
            GapKind::None => "none",
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
}

/// A stream of ops. The caller hands in the same `Op` each time.
pub trait OpSource {
    /// Rewrites `op` into the next one; false at the end.
    fn next(&mut self, op: &mut Op) -> bool;
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
pub enum Expected {
    /// A directory.
    Directory,
    /// A regular file with this content from offset 0.
    File(Payload),
    /// A symbolic link with this many bytes of target; the target itself is `Payload`-free.
    Symlink,
}

/// The tree a phase leaves, in closed form: the verifier walks what is there, looks each path up,
/// and compares the totals, so that nothing lost and nothing extra can hide.
pub trait Tree {
    /// What must be at `path` (below the trial's root, without a leading slash); none if nothing
    /// may be there.
    fn lookup(&self, path: &[u8]) -> Option<Expected>;
    /// How many files there must be.
    fn files(&self) -> u64;
    /// How many directories there must be, the trial's root not counted.
    fn directories(&self) -> u64;
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

/// A workload with its parameters bound.
pub trait Workload: Send + Sync {
    /// The timed phases, in order.
    fn phases(&self) -> Vec<PhaseSpec>;
    /// The ops of a phase that fall to `share`.
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_>;
    /// How many ops of each kind the whole phase has.
    fn counts(&self, phase: usize) -> OpCounts;
    /// The tree after a phase.
    fn tree(&self, phase: usize) -> Box<dyn Tree + '_>;
    /// What it needs.
    fn needs(&self) -> Needs;
}
