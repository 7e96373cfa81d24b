//! What was done until a moment, and what of it has to be there: the generators' ops replayed in the
//! order in which they came back, over a tree that knows of each name and each file what is durable.
//!
//! A name has a history of what it stood for, from what is durable on; after a cut it may stand for
//! any of these. A file has its content as it is and as it was last synced.

use std::collections::{BTreeMap, HashMap};

use fsdyno_record::Nanos;
use fsdyno_record::acks::{Acks, What};
use fsdyno_workload::{Call, DirSlot, Expect, FileSlot, Op, OpSource, Payload, Share, Workload};

use crate::promise::{Names, Promise};

/// A path below the trial's root.
pub type Path = Vec<u8>;

/// Which node of the tree.
pub type Id = usize;

/// A content: its pieces by offset, and its length. What no piece covers is a hole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// By offset; none overlaps the next.
    pub pieces: BTreeMap<u64, Payload>,
    /// In bytes.
    pub size: u64,
}

impl Content {
    fn write(&mut self, at: u64, payload: Payload) {
        let end = at + u64::from(payload.length);
        let before = self.pieces.range(..at).next_back().map(|(from, piece)| (*from, *piece));
        if let Some((from, piece)) = before {
            let stop = from + u64::from(piece.length);
            if stop > at {
                self.pieces.insert(from, Payload { length: (at - from) as u32, ..piece });
                if stop > end {
                    self.pieces.insert(end, rest(piece, end - from));
                }
            }
        }
        let within: Vec<u64> = self.pieces.range(at..end).map(|(from, _)| *from).collect();
        for from in within {
            let Some(piece) = self.pieces.remove(&from) else { continue };
            if from + u64::from(piece.length) > end {
                self.pieces.insert(end, rest(piece, end - from));
            }
        }
        self.pieces.insert(at, payload);
        self.size = self.size.max(end);
    }

    fn truncate(&mut self, size: u64) {
        self.pieces.split_off(&size);
        if let Some((from, piece)) = self.pieces.range_mut(..size).next_back() {
            piece.length = piece.length.min((size - from).min(u32::MAX.into()) as u32);
        }
        self.size = size;
    }
}

fn rest(piece: Payload, skip: u64) -> Payload {
    let length = piece.length - skip as u32;
    Payload { offset: piece.offset + skip, length, ..piece }
}

/// What a file holds and what of that is durable.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// After all ops that came back.
    pub now: Content,
    /// When it was last synced, if it was.
    pub synced: Option<Content>,
    /// With the ops too that had not come back, if there are any.
    pub maybe: Option<Content>,
    /// Bytes, first and one past the last, that were changed since it was synced.
    pub changed: Vec<(u64, u64)>,
    /// How short it has been since.
    pub shortest: u64,
    /// When the first change since then came back.
    pub since: Option<Nanos>,
}

/// What a name may stand for.
#[derive(Clone, Debug)]
pub struct Node {
    /// Of a file what it holds; none of a directory, a link.
    pub file: Option<File>,
    /// Whether it is a directory.
    pub directory: bool,
    /// Names that it has now.
    pub names: u32,
    /// Names that it ever had.
    pub paths: Vec<Path>,
    /// Whether one of its names has been durable while it had its bytes.
    pub promised: bool,
    /// Whether it may have no name any more.
    pub droppable: bool,
}

/// Something that a name stood for from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Since when.
    pub at: Nanos,
    /// What; none for nothing.
    pub node: Option<Id>,
    /// The op that made it so had not come back.
    pub maybe: bool,
    /// Its node went to another name by it: rename.
    pub moved: bool,
}

/// The tree.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// By name what it may stand for: what is durable, and all that came after.
    pub names: BTreeMap<Path, Vec<Binding>>,
    /// The nodes that names speak of.
    pub nodes: Vec<Node>,
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
struct When {
    start: Nanos,
    at: Nanos,
    maybe: bool,
}

impl Tree {
    fn path(&self, thread: u32, dir: DirSlot, name: &[u8]) -> Path {
        self.dirs.path(thread, dir, name)
    }

    /// What a name stands for now.
    pub fn now(&self, path: &[u8]) -> Option<Id> {
        self.names.get(path)?.iter().rfind(|binding| !binding.maybe)?.node
    }

    fn bind(&mut self, path: Path, node: Option<Id>, when: When, moved: bool) {
        let old = self.now(&path);
        if let Some(node) = node.and_then(|id| self.nodes.get_mut(id)) {
            node.paths.push(path.clone());
        }
        let never = Binding { at: Nanos(0), node: None, maybe: false, moved: false };
        let history = self.names.entry(path).or_insert_with(|| vec![never]);
        history.push(Binding { at: when.at, node, maybe: when.maybe, moved });
        for (id, up) in [(node, true), (old, false)] {
            let Some(node) = id.and_then(|id| self.nodes.get_mut(id)) else { continue };
            if up {
                node.names += u32::from(!when.maybe);
            } else {
                let left = node.names.saturating_sub(1);
                node.droppable |= left == 0;
                if !when.maybe {
                    node.names = left;
                }
            }
        }
    }

    fn add(&mut self, file: Option<File>, directory: bool) -> Id {
        let (names, paths, promised, droppable) = (0, Vec::new(), false, false);
        self.nodes.push(Node { file, directory, names, paths, promised, droppable });
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
        let node = history.first().and_then(|binding| binding.node);
        let gone = history.len() == 1 && node.is_none();
        if let Some(node) = node.and_then(|id| self.nodes.get_mut(id)) {
            node.promised |= node.file.as_ref().is_none_or(|file| file.synced.is_some());
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
    fn settle_all(&mut self, until: Nanos) {
        for node in &mut self.nodes {
            if let Some(file) = &mut node.file {
                sync(file);
            }
        }
        let paths: Vec<Path> = self.names.keys().cloned().collect();
        paths.iter().for_each(|path| self.settle(path, until));
    }

    fn fsync(&mut self, id: Id, names: Names, start: Nanos) {
        if let Some(file) = self.nodes[id].file.as_mut() {
            sync(file);
        }
        for path in self.nodes[id].paths.clone() {
            let durable = self.names.get(&path).and_then(|history| history.first());
            let was = durable.is_some_and(|binding| binding.node == Some(id));
            if names == Names::WithFile && self.now(&path) == Some(id) {
                self.settle(&path, start);
                self.settle_parents(&path, start);
            } else if was {
                self.nodes[id].promised = true;
            }
        }
    }

    fn write(&mut self, key: (u32, u16), at: Option<u64>, payload: Payload, when: When) {
        let Some((id, position, append)) = self.files.get(&key).copied() else { return };
        let Some(file) = self.nodes[id].file.as_mut() else { return };
        let offset = at.unwrap_or(if append { file.now.size } else { position });
        let end = offset + u64::from(payload.length);
        change(file, when, (offset, end), |content| content.write(offset, payload));
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
        change(file, when, (size.min(old), size.max(old)), |content| content.truncate(size));
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
    fn apply(&mut self, op: &Op, promise: &Promise, when: When) {
        let thread = op.thread;
        let (name, other) = (op.name.as_bytes(), op.other.as_bytes());
        let key = |file: FileSlot| (thread, file.0);
        if op.expect != Expect::Success {
            return;
        }
        match op.call {
            Call::Mkdir { dir, .. } => {
                let id = self.add(None, true);
                self.bind(self.path(thread, dir, name), Some(id), when, false);
            }
            Call::Symlink { dir } => {
                let id = self.add(None, false);
                self.bind(self.path(thread, dir, name), Some(id), when, false);
            }
            Call::Create { dir, file, flags, .. } => {
                let path = self.path(thread, dir, name);
                let id = match self.now(&path) {
                    Some(id) => id,
                    None => {
                        let fresh = File { since: Some(when.at), ..File::default() };
                        let id = self.add(Some(fresh), false);
                        self.bind(path, Some(id), when, false);
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
                let from = self.path(thread, dir, name);
                if let Some(id) = self.now(&from) {
                    // The new name first, so that it never has none.
                    self.bind(self.path(thread, to, other), Some(id), when, false);
                    self.bind(from, None, when, true);
                }
            }
            Call::Link { dir, to } => {
                if let Some(id) = self.now(&self.path(thread, dir, name)) {
                    self.bind(self.path(thread, to, other), Some(id), when, false);
                }
            }
            Call::Unlink { dir } | Call::Rmdir { dir } => {
                let path = self.path(thread, dir, name);
                self.bind(path, None, when, false);
            }
            Call::RemoveTree { dir, .. } | Call::RemoveTreeSynced { dir, .. } => {
                let path = self.path(thread, dir, name);
                for path in self.below(&path).into_iter().chain([path]) {
                    if self.now(&path).is_some() {
                        self.bind(path, None, when, false);
                    }
                }
            }
            Call::Fsync { file } if !when.maybe => {
                if let Some((id, ..)) = self.files.get(&key(file)).copied() {
                    self.fsync(id, promise.names, when.start);
                }
            }
            Call::FsyncDir { dir } if !when.maybe => {
                let path = self.dirs.held(thread, dir);
                for child in self.children(&path) {
                    self.settle(&child, when.start);
                }
                if promise.names == Names::WithFile {
                    self.settle(&path, when.start);
                    self.settle_parents(&path, when.start);
                }
            }
            Call::Sync if !when.maybe && promise.whole => self.settle_all(when.start),
            _ => {}
        }
    }
}

fn sync(file: &mut File) {
    file.synced = Some(file.now.clone());
    file.changed.clear();
    file.shortest = file.now.size;
    file.since = None;
}

fn change(file: &mut File, when: When, range: (u64, u64), with: impl Fn(&mut Content)) {
    file.changed.push(range);
    if when.maybe {
        with(file.maybe.get_or_insert_with(|| file.now.clone()));
    } else {
        with(&mut file.now);
        file.since = file.since.or(Some(when.at));
    }
}

/// The ops of a trial, done one after the other as they came back.
pub struct Done<'a> {
    work: &'a dyn Workload,
    asked: u32,
    promise: &'a Promise,
    acks: &'a Acks,
    tree: Tree,
    /// The phase whose ops are being done, with its ranks.
    phase: usize,
    ranks: Vec<Rank<'a>>,
    /// How many marks were taken up.
    marks: usize,
}

struct Rank<'a> {
    source: Box<dyn OpSource + Send + 'a>,
    op: Op,
    /// The op that comes next: none is left, or its number.
    next: Option<usize>,
    last: Nanos,
}

impl<'a> Done<'a> {
    /// Nothing was done yet.
    pub fn new(
        work: &'a dyn Workload,
        asked: u32,
        promise: &'a Promise,
        acks: &'a Acks,
    ) -> Done<'a> {
        let (tree, ranks) = Default::default();
        Done { work, asked, promise, acks, tree, phase: 0, ranks, marks: 0 }
    }

    /// The tree with everything that came back before `time`, which must not go back, and with what may
    /// have been done of the ops that had not.
    pub fn until(&mut self, time: Nanos) -> Tree {
        loop {
            let mark = self.acks.marks.get(self.marks).filter(|mark| mark.at < time);
            let next = self.ranks.iter().enumerate().filter_map(|(at, rank)| {
                let times = self.acks.returned.get(self.phase)?.get(at)?;
                Some((*times.get(rank.next?)?, at))
            });
            let next = next.min().filter(|(at, _)| *at < time);
            match (next, mark) {
                (Some((at, rank)), mark) if mark.is_none_or(|mark| at <= mark.at) => {
                    self.op(rank, at);
                }
                (_, Some(mark)) => {
                    match mark.what {
                        What::Begin => self.begin(mark.phase, mark.at),
                        What::Returned => {}
                        What::Synced if self.promise.whole => self.tree.settle_all(mark.at),
                        What::Synced => {}
                    }
                    self.marks += 1;
                }
                _ => break,
            }
        }
        let mut tree = self.tree.clone();
        for rank in &self.ranks {
            if rank.next.is_some() {
                let when = When { start: rank.last, at: time, maybe: true };
                tree.apply(&rank.op, self.promise, when);
            }
        }
        tree
    }

    fn begin(&mut self, phase: usize, at: Nanos) {
        let ranks = self.work.phases().get(phase).map_or(0, |spec| spec.threads.of(self.asked));
        self.phase = phase;
        self.ranks = (0..ranks)
            .map(|rank| {
                let source = self.work.ops(phase, Share { rank, ranks });
                let mut rank = Rank {
                    source,
                    op: Op { thread: rank, ..Op::default() },
                    next: Some(0),
                    last: at,
                };
                rank.peek(0);
                rank
            })
            .collect();
    }

    fn op(&mut self, rank: usize, at: Nanos) {
        let Some(rank) = self.ranks.get_mut(rank) else { return };
        let when = When { start: rank.last, at, maybe: false };
        self.tree.apply(&rank.op, self.promise, when);
        rank.last = at;
        rank.peek(rank.next.map_or(0, |next| next + 1));
    }
}

impl Rank<'_> {
    fn peek(&mut self, number: usize) {
        let thread = self.op.thread;
        self.next = self.source.next(&mut self.op).then_some(number);
        self.op.thread = thread;
    }
}

#[cfg(test)]
mod tests;
