//! The first pass: builds the initial tree, and assigns threads to ranks.

use std::collections::{HashMap, HashSet};
use std::fs::File;

use fsdyno_record::Bytes;
use fsdyno_trace::{Call, Entry, Header, Item, Kind, NodeId, Root, Target};
use fsdyno_workload::memory_fs::Inode;
use fsdyno_workload::replay::Section;
use fsdyno_workload::replay::code::{encode, payload};
use fsdyno_workload::replay::format::{EXPECT_ANY, EXPECT_RESULT, EXPECT_SUCCESS, OpRecord};
use fsdyno_workload::{Call as OpCall, DirSlot, FileSlot, MemoryFs, Op, OpenFlags, RareCall};

use crate::ReplayError;
use crate::flags::{self, MODE};
use crate::out::CompiledWriter;
use crate::starts::removed_node;
use crate::threads::{Ranks, Threads};

/// The directory in which all paths begin.
pub const ROOT: DirSlot = DirSlot::ROOT;

/// The slot of files while the tree is created.
const FILE: FileSlot = FileSlot(1);

/// The size in bytes above which a file that no call opens is created without contents, with only its name and size.
const LARGE: u64 = 1 << 20;

/// The maximum number of bytes that one op writes to an initial file.
const PART: u64 = 1 << 30;

/// The maximum size in bytes of a file, and of the data of all files of the tree: it limits the bytes that a replay of
/// any trace writes and verifies.
pub const MAX_SIZE: u64 = 1 << 50;

/// The maximum length of a symbolic link's target; a longer target is truncated.
pub const MAX_TARGET: u64 = 900;

/// The state at the end of the first pass.
pub struct FirstPassResult {
    /// The initial tree.
    pub fs: MemoryFs,
    /// The inodes of nodes.
    pub nodes: HashMap<NodeId, Inode>,
    /// The nodes that are roots.
    pub roots: HashSet<NodeId>,
    /// The directories that calls remove.
    pub removed: HashSet<NodeId>,
    /// The ranks of threads.
    pub ranks: Ranks,
    /// The number of bytes in the initial tree.
    pub bytes: u64,
    /// The length of the longest name.
    pub longest_name: usize,
    /// True if events have times.
    pub has_times: bool,
}

/// Returns the node whose bytes a call can use.
pub fn used_node(call: &Call) -> Option<NodeId> {
    match call {
        Call::Open { at, file: Some(_), .. } | Call::Truncate { target: Target::At(at), .. } => {
            at.node
        }
        Call::Inherit { node, .. } => Some(*node),
        _ => None,
    }
}

/// The first pass over a recording.
pub struct Initial {
    /// The files whose bytes are used by calls.
    opened: HashSet<NodeId>,
    out: CompiledWriter,
    op: Op,
    fs: MemoryFs,
    nodes: HashMap<NodeId, Inode>,
    roots: HashSet<NodeId>,
    /// Paths of files, for additional links.
    paths: HashMap<NodeId, Vec<u8>>,
    threads: Threads,
    /// The directories that calls remove.
    removed: HashSet<NodeId>,
    /// Directories with their final modes.
    modes: Vec<(Vec<u8>, u32)>,
    special: u64,
    bytes: u64,
    longest_name: usize,
    has_times: bool,
}

impl Initial {
    /// Starts the pass with an empty output file.
    pub fn new(out: &File, opened: HashSet<NodeId>) -> Result<Initial, ReplayError> {
        Ok(Initial {
            opened,
            out: CompiledWriter::new(out)?,
            op: Op::default(),
            fs: MemoryFs::new(),
            nodes: HashMap::new(),
            roots: HashSet::new(),
            paths: HashMap::new(),
            threads: Threads::default(),
            removed: HashSet::new(),
            modes: Vec::new(),
            special: 0,
            bytes: 0,
            longest_name: 0,
            has_times: false,
        })
    }

    /// Processes the next item.
    pub fn item(&mut self, item: Item, header: &Header) -> Result<(), ReplayError> {
        self.has_times = header.has_times;
        match item {
            Item::Root(root) => self.root(&root),
            Item::Entry(entry) => self.entry(&entry),
            Item::Event(event) => {
                self.removed.extend(removed_node(&event));
                let is_mark = matches!(event.call, Call::Mark { .. });
                if !is_mark {
                    self.threads.add(&event);
                }
                Ok(())
            }
            Item::End(_) => Ok(()),
        }
    }

    /// Applies a call to the tree in memory and adds it to the compiled form; a call that fails on the tree is omitted.
    fn make(&mut self, call: OpCall, name: &[u8], other: &[u8]) -> Result<bool, ReplayError> {
        (self.op.call, self.op.thread) = (call, 0);
        self.op.name.clear();
        self.op.name.push(name);
        self.op.second_name.clear();
        self.op.second_name.push(other);
        let Ok(outcome) = self.fs.plan(&self.op) else { return Ok(false) };
        let mut record = OpRecord { expect: EXPECT_ANY, ..OpRecord::default() };
        if !encode(call, &mut record) {
            return Ok(false);
        }
        record.expect = if outcome.bytes > 0 { EXPECT_RESULT } else { EXPECT_SUCCESS };
        record.result = outcome.bytes;
        record.name = self.out.string(name)?;
        record.second_name = self.out.optional(other)?;
        outcome.changes.into_iter().for_each(|change| {
            self.fs.commit(change);
        });
        self.out.initial(&record)?;
        Ok(true)
    }

    fn root(&mut self, root: &Root) -> Result<(), ReplayError> {
        if self.out.facts.get("file-system").is_none_or(String::is_empty) {
            self.out.facts.insert("file-system".into(), root.file_system.clone());
        }
        let mut name = root.label.bytes().to_vec();
        while self.fs.find(&name).is_some() {
            name.push(b'+');
            name.truncate(255);
        }
        let inode = self.fs.next_inode();
        self.make(OpCall::Mkdir { dir: ROOT, mode: 0o755 }, &name, b"")?;
        self.nodes.insert(root.node, inode);
        self.roots.insert(root.node);
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), ReplayError> {
        let parent = self.nodes.get(&entry.parent).and_then(|inode| self.fs.path(*inode));
        let Some(mut path) = parent else { return Ok(()) };
        path.push(b'/');
        path.extend_from_slice(entry.name.bytes());
        self.longest_name = self.longest_name.max(entry.name.bytes().len());
        if let Some(first) = self.paths.get(&entry.node).cloned() {
            self.make(OpCall::Link { dir: ROOT, to: ROOT }, &first, &path)?;
            return Ok(());
        }
        let (inode, mode) = (self.fs.next_inode(), entry.mode & MODE);
        let made = match entry.kind {
            Kind::Directory => {
                if mode & 0o700 != 0o700 {
                    self.modes.push((path.clone(), mode));
                }
                self.make(OpCall::Mkdir { dir: ROOT, mode: mode | 0o700 }, &path, b"")?
            }
            Kind::File => self.file(entry, &path, inode)?,
            Kind::Symlink => {
                let target = target(entry.size);
                self.make(OpCall::Symlink { dir: ROOT }, &path, &target)?
            }
            Kind::Special => {
                self.special += 1;
                false
            }
        };
        if made {
            self.nodes.insert(entry.node, inode);
            if entry.kind != Kind::Directory {
                self.paths.insert(entry.node, path);
            }
        }
        Ok(())
    }

    fn file(&mut self, entry: &Entry, path: &[u8], inode: Inode) -> Result<bool, ReplayError> {
        let flags = OpenFlags { write: true, exclusive: true, ..OpenFlags::NONE };
        let mode = entry.mode & MODE;
        if !self.make(OpCall::Create { dir: ROOT, file: FILE, flags, mode }, path, b"")? {
            return Ok(false);
        }
        // A sparse file has its data at its beginning, because the positions of its holes are not recorded.
        let is_unused = entry.size > LARGE && !self.opened.contains(&entry.node);
        let is_sparse = is_unused || entry.allocated.saturating_add(4096) < entry.size;
        let data = match (is_unused, is_sparse) {
            (true, _) => 0,
            (false, true) => entry.allocated,
            (false, false) => entry.size,
        };
        self.bytes = self.bytes.saturating_add(data);
        if entry.size.max(self.bytes) > MAX_SIZE {
            return Err(ReplayError::Limit(format!(
                "has a file, or files in total, of {} or more; a replay supports at most {}",
                Bytes(entry.size.max(self.bytes)),
                Bytes(MAX_SIZE)
            )));
        }
        let class = flags::class(entry.class);
        let mut at = 0;
        while at < data {
            let length = (data - at).min(PART);
            let payload = payload(inode as u32, class, at, length as u32);
            self.make(OpCall::Write { file: FILE, payload }, path, b"")?;
            at += length;
        }
        if is_sparse {
            self.make(OpCall::Truncate { file: FILE, length: entry.size }, path, b"")?;
        }
        for xattr in entry.xattrs.iter().filter(|xattr| xattr.name.starts_with(b"user.")) {
            let call = RareCall::SetxattrFile { file: FILE, length: xattr.size };
            if fsdyno_workload::replay::format::stays_below(&xattr.name) {
                self.make(OpCall::Rare(call), path, &xattr.name)?;
            }
        }
        self.make(OpCall::Close { file: FILE }, path, b"")
    }

    /// Ends the pass.
    pub fn finish(mut self) -> Result<(FirstPassResult, CompiledWriter), ReplayError> {
        for (path, mode) in std::mem::take(&mut self.modes).into_iter().rev() {
            self.make(OpCall::Chmod { dir: ROOT, mode }, &path, b"")?;
        }
        let ranks = self.threads.ranks();
        self.out.begin_ranks(&ranks.capacity)?;
        self.out.tree(Section::Before, &self.fs)?;
        if self.special > 0 {
            let what = "skipped-pipes,-sockets-and-devices-in-the-tree";
            self.out.facts.insert(what.into(), self.special.to_string());
        }
        let start = FirstPassResult {
            fs: self.fs,
            nodes: self.nodes,
            roots: self.roots,
            removed: self.removed,
            ranks,
            bytes: self.bytes,
            longest_name: self.longest_name,
            has_times: self.has_times,
        };
        Ok((start, self.out))
    }
}

/// Returns a target of this length for a dangling symbolic link, split into names of fewer than 255 bytes.
pub fn target(length: u64) -> Vec<u8> {
    let length = length.clamp(1, MAX_TARGET) as usize;
    (1..=length).map(|at| if at % 200 == 0 && at < length { b'/' } else { b'x' }).collect()
}
