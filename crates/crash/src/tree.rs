//! The tree of names and files at a point in time, and the part of it that must survive a power cut.
//!
//! A name has a history of the nodes that it referred to, starting with its durable state; after a cut it may refer to
//! any of them. A node keeps all names that it ever had, each with the name that a rename gave it next, so that a name
//! replaced by a later durable one does not count. A file has its content as of the last sync. The current tree is a
//! file system in memory, whose changes make up the history.

use std::collections::BTreeMap;
use std::sync::Arc;

use fsdyno_filesystem::{Guarantee, Names};
use fsdyno_record::Nanos;
use fsdyno_workload::memory_fs::{Change, Content, Entry, Inode, MemoryFs, Node as FsNode};
use fsdyno_workload::{Call, Expect, Op, OpSource, RareCall};

use crate::content::{File, Timing};

/// A path below the trial's root.
pub type Path = Vec<u8>;

/// The number of a node of the tree: the number of its inode; 0 is the root.
pub type Id = Inode;

/// A file, directory or link.
#[derive(Clone, Debug)]
pub struct Node {
    /// The content of a file; `None` for a directory or link.
    pub file: Option<File>,
    /// True for a directory.
    pub directory: bool,
    /// Number of names now.
    pub names: u32,
    /// All names that it ever had, oldest first.
    pub held: Vec<NodeName>,
    /// True if it may have no name after a cut.
    pub droppable: bool,
}

impl Node {
    /// Returns whether it was acknowledged: one of its names and, for a file, its bytes.
    pub fn is_guaranteed(&self) -> bool {
        let synced = self.file.as_ref().is_none_or(|file| file.synced.is_some());
        synced && self.held.iter().any(|held| held.durable)
    }

    /// Returns whether this name was durable, or replaced a durable one through renames.
    pub fn is_acknowledged(&self, at: usize) -> bool {
        let durable = (0..self.held.len()).filter(|from| self.held[*from].durable);
        durable.into_iter().any(|from| self.renamed(from).any(|to| to == at))
    }

    /// Returns a name, and those that renames gave the node after it, as indices into [`Node::held`].
    pub fn renamed(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(at), |at| match self.held[*at].end {
            Some(End::Renamed(next)) => Some(next),
            _ => None,
        })
    }
}

/// A name that a node had.
#[derive(Clone, Debug)]
pub struct NodeName {
    /// The name.
    pub path: Path,
    /// True if it was durable at some time.
    pub durable: bool,
    /// The op that ended it, or may have; `None` while the node has the name.
    pub end: Option<End>,
    /// True if a rename gave a directory this name.
    pub moved: bool,
}

/// The end of a name of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Removal of the name.
    Removed,
    /// A rename to another name, an index into [`Node::held`].
    Renamed(usize),
    /// A rename of another node to this name: that node, and the index of its name.
    Replaced(Id, usize),
}

/// A change of the node that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Time of the change.
    pub at: Nanos,
    /// The node; `None` if the name was removed.
    pub node: Option<Id>,
    /// Index of the name in [`Node::held`].
    pub held: usize,
    /// True if the op was in flight.
    pub in_flight: bool,
}

/// The expected tree.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The history of each name, from its durable state on.
    pub names: BTreeMap<Path, Vec<Binding>>,
    /// The nodes that names refer to.
    pub nodes: Vec<Node>,
    /// The names that fsync(2) of a file makes durable.
    names_with: Names,
    /// The tree after all ops that returned; shared with the copies of this tree.
    now: Arc<MemoryFs>,
}

impl Tree {
    /// Creates an empty tree.
    pub fn new(names_with: Names) -> Tree {
        let mut tree =
            Tree { names: BTreeMap::new(), nodes: Vec::new(), names_with, now: Arc::default() };
        tree.add(None, true);
        tree
    }

    /// Lets paths begin in directories that are open as files.
    pub(crate) fn share_slots(&mut self) {
        Arc::make_mut(&mut self.now).share_slots();
    }

    /// Applies the ops that create the initial tree of the first phase, which is durable when that phase begins.
    pub(crate) fn apply_prefill(&mut self, ops: &mut dyn OpSource, guarantee: &Guarantee) {
        let mut op = Op::default();
        let when = Timing { start: Nanos(0), at: Nanos(0), in_flight: false };
        while ops.next(&mut op) {
            self.apply(&op, guarantee, when);
        }
        self.settle_all(Nanos(0));
    }

    /// Returns the content of a file after all ops that returned; `None` if it is not a file, or was created by an op
    /// in flight.
    pub fn content(&self, id: Id) -> Option<&Content> {
        let ended = || self.nodes.get(id)?.file.as_ref()?.ended.as_ref();
        self.now.node(id).and_then(FsNode::content).or_else(ended)
    }

    /// Returns the node that a name refers to now.
    pub fn current_node(&self, path: &[u8]) -> Option<Id> {
        self.now_held(path).map(|(id, _)| id)
    }

    /// Returns the node that a name refers to now, and the index of the name.
    fn now_held(&self, path: &[u8]) -> Option<(Id, usize)> {
        let now = self.names.get(path)?.iter().rfind(|binding| !binding.in_flight)?;
        Some((now.node?, now.held))
    }

    /// Returns whether a directory may be absent after a power cut although names in it are durable: its own name
    /// was not acknowledged, and becomes durable only with its parent directory.
    pub fn may_lack(&self, directory: &[u8]) -> bool {
        let maybe_gone = |history: &Vec<Binding>| history.iter().any(|it| it.node.is_none());
        self.names_with == Names::WithDirectory && self.names.get(directory).is_none_or(maybe_gone)
    }

    /// Binds a name to a node, or unbinds it. `next` is the new name of its old node after a rename. Returns the
    /// index of the name in its node.
    fn bind(&mut self, path: Path, node: Option<Id>, when: Timing, next: Option<usize>) -> usize {
        let old = self.now_held(&path);
        let (mut held, mut end) = (0, next.map_or(End::Removed, End::Renamed));
        if let Some((id, node)) = node.and_then(|id| Some((id, self.nodes.get_mut(id)?))) {
            held = node.held.len();
            end = End::Replaced(id, held);
            node.held.push(NodeName {
                path: path.clone(),
                durable: false,
                end: None,
                moved: false,
            });
            node.names += u32::from(!when.in_flight);
        }
        if let Some((id, at)) = old {
            let node = &mut self.nodes[id];
            node.held[at].end = Some(end);
            let remaining = node.names.saturating_sub(1);
            // After a rename it has the new name, which is not counted while the op is in flight.
            node.droppable |= remaining == 0 && next.is_none();
            if !when.in_flight {
                node.names = remaining;
            }
        }
        let never = Binding { at: Nanos(0), node: None, held: 0, in_flight: false };
        let history = self.names.entry(path).or_insert_with(|| vec![never]);
        history.push(Binding { at: when.at, node, held, in_flight: when.in_flight });
        held
    }

    /// Adds a node and returns its id, which equals its inode number if the op returned.
    fn add(&mut self, file: Option<File>, directory: bool) -> Id {
        let (names, held, droppable) = (0, Vec::new(), false);
        self.nodes.push(Node { file, directory, names, held, droppable });
        self.nodes.len() - 1
    }

    /// Returns the names whose parent is `path`.
    fn children(&self, path: &[u8]) -> Vec<Path> {
        let prefix = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        let below = self.names.range(prefix.clone()..).map(|(name, _)| name);
        let below = below.take_while(|name| name.starts_with(&prefix));
        below.filter(|name| !name[prefix.len()..].contains(&b'/')).cloned().collect()
    }

    /// Makes the state of a name at a point in time durable.
    fn settle(&mut self, path: &[u8], until: Nanos) {
        let Some(history) = self.names.get_mut(path) else { return };
        let Some(last) = history.iter().rposition(|it| it.at <= until && !it.in_flight) else {
            return;
        };
        history.drain(..last);
        let Some(Binding { node, held, .. }) = history.first().copied() else { return };
        let is_removed = history.len() == 1 && node.is_none();
        if let Some(node) = node.and_then(|id| self.nodes.get_mut(id)) {
            node.held[held].durable = true;
        }
        if is_removed {
            self.names.remove(path);
        }
    }

    /// Returns whether a name certainly keeps its path if it is durable: no directory above it was renamed, except
    /// durably. Syncing a file that has not changed since need not persist such a rename.
    fn is_certain(&self, path: &[u8]) -> bool {
        let mut parents = (0..path.len()).filter(|at| path[*at] == b'/').map(|at| &path[..at]);
        parents.all(|parent| {
            let held = self.now_held(parent).map(|(id, at)| &self.nodes[id].held[at]);
            held.is_none_or(|held| !held.moved || held.durable)
        })
    }

    /// Makes the parent directories of a name durable.
    fn settle_parents(&mut self, path: &[u8], until: Nanos) {
        let slashes: Vec<usize> = (0..path.len()).filter(|at| path[*at] == b'/').collect();
        slashes.into_iter().for_each(|at| self.settle(&path[..at], until));
    }

    /// Makes all changes up to a point in time durable.
    pub(crate) fn settle_all(&mut self, until: Nanos) {
        for id in 0..self.nodes.len() {
            // Writes of other threads during sync(2) may be too late for it.
            if self.nodes[id].file.as_ref().is_some_and(|file| file.last <= until) {
                self.sync_bytes(id);
            }
        }
        let paths: Vec<Path> = self.names.keys().cloned().collect();
        paths.iter().for_each(|path| self.settle(path, until));
    }

    /// Makes the bytes of a file durable.
    fn sync_bytes(&mut self, id: Id) {
        let now = self.content(id).cloned().unwrap_or_default();
        if let Some(file) = self.nodes[id].file.as_mut() {
            file.sync(now);
        }
    }

    /// Makes a file durable. fdatasync(2) (`data`) persists the name that the file was created with, without which its
    /// bytes could not be read, but no name from a link or rename.
    fn fsync(&mut self, id: Id, start: Nanos, data: bool) {
        self.sync_bytes(id);
        if self.names_with == Names::WithDirectory {
            return;
        }
        let names = self.nodes[id].held.iter().enumerate().take(if data { 1 } else { usize::MAX });
        let paths: Vec<(usize, Path)> = names.map(|(at, held)| (at, held.path.clone())).collect();
        for (at, path) in paths {
            if self.now_held(&path) == Some((id, at)) && self.is_certain(&path) {
                self.settle(&path, start);
                self.settle_parents(&path, start);
            }
        }
    }

    /// Makes the names in a directory durable, as fsync(2) of the directory does.
    fn fsync_dir(&mut self, path: &[u8], start: Nanos) {
        if !self.is_certain(path) {
            return;
        }
        if self.names_with == Names::WithFile {
            self.settle(path, start);
            self.settle_parents(path, start);
        }
        // If a different directory may have this path after a cut, the names in it are not certain either.
        let history = self.names.get(path).map(Vec::as_slice).unwrap_or_default();
        let mut directories = history.iter().filter_map(|binding| binding.node);
        let first = directories.next();
        if directories.any(|other| Some(other) != first) {
            return;
        }
        for child in self.children(path) {
            self.settle(&child, start);
        }
    }

    /// Records a change to a byte range of a file; applies it to the in-flight content if the op is in flight.
    fn change(&mut self, id: Id, range: (u64, u64), when: Timing, with: impl Fn(&mut Content)) {
        let in_flight = when.in_flight.then(|| self.content(id).cloned().unwrap_or_default());
        let Some(file) = self.nodes[id].file.as_mut() else { return };
        if let Some(now) = in_flight {
            with(file.in_flight.get_or_insert(now));
        }
        file.change(when, range);
    }

    /// Returns the path of a name; `None` if its directory was removed.
    fn path(&self, at: &Entry) -> Option<Path> {
        let dir = self.now.path(at.dir)?;
        Some(if dir.is_empty() { at.name.to_vec() } else { [&dir, &b"/"[..], &at.name].concat() })
    }

    /// Applies an op. An op that fails has no effect.
    pub(crate) fn apply(&mut self, op: &Op, guarantee: &Guarantee, when: Timing) {
        if matches!(op.expect, Expect::Missing | Expect::Exists | Expect::Errno) {
            return;
        }
        let Ok(outcome) = self.now.plan(op) else { return };
        let data = matches!(op.call, Call::Rare(RareCall::Fdatasync { .. }));
        for change in outcome.changes {
            match change {
                Change::Synced { .. } | Change::SyncedAll if when.in_flight => {}
                Change::Synced { inode } => self.make_durable(inode, when.start, data),
                Change::SyncedAll if guarantee.sync_covers_everything => {
                    self.settle_all(when.start)
                }
                _ => self.record(&change, when),
            }
            if when.in_flight {
                continue;
            }
            if let Some((id, node)) = Arc::make_mut(&mut self.now).commit(change)
                && let Some(file) = self.nodes[id].file.as_mut()
            {
                file.ended = node.into_content();
            }
        }
    }

    /// Makes a file, or the names in a directory, durable. Nothing documents that fdatasync(2) of a directory does so.
    fn make_durable(&mut self, inode: Inode, start: Nanos, data: bool) {
        if !self.nodes[inode].directory {
            return self.fsync(inode, start, data);
        }
        if let Some(path) = self.now.path(inode).filter(|_| !data) {
            self.fsync_dir(&path, start);
        }
    }

    /// Adds a change of names or bytes to the history, before it is applied.
    fn record(&mut self, change: &Change, when: Timing) {
        match change {
            Change::Created { entry: at, node } => {
                let fresh = File { since: Some(when.at), ..File::default() };
                let file = node.size().is_some().then_some(fresh);
                let id = self.add(file, node.is_directory());
                self.bind_entry(at, Some(id), when);
            }
            Change::Linked { entry: at, inode } => {
                self.bind_entry(at, Some(*inode), when);
            }
            Change::Removed { entry: at, .. } => {
                self.bind_entry(at, None, when);
            }
            Change::Renamed { from, to, inode } => {
                let (Some(from), Some(to)) = (self.path(from), self.path(to)) else { return };
                let below = self.below(&from, *inode);
                self.rename(from.clone(), to.clone(), *inode, when);
                let node = &mut self.nodes[*inode];
                if let (true, Some(held)) = (node.directory, node.held.last_mut()) {
                    held.moved = true;
                }
                for (name, id) in below {
                    self.rename([&from, &name[..]].concat(), [&to, &name[..]].concat(), id, when);
                }
            }
            Change::Written { inode, offset: at, payload } => {
                let range = (*at, at + u64::from(payload.length));
                self.change(*inode, range, when, |content| content.write(*at, *payload));
            }
            Change::Resized { inode, size } => {
                let old = self.content(*inode).map_or(0, Content::size);
                let Some(file) = self.nodes[*inode].file.as_mut().filter(|_| *size != old) else {
                    return;
                };
                file.shortest = file.shortest.min(*size);
                let range = (old.min(*size), old.max(*size));
                self.change(*inode, range, when, |content| content.resize(*size));
            }
            // Modes, times and open slots need not survive.
            Change::Synced { .. }
            | Change::SyncedAll
            | Change::ModeSet { .. }
            | Change::TimeSet { .. }
            | Change::File { .. }
            | Change::Dir { .. } => {}
        }
    }

    /// Binds the name of an entry whose directory still exists.
    fn bind_entry(&mut self, at: &Entry, node: Option<Id>, when: Timing) {
        if let Some(path) = self.path(at) {
            self.bind(path, node, when, None);
        }
    }

    /// Gives a node a new name: binds the new one first, so that the node always has a name.
    fn rename(&mut self, from: Path, to: Path, node: Id, when: Timing) {
        let next = self.bind(to, Some(node), when, None);
        self.bind(from, None, when, Some(next));
    }

    /// Returns the names below a directory, without its path, and their nodes; each directory precedes its contents. A
    /// rename of the directory moves each of them like a separate rename.
    fn below(&self, path: &[u8], node: Id) -> Vec<(Path, Id)> {
        if !self.nodes[node].directory {
            return Vec::new();
        }
        let prefix = [path, b"/"].concat();
        let names = self.names.range(prefix.clone()..).map(|(name, _)| name);
        let names = names.take_while(|name| name.starts_with(&prefix));
        names
            .filter_map(|name| Some((name[path.len()..].to_vec(), self.current_node(name)?)))
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
