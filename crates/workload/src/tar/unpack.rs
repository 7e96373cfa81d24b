//! The user's archive as GNU tar unpacks it: the calls one by one, the tree after them, and its
//! requirements.
//!
//! Everything is below one folder that is created first, as if by `mkdir t; tar -C t -xf ARCHIVE`.
//! Memory: 8 bytes for each call (those of one file count as one call), and 40 bytes for each member in
//! addition to the archive's own list.

use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::input::Input;
use crate::op::{Call, DirSlot, FileSlot, Name, Op, OpenFlags, Payload};
use crate::op_source::OpSource;
use crate::permutation::Order;
use crate::tar::archive::{Archive, ArchiveError, Member, MemberKind};
use crate::tar::packed::{FILE_FLAGS, PackedTree, RECORD, TOP};
use crate::workload::{Expected, Links, Needs, OpCounts, Tree};

mod script;

use script::{CallKind, Node, NodeKind, Script, TarCall};

/// The folder to unpack into, kept open as by tar.
const FOLDER: DirSlot = DirSlot(1);
const FILE: FileSlot = FileSlot(0);
/// The flags with which tar opens the placeholder of a link.
const PLACEHOLDER_FLAGS: OpenFlags = OpenFlags { write: true, exclusive: true, ..OpenFlags::NONE };

/// An archive with the calls that unpack it and the tree after them.
#[derive(Debug)]
pub struct Unpack {
    archive: Archive,
    script: Script,
    /// The final nodes by path; the folder itself comes first.
    by_path: Vec<Node>,
    /// Files and links in order of creation, as indices in `by_path`.
    files: Vec<u32>,
    /// Indices of the directories in `by_path`, except the folder itself.
    directories: Vec<u32>,
}

impl Unpack {
    /// Reads an archive and computes the calls that unpack it.
    ///
    /// # Errors
    /// The mistake in the archive.
    pub fn new(input: &Input) -> Result<Unpack, ArchiveError> {
        let archive = Archive::read(input)?;
        let mut script = script::write(&archive)?;
        let mut by_path: Vec<(Node, u32)> =
            std::mem::take(&mut script.nodes).into_iter().zip(0..).collect();
        by_path.sort_by(|(a, _), (b, _)| path_of(&archive, a).cmp(path_of(&archive, b)));
        let is_directory = |node: &Node| node.kind == NodeKind::Directory;
        let mut files: Vec<(u32, u32)> = Vec::new();
        let mut directories = Vec::new();
        for (index, (node, creation_index)) in (0u32..).zip(&by_path) {
            match is_directory(node) {
                true if index > 0 => directories.push(index),
                true => {}
                false => files.push((*creation_index, index)),
            }
        }
        files.sort_unstable();
        let files = files.into_iter().map(|(_, index)| index).collect();
        let by_path = by_path.into_iter().map(|(node, _)| node).collect();
        Ok(Unpack { archive, script, by_path, files, directories })
    }

    fn member(&self, index: u32) -> &Member {
        &self.archive.members()[index as usize]
    }

    fn path_of_node(&self, node: &Node) -> &[u8] {
        path_of(&self.archive, node)
    }

    fn find(&self, path: &[u8]) -> Option<&Node> {
        let index = self.by_path.binary_search_by(|node| self.path_of_node(node).cmp(path)).ok()?;
        self.by_path.get(index)
    }

    /// Returns the node at a path below the trial's root.
    fn find_at_path(&self, path: &[u8]) -> Option<&Node> {
        match path.strip_prefix(TOP)? {
            b"" => self.by_path.first(),
            rest => self.find(rest.strip_prefix(b"/")?).filter(|node| node.length > 0),
        }
    }

    fn expected(&self, node: &Node) -> Expected {
        let expected = match node.kind {
            NodeKind::Directory => Expected::DIRECTORY,
            NodeKind::Symlink(_) | NodeKind::Placeholder(_) => Expected::SYMLINK,
            NodeKind::File(file) => {
                let (data, size) = self.data(file);
                let file = match u32::try_from(size) {
                    Ok(length) => {
                        Expected::file(Payload { id: Payload::INPUT, offset: data, length })
                    }
                    Err(_) => Expected::pieces(size),
                };
                match self.script.links.get(&self.inode(node)) {
                    Some(count) => file.with_links(Links {
                        group: u64::from(self.inode(node)),
                        count: u64::from(*count),
                    }),
                    None => file,
                }
            }
        };
        Expected {
            mode: node.has_mode.then_some(u32::from(node.mode)),
            mtime: node.mtime.or(self.symlink_mtime(node)),
            ..expected
        }
    }

    fn inode(&self, node: &Node) -> u32 {
        match node.kind {
            NodeKind::File(file) => file,
            _ => node.member,
        }
    }

    fn symlink_mtime(&self, node: &Node) -> Option<i64> {
        match node.kind {
            NodeKind::Symlink(member) => Some(self.member(member).mtime),
            _ => None,
        }
    }

    /// Returns the position and size of a file's data.
    fn data(&self, member: u32) -> (u64, u64) {
        match self.member(member).kind {
            MemberKind::File { data, size } => (data, size),
            _ => (0, 0),
        }
    }
}

fn path_of<'a>(archive: &'a Archive, node: &Node) -> &'a [u8] {
    let path = archive.members().get(node.member as usize).map_or(&b""[..], |member| &member.path);
    &path[..usize::from(node.length)]
}

/// Returns the length of a file's first write: the part of its data that is in tar's buffer of one record.
fn first_write_length(data: u64, size: u64) -> u64 {
    size.min(match data % RECORD {
        0 => RECORD,
        index => RECORD - index,
    })
}

/// Returns the owner's permission bits, with which everything is created; the other bits are set at the end.
fn owner_bits(mode: u32) -> u32 {
    mode & 0o700
}

impl PackedTree for Unpack {
    fn extract(&self, unpack_time: Nanos) -> Box<dyn OpSource + Send + '_> {
        Box::new(Extract {
            work: self,
            unpack_time,
            stage: Stage::Mkdir,
            call: 0,
            step: Step::Open,
            written: 0,
        })
    }

    fn extract_counts(&self) -> OpCounts {
        // The folder is created, opened and closed.
        let mut counts =
            OpCounts::from([(OpKind::Mkdir, 1), (OpKind::Open, 1), (OpKind::Close, 1)]);
        let mut add = |kind, count| *counts.entry(kind).or_insert(0) += count;
        for call in &self.script.calls {
            let kind = match call.kind {
                CallKind::TryFile | CallKind::Placeholder => OpKind::Create,
                CallKind::Parent | CallKind::Mkdir => OpKind::Mkdir,
                CallKind::StatPlaceholder | CallKind::StatTarget | CallKind::Stat => OpKind::Stat,
                CallKind::ClosePlaceholder => OpKind::Close,
                CallKind::Symlink => OpKind::Symlink,
                CallKind::Link => OpKind::Link,
                CallKind::Unlink => OpKind::Unlink,
                CallKind::Utimes => OpKind::Utimes,
                CallKind::Chown => OpKind::Chown,
                CallKind::Chmod => OpKind::Chmod,
                CallKind::File => {
                    let (data, size) = self.data(call.member);
                    let first = first_write_length(data, size);
                    add(OpKind::Create, 1);
                    add(OpKind::Write, u64::from(size > 0) + (size - first).div_ceil(RECORD));
                    add(OpKind::Utimes, 1);
                    add(OpKind::Chown, 1);
                    let mode = self.member(call.member).mode;
                    add(OpKind::Chmod, u64::from(mode != owner_bits(mode)));
                    OpKind::Close
                }
            };
            add(kind, 1);
        }
        counts
    }

    fn tree(&self) -> Box<dyn Tree + '_> {
        Box::new(Unpacked(self))
    }

    fn needs(&self) -> Needs {
        let sizes = self.archive.members().iter().map(|member| match member.kind {
            MemberKind::File { size, .. } => size,
            _ => 0,
        });
        let names = self
            .archive
            .members()
            .iter()
            .flat_map(|member| member.path.split(|byte| *byte == b'/'));
        Needs {
            bytes: Bytes(sizes.sum()),
            inodes: (self.files.len() + self.directories.len() + 1) as u64,
            longest_name: names.map(<[u8]>::len).max().unwrap_or(0).max(TOP.len()),
        }
    }

    fn files(&self) -> u64 {
        self.files.len() as u64
    }

    fn directories(&self) -> u64 {
        self.directories.len() as u64
    }

    fn order(&self, kind: &str, seed: u64) -> Order {
        // Files are numbered in order of creation.
        let kind = if kind == "creation" { "forward" } else { kind };
        Order::named(kind, self.files(), seed, "order")
    }

    fn write_file_path(&self, name: &mut Name, file: u64) {
        let index = self.files.get(file as usize).copied().unwrap_or(0);
        self.write_path(name, index);
    }

    fn write_directory_path(&self, name: &mut Name, directory: u64) {
        // In reverse order of paths, in which every directory comes before its parent.
        let last = self.directories.len().saturating_sub(1);
        let index = self.directories.get(last.wrapping_sub(directory as usize));
        self.write_path(name, index.copied().unwrap_or(0));
    }
}

impl Unpack {
    fn write_path(&self, name: &mut Name, index: u32) {
        name.clear();
        name.push(TOP);
        name.push(b"/");
        name.push(
            self.by_path.get(index as usize).map_or(&b""[..], |node| self.path_of_node(node)),
        );
    }
}

/// The tree after unpacking.
struct Unpacked<'a>(&'a Unpack);

impl Tree for Unpacked<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        self.0.find_at_path(path).map(|node| self.0.expected(node))
    }

    fn files(&self) -> u64 {
        self.0.files.len() as u64
    }

    fn directories(&self) -> u64 {
        self.0.directories.len() as u64 + 1
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        let NodeKind::File(file) = self.0.find_at_path(path)?.kind else { return None };
        let (data, size) = self.0.data(file);
        let length = u32::try_from(size.checked_sub(offset)?).unwrap_or(u32::MAX);
        Some(Payload { id: Payload::INPUT, offset: data + offset, length })
    }

    fn target(&self, path: &[u8]) -> Option<Vec<u8>> {
        let NodeKind::Symlink(member) = self.0.find_at_path(path)?.kind else { return None };
        match &self.0.member(member).kind {
            MemberKind::Symlink(target) => Some(target.to_vec()),
            _ => None,
        }
    }
}

/// A stage of unpacking: a call on the folder itself, or the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Mkdir,
    Open,
    Script,
    End,
}

/// The next call of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Open,
    Write,
    Utimes,
    Chown,
    Chmod,
    Close,
}

struct Extract<'a> {
    work: &'a Unpack,
    /// Processor time before each file.
    unpack_time: Nanos,
    stage: Stage,
    call: usize,
    step: Step,
    /// Bytes of the current file written so far.
    written: u64,
}

impl Extract<'_> {
    /// Sets the next call on the folder itself; returns false after the last.
    #[cold]
    fn folder_call(&mut self, op: &mut Op) -> bool {
        op.name.clear();
        op.name.push(TOP);
        (op.call, self.stage) = match self.stage {
            Stage::Mkdir => (Call::Mkdir { dir: DirSlot::ROOT, mode: 0o755 }, Stage::Open),
            Stage::Open => (Call::OpenDir { dir: DirSlot::ROOT, slot: FOLDER }, Stage::Script),
            Stage::Script => (Call::CloseDir { slot: FOLDER }, Stage::End),
            Stage::End => return false,
        };
        true
    }

    /// Sets the name of an op to the path of a call, relative to the folder.
    fn set_name(&self, op: &mut Op, call: TarCall) {
        op.name.clear();
        match call.length {
            0 => op.name.push(b"."),
            length => op.name.push(&self.work.member(call.member).path[..usize::from(length)]),
        }
    }

    /// Sets a call that is not part of the sequence from the open of a file to its close.
    fn single_call(&mut self, op: &mut Op, call: TarCall) {
        let member = self.work.member(call.member);
        let dir = FOLDER;
        self.call += 1;
        op.expect = call.expect;
        op.call = match call.kind {
            CallKind::File | CallKind::TryFile => {
                let mode = owner_bits(member.mode);
                Call::Create { dir, file: FILE, flags: FILE_FLAGS, mode }
            }
            CallKind::Placeholder => {
                Call::Create { dir, file: FILE, flags: PLACEHOLDER_FLAGS, mode: 0 }
            }
            CallKind::StatPlaceholder => Call::StatFile { file: FILE },
            CallKind::ClosePlaceholder => Call::Close { file: FILE },
            CallKind::Parent => Call::Mkdir { dir, mode: u32::from(script::PARENT_MODE) },
            CallKind::Mkdir => Call::Mkdir { dir, mode: owner_bits(member.mode) },
            CallKind::Symlink => Call::Symlink { dir },
            CallKind::Link => Call::Link { dir, to: dir },
            CallKind::StatTarget | CallKind::Stat => Call::Stat { dir },
            CallKind::Unlink => Call::Unlink { dir },
            CallKind::Utimes => Call::Utimes { dir, mtime: member.mtime },
            CallKind::Chown => Call::Chown { dir },
            CallKind::Chmod => Call::Chmod { dir, mode: member.mode },
        };
        match (&member.kind, call.kind) {
            (MemberKind::Symlink(target), CallKind::Symlink) => {
                op.second_name.clear();
                op.second_name.push(target);
            }
            (MemberKind::Link(target), CallKind::Link | CallKind::StatTarget) => {
                op.second_name.clear();
                op.second_name.push(&member.path);
                op.name.clear();
                op.name.push(target);
            }
            _ => {}
        }
    }

    /// Sets the next call of a file; all of them succeed.
    fn file_call(&mut self, op: &mut Op, call: TarCall) {
        let member = self.work.member(call.member);
        let (data, size) = self.work.data(call.member);
        op.call = match self.step {
            Step::Open => {
                self.set_name(op, call);
                op.compute = self.unpack_time;
                self.written = 0;
                self.step = if size > 0 { Step::Write } else { Step::Utimes };
                let mode = owner_bits(member.mode);
                Call::Create { dir: FOLDER, file: FILE, flags: FILE_FLAGS, mode }
            }
            Step::Write => {
                let length = if self.written == 0 {
                    first_write_length(data, size)
                } else {
                    RECORD.min(size - self.written)
                };
                let offset = data + self.written;
                self.written += length;
                if self.written == size {
                    self.step = Step::Utimes;
                }
                let payload = Payload { id: Payload::INPUT, offset, length: length as u32 };
                Call::Write { file: FILE, payload }
            }
            Step::Utimes => {
                self.step = Step::Chown;
                Call::UtimesFile { file: FILE, mtime: member.mtime }
            }
            Step::Chown => {
                let needs_chmod = member.mode != owner_bits(member.mode);
                self.step = if needs_chmod { Step::Chmod } else { Step::Close };
                Call::ChownFile { file: FILE }
            }
            Step::Chmod => {
                self.step = Step::Close;
                Call::ChmodFile { file: FILE, mode: member.mode }
            }
            Step::Close => {
                self.step = Step::Open;
                self.call += 1;
                Call::Close { file: FILE }
            }
        };
    }
}

impl OpSource for Extract<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        op.expect = crate::op::Expect::Success;
        op.compute = Nanos(0);
        if self.stage != Stage::Script {
            return self.folder_call(op);
        }
        match self.work.script.calls.get(self.call).copied() {
            None => return self.folder_call(op),
            Some(call) if call.kind == CallKind::File => self.file_call(op, call),
            Some(call) => {
                self.set_name(op, call);
                self.single_call(op, call);
            }
        }
        true
    }
}
