//! The nodes that a recording knows, and the entries of the initial tree, taken before the program changes them.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fsdyno_trace::{Compressibility, Entry, Kind, Name, NodeId, Root, RootKind, Writer, Xattr};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use crate::anonymize;
use crate::error::RecordError;
use crate::hash::Map;
use crate::inode::{Info, Key, directory, key, kind};
use crate::shared::Shared;
use crate::shared::layout::{NODE_KNOWN, NODE_LISTED, NODE_PARENT};

/// Inodes that went, of which the former node is kept.
const FORMER: usize = 4096;

/// Files of one extension whose contents are sampled.
const SAMPLES: u32 = 4;

#[derive(Clone, Copy)]
struct Known {
    node: NodeId,
    /// Below a root of kind tree.
    in_tree: bool,
    /// Its entries are in the trace.
    listed: bool,
    /// The clock when it was introduced.
    introduced: u64,
    /// A call made it.
    made: bool,
}

/// The nodes by inode, and where their entries go.
pub struct Tree {
    nodes: Map<Key, Known>,
    /// The node that an inode was before, and until when; of the last ones that went.
    former: Map<Key, (NodeId, u64)>,
    former_order: VecDeque<Key>,
    next: u32,
    /// By node, whether it is below a root of kind tree.
    in_trees: Vec<bool>,
    trees: Vec<PathBuf>,
    /// Rises with each begin and each end of a call.
    pub clock: u64,
    shared: Option<Rc<Shared>>,
    writer: Option<Writer<File>>,
    /// The reason for which the writer is gone.
    pub failed: Option<RecordError>,
    anonymize: bool,
    /// The trace itself, which is no part of the tree.
    own: Key,
    classes: HashMap<Vec<u8>, (u32, Compressibility)>,
}

/// The path through which this process reaches an open directory or file.
fn through(dir: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}

impl Tree {
    /// The roots: these directories, and the system.
    pub fn new(
        trees: &[PathBuf],
        writer: Writer<File>,
        own: Key,
        anonymize: bool,
        shared: Option<Rc<Shared>>,
    ) -> Result<Tree, RecordError> {
        let mut it = Tree {
            nodes: Map::default(),
            former: Map::default(),
            former_order: VecDeque::new(),
            next: 0,
            in_trees: Vec::new(),
            trees: Vec::new(),
            clock: 0,
            shared,
            writer: Some(writer),
            failed: None,
            anonymize,
            own,
            classes: HashMap::new(),
        };
        let system = Path::new("/");
        for (path, kind) in trees
            .iter()
            .map(|it| (it.as_path(), RootKind::Tree))
            .chain([(system, RootKind::System)])
        {
            let wrong = |error| RecordError::Tree { path: path.into(), error };
            let path = path.canonicalize().map_err(wrong)?;
            let dir = directory(&path).map_err(|error| wrong(error.into()))?;
            let stat = rustix::fs::fstat(&dir).map_err(|error| wrong(error.into()))?;
            if it.nodes.contains_key(&key(&stat)) {
                continue;
            }
            let in_tree = kind == RootKind::Tree;
            let node = it.add(key(&stat), in_tree);
            let label = path.file_name().unwrap_or(OsStr::new("system"));
            let label = it.name(label.as_bytes());
            let Some(label) = label else { continue };
            let root = Root { node, kind, label, file_system: file_system(&path) };
            it.write(|writer| writer.root(&root));
            if in_tree {
                it.trees.push(path);
            }
        }
        Ok(it)
    }

    /// Writes to the trace. After an error nothing is written any more.
    pub fn write(
        &mut self,
        what: impl FnOnce(&mut Writer<File>) -> Result<(), fsdyno_trace::TraceError>,
    ) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = what(writer) {
            self.writer = None;
            let _ = writeln!(
                std::io::stderr(),
                "fsdyno: the trace cannot be written ({error}); the command goes on without being recorded, \
                 and the trace so far is valid"
            );
            self.failed = Some(error.into());
        }
    }

    /// The writer, to end the trace.
    pub fn into_writer(self) -> Result<Writer<File>, RecordError> {
        match (self.writer, self.failed) {
            (Some(writer), _) => Ok(writer),
            (None, Some(error)) => Err(error),
            (None, None) => Err(std::io::Error::other("no writer").into()),
        }
    }

    /// True while the trace is written.
    pub fn is_recording(&self) -> bool {
        self.writer.is_some()
    }

    /// A name as the trace has it.
    pub fn name(&self, bytes: &[u8]) -> Option<Name> {
        let name = Name::new(bytes).ok()?;
        Some(if self.anonymize { anonymize::name(&name) } else { name })
    }

    fn add(&mut self, key: Key, in_tree: bool) -> NodeId {
        let node = NodeId(self.next);
        self.next += 1;
        self.in_trees.push(in_tree);
        let introduced = self.clock;
        let new = Known { node, in_tree, listed: false, introduced, made: false };
        if let Some(former) = self.nodes.insert(key, new) {
            self.keep_former(key, former.node);
        }
        self.mark(key, NODE_KNOWN);
        node
    }

    fn mark(&self, key: Key, flags: usize) {
        if let Some(shared) = &self.shared {
            shared.mark(key, flags);
        }
    }

    /// Keeps which node an inode was until now: calls of other threads that began before may still name it.
    fn keep_former(&mut self, key: Key, node: NodeId) {
        if self.former_order.len() >= FORMER {
            if let Some(oldest) = self.former_order.pop_front() {
                self.former.remove(&oldest);
            }
        }
        self.former.insert(key, (node, self.clock));
        self.former_order.push_back(key);
    }

    /// The node that an inode was for a call that began at a number of the clock.
    pub fn known(&self, key: Key, at: u64) -> Option<NodeId> {
        let present = self.nodes.get(&key);
        let former = || self.former.get(&key).filter(|it| it.1 > at).map(|it| it.0);
        match present {
            Some(known) if known.introduced <= at => Some(known.node),
            present => former().or(present.map(|it| it.node)),
        }
    }

    /// The node of an entry that the code inside a program saw; introduces it if it is new.
    pub fn node_seen(&mut self, parent: NodeId, name: &[u8], info: &Info, at: u64) -> NodeId {
        if let Some(known) = self.known(info.key, at) {
            return known;
        }
        let in_tree = self.in_trees.get(parent.0 as usize).copied().unwrap_or(false);
        self.enter(parent, name, &info.stat(), None, in_tree)
    }

    /// Introduces an entry of a directory that is known, whether or not its node is.
    pub fn introduce(&mut self, parent: NodeId, name: &[u8], info: &Info, path: &Path) -> NodeId {
        let in_tree = self.in_trees.get(parent.0 as usize).copied().unwrap_or(false);
        self.enter(parent, name, &info.stat(), Some(path), in_tree)
    }

    /// True, once, for a known directory whose entries are to be introduced: one of a tree, or any.
    pub fn begins_listing(&mut self, key: Key, any: bool) -> bool {
        let Some(known) = self.nodes.get_mut(&key) else { return false };
        (known.in_tree || any) && !std::mem::replace(&mut known.listed, true)
    }

    /// Ends the trace where it is.
    pub fn stop(&mut self, error: RecordError) {
        self.write(|writer| writer.flush());
        if self.writer.take().is_some() {
            self.failed = Some(error);
        }
    }

    /// The node of an inode that a call which began at `before` made: new, unless another call introduced it meanwhile
    /// (false). Two `exclusive` calls do not make one inode: then its number was used again.
    pub fn made(&mut self, key: Key, of: NodeId, before: u64, exclusive: bool) -> (NodeId, bool) {
        match self.nodes.get(&key) {
            Some(known) if known.introduced > before && !(known.made && exclusive) => {
                (known.node, false)
            }
            _ => {
                let in_tree = self.in_trees.get(of.0 as usize).copied().unwrap_or(false);
                let node = self.add(key, in_tree);
                if let Some(known) = self.nodes.get_mut(&key) {
                    // It begins empty.
                    (known.listed, known.made) = (true, true);
                }
                self.mark(key, NODE_LISTED);
                (node, true)
            }
        }
    }

    /// An inode is gone since a call that began at `before`: another one may have its number since then.
    pub fn gone(&mut self, key: Key, before: u64) {
        if self.nodes.get(&key).is_some_and(|it| it.introduced <= before) {
            if let Some(former) = self.nodes.remove(&key) {
                self.keep_former(key, former.node);
            }
        }
    }

    /// The node of a directory that is open here.
    pub fn directory(&mut self, dir: &OwnedFd) -> Option<NodeId> {
        let stat = rustix::fs::fstat(dir).ok()?;
        if !self.nodes.contains_key(&key(&stat)) {
            let path = std::fs::read_link(through(dir)).ok()?;
            let above = self.directory(&directory(path.parent()?).ok()?)?;
            // Listing the directory above may have introduced it.
            if !self.nodes.contains_key(&key(&stat)) {
                let in_tree = self.trees.iter().any(|tree| path.starts_with(tree));
                self.enter(above, path.file_name()?.as_bytes(), &stat, Some(&path), in_tree);
            }
        }
        let known = *self.nodes.get(&key(&stat))?;
        if known.in_tree && !known.listed {
            self.list(dir, key(&stat));
        }
        // Only now do programs name its entries without a stop.
        self.mark(key(&stat), NODE_PARENT);
        Some(known.node)
    }

    /// Introduces all entries of a directory, in the order of the file system.
    pub fn list(&mut self, dir: &OwnedFd, of: Key) {
        let Some(known) = self.nodes.get_mut(&of).filter(|it| !it.listed) else { return };
        known.listed = true;
        let known = *known;
        let Ok(entries) = std::fs::read_dir(through(dir)) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(stat) = rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            // Outside the trees a directory is listed late: a known node may have its name there from a call.
            let present = self
                .nodes
                .get(&key(&stat))
                .is_none_or(|it| known.in_tree && !it.made && kind(&stat) != Kind::Directory);
            if key(&stat) != self.own && present {
                let path = entry.path();
                self.enter(known.node, name.as_bytes(), &stat, Some(&path), known.in_tree);
            }
        }
        // Its entries are known: programs name them without a stop.
        self.mark(of, NODE_LISTED | NODE_PARENT);
    }

    /// Introduces all entries below a directory.
    pub fn list_all(&mut self, path: &Path) {
        let mut open = vec![path.to_path_buf()];
        while let Some(path) = open.pop() {
            let Ok(dir) = directory(&path) else { continue };
            if self.directory(&dir).is_none() {
                continue;
            }
            let Ok(entries) = std::fs::read_dir(&path) else { continue };
            let below = entries.flatten().filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
            open.extend(below.map(|it| it.path()));
        }
    }

    /// The node of an entry of a directory; introduces it if it is new.
    pub fn node(&mut self, dir: &OwnedFd, parent: NodeId, name: &[u8], stat: &Stat) -> NodeId {
        if let Some(known) = self.nodes.get(&key(stat)) {
            return known.node;
        }
        let in_tree = self.in_trees.get(parent.0 as usize).copied().unwrap_or(false);
        let path = through(dir).join(OsStr::from_bytes(name));
        self.enter(parent, name, stat, Some(&path), in_tree)
    }

    fn enter(
        &mut self,
        parent: NodeId,
        name: &[u8],
        stat: &Stat,
        path: Option<&Path>,
        in_tree: bool,
    ) -> NodeId {
        let known = self.nodes.get(&key(stat)).map(|it| it.node);
        let node = known.unwrap_or_else(|| self.add(key(stat), in_tree));
        let Some(name) = self.name(name) else { return node };
        let kind = kind(stat);
        let sampled = kind == Kind::File && known.is_none() && stat.st_size > 0;
        let entry = Entry {
            parent,
            name,
            node,
            kind,
            size: stat.st_size.unsigned_abs(),
            allocated: stat.st_blocks.unsigned_abs() * 512,
            mode: stat.st_mode & 0o7777,
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            inode: stat.st_ino,
            class: match path {
                Some(path) if sampled => self.class(path, key(stat)),
                _ => Compressibility::Unknown,
            },
            xattrs: path.map(xattrs).unwrap_or_default(),
        };
        self.write(|writer| writer.entry(&entry));
        node
    }

    /// The class of a file: its own for the first files of an extension, then that of the last sampled one.
    fn class(&mut self, path: &Path, of: Key) -> Compressibility {
        let extension = path.extension().unwrap_or_default().as_bytes().to_vec();
        let known = self.classes.entry(extension).or_insert((0, Compressibility::Unknown));
        if known.0 < SAMPLES {
            let mut sample = [0; 4096];
            if let Ok(read) = regular(path, of).and_then(|it| it.read_at(&mut sample, 0)) {
                *known = (known.0 + 1, Compressibility::of(&sample[..read]));
            }
        }
        known.1
    }
}

/// Opens a regular file whose identity is known. Another object that is at the path by now is not opened: opening a
/// device has effects.
fn regular(path: &Path, of: Key) -> std::io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    if key(&stat) != of || kind(&stat) != Kind::File {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(through(&found), flags, Mode::empty())?.into())
}

/// The extended attributes of a file with the sizes of their values.
fn xattrs(path: &Path) -> Vec<Xattr> {
    let mut names = [0u8; 4096];
    let Ok(length) = rustix::fs::llistxattr(path, &mut names[..]) else { return Vec::new() };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let attribute = |name: &[u8]| {
        let size = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut [0u8; 0][..]).ok()?;
        Some(Xattr { name: name.into(), size: u32::try_from(size).ok()? })
    };
    names.take(128).filter_map(attribute).collect()
}

/// The name of the file system that a path is on; empty if that is unknown.
fn file_system(path: &Path) -> String {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = text.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = mounts.filter(|(at, _)| path.starts_with(at));
    // Of two mounts on one directory, the later one is visible.
    above.max_by_key(|(at, _)| at.len()).map(|(_, kind)| kind.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_regular_file_of_an_identity_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        std::fs::write(&one, "one").unwrap();
        std::os::unix::fs::symlink("/dev/zero", &other).unwrap();
        let of = key(&rustix::fs::stat(&one).unwrap());
        let mut text = String::new();
        std::io::Read::read_to_string(&mut regular(&one, of).unwrap(), &mut text).unwrap();
        assert_eq!(text, "one");
        assert!(regular(&other, of).is_err());
        // A device is not opened, even if it is what was found before.
        let device = key(&rustix::fs::stat("/dev/zero").unwrap());
        assert!(regular("/dev/zero".as_ref(), device).is_err());
    }
}
