//! The tree of names and files at a moment, and the part of it that must survive a power cut.
//!
//! A name has a history of the nodes that it referred to, starting with its durable state; after a cut it may
//! refer to any of them. A node has all names that it ever had, each with the name that a rename gave it next, so
//! that a name which a later durable one has replaced does not count. A file has its content now and when last
//! synced.

use std::collections::{BTreeMap, HashMap};

use fsdyno_record::Nanos;
use fsdyno_workload::{DirSlot, Effect, Expect, FileSlot, Op, Payload, Synced};

use crate::content::File;
use fsdyno_filesystem::{Guarantee, Names};

/// A path below the trial's root.
pub type Path = Vec<u8>;

/// Index of a node of the tree.
pub type Id = usize;

/// A file, directory or link.
#[derive(Clone, Debug)]
pub struct Node {
    /// The content of a file; `None` for a directory or link.
    pub file: Option<File>,
    /// True for a directory.
    pub directory: bool,
    /// Number of names now.
    pub names: u32,
    /// All names that it ever had, the oldest first.
    pub held: Vec<Held>,
    /// True if it may have no name after a cut.
    pub droppable: bool,
}

impl Node {
    /// Returns whether it was acknowledged: a name, and the bytes of a file.
    pub fn is_guaranteed(&self) -> bool {
        let synced = self.file.as_ref().is_none_or(|file| file.synced.is_some());
        synced && self.held.iter().any(|held| held.durable)
    }

    /// Returns whether this name was durable, or replaced a durable one by renames.
    pub fn is_acknowledged(&self, at: usize) -> bool {
        let durable = (0..self.held.len()).filter(|from| self.held[*from].durable);
        durable.into_iter().any(|from| self.renamed(from).any(|to| to == at))
    }

    /// Returns a name and those that renames gave the node after it, as indices into [`Node::held`].
    pub fn renamed(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(at), |at| match self.held[*at].end {
            Some(End::Renamed(next)) => Some(next),
            _ => None,
        })
    }
}

/// A name that a node had.
#[derive(Clone, Debug)]
pub struct Held {
    /// The name.
    pub path: Path,
    /// True if it was durable at any time.
    pub durable: bool,
    /// The op that ended it, or may have; `None` while the node has the name.
    pub end: Option<End>,
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
    /// Names that fsync(2) of a file makes durable.
    names_with: Names,
    dirs: Dirs,
    files: HashMap<(u32, u16), (Id, u64, bool)>,
}

/// The open directories of threads, by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirs(HashMap<(u32, u16), Path>);

impl Dirs {
    /// Returns the path of a name in a directory; an unknown directory is the root.
    pub(crate) fn path(&self, thread: u32, dir: DirSlot, name: &[u8]) -> Path {
        match (dir, self.0.get(&(thread, dir.0))) {
            (DirSlot::ROOT, _) | (_, None) => name.to_vec(),
            (_, Some(dir)) if name == b"." => dir.clone(),
            (_, Some(dir)) => [dir.as_slice(), b"/", name].concat(),
        }
    }

    /// Returns the path of a directory; empty for the root.
    fn held(&self, thread: u32, dir: DirSlot) -> Path {
        self.0.get(&(thread, dir.0)).cloned().unwrap_or_default()
    }

    pub(crate) fn open(&mut self, thread: u32, slot: DirSlot, path: Path) {
        self.0.insert((thread, slot.0), path);
    }

    pub(crate) fn close(&mut self, thread: u32, slot: DirSlot) {
        self.0.remove(&(thread, slot.0));
    }
}

/// The timing of an op: its earliest start, its return, and whether it was in flight.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) start: Nanos,
    pub(crate) at: Nanos,
    pub(crate) in_flight: bool,
}

impl Tree {
    /// Creates an empty tree.
    pub fn new(names_with: Names) -> Tree {
        let (names, nodes, dirs, files) = Default::default();
        Tree { names, nodes, names_with, dirs, files }
    }

    fn path(&self, thread: u32, dir: DirSlot, name: &[u8]) -> Path {
        self.dirs.path(thread, dir, name)
    }

    /// Returns the node that a name refers to now.
    pub fn now(&self, path: &[u8]) -> Option<Id> {
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

    /// Binds a name to a node, or to nothing. `next` is the new name of its old node after a rename. Returns the
    /// index of the name in its node.
    fn bind(&mut self, path: Path, node: Option<Id>, when: Timing, next: Option<usize>) -> usize {
        let old = self.now_held(&path);
        let (mut held, mut end) = (0, next.map_or(End::Removed, End::Renamed));
        if let Some((id, node)) = node.and_then(|id| Some((id, self.nodes.get_mut(id)?))) {
            held = node.held.len();
            end = End::Replaced(id, held);
            node.held.push(Held { path: path.clone(), durable: false, end: None });
            node.names += u32::from(!when.in_flight);
        }
        if let Some((id, at)) = old {
            let node = &mut self.nodes[id];
            node.held[at].end = Some(end);
            let left = node.names.saturating_sub(1);
            node.droppable |= left == 0;
            if !when.in_flight {
                node.names = left;
            }
        }
        let never = Binding { at: Nanos(0), node: None, held: 0, in_flight: false };
        let history = self.names.entry(path).or_insert_with(|| vec![never]);
        history.push(Binding { at: when.at, node, held, in_flight: when.in_flight });
        held
    }

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

    fn below(&self, path: &[u8]) -> Vec<Path> {
        let prefix = [path, b"/"].concat();
        let below = self.names.range(prefix.clone()..).map(|(name, _)| name);
        below.take_while(|name| name.starts_with(&prefix)).cloned().collect()
    }

    /// Makes the state of a name at a moment durable.
    fn settle(&mut self, path: &[u8], until: Nanos) {
        let Some(history) = self.names.get_mut(path) else { return };
        let Some(last) = history.iter().rposition(|it| it.at <= until && !it.in_flight) else {
            return;
        };
        history.drain(..last);
        let Some(Binding { node, held, .. }) = history.first().copied() else { return };
        let gone = history.len() == 1 && node.is_none();
        if let Some(node) = node.and_then(|id| self.nodes.get_mut(id)) {
            node.held[held].durable = true;
        }
        if gone {
            self.names.remove(path);
        }
    }

    /// Makes the parent directories of a name durable.
    fn settle_parents(&mut self, path: &[u8], until: Nanos) {
        let slashes: Vec<usize> = (0..path.len()).filter(|at| path[*at] == b'/').collect();
        slashes.into_iter().for_each(|at| self.settle(&path[..at], until));
    }

    /// Makes everything done until a moment durable.
    pub(crate) fn settle_all(&mut self, until: Nanos) {
        for node in &mut self.nodes {
            // Writes of other threads while sync(2) ran may be too late for it.
            if let Some(file) = node.file.as_mut().filter(|file| file.last <= until) {
                file.sync();
            }
        }
        let paths: Vec<Path> = self.names.keys().cloned().collect();
        paths.iter().for_each(|path| self.settle(path, until));
    }

    fn fsync(&mut self, id: Id, start: Nanos) {
        if let Some(file) = self.nodes[id].file.as_mut() {
            file.sync();
        }
        if self.names_with == Names::WithDirectory {
            return;
        }
        let paths: Vec<Path> = self.nodes[id].held.iter().map(|held| held.path.clone()).collect();
        for path in paths {
            if self.now(&path) == Some(id) {
                self.settle(&path, start);
                self.settle_parents(&path, start);
            }
        }
    }

    /// Makes the names in a directory durable: fsync(2) of a directory.
    fn fsync_dir(&mut self, path: &[u8], start: Nanos) {
        if self.names_with == Names::WithFile {
            self.settle(path, start);
            self.settle_parents(path, start);
        }
        // If a later directory may have this path after a cut, the names in it are not certain either.
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

    fn write(&mut self, key: (u32, u16), at: Option<u64>, payload: Payload, when: Timing) {
        let Some((id, position, append)) = self.files.get(&key).copied() else { return };
        let Some(file) = self.nodes[id].file.as_mut() else { return };
        let offset = at.unwrap_or(if append { file.now.size } else { position });
        let end = offset + u64::from(payload.length);
        file.change(when, (offset, end), |content| content.write(offset, payload));
        if at.is_none() && !when.in_flight {
            self.files.insert(key, (id, end, append));
        }
    }

    fn truncate(&mut self, id: Id, size: u64, when: Timing) {
        let Some(file) = self.nodes[id].file.as_mut() else { return };
        let old = file.now.size;
        if size == old {
            return;
        }
        file.shortest = file.shortest.min(size);
        file.change(when, (size.min(old), size.max(old)), |content| content.truncate(size));
    }

    fn open(&mut self, key: (u32, u16), id: Id, append: bool, truncate: bool, when: Timing) {
        if truncate {
            self.truncate(id, 0, when);
        }
        if !when.in_flight {
            self.files.insert(key, (id, 0, append));
        }
    }

    fn create(&mut self, path: Path, when: Timing) -> Id {
        let fresh = File { since: Some(when.at), ..File::default() };
        let id = self.add(Some(fresh), false);
        self.bind(path, Some(id), when, None);
        id
    }

    /// Applies an op.
    #[deny(clippy::wildcard_enum_match_arm, reason = "a new effect must be decided here")]
    pub(crate) fn apply(&mut self, op: &Op, guarantee: &Guarantee, when: Timing) {
        let thread = op.thread;
        let (name, other) = (op.name.as_bytes(), op.other.as_bytes());
        let key = |file: FileSlot| (thread, file.0);
        if op.expect != Expect::Success {
            return;
        }
        match op.call.facts().effect {
            Effect::MakeDir { dir } => {
                let id = self.add(None, true);
                self.bind(self.path(thread, dir, name), Some(id), when, None);
            }
            Effect::MakeLink { dir } => {
                let id = self.add(None, false);
                self.bind(self.path(thread, dir, name), Some(id), when, None);
            }
            Effect::Open { dir, file, flags, create } => {
                let path = self.path(thread, dir, name);
                let id = match (self.now(&path), create) {
                    (Some(id), _) => id,
                    (None, true) => self.create(path, when),
                    (None, false) => return,
                };
                self.open(key(file), id, flags.append, flags.truncate, when);
            }
            Effect::OpenDir { dir, slot } => {
                let path = self.path(thread, dir, name);
                self.dirs.open(thread, slot, path);
            }
            Effect::CloseDir { slot } => self.dirs.close(thread, slot),
            Effect::Write { file, offset, payload } => {
                self.write(key(file), offset, payload, when);
            }
            Effect::Resize { file, length } => {
                if let Some((id, ..)) = self.files.get(&key(file)).copied() {
                    self.truncate(id, length, when);
                }
            }
            Effect::Rename { dir, to } => {
                let (from, to) = (self.path(thread, dir, name), self.path(thread, to, other));
                // rename(2) changes nothing if both names refer to one file.
                if let Some(id) = self.now(&from).filter(|id| self.now(&to) != Some(*id)) {
                    // The new name first, so that the file always has one.
                    let next = self.bind(to, Some(id), when, None);
                    self.bind(from, None, when, Some(next));
                }
            }
            Effect::Link { dir, to } => {
                if let Some(id) = self.now(&self.path(thread, dir, name)) {
                    self.bind(self.path(thread, to, other), Some(id), when, None);
                }
            }
            Effect::Remove { dir, .. } => {
                let path = self.path(thread, dir, name);
                self.bind(path, None, when, None);
            }
            Effect::RemoveTree { dir } => {
                let path = self.path(thread, dir, name);
                for path in self.below(&path).into_iter().chain([path]) {
                    if self.now(&path).is_some() {
                        self.bind(path, None, when, None);
                    }
                }
            }
            Effect::Close { .. } | Effect::Advance { .. } | Effect::Sync(_) if when.in_flight => {}
            Effect::Close { file } => drop(self.files.remove(&key(file))),
            Effect::Advance { file, length } => {
                if let Some((id, position, _)) = self.files.get_mut(&key(file)) {
                    let size = self.nodes[*id].file.as_ref().map_or(0, |file| file.now.size);
                    *position += size.saturating_sub(*position).min(length.into());
                }
            }
            Effect::Sync(Synced::File(file)) => {
                if let Some((id, ..)) = self.files.get(&key(file)).copied() {
                    self.fsync(id, when.start);
                }
            }
            Effect::Sync(Synced::Dir(dir)) => {
                let path = self.dirs.held(thread, dir);
                self.fsync_dir(&path, when.start);
            }
            Effect::Sync(Synced::All) if guarantee.whole => self.settle_all(when.start),
            // Workloads with untracked effects are refused before any work.
            Effect::Sync(Synced::All)
            | Effect::None
            | Effect::Lookup { .. }
            | Effect::Untracked(_) => {}
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
