//! The open directories in which paths of the replay begin.
//!
//! A program that names files relative to its working directory, or to an open directory, makes the kernel walk fewer
//! components than a path from the root of the tree does. A rank of the replay therefore opens a directory that many of
//! its paths began in, and begins later paths there. The open is an op of its own, without a recorded call.

use std::collections::{HashMap, HashSet};

use fsdyno_trace::{Call, Event, NodeId};
use fsdyno_workload::FileSlot;
use fsdyno_workload::memory_fs::Inode;

/// The number of paths of a rank that begin in a directory before the rank opens it.
pub(crate) const USES: u32 = 8;

/// The maximum number of directories that a rank opens.
pub(crate) const MAX_STARTS: u16 = 16;

/// The directories in which paths of recorded calls began, by rank.
#[derive(Default)]
pub(crate) struct Starts {
    pub(crate) known: HashMap<(u16, Inode), Start>,
    /// The number of directories that each rank has opened.
    pub(crate) opened: HashMap<u16, u16>,
    /// Directories that the program removes. They are not held open, because that would make their removal more work.
    pub(crate) removed: HashSet<Inode>,
}

/// The state of a directory.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// The number of paths so far.
    Uses(u32),
    Open(FileSlot),
    /// It stays closed.
    Never,
}

impl Starts {
    /// Adds a directory that the program removes.
    pub(crate) fn add_removed(&mut self, inode: Inode) {
        self.removed.insert(inode);
    }
}

/// Returns the directory that a call removes or replaces, if it succeeds.
pub(crate) fn removed_node(event: &Event) -> Option<NodeId> {
    match &event.call {
        Call::Rmdir { at } | Call::Rename { to: at, .. } if event.errno().is_none() => at.node,
        _ => None,
    }
}
