//! Runs workloads on the file system in memory. Each op must be legal, end as expected, and leave the tree that
//! the workload predicts; the counts must be exact.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "tests may unwrap, and not every test uses all functions"
)]

use std::collections::{BTreeSet, HashMap};

use fsdyno_record::OpKind;
use fsdyno_workload::memory_fs::{Change, Errno, Inode, MemoryFs, Node, ROOT};
use fsdyno_workload::{
    Call, Compound, DirSlot, Expect, ExpectedKind, Input, Op, OpCounts, OpSource, Payload, Prefill,
    Setting, Share, Tree, Workload, workloads,
};

/// A file system in memory, and the work done on it.
#[derive(Default)]
pub struct Memory {
    pub fs: MemoryFs,
    /// Calls of each kind.
    pub counts: OpCounts,
    /// Maximum number of bytes, and of files and directories, at the same time.
    pub peak: (u64, u64),
    pub written: u64,
    pub read: u64,
    /// True if the workload's original makes empty writes.
    pub empty_writes: bool,
}

/// A file or directory of a tree: true if it is a directory, and its size.
type Member = (bool, u64);

impl Memory {
    fn count(&mut self, kind: OpKind) {
        *self.counts.entry(kind).or_default() += 1;
    }

    fn count_all(&mut self, kinds: &[OpKind]) {
        kinds.iter().for_each(|kind| self.count(*kind));
    }

    /// Performs the op, and returns its outcome.
    pub fn apply(&mut self, op: &Op) -> Expect {
        if let Some(kind) = op.call.kind() {
            self.count(kind);
        }
        let outcome = match self.fs.plan(op) {
            Ok(outcome) => outcome,
            Err(Errno::Missing) => return Expect::Missing,
            Err(Errno::Exists) => return Expect::Exists,
            Err(errno) => panic!("{:?} {:?} {:?}: {errno}", op.call, op.name, op.second_name),
        };
        self.check_legal(op);
        match op.call.kind() {
            Some(OpKind::Write | OpKind::Append) => self.written += outcome.bytes,
            Some(OpKind::Read) => self.read += outcome.bytes,
            Some(_) => {}
            None => self.count_calls(op),
        }
        for change in outcome.changes {
            if let Change::Written { inode, offset, .. } = &change {
                assert!(*offset <= self.size(*inode), "a hole");
            }
            self.fs.commit(change);
        }
        let totals = self.fs.totals();
        self.peak = (self.peak.0.max(totals.bytes), self.peak.1.max(totals.names));
        Expect::Success
    }

    /// Panics if the op is one that the file system allows but no workload makes.
    fn check_legal(&self, op: &Op) {
        match op.call {
            Call::Create { file, .. } | Call::Open { file, .. } => {
                assert_eq!(self.fs.open_file(op.thread, file), None, "the slot is in use");
            }
            Call::OpenDir { slot, .. } => {
                assert_eq!(self.fs.open_dir(op.thread, slot), None, "the slot is in use");
            }
            Call::Write { payload, .. }
            | Call::WriteAt { payload, .. }
            | Call::Append { payload, .. } => {
                assert!(payload.length > 0 || self.empty_writes, "an empty write");
                if let Call::Append { file, .. } = op.call {
                    let open = self.fs.open_file(op.thread, file).unwrap();
                    assert!(open.append, "not opened to append");
                }
            }
            Call::Truncate { file, length } => {
                let open = self.fs.open_file(op.thread, file).unwrap();
                assert!(length <= self.size(open.inode), "a hole");
            }
            Call::Rename { dir, .. } => {
                let node = self.fs.node(self.inode_of_op(op, dir)).unwrap();
                assert!(!node.is_directory(), "directories are not renamed here");
            }
            Call::Chmod { mode, .. } | Call::ChmodFile { mode, .. } => {
                assert_eq!(mode & !0o7777, 0);
            }
            _ => {}
        }
    }

    /// The inode of the op's name.
    pub fn inode_of_op(&self, op: &Op, dir: DirSlot) -> Inode {
        let dir = self.fs.open_dir(op.thread, dir).unwrap();
        let path = [&self.fs.path(dir).unwrap(), &b"/"[..], op.name.as_bytes()].concat();
        self.fs.find(&path).unwrap()
    }

    fn size(&self, inode: Inode) -> u64 {
        self.fs.node(inode).and_then(Node::size).unwrap()
    }

    fn member(&self, inode: Inode) -> Member {
        let node = self.fs.node(inode).unwrap();
        (node.is_directory(), node.size().unwrap_or(0))
    }

    /// The tree at an inode: itself and everything below it.
    fn members(&self, inode: Inode) -> Vec<Member> {
        let inodes = std::iter::once(inode).chain(self.fs.walk(inode).map(|(_, inode)| inode));
        inodes.map(|inode| self.member(inode)).collect()
    }

    /// Counts the calls of an op that the engine expands, as the original programs make them.
    fn count_calls(&mut self, op: &Op) {
        use OpKind::{
            Chmod, Chown, Close, Create, Fsync, Mkdir, Open, Read, Rmdir, Stat, Unlink, Utimes,
            Write,
        };
        let Call::Compound(compound) = op.call else { panic!("{:?} is one call", op.call) };
        match compound {
            Compound::Scan { .. } => self.count_all(&[Open, Close]),
            Compound::StatEach { dir, read } => self.count_stats(self.inode_of_op(op, dir), read),
            Compound::RemoveTree { dir, synced, .. } => {
                for member in self.members(self.inode_of_op(op, dir)) {
                    match (member, synced) {
                        ((true, _), _) => self.count_all(&[Open, Close, Rmdir]),
                        (_, true) => self.count_all(&[Unlink, Fsync]),
                        (_, false) => self.count(Unlink),
                    }
                }
            }
            Compound::CopyTree { dir, .. } => {
                for (is_directory, size) in self.members(self.inode_of_op(op, dir)) {
                    self.count_all(&[Stat, Open, Close, Utimes, Chown, Chmod]);
                    if is_directory {
                        self.count(Mkdir);
                        continue;
                    }
                    self.count_all(&[Create, Close, Read]);
                    (0..size.div_ceil(131_072)).for_each(|_| self.count_all(&[Read, Write]));
                }
            }
            Compound::PackTree { dir, .. } => {
                self.count_all(&[Create, Close]);
                let mut blocks = 2;
                for (_, size) in self.members(self.inode_of_op(op, dir)) {
                    self.count_all(&[Stat, Open, Close]);
                    blocks += 1 + size.div_ceil(512);
                    (0..size.div_ceil(10_240)).for_each(|_| self.count(Read));
                }
                (0..blocks.div_ceil(20)).for_each(|_| self.count(Write));
            }
            Compound::UnpackTree { dir, .. } => {
                let archive = self.fs.node(self.inode_of_op(op, dir)).unwrap();
                (0..archive.size().unwrap() / 10_240).for_each(|_| self.count(Read));
                self.count_all(&[Open, Close]);
                let changes = self.fs.plan(op).unwrap().changes;
                for change in changes {
                    let Change::Created { node, .. } = change else { continue };
                    self.count_all(&[Utimes, Chown, Chmod]);
                    if node.is_directory() {
                        self.count(Mkdir);
                        continue;
                    }
                    self.count_all(&[Create, Close]);
                    (0..node.size().unwrap().div_ceil(10_240)).for_each(|_| self.count(Write));
                }
            }
        }
    }

    fn count_stats(&mut self, directory: Inode, read: Option<u32>) {
        use OpKind::{Close, Open, Read, Stat};
        self.count_all(&[Open, Close]);
        let entries: Vec<_> = self.fs.walk(directory).collect();
        for (_, inode) in entries.iter().filter(|(path, _)| !path.contains(&b'/')) {
            self.count(Stat);
            let size = self.fs.node(*inode).and_then(Node::size);
            if let (Some(length), Some(size)) = (read, size) {
                self.count_all(&[Open, Close]);
                let reads = size.div_ceil(u64::from(length)) + 1;
                (0..reads).for_each(|_| self.count(Read));
                self.read += size;
            }
        }
    }

    /// Compares everything with the predicted tree.
    pub fn check(&self, tree: &dyn Tree) {
        let (mut files, mut directories) = (0, 0);
        let mut groups = HashMap::new();
        for (path, inode) in self.fs.walk(ROOT) {
            let text = String::from_utf8_lossy(&path);
            let expected = tree.lookup(&path).unwrap_or_else(|| panic!("{text} should not exist"));
            let found = self.fs.lookup(&path).unwrap();
            if let Some(links) = expected.links {
                assert_eq!(*groups.entry(links.group).or_insert(inode), inode, "{text}: links");
                let count = self.fs.node(inode).unwrap().links;
                assert_eq!(links.count, u64::from(count), "{text}: number of links");
            }
            match (found.kind, expected.kind) {
                (ExpectedKind::Directory, ExpectedKind::Directory) => directories += 1,
                (ExpectedKind::Symlink, ExpectedKind::Symlink) => {
                    files += 1;
                    assert_eq!(tree.target(&path), self.fs.target(&path), "{text}");
                }
                (ExpectedKind::Pieces(size) | ExpectedKind::Sized(size), kind) => {
                    files += 1;
                    self.check_content(&path, size, kind, tree);
                }
                (found, expected) => panic!("{text} is {found:?}, not {expected:?}"),
            }
            if found.mode.is_some() && expected.mode.is_some() {
                assert_eq!(found.mode, expected.mode, "{text}: mode");
            }
            if found.kind != ExpectedKind::Symlink && expected.mtime.is_some() {
                assert_eq!(found.mtime, expected.mtime, "{text}: time");
            }
        }
        assert_eq!((files, directories), (tree.files(), tree.directories()), "files, directories");
        assert_eq!((files, directories), (self.fs.files(), self.fs.directories()));
        for invalid in ["", "/", "zzz", "zzz/y", "\u{fffd}"] {
            assert!(
                self.fs.lookup(invalid.as_bytes()).is_some()
                    || tree.lookup(invalid.as_bytes()).is_none(),
                "{invalid:?} is no path"
            );
        }
    }

    /// Checks that every byte of a file is the predicted one.
    fn check_content(&self, path: &[u8], size: u64, kind: ExpectedKind, tree: &dyn Tree) {
        let text = String::from_utf8_lossy(path);
        let expected = match kind {
            ExpectedKind::File(payload) => u64::from(payload.length),
            ExpectedKind::Pieces(length) | ExpectedKind::Sized(length) => length,
            kind => panic!("{text} is a file, not {kind:?}"),
        };
        assert_eq!(size, expected, "{text}: size");
        if matches!(kind, ExpectedKind::Sized(_)) {
            return;
        }
        let mut position = 0;
        while position < size {
            let found =
                self.fs.piece(path, position).unwrap_or_else(|| panic!("{text}: not known"));
            let expected_piece = match kind {
                ExpectedKind::File(payload) => Payload {
                    id: payload.id,
                    offset: payload.offset + position,
                    length: payload.length - position as u32,
                },
                _ => tree
                    .piece(path, position)
                    .unwrap_or_else(|| panic!("{text}: no piece {position}")),
            };
            assert!(expected_piece.length > 0, "{text}: an empty piece at {position}");
            assert_eq!(found.id, expected_piece.id, "{text}: content at {position}");
            if found.id != Payload::ZEROS {
                assert_eq!(
                    found.offset, expected_piece.offset,
                    "{text}: offset in the content at {position}"
                );
            }
            position += u64::from(found.length.min(expected_piece.length));
        }
    }

    /// All paths.
    pub fn paths(&self) -> Vec<String> {
        self.fs.walk(ROOT).map(|(path, _)| String::from_utf8(path).unwrap()).collect()
    }

    /// Number of files, and their bytes; hard links are one file.
    pub fn live(&self) -> (u64, u64) {
        let inodes: BTreeSet<Inode> = self.fs.walk(ROOT).map(|(_, inode)| inode).collect();
        let sizes = inodes.iter().filter_map(|inode| self.fs.node(*inode)?.size());
        sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
    }

    fn longest_name(&self) -> usize {
        let names = self
            .fs
            .walk(ROOT)
            .map(|(path, _)| path.rsplit(|byte| *byte == b'/').next().map_or(0, <[u8]>::len));
        names.max().unwrap_or(0)
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
pub fn check_workload(name: &str, set: &[(&str, &str)], seed: u64, threads: u32) -> Memory {
    check_workload_with(name, set, &Setting::seed(seed), threads)
}

/// [`check_workload`] for a workload with an input.
pub fn check_workload_with_input(
    name: &str,
    set: &[(&str, &str)],
    seed: u64,
    input: Input,
) -> Memory {
    check_workload_with(name, set, &Setting { seed, input: Some(input) }, 1)
}

fn check_workload_with(
    name: &str,
    set: &[(&str, &str)],
    setting: &Setting,
    threads: u32,
) -> Memory {
    let work = build(name, set, setting);
    let mut memory = Memory { empty_writes: name == "postmark", ..Memory::default() };
    let mut longest = 0;
    if let Some(Prefill { mut ops, tree }) = work.prefill() {
        let mut op = Op::default();
        while ops.next(&mut op) {
            assert_eq!(memory.apply(&op), op.expect, "{:?} {:?}", op.call, op.name);
        }
        assert_eq!(memory.fs.open_slots(), 0, "left open by the prefill");
        memory.check(tree.as_ref());
    }
    for (phase, spec) in work.phases().iter().enumerate() {
        memory.counts.clear();
        let ranks = spec.threads.count_of(threads);
        run(&mut memory, work.as_ref(), phase, ranks);
        assert_eq!(memory.counts, work.counts(phase, ranks), "{name} {set:?}: {}", spec.name);
        assert_eq!(memory.fs.open_slots(), 0, "left open after {}", spec.name);
        memory.check(work.tree(phase).as_ref());
        longest = longest.max(memory.longest_name());
    }
    let needs = work.needs();
    assert!(needs.bytes.0 >= memory.peak.0, "needs {} bytes, had {}", needs.bytes.0, memory.peak.0);
    assert!(needs.inodes >= memory.peak.1, "needs {}, had {}", needs.inodes, memory.peak.1);
    assert!(needs.longest_name >= longest, "a name of {longest}");
    memory
}

/// Runs a phase that `ranks` threads share, and returns what each has done.
pub fn run(memory: &mut Memory, work: &dyn Workload, phase: usize, ranks: u32) -> Vec<u64> {
    run_all(memory, (0..ranks).map(|rank| work.ops(phase, Share { rank, ranks })).collect())
}

/// Runs the ops of all threads of a phase, and returns what each has done.
pub fn run_all(memory: &mut Memory, mut sources: Vec<Box<dyn OpSource + Send + '_>>) -> Vec<u64> {
    let ranks = sources.len();
    let mut ops: Vec<Option<Op>> = Vec::new();
    let mut done = vec![0u64; ranks];
    for (rank, source) in sources.iter_mut().enumerate() {
        ops.push(next(source.as_mut(), Op::default(), rank as u32));
    }
    while ops.iter().any(Option::is_some) {
        let mut has_progress = false;
        for rank in 0..sources.len() {
            let Some(op) = ops[rank].take() else { continue };
            if done[op.after.thread as usize] < op.after.ops {
                ops[rank] = Some(op);
                continue;
            }
            has_progress = true;
            let before: u64 = memory.counts.values().sum();
            let outcome = memory.apply(&op);
            assert_eq!(outcome, op.expect, "{:?} {:?}", op.call, op.name);
            done[rank] += memory.counts.values().sum::<u64>() - before;
            ops[rank] = next(sources[rank].as_mut(), op, rank as u32);
        }
        assert!(has_progress, "the threads wait for each other forever");
    }
    sources.iter().map(|source| source.done()).collect()
}

/// Passes the same op each time, as the engine does. The thread of an op is set by the engine.
fn next(source: &mut dyn OpSource, mut op: Op, rank: u32) -> Option<Op> {
    source.next(&mut op).then(|| {
        op.thread = rank;
        op
    })
}
