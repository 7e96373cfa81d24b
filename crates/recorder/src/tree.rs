//! The nodes that a recording knows, and the entries of the initial tree, read before the program changes them.

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
use sha2::{Digest, Sha256};

use crate::anonymize;
use crate::error::RecordError;
use crate::hash::Map;
use crate::inode::{Info, Key, OwnFiles, directory, key, kind};
use crate::shared::Shared;
use crate::shared::layout::{NODE_KNOWN, NODE_LISTED, NODE_PARENT};

/// Maximum number of removed inodes whose former nodes are kept.
const FORMER: usize = 4096;

/// The number of files of each extension whose contents are sampled.
const SAMPLES: u32 = 4;

#[derive(Clone, Copy)]
struct Known {
    node: NodeId,
    /// True below a root of kind tree.
    in_tree: bool,
    /// True if its entries are in the trace.
    listed: bool,
    /// The clock when it was introduced.
    introduced: u64,
    /// True if a call created it.
    made: bool,
}

/// The nodes by inode, and the writer of the trace.
pub struct Tree {
    nodes: Map<Key, Known>,
    /// The former node of each recently removed inode, and the clock when it was removed.
    former: Map<Key, (NodeId, u64)>,
    former_order: VecDeque<Key>,
    next: u32,
    /// By node: true if it is below a root of kind tree.
    in_trees: Vec<bool>,
    /// By node: true if a call of the recording created it.
    created: Vec<bool>,
    trees: Vec<PathBuf>,
    /// Increases with each start and each end of a call.
    pub clock: u64,
    shared: Option<Rc<Shared>>,
    writer: Option<Writer<File>>,
    /// The reason why there is no writer any longer.
    pub failed: Option<RecordError>,
    anonymize: bool,
    /// The files of the trace, which are not part of the tree.
    own: OwnFiles,
    classes: HashMap<Vec<u8>, (u32, Compressibility)>,
}

/// Returns a path by which this process can access an open directory or file.
fn proc_path(dir: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}

impl Tree {
    /// Creates a tree with its roots: these directories, and `system`.
    pub fn new(
        trees: &[PathBuf],
        writer: Writer<File>,
        own: OwnFiles,
        anonymize: bool,
        shared: Option<Rc<Shared>>,
    ) -> Result<Tree, RecordError> {
        let mut it = Tree {
            nodes: Map::default(),
            former: Map::default(),
            former_order: VecDeque::new(),
            next: 0,
            in_trees: Vec::new(),
            created: Vec::new(),
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
            let tree_error = |error| RecordError::Tree { path: path.into(), error };
            let path = path.canonicalize().map_err(tree_error)?;
            let dir = directory(&path).map_err(|error| tree_error(error.into()))?;
            let stat = rustix::fs::fstat(&dir).map_err(|error| tree_error(error.into()))?;
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

    /// Writes to the trace. After an error, nothing more is written.
    pub fn write(
        &mut self,
        what: impl FnOnce(&mut Writer<File>) -> Result<(), fsdyno_trace::TraceError>,
    ) {
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = what(writer) {
            self.writer = None;
            let _ = writeln!(
                std::io::stderr(),
                "fsdyno: the trace cannot be written ({error}); the command continues without being recorded, \
                 and the trace so far is valid"
            );
            self.failed = Some(error.into());
        }
    }

    /// Returns the writer, to end the trace.
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

    /// Converts a name to its form in the trace.
    pub fn name(&self, bytes: &[u8]) -> Option<Name> {
        let name = Name::new(bytes).ok()?;
        Some(if self.anonymize { anonymize::name(&name) } else { name })
    }

    fn add(&mut self, key: Key, in_tree: bool) -> NodeId {
        let node = NodeId(self.next);
        self.next += 1;
        self.in_trees.push(in_tree);
        self.created.push(false);
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

    /// Remembers the node that an inode was until now: calls of other threads that began before may still refer to it.
    fn keep_former(&mut self, key: Key, node: NodeId) {
        if self.former_order.len() >= FORMER {
            if let Some(oldest) = self.former_order.pop_front() {
                self.former.remove(&oldest);
            }
        }
        self.former.insert(key, (node, self.clock));
        self.former_order.push_back(key);
    }

    /// Returns the node that an inode was for a call that began when the clock was `at`.
    pub fn known(&self, key: Key, at: u64) -> Option<NodeId> {
        let present = self.nodes.get(&key);
        let former = || self.former.get(&key).filter(|it| it.1 > at).map(|it| it.0);
        match present {
            Some(known) if known.introduced <= at => Some(known.node),
            present => former().or(present.map(|it| it.node)),
        }
    }

    /// Returns the node of an entry that the code injected into a program saw; adds it to the trace if it is new.
    pub fn node_seen(&mut self, parent: NodeId, name: &[u8], info: &Info, at: u64) -> NodeId {
        if let Some(known) = self.known(info.key, at) {
            return known;
        }
        let in_tree = self.in_trees.get(parent.0 as usize).copied().unwrap_or(false);
        self.enter(parent, name, &info.stat(), None, in_tree)
    }

    /// Adds an entry of a known directory to the trace, whether or not its node is known.
    pub fn introduce(&mut self, parent: NodeId, name: &[u8], info: &Info, path: &Path) -> NodeId {
        let in_tree = self.in_trees.get(parent.0 as usize).copied().unwrap_or(false);
        self.enter(parent, name, &info.stat(), Some(path), in_tree)
    }

    /// Returns true once for each known directory whose entries are to be added. Unless `any`, these are only the
    /// directories of trees.
    pub fn begins_listing(&mut self, key: Key, any: bool) -> bool {
        let Some(known) = self.nodes.get_mut(&key) else { return false };
        (known.in_tree || any) && !std::mem::replace(&mut known.listed, true)
    }

    /// Ends the trace at the present position.
    pub fn stop(&mut self, error: RecordError) {
        self.write(|writer| writer.flush());
        if self.writer.take().is_some() {
            self.failed = Some(error);
        }
    }

    /// Returns the node of an inode that was created by a call which began at `before`, and true if the node is new; it
    /// is not if a different call introduced it meanwhile. If two `exclusive` calls created the same key, the inode
    /// number was reused.
    pub fn created_node(
        &mut self,
        key: Key,
        parent: NodeId,
        before: u64,
        exclusive: bool,
    ) -> (NodeId, bool) {
        match self.nodes.get(&key) {
            Some(known) if known.introduced > before && !(known.made && exclusive) => {
                (known.node, false)
            }
            _ => {
                let in_tree = self.in_trees.get(parent.0 as usize).copied().unwrap_or(false);
                let node = self.add(key, in_tree);
                if let Some(known) = self.nodes.get_mut(&key) {
                    // A new directory is empty.
                    (known.listed, known.made) = (true, true);
                }
                if let Some(created) = self.created.get_mut(node.0 as usize) {
                    *created = true;
                }
                self.mark(key, NODE_LISTED);
                (node, true)
            }
        }
    }

    /// Removes an inode that was deleted by a call which began at `before`, unless a new inode already has its number.
    pub fn remove(&mut self, key: Key, before: u64) {
        if self.nodes.get(&key).is_some_and(|it| it.introduced <= before) {
            if let Some(former) = self.nodes.remove(&key) {
                self.keep_former(key, former.node);
            }
        }
    }

    /// Returns the node of a directory that this process has open.
    pub fn directory(&mut self, dir: &OwnedFd) -> Option<NodeId> {
        let stat = rustix::fs::fstat(dir).ok()?;
        if !self.nodes.contains_key(&key(&stat)) {
            let path = std::fs::read_link(proc_path(dir)).ok()?;
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
        // From now on, the injected code handles names in this directory without a stop.
        self.mark(key(&stat), NODE_PARENT);
        Some(known.node)
    }

    /// Adds all entries of a directory to the trace, in the order of readdir(3).
    pub fn list(&mut self, dir: &OwnedFd, identity: Key) {
        let Some(known) = self.nodes.get_mut(&identity).filter(|it| !it.listed) else { return };
        known.listed = true;
        let known = *known;
        let Ok(entries) = std::fs::read_dir(proc_path(dir)) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(stat) = rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            // Outside the trees a directory is listed late: a call may have given a known node this name.
            let present = self
                .nodes
                .get(&key(&stat))
                .is_none_or(|it| known.in_tree && !it.made && kind(&stat) != Kind::Directory);
            if !self.own.contains(&key(&stat)) && present {
                let path = entry.path();
                self.enter(known.node, name.as_bytes(), &stat, Some(&path), known.in_tree);
            }
        }
        // The entries are known: the injected code handles them without a stop.
        self.mark(identity, NODE_LISTED | NODE_PARENT);
    }

    /// Adds all entries below a directory to the trace.
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

    /// Returns the node of an entry of a directory; adds it to the trace if it is new.
    pub fn node(&mut self, dir: &OwnedFd, parent: NodeId, name: &[u8], stat: &Stat) -> NodeId {
        if let Some(known) = self.nodes.get(&key(stat)) {
            return known.node;
        }
        let in_tree = self.in_trees.get(parent.0 as usize).copied().unwrap_or(false);
        let path = proc_path(dir).join(OsStr::from_bytes(name));
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
        let Some(name) = self.name(name).or_else(|| self.name(&shorten(name))) else {
            return node;
        };
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
            xattrs: path.map(|path| list_xattrs(path, key(stat))).unwrap_or_default(),
        };
        // An unrecorded program created this entry in a directory that the recorded program created. The entry must
        // follow the call that created the directory, but within a frame entries precede events.
        if self.created.get(parent.0 as usize).is_some_and(|it| *it) {
            self.write(Writer::flush);
        }
        self.write(|writer| writer.entry(&entry));
        node
    }

    /// Returns the compressibility of a file. The first files with an extension are sampled; later ones get the class of
    /// the last sampled file.
    fn class(&mut self, path: &Path, identity: Key) -> Compressibility {
        let extension = path.extension().unwrap_or_default().as_bytes().to_vec();
        let known = self.classes.entry(extension).or_insert((0, Compressibility::Unknown));
        if known.0 < SAMPLES {
            let mut sample = [0; 4096];
            if let Ok(read) = open_regular(path, identity).and_then(|it| it.read_at(&mut sample, 0))
            {
                *known = (known.0 + 1, Compressibility::of(&sample[..read]));
            }
        }
        known.1
    }
}

/// Replaces a name that is too long for a trace (over 255 bytes) by its beginning and a hash.
fn shorten(name: &[u8]) -> Vec<u8> {
    let hash: String =
        Sha256::digest(name).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    [&name[..name.len().min(200)], b"-", hash.as_bytes()].concat()
}

/// Opens an object with O_PATH and checks its identity: another object may now be at the path, and opening a device has
/// side effects.
fn open_path(path: &Path, identity: Key) -> std::io::Result<(OwnedFd, Kind)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    if key(&stat) == identity {
        Ok((found, kind(&stat)))
    } else {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

/// Opens a regular file whose identity is known.
fn open_regular(path: &Path, identity: Key) -> std::io::Result<File> {
    let (found, kind) = open_path(path, identity)?;
    if kind != Kind::File {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(proc_path(&found), flags, Mode::empty())?.into())
}

/// Returns the extended attributes of a file with the sizes of their values.
fn list_xattrs(path: &Path, identity: Key) -> Vec<Xattr> {
    let mut names = [0u8; 4096];
    let Ok((found, _)) = open_path(path, identity) else { return Vec::new() };
    let path = proc_path(&found);
    let Ok(length) = rustix::fs::listxattr(&path, &mut names[..]) else { return Vec::new() };
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let attribute = |name: &[u8]| {
        let size = rustix::fs::getxattr(&path, OsStr::from_bytes(name), &mut [0u8; 0][..]).ok()?;
        Some(Xattr { name: name.into(), size: u32::try_from(size).ok()? })
    };
    names.take(128).filter_map(attribute).collect()
}

/// Returns the name of the file system that a path is on, or empty if unknown.
fn file_system(path: &Path) -> String {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = text.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = mounts.filter(|(at, _)| path.starts_with(at));
    // If two file systems are mounted on one directory, the later mount is visible.
    above.max_by_key(|(at, _)| at.len()).map(|(_, kind)| kind.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_opened_only_if_it_is_regular_and_has_the_expected_identity() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        std::fs::write(&one, "one").unwrap();
        std::os::unix::fs::symlink("/dev/zero", &other).unwrap();
        let identity = key(&rustix::fs::stat(&one).unwrap());
        let mut text = String::new();
        std::io::Read::read_to_string(&mut open_regular(&one, identity).unwrap(), &mut text)
            .unwrap();
        assert_eq!(text, "one");
        assert!(open_regular(&other, identity).is_err());
        // A device is not opened, even if its identity is the expected one.
        let device = key(&rustix::fs::stat("/dev/zero").unwrap());
        assert!(open_regular("/dev/zero".as_ref(), device).is_err());
    }
}
