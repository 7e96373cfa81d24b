//! A file system in memory: the reference that every workload's ops are checked against. Each op
//! must be legal, end as expected, and leave the tree that the workload predicts; the counts must
//! be exact.

#![allow(clippy::unwrap_used, dead_code, reason = "a test may, and not each uses all of it")]

use std::collections::{BTreeMap, HashMap};

use fsdyno_record::OpKind;
use fsdyno_workload::{
    Call, Compound, DirSlot, Expect, ExpectedKind, FileSlot, Input, Op, OpCounts, OpSource,
    Payload, Prefill, Setting, Share, Tree, Workload, workloads,
};

/// One inode.
#[derive(Clone, Debug)]
pub enum Node {
    Directory {
        mode: u32,
        mtime: Option<i64>,
    },
    Symlink(Vec<u8>),
    /// Its content by offset: contiguous pieces.
    File {
        pieces: BTreeMap<u64, Payload>,
        size: u64,
        mode: u32,
        mtime: Option<i64>,
        links: u64,
    },
}

/// The whole file system.
#[derive(Default)]
pub struct Memory {
    /// Path → inode.
    pub names: BTreeMap<String, usize>,
    pub nodes: Vec<Node>,
    /// Open directories and files of each thread.
    dirs: HashMap<(u32, u16), String>,
    files: HashMap<(u32, u16), (usize, u64, bool)>,
    /// Calls of each kind.
    pub counts: OpCounts,
    /// Most files and directories, and bytes, at once.
    pub most: (u64, u64),
    bytes: u64,
    pub written: u64,
    pub read: u64,
    /// The contents of the packed archive.
    archive: Members,
    /// The workload's original makes empty writes.
    pub empty_writes: bool,
}

/// Paths in a tree, each with a slash before it, and their nodes.
type Members = Vec<(String, Node)>;

impl Memory {
    fn path(&self, thread: u32, dir: DirSlot, name: &str) -> String {
        assert!(!name.is_empty(), "an op has no name");
        match dir {
            DirSlot::ROOT => name.to_string(),
            slot if name == "." => self.dirs[&(thread, slot.0)].clone(),
            slot => format!("{}/{name}", self.dirs[&(thread, slot.0)]),
        }
    }

    fn node(&self, path: &str) -> Option<&Node> {
        self.names.get(path).map(|inode| &self.nodes[*inode])
    }

    fn is_directory(&self, path: &str) -> bool {
        matches!(self.node(path), Some(Node::Directory { .. }))
    }

    fn has_parent(&self, path: &str) -> bool {
        path.rsplit_once('/').is_none_or(|(parent, _)| self.is_directory(parent))
    }

    fn below<'a>(&'a self, path: &str) -> impl Iterator<Item = String> + 'a {
        let start = format!("{path}/");
        let end = start.clone();
        self.names
            .range(start..)
            .map(|(name, _)| name.clone())
            .take_while(move |name| name.starts_with(&end))
    }

    fn add(&mut self, path: String, node: Node) -> usize {
        self.nodes.push(node);
        self.names.insert(path, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn count(&mut self, kind: OpKind) {
        *self.counts.entry(kind).or_default() += 1;
    }

    fn forget(&mut self, path: &str) {
        let inode = self.names.remove(path).unwrap();
        if let Node::File { links, size, .. } = &mut self.nodes[inode] {
            *links -= 1;
            if *links == 0 {
                self.bytes -= *size;
            }
        }
    }

    fn write(&mut self, file: FileSlot, thread: u32, at: Option<u64>, payload: Payload) {
        let (inode, position, append) = self.files[&(thread, file.0)];
        if payload.length == 0 {
            assert!(self.empty_writes, "a write of nothing");
            return;
        }
        let Node::File { pieces, size, .. } = &mut self.nodes[inode] else { panic!("no file") };
        let offset = at.unwrap_or(if append { *size } else { position });
        let end = offset + u64::from(payload.length);
        assert!(offset <= *size, "a hole");
        overwrite(pieces, offset, payload);
        self.bytes += end.saturating_sub(*size);
        *size = end.max(*size);
        self.written += u64::from(payload.length);
        if at.is_none() {
            self.files.get_mut(&(thread, file.0)).unwrap().1 = end;
        }
    }

    fn read(&mut self, file: FileSlot, thread: u32, at: Option<u64>, length: u32) {
        let (inode, position, append) = self.files[&(thread, file.0)];
        let Node::File { size, .. } = self.nodes[inode] else { panic!("no file") };
        let offset = at.unwrap_or(position);
        let got = size.saturating_sub(offset).min(u64::from(length));
        self.read += got;
        if at.is_none() {
            self.files.insert((thread, file.0), (inode, offset + got, append));
        }
    }

    /// Does the op as a file system would, and returns its outcome.
    pub fn apply(&mut self, op: &Op) -> Expect {
        if let Some(kind) = op.call.kind() {
            self.count(kind);
        }
        let ended = self.call(op);
        let present = (self.bytes, self.names.len() as u64);
        self.most = (self.most.0.max(present.0), self.most.1.max(present.1));
        ended
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each call")]
    fn call(&mut self, op: &Op) -> Expect {
        let thread = op.thread;
        let name = String::from_utf8_lossy(op.name.as_bytes()).into_owned();
        let other = String::from_utf8_lossy(op.other.as_bytes()).into_owned();
        match op.call {
            Call::Mkdir { dir, mode } => {
                let path = self.path(thread, dir, &name);
                match (self.has_parent(&path), self.names.contains_key(&path)) {
                    (false, _) => return Expect::Missing,
                    (_, true) => return Expect::Exists,
                    _ => drop(self.add(path, Node::Directory { mode, mtime: None })),
                }
            }
            Call::Create { dir, file, flags, mode } => {
                let path = self.path(thread, dir, &name);
                if !self.has_parent(&path) {
                    return Expect::Missing;
                }
                let inode = match self.names.get(&path) {
                    Some(_) if flags.exclusive => return Expect::Exists,
                    Some(inode) => *inode,
                    None => self.add(
                        path,
                        Node::File {
                            pieces: BTreeMap::new(),
                            size: 0,
                            mode,
                            mtime: None,
                            links: 1,
                        },
                    ),
                };
                self.open(thread, file, inode, flags.append, flags.truncate);
            }
            Call::Open { dir, file, flags } => {
                let path = self.path(thread, dir, &name);
                let Some(inode) = self.names.get(&path).copied() else { return Expect::Missing };
                self.open(thread, file, inode, flags.append, flags.truncate);
            }
            Call::OpenDir { dir, slot } => {
                let path = self.path(thread, dir, &name);
                assert!(self.is_directory(&path), "{path} is no directory");
                assert_eq!(self.dirs.insert((thread, slot.0), path), None, "slot in use");
            }
            Call::CloseDir { slot } => assert!(self.dirs.remove(&(thread, slot.0)).is_some()),
            Call::Close { file } => assert!(self.files.remove(&(thread, file.0)).is_some()),
            Call::Write { file, payload } => self.write(file, thread, None, payload),
            Call::Append { file, payload } => {
                assert!(self.files[&(thread, file.0)].2, "not opened to append");
                self.write(file, thread, None, payload);
            }
            Call::WriteAt { file, offset, payload } => {
                self.write(file, thread, Some(offset), payload);
            }
            Call::Read { file, length } => self.read(file, thread, None, length),
            Call::ReadAt { file, offset, length } => self.read(file, thread, Some(offset), length),
            Call::Stat { dir } => {
                if self.node(&self.path(thread, dir, &name)).is_none() {
                    return Expect::Missing;
                }
            }
            Call::StatFile { file } | Call::Fsync { file } | Call::ChownFile { file } => {
                assert!(self.files.contains_key(&(thread, file.0)));
            }
            Call::Setxattr { file, .. } => {
                assert!(self.files.contains_key(&(thread, file.0)));
            }
            Call::Fallocate { file, length } => {
                let (inode, ..) = self.files[&(thread, file.0)];
                let Node::File { pieces, size, .. } = &mut self.nodes[inode] else { panic!() };
                while *size < length {
                    let part = (length - *size).min(1 << 30) as u32;
                    pieces.insert(*size, Payload::zeros(*size, part));
                    *size += u64::from(part);
                    self.bytes += u64::from(part);
                }
            }
            Call::FsyncDir { dir } => {
                assert!(dir == DirSlot::ROOT || self.dirs.contains_key(&(thread, dir.0)));
            }
            Call::Rename { dir, to } => {
                let (from, to) = (self.path(thread, dir, &name), self.path(thread, to, &other));
                let Some(inode) = self.names.get(&from).copied() else { return Expect::Missing };
                assert!(!self.is_directory(&from), "directories are not renamed here");
                if self.names.contains_key(&to) {
                    self.forget(&to);
                }
                self.names.remove(&from);
                assert!(self.has_parent(&to));
                self.names.insert(to, inode);
            }
            Call::Link { dir, to } => {
                let (from, to) = (self.path(thread, dir, &name), self.path(thread, to, &other));
                let Some(inode) = self.names.get(&from).copied() else { return Expect::Missing };
                if !self.has_parent(&to) {
                    return Expect::Missing;
                }
                if self.names.contains_key(&to) {
                    return Expect::Exists;
                }
                let Node::File { links, .. } = &mut self.nodes[inode] else { panic!("{from}") };
                *links += 1;
                self.names.insert(to, inode);
            }
            Call::Symlink { dir } => {
                let path = self.path(thread, dir, &name);
                if !self.has_parent(&path) {
                    return Expect::Missing;
                }
                if self.names.contains_key(&path) {
                    return Expect::Exists;
                }
                self.add(path, Node::Symlink(op.other.as_bytes().to_vec()));
            }
            Call::Unlink { dir } => {
                let path = self.path(thread, dir, &name);
                if self.node(&path).is_none() {
                    return Expect::Missing;
                }
                assert!(!self.is_directory(&path), "{path} is a directory");
                self.forget(&path);
            }
            Call::Rmdir { dir } => {
                let path = self.path(thread, dir, &name);
                assert!(self.is_directory(&path), "{path} is no directory");
                assert!(self.below(&path).next().is_none(), "{path} is not empty");
                self.forget(&path);
            }
            Call::Truncate { file, length } => {
                let (inode, ..) = self.files[&(thread, file.0)];
                let Node::File { pieces, size, .. } = &mut self.nodes[inode] else { panic!() };
                assert!(length <= *size, "a hole");
                self.bytes -= *size - length;
                *size = length;
                cut(pieces, length);
            }
            Call::ChmodFile { file, mode } => {
                let (inode, ..) = self.files[&(thread, file.0)];
                self.set_mode(inode, mode);
            }
            Call::Chmod { dir, mode } => {
                let inode = self.names[&self.path(thread, dir, &name)];
                self.set_mode(inode, mode);
            }
            Call::UtimesFile { file, mtime } => {
                let (inode, ..) = self.files[&(thread, file.0)];
                self.set_time(inode, mtime);
            }
            Call::Utimes { dir, mtime } => {
                let inode = self.names[&self.path(thread, dir, &name)];
                self.set_time(inode, mtime);
            }
            Call::Chown { dir } => {
                assert!(self.names.contains_key(&self.path(thread, dir, &name)));
            }
            Call::Compound(Compound::Scan { dir }) => {
                assert!(self.is_directory(&self.path(thread, dir, &name)));
                [OpKind::Open, OpKind::Close].into_iter().for_each(|kind| self.count(kind));
            }
            Call::Compound(Compound::StatEach { dir, read }) => {
                let path = self.path(thread, dir, &name);
                self.stat_each(&path, read);
            }
            Call::Compound(Compound::RemoveTree { dir, synced, .. }) => {
                let path = self.path(thread, dir, &name);
                self.remove_tree(&path, synced);
            }
            Call::Compound(Compound::CopyTree { dir, to }) => {
                let (from, to) = (self.path(thread, dir, &name), self.path(thread, to, &other));
                self.copy_tree(&from, &to);
            }
            Call::Compound(Compound::PackTree { dir, to, .. }) => {
                let (from, to) = (self.path(thread, dir, &name), self.path(thread, to, &other));
                self.pack_tree(&from, &name, to);
            }
            Call::Compound(Compound::UnpackTree { dir, to, .. }) => {
                let (from, to) = (self.path(thread, dir, &name), self.path(thread, to, &other));
                self.unpack_tree(&from, &to);
            }
            Call::Sync => {}
        }
        Expect::Success
    }

    fn open(&mut self, thread: u32, file: FileSlot, inode: usize, append: bool, truncate: bool) {
        if let (true, Node::File { pieces, size, .. }) = (truncate, &mut self.nodes[inode]) {
            self.bytes -= *size;
            *size = 0;
            pieces.clear();
        }
        let slot = self.files.insert((thread, file.0), (inode, 0, append));
        assert_eq!(slot, None, "the slot is in use");
    }

    fn set_mode(&mut self, inode: usize, new: u32) {
        assert_eq!(new & !0o7777, 0);
        match &mut self.nodes[inode] {
            Node::Directory { mode, .. } | Node::File { mode, .. } => *mode = new,
            Node::Symlink(_) => panic!("chmod of a symbolic link"),
        }
    }

    fn set_time(&mut self, inode: usize, new: i64) {
        match &mut self.nodes[inode] {
            Node::Directory { mtime, .. } | Node::File { mtime, .. } => *mtime = Some(new),
            Node::Symlink(_) => {}
        }
    }

    fn stat_each(&mut self, path: &str, read: Option<u32>) {
        [OpKind::Open, OpKind::Close].into_iter().for_each(|kind| self.count(kind));
        let children: Vec<String> = self.below(path).collect();
        for name in children.iter().filter(|name| !name[path.len() + 1..].contains('/')) {
            self.count(OpKind::Stat);
            let size = match self.node(name) {
                Some(Node::File { size, .. }) => *size,
                _ => continue,
            };
            if let Some(length) = read {
                [OpKind::Open, OpKind::Close].into_iter().for_each(|kind| self.count(kind));
                let reads = size.div_ceil(u64::from(length)) + 1;
                (0..reads).for_each(|_| self.count(OpKind::Read));
                self.read += size;
            }
        }
    }

    /// The tree at `path`, parents first: everything below it by its path there, and itself as "".
    fn members(&self, path: &str) -> Members {
        let all = std::iter::once(path.to_string()).chain(self.below(path));
        all.map(|name| (name[path.len()..].to_string(), self.node(&name).unwrap().clone()))
            .collect()
    }

    fn counts_of(&mut self, kinds: &[OpKind]) {
        kinds.iter().for_each(|kind| self.count(*kind));
    }

    fn make(&mut self, path: String, node: Node) {
        assert!(self.has_parent(&path) && !self.names.contains_key(&path), "{path}");
        if let Node::File { size, .. } = node {
            self.bytes += size;
        }
        self.add(path, node);
    }

    fn copy_tree(&mut self, from: &str, to: &str) {
        use OpKind::{Chmod, Chown, Close, Create, Mkdir, Open, Read, Stat, Utimes, Write};
        for (below, node) in self.members(from) {
            self.counts_of(&[Stat, Open, Close, Utimes, Chown, Chmod]);
            match node {
                Node::Directory { .. } => self.count(Mkdir),
                Node::Symlink(_) => panic!("not copied"),
                Node::File { size, .. } => {
                    self.counts_of(&[Create, Close, Read]);
                    (0..size.div_ceil(131_072)).for_each(|_| self.counts_of(&[Read, Write]));
                }
            }
            self.make(format!("{to}{below}"), node);
        }
    }

    fn pack_tree(&mut self, from: &str, name: &str, to: String) {
        use OpKind::{Close, Create, Open, Read, Stat, Write};
        let members = self.members(from);
        self.counts_of(&[Create, Close]);
        let mut blocks = 2;
        for (_, node) in &members {
            self.counts_of(&[Stat, Open, Close]);
            blocks += 1;
            if let Node::File { size, .. } = node {
                blocks += size.div_ceil(512);
                (0..size.div_ceil(10_240)).for_each(|_| self.count(Read));
            }
        }
        let records = blocks.div_ceil(20);
        (0..records).for_each(|_| self.count(Write));
        let size = records * 10_240;
        let file = Node::File { pieces: BTreeMap::new(), size, mode: 0o644, mtime: None, links: 1 };
        self.make(to, file);
        let named = |(below, node)| (format!("/{name}{below}"), node);
        self.archive = members.into_iter().map(named).collect();
    }

    fn unpack_tree(&mut self, archive: &str, to: &str) {
        use OpKind::{Chmod, Chown, Close, Create, Mkdir, Open, Read, Utimes, Write};
        let Some(Node::File { size, .. }) = self.node(archive) else { panic!("{archive}") };
        (0..size / 10_240).for_each(|_| self.count(Read));
        self.counts_of(&[Open, Close]);
        for (below, node) in self.archive.clone() {
            self.counts_of(&[Utimes, Chown, Chmod]);
            match node {
                Node::Directory { .. } => self.count(Mkdir),
                Node::Symlink(_) => panic!("not packed"),
                Node::File { size, .. } => {
                    self.counts_of(&[Create, Close]);
                    (0..size.div_ceil(10_240)).for_each(|_| self.count(Write));
                }
            }
            self.make(format!("{to}{below}"), node);
        }
    }

    fn remove_tree(&mut self, path: &str, synced: bool) {
        let mut doomed: Vec<String> = self.below(path).collect();
        doomed.push(path.to_string());
        for name in doomed {
            if self.is_directory(&name) {
                [OpKind::Open, OpKind::Close, OpKind::Rmdir]
                    .into_iter()
                    .for_each(|kind| self.count(kind));
            } else {
                self.count(OpKind::Unlink);
                if synced {
                    self.count(OpKind::Fsync);
                }
            }
            self.forget(&name);
        }
    }

    /// Compares everything with the predicted tree.
    pub fn check(&self, tree: &dyn Tree) {
        let (mut files, mut directories) = (0, 0);
        let mut groups = HashMap::new();
        for (path, inode) in &self.names {
            let expected = tree
                .lookup(path.as_bytes())
                .unwrap_or_else(|| panic!("{path} exists and should not"));
            if let Some(links) = expected.links {
                assert_eq!(*groups.entry(links.group).or_insert(*inode), *inode, "{path}: links");
            }
            let node = &self.nodes[*inode];
            match (node, expected.kind) {
                (Node::Directory { .. }, ExpectedKind::Directory) => directories += 1,
                (Node::Symlink(to), ExpectedKind::Symlink) => {
                    files += 1;
                    assert_eq!(tree.target(path.as_bytes()).as_ref(), Some(to), "{path}");
                }
                (Node::File { pieces, size, links, .. }, kind) => {
                    files += 1;
                    if let Some(right) = expected.links {
                        assert_eq!(right.count, *links, "{path}: number of links");
                    }
                    same(path, pieces, *size, kind, tree);
                }
                (node, kind) => panic!("{path} is {node:?}, not {kind:?}"),
            }
            if let Node::Directory { mode, mtime } | Node::File { mode, mtime, .. } = node {
                assert!(expected.mode.is_none_or(|right| right == *mode), "{path}: mode {mode:o}");
                assert!(expected.mtime.is_none() || expected.mtime == *mtime, "{path}: {mtime:?}");
            }
        }
        assert_eq!((files, directories), (tree.files(), tree.directories()), "files, directories");
        for nothing in ["", "/", "zzz", "zzz/y", "\u{fffd}"] {
            assert!(
                self.names.contains_key(nothing) || tree.lookup(nothing.as_bytes()).is_none(),
                "{nothing:?} is no path"
            );
        }
    }

    fn longest_name(&self) -> usize {
        self.names
            .keys()
            .filter_map(|path| path.rsplit('/').next())
            .map(str::len)
            .max()
            .unwrap_or(0)
    }
}

/// Puts `payload` at `offset`, over any older content.
fn overwrite(pieces: &mut BTreeMap<u64, Payload>, offset: u64, payload: Payload) {
    let end = offset + u64::from(payload.length);
    let after = part(pieces, end);
    cut_between(pieces, offset, end);
    if let Some(after) = after {
        pieces.insert(end, after);
    }
    pieces.insert(offset, payload);
}

/// The content at `offset` and after it in the same piece.
fn part(pieces: &BTreeMap<u64, Payload>, offset: u64) -> Option<Payload> {
    let (start, piece) = pieces.range(..=offset).next_back()?;
    let skipped = offset - start;
    (skipped < u64::from(piece.length)).then(|| Payload {
        id: piece.id,
        offset: piece.offset + skipped,
        length: piece.length - skipped as u32,
    })
}

fn cut_between(pieces: &mut BTreeMap<u64, Payload>, from: u64, to: u64) {
    if let Some((start, piece)) = pieces.range_mut(..from).next_back() {
        piece.length = piece.length.min((from - start) as u32);
    }
    let doomed: Vec<u64> = pieces.range(from..to).map(|(start, _)| *start).collect();
    doomed.iter().for_each(|start| {
        pieces.remove(start);
    });
}

fn cut(pieces: &mut BTreeMap<u64, Payload>, length: u64) {
    cut_between(pieces, length, u64::MAX);
}

/// Checks that every byte of the file is the predicted one.
fn same(
    path: &str,
    pieces: &BTreeMap<u64, Payload>,
    size: u64,
    kind: ExpectedKind,
    tree: &dyn Tree,
) {
    let right = match kind {
        ExpectedKind::File(payload) => u64::from(payload.length),
        ExpectedKind::Pieces(length) | ExpectedKind::Sized(length) => length,
        other => panic!("{path} is a file, not {other:?}"),
    };
    assert_eq!(size, right, "{path}: size");
    if matches!(kind, ExpectedKind::Sized(_)) {
        return;
    }
    let mut at = 0;
    while at < size {
        let mine = part(pieces, at).unwrap_or_else(|| panic!("{path}: a hole at {at}"));
        let theirs = match kind {
            ExpectedKind::File(payload) => Payload {
                id: payload.id,
                offset: payload.offset + at,
                length: payload.length - at as u32,
            },
            _ => tree.piece(path.as_bytes(), at).unwrap_or_else(|| panic!("{path}: no piece {at}")),
        };
        assert!(theirs.length > 0, "{path}: an empty piece at {at}");
        assert_eq!(mine.id, theirs.id, "{path}: content at {at}");
        if mine.id != Payload::ZEROS {
            assert_eq!(mine.offset, theirs.offset, "{path}: place in the content at {at}");
        }
        at += u64::from(mine.length.min(theirs.length));
    }
}

/// The workload called `name` with these parameters.
pub fn build(name: &str, set: &[(&str, &str)], setting: &Setting) -> Box<dyn Workload> {
    let kind = workloads::find(name).unwrap();
    kind.build(&kind.resolve(set).unwrap(), setting).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs every phase of a workload with `threads` requested; panics at the first violation, else
/// returns the final file system.
///
/// The threads take turns, one op each, and wait for the ops' dependencies.
pub fn prove(name: &str, set: &[(&str, &str)], seed: u64, threads: u32) -> Memory {
    prove_with(name, set, &Setting::seed(seed), threads)
}

/// [`prove`] for a workload with an input.
pub fn prove_input(name: &str, set: &[(&str, &str)], seed: u64, input: Input) -> Memory {
    prove_with(name, set, &Setting { seed, input: Some(input) }, 1)
}

fn prove_with(name: &str, set: &[(&str, &str)], setting: &Setting, threads: u32) -> Memory {
    let work = build(name, set, setting);
    let mut memory = Memory { empty_writes: name == "postmark", ..Memory::default() };
    let mut longest = 0;
    if let Some(Prefill { mut ops, tree }) = work.prefill() {
        let mut op = Op::default();
        while ops.next(&mut op) {
            assert_eq!(memory.apply(&op), op.expect, "{:?} {:?}", op.call, op.name);
        }
        assert!(memory.files.is_empty() && memory.dirs.is_empty(), "left open by the prefill");
        memory.check(tree.as_ref());
    }
    for (phase, spec) in work.phases().iter().enumerate() {
        memory.counts.clear();
        let ranks = spec.threads.of(threads);
        run(&mut memory, work.as_ref(), phase, ranks);
        assert_eq!(memory.counts, work.counts(phase, ranks), "{name} {set:?}: {}", spec.name);
        assert!(memory.files.is_empty() && memory.dirs.is_empty(), "left open after {}", spec.name);
        memory.check(work.tree(phase).as_ref());
        longest = longest.max(memory.longest_name());
    }
    let needs = work.needs();
    assert!(needs.bytes.0 >= memory.most.0, "needs {} bytes, had {}", needs.bytes.0, memory.most.0);
    assert!(needs.inodes >= memory.most.1, "needs {}, had {}", needs.inodes, memory.most.1);
    assert!(needs.longest_name >= longest, "a name of {longest}");
    memory
}

fn run(memory: &mut Memory, work: &dyn Workload, phase: usize, ranks: u32) {
    let mut sources: Vec<Box<dyn OpSource + Send + '_>> =
        (0..ranks).map(|rank| work.ops(phase, Share { rank, ranks })).collect();
    let mut ops: Vec<Option<Op>> = Vec::new();
    let mut done = vec![0u64; ranks as usize];
    for (rank, source) in sources.iter_mut().enumerate() {
        ops.push(next(source.as_mut(), Op::default(), rank as u32));
    }
    while ops.iter().any(Option::is_some) {
        let mut moved = false;
        for rank in 0..sources.len() {
            let Some(op) = ops[rank].take() else { continue };
            if done[op.after.thread as usize] < op.after.ops {
                ops[rank] = Some(op);
                continue;
            }
            moved = true;
            let before: u64 = memory.counts.values().sum();
            let ended = memory.apply(&op);
            assert_eq!(ended, op.expect, "{:?} {:?}", op.call, op.name);
            done[rank] += memory.counts.values().sum::<u64>() - before;
            ops[rank] = next(sources[rank].as_mut(), op, rank as u32);
        }
        assert!(moved, "the threads wait for each other for ever");
    }
}

/// The engine passes the same op each time; so does this. The thread of an op is set by the engine.
fn next(source: &mut dyn OpSource, mut op: Op, rank: u32) -> Option<Op> {
    source.next(&mut op).then(|| {
        op.thread = rank;
        op
    })
}
