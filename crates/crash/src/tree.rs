//! What was done until a moment, and what of it must be there after a power cut.
//!
//! A name has a history of what it stood for, from its durable state on; after a cut it may stand for any of these.
//! A node has the names that it ever had, each with the name that a rename took it to, so that a name which a later
//! durable one has replaced is not taken for it. A file has its content as it is and as it was last synced.

use std::collections::{BTreeMap, HashMap};

use fsdyno_record::Nanos;
use fsdyno_workload::{Call, DirSlot, Expect, FileSlot, Op, Payload};

use crate::content::File;
use crate::promise::{Names, Promise};

/// A path below the trial's root.
pub type Path = Vec<u8>;

/// Which node of the tree.
pub type Id = usize;

/// What a name may stand for.
#[derive(Clone, Debug)]
pub struct Node {
    /// Of a file what it holds; none of a directory, a link.
    pub file: Option<File>,
    /// Whether it is a directory.
    pub directory: bool,
    /// Names that it has now.
    pub names: u32,
    /// Names that it ever had, the oldest first.
    pub held: Vec<Held>,
    /// Whether it may have no name any more.
    pub droppable: bool,
}

impl Node {
    /// Whether it was acknowledged: its bytes, if it is a file, and a name.
    pub fn promised(&self) -> bool {
        let synced = self.file.as_ref().is_none_or(|file| file.synced.is_some());
        synced && self.held.iter().any(|held| held.durable)
    }

    /// Whether one of its names was durable and this is that name, or one that renames gave it after that.
    pub fn is_acknowledged(&self, at: usize) -> bool {
        let durable = (0..self.held.len()).filter(|from| self.held[*from].durable);
        durable.into_iter().any(|from| self.renamed(from).any(|to| to == at))
    }

    /// A name and those that renames gave the node after it, as indices into [`Node::held`].
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
    /// Whether it was durable at any time.
    pub durable: bool,
    /// What took it away, or may have done so; none while the node has it.
    pub end: Option<End>,
}

/// What took a name away from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was removed.
    Removed,
    /// A rename moved the node to another name, an index into [`Node::held`].
    Renamed(usize),
    /// A rename put another node in its place: that node, and which of its names this is.
    Replaced(Id, usize),
}

/// Something that a name stood for from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Since when.
    pub at: Nanos,
    /// What; none for nothing.
    pub node: Option<Id>,
    /// Which of the node's names it is, as an index into [`Node::held`].
    pub held: usize,
    /// The op that made it so had not come back.
    pub maybe: bool,
}

/// The tree.
#[derive(Clone, Debug)]
pub struct Tree {
    /// By name what it may stand for: what is durable, and all that came after.
    pub names: BTreeMap<Path, Vec<Binding>>,
    /// The nodes that names speak of.
    pub nodes: Vec<Node>,
    /// Which names fsync(2) of a file makes durable.
    names_with: Names,
    dirs: Dirs,
    files: HashMap<(u32, u16), (Id, u64, bool)>,
}

/// The directories that threads hold open, by their slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirs(HashMap<(u32, u16), Path>);

impl Dirs {
    /// The path of a name in one of them; a directory that is not held is the root.
    pub(crate) fn path(&self, thread: u32, dir: DirSlot, name: &[u8]) -> Path {
        match (dir, self.0.get(&(thread, dir.0))) {
            (DirSlot::ROOT, _) | (_, None) => name.to_vec(),
            (_, Some(dir)) if name == b"." => dir.clone(),
            (_, Some(dir)) => [dir.as_slice(), b"/", name].concat(),
        }
    }

    /// The path of one of them; empty of the root.
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

/// When an op began at the earliest, when it came back, and whether it did.
#[derive(Clone, Copy)]
pub(crate) struct When {
    pub(crate) start: Nanos,
    pub(crate) at: Nanos,
    pub(crate) maybe: bool,
}

impl Tree {
    /// Nothing was done yet.
    pub fn new(names_with: Names) -> Tree {
        let (names, nodes, dirs, files) = Default::default();
        Tree { names, nodes, names_with, dirs, files }
    }

    fn path(&self, thread: u32, dir: DirSlot, name: &[u8]) -> Path {
        self.dirs.path(thread, dir, name)
    }

    /// What a name stands for now.
    pub fn now(&self, path: &[u8]) -> Option<Id> {
        self.now_held(path).map(|(id, _)| id)
    }

    /// What a name stands for now, and which of that node's names it is.
    fn now_held(&self, path: &[u8]) -> Option<(Id, usize)> {
        let now = self.names.get(path)?.iter().rfind(|binding| !binding.maybe)?;
        Some((now.node?, now.held))
    }

    /// Whether a directory may be absent after a power cut although names in it are durable: nothing acknowledged its
    /// own name, and the file system makes that durable with its parent directory only.
    pub fn may_lack(&self, directory: &[u8]) -> bool {
        let maybe_gone = |history: &Vec<Binding>| history.iter().any(|it| it.node.is_none());
        self.names_with == Names::WithDirectory && self.names.get(directory).is_none_or(maybe_gone)
    }

    /// A name stands for a node, or for nothing, from now on; a rename has moved what it stood for to `next`. Returns
    /// which of the node's names it is.
    fn bind(&mut self, path: Path, node: Option<Id>, when: When, next: Option<usize>) -> usize {
        let old = self.now_held(&path);
        let (mut held, mut end) = (0, next.map_or(End::Removed, End::Renamed));
        if let Some((id, node)) = node.and_then(|id| Some((id, self.nodes.get_mut(id)?))) {
            held = node.held.len();
            end = End::Replaced(id, held);
            node.held.push(Held { path: path.clone(), durable: false, end: None });
            node.names += u32::from(!when.maybe);
        }
        if let Some((id, at)) = old {
            let node = &mut self.nodes[id];
            node.held[at].end = Some(end);
            let left = node.names.saturating_sub(1);
            node.droppable |= left == 0;
            if !when.maybe {
                node.names = left;
            }
        }
        let never = Binding { at: Nanos(0), node: None, held: 0, maybe: false };
        let history = self.names.entry(path).or_insert_with(|| vec![never]);
        history.push(Binding { at: when.at, node, held, maybe: when.maybe });
        held
    }

    fn add(&mut self, file: Option<File>, directory: bool) -> Id {
        let (names, held, droppable) = (0, Vec::new(), false);
        self.nodes.push(Node { file, directory, names, held, droppable });
        self.nodes.len() - 1
    }

    /// All names whose parent is `path`, and not those below.
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

    /// A name is as durable as it was at a moment.
    fn settle(&mut self, path: &[u8], until: Nanos) {
        let Some(history) = self.names.get_mut(path) else { return };
        let Some(last) = history.iter().rposition(|it| it.at <= until && !it.maybe) else { return };
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

    /// The names on the way to one.
    fn settle_parents(&mut self, path: &[u8], until: Nanos) {
        let slashes: Vec<usize> = (0..path.len()).filter(|at| path[*at] == b'/').collect();
        slashes.into_iter().for_each(|at| self.settle(&path[..at], until));
    }

    /// Everything is durable that was so at a moment.
    pub(crate) fn settle_all(&mut self, until: Nanos) {
        for node in &mut self.nodes {
            // What another thread wrote while sync(2) ran may have come too late for it.
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

    /// fsync(2) of a directory: its names are durable.
    fn fsync_dir(&mut self, path: &[u8], start: Nanos) {
        if self.names_with == Names::WithFile {
            self.settle(path, start);
            self.settle_parents(path, start);
        }
        // Where it is not certain which of two directories has this name after a cut, neither are its names.
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

    fn write(&mut self, key: (u32, u16), at: Option<u64>, payload: Payload, when: When) {
        let Some((id, position, append)) = self.files.get(&key).copied() else { return };
        let Some(file) = self.nodes[id].file.as_mut() else { return };
        let offset = at.unwrap_or(if append { file.now.size } else { position });
        let end = offset + u64::from(payload.length);
        file.change(when, (offset, end), |content| content.write(offset, payload));
        if at.is_none() && !when.maybe {
            self.files.insert(key, (id, end, append));
        }
    }

    fn truncate(&mut self, id: Id, size: u64, when: When) {
        let Some(file) = self.nodes[id].file.as_mut() else { return };
        let old = file.now.size;
        if size == old {
            return;
        }
        file.shortest = file.shortest.min(size);
        file.change(when, (size.min(old), size.max(old)), |content| content.truncate(size));
    }

    fn open(&mut self, key: (u32, u16), id: Id, append: bool, truncate: bool, when: When) {
        if truncate {
            self.truncate(id, 0, when);
        }
        if !when.maybe {
            self.files.insert(key, (id, 0, append));
        }
    }

    /// Does an op as a file system would.
    pub(crate) fn apply(&mut self, op: &Op, promise: &Promise, when: When) {
        let thread = op.thread;
        let (name, other) = (op.name.as_bytes(), op.other.as_bytes());
        let key = |file: FileSlot| (thread, file.0);
        if op.expect != Expect::Success {
            return;
        }
        match op.call {
            Call::Mkdir { dir, .. } => {
                let id = self.add(None, true);
                self.bind(self.path(thread, dir, name), Some(id), when, None);
            }
            Call::Symlink { dir } => {
                let id = self.add(None, false);
                self.bind(self.path(thread, dir, name), Some(id), when, None);
            }
            Call::Create { dir, file, flags, .. } => {
                let path = self.path(thread, dir, name);
                let id = match self.now(&path) {
                    Some(id) => id,
                    None => {
                        let fresh = File { since: Some(when.at), ..File::default() };
                        let id = self.add(Some(fresh), false);
                        self.bind(path, Some(id), when, None);
                        id
                    }
                };
                self.open(key(file), id, flags.append, flags.truncate, when);
            }
            Call::Open { dir, file, flags } => {
                if let Some(id) = self.now(&self.path(thread, dir, name)) {
                    self.open(key(file), id, flags.append, flags.truncate, when);
                }
            }
            Call::OpenDir { dir, slot } => {
                let path = self.path(thread, dir, name);
                self.dirs.open(thread, slot, path);
            }
            Call::CloseDir { slot } => self.dirs.close(thread, slot),
            Call::Close { file } if !when.maybe => drop(self.files.remove(&key(file))),
            Call::Write { file, payload } | Call::Append { file, payload } => {
                self.write(key(file), None, payload, when);
            }
            Call::WriteAt { file, offset, payload } => {
                self.write(key(file), Some(offset), payload, when);
            }
            // Reading moves the place where the next write goes.
            Call::Read { file, length } if !when.maybe => {
                if let Some((id, position, _)) = self.files.get_mut(&key(file)) {
                    let size = self.nodes[*id].file.as_ref().map_or(0, |file| file.now.size);
                    *position += size.saturating_sub(*position).min(length.into());
                }
            }
            Call::Truncate { file, length } => {
                if let Some((id, ..)) = self.files.get(&key(file)).copied() {
                    self.truncate(id, length, when);
                }
            }
            Call::Rename { dir, to } => {
                let (from, to) = (self.path(thread, dir, name), self.path(thread, to, other));
                // Of two names of one file neither is changed: rename(2).
                if let Some(id) = self.now(&from).filter(|id| self.now(&to) != Some(*id)) {
                    // The new name first, so that it never has none.
                    let next = self.bind(to, Some(id), when, None);
                    self.bind(from, None, when, Some(next));
                }
            }
            Call::Link { dir, to } => {
                if let Some(id) = self.now(&self.path(thread, dir, name)) {
                    self.bind(self.path(thread, to, other), Some(id), when, None);
                }
            }
            Call::Unlink { dir } | Call::Rmdir { dir } => {
                let path = self.path(thread, dir, name);
                self.bind(path, None, when, None);
            }
            Call::RemoveTree { dir, .. } | Call::RemoveTreeSynced { dir, .. } => {
                let path = self.path(thread, dir, name);
                for path in self.below(&path).into_iter().chain([path]) {
                    if self.now(&path).is_some() {
                        self.bind(path, None, when, None);
                    }
                }
            }
            Call::Fsync { file } if !when.maybe => {
                if let Some((id, ..)) = self.files.get(&key(file)).copied() {
                    self.fsync(id, when.start);
                }
            }
            Call::FsyncDir { dir } if !when.maybe => {
                let path = self.dirs.held(thread, dir);
                self.fsync_dir(&path, when.start);
            }
            Call::Sync if !when.maybe && promise.whole => self.settle_all(when.start),
            _ => {}
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
