//! An in-memory file system: it applies ops with POSIX results, and represents the resulting tree.
//!
//! It is the reference for the workloads' tests, the state from which `crash` computes what must survive a power cut,
//! and the expected tree of ops that have no closed form. It models what Linux does for a privileged caller with a
//! umask of 0: names, directories, hard and symbolic links, open slots and file positions, sizes, contents, permission
//! bits, and modification times that were set. It does not model permissions, owners, access times, extended
//! attributes, free space, or limits of a particular file system, except that names have at most 255 bytes. Its root
//! has no parent directory, as after chroot(2).
//!
//! A call is first planned, which changes nothing; its changes are then committed ([`MemoryFs::plan`],
//! [`MemoryFs::commit`]). [`MemoryFs::apply`] does both. Code that tracks the changes (a history of names, a log of
//! what is durable) matches on the kinds of [`Change`], not on calls.
//!
//! **Memory**: at most 400 bytes per name of a file, of which about 150 are for the inode, plus twice the length of the
//! name; for a file that is not empty, also 400 bytes for its first eleven payloads and at most 70 for each further
//! one. Directories take as much as files. The sizes of files do not matter.

mod change;
mod content;
mod errno;
mod node;
mod operands;
mod path;
mod plan;
mod rare;
mod tree;
mod whole_tree;

use std::collections::HashMap;

pub use change::{Change, Entry, OpenFile, Outcome, Slot};
pub use content::Content;
pub use errno::Errno;
pub use node::{Archive, Directory, Inode, Node, NodeKind};

use crate::op::{DirSlot, FileSlot, Op};

/// The root directory.
pub const ROOT: Inode = 0;

/// A file system in memory.
#[derive(Clone, Debug)]
pub struct MemoryFs {
    nodes: HashMap<Inode, Node>,
    /// Number of the next inode.
    next_inode: Inode,
    files: HashMap<Slot, OpenFile>,
    dirs: HashMap<Slot, Inode>,
    /// True if a slot of an open file is also that of a directory.
    shares_slots: bool,
    totals: Totals,
}

/// Totals over everything that exists at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of names, without the root.
    pub names: u64,
    /// Number of the names that are directories.
    pub directories: u64,
    /// Bytes of all files, including open files without a name.
    pub bytes: u64,
}

impl Default for MemoryFs {
    fn default() -> MemoryFs {
        MemoryFs::new()
    }
}

impl MemoryFs {
    /// Creates a file system with an empty root directory.
    pub fn new() -> MemoryFs {
        let root = Node { links: 1, ..Node::directory(0o755) };
        MemoryFs {
            nodes: HashMap::from([(ROOT, root)]),
            next_inode: ROOT + 1,
            files: HashMap::new(),
            dirs: HashMap::new(),
            shares_slots: false,
            totals: Totals::default(),
        }
    }

    /// Applies an op and returns the result of its call: bytes read or written, else 0.
    ///
    /// # Errors
    /// The error that Linux returns. In that case nothing has changed.
    pub fn apply(&mut self, op: &Op) -> Result<u64, Errno> {
        let outcome = self.plan(op)?;
        for change in outcome.changes {
            self.commit(change);
        }
        Ok(outcome.bytes)
    }

    /// Makes a change, which must come from a plan for this state. Returns the inode that ceased to exist, if any: one
    /// that has no name and is not open.
    pub fn commit(&mut self, change: Change) -> Option<(Inode, Node)> {
        match change {
            Change::Created { entry, node } => self.create(entry, *node),
            Change::Linked { entry, inode } => self.add_name(entry, inode),
            Change::Removed { entry, inode } => {
                self.remove_name(&entry);
                return self.remove_if_unused(inode);
            }
            Change::Renamed { from, to, inode } => {
                self.remove_name(&from);
                let replaced = self.remove_name(&to);
                self.add_name(to, inode);
                return replaced.and_then(|replaced| self.remove_if_unused(replaced));
            }
            Change::Written { inode, offset, payload } => {
                self.change_content(inode, |content| content.write(offset, payload));
            }
            Change::Resized { inode, size } => self.resize(inode, size),
            Change::ModeSet { inode, mode } => {
                self.nodes.entry(inode).and_modify(|node| node.mode = mode);
            }
            Change::TimeSet { inode, mtime } => {
                self.nodes.entry(inode).and_modify(|node| node.mtime = mtime);
            }
            Change::Synced { .. } | Change::SyncedAll => {}
            Change::File { slot, open } => {
                let previous = match open {
                    Some(file) => self.files.insert(slot, file),
                    None => self.files.remove(&slot),
                };
                return self.update_open_counts(
                    previous.map(|file| file.inode),
                    open.map(|file| file.inode),
                );
            }
            Change::Dir { slot, open } => {
                let previous = match open {
                    Some(directory) => self.dirs.insert(slot, directory),
                    None => self.dirs.remove(&slot),
                };
                return self.update_open_counts(previous, open);
            }
        }
        None
    }

    /// Returns an inode that has a name or is open.
    pub fn node(&self, inode: Inode) -> Option<&Node> {
        self.nodes.get(&inode)
    }

    /// Returns the number that the next inode will have.
    pub fn next_inode(&self) -> Inode {
        self.next_inode
    }

    /// Returns the totals of the current state.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the number of open slots of all threads.
    pub fn open_slots(&self) -> usize {
        self.files.len() + self.dirs.len()
    }

    /// Returns the open file of a slot.
    pub fn open_file(&self, thread: u32, slot: FileSlot) -> Option<OpenFile> {
        self.files.get(&(thread, slot.0)).copied()
    }

    /// Lets paths begin in directories that are open as files, as threads do that share one table of slots.
    pub fn share_slots(&mut self) {
        self.shares_slots = true;
    }

    /// Returns the open directory of a slot.
    pub fn open_dir(&self, thread: u32, slot: DirSlot) -> Option<Inode> {
        let opened_as_file = || {
            let open = self.open_file(thread, FileSlot(slot.0)).filter(|_| self.shares_slots);
            open.map(|open| open.inode)
        };
        match slot {
            DirSlot::ROOT => Some(ROOT),
            slot => self.dirs.get(&(thread, slot.0)).copied().or_else(opened_as_file),
        }
    }

    fn create(&mut self, entry: Entry, mut node: Node) {
        let inode = self.next_inode;
        self.next_inode += 1;
        if let NodeKind::Directory(directory) = &mut node.kind {
            directory.parent = entry.dir;
        }
        self.totals.bytes += node.size().unwrap_or(0);
        self.nodes.insert(inode, node);
        self.add_name(entry, inode);
    }

    /// Adds a name.
    fn add_name(&mut self, entry: Entry, inode: Inode) {
        let Some(node) = self.nodes.get_mut(&inode) else { return };
        node.links += 1;
        if let NodeKind::Directory(directory) = &mut node.kind {
            (directory.parent, directory.name) = (entry.dir, entry.name.clone());
            self.totals.directories += 1;
        }
        self.totals.names += 1;
        if let Some(entries) = self.entries_mut(entry.dir) {
            entries.insert(entry.name, inode);
        }
    }

    /// Removes a name and returns the inode that it named.
    fn remove_name(&mut self, entry: &Entry) -> Option<Inode> {
        let inode = self.entries_mut(entry.dir)?.remove(&entry.name)?;
        let node = self.nodes.get_mut(&inode)?;
        node.links -= 1;
        self.totals.names -= 1;
        self.totals.directories -= u64::from(node.is_directory());
        Some(inode)
    }

    /// Returns the entries of a directory for a change, and clears the directory's modification time.
    fn entries_mut(&mut self, dir: Inode) -> Option<&mut node::Entries> {
        let node = self.nodes.get_mut(&dir)?;
        node.mtime = None;
        match &mut node.kind {
            NodeKind::Directory(directory) => Some(&mut directory.entries),
            NodeKind::File(_) | NodeKind::Archive(_) | NodeKind::Symlink(_) => None,
        }
    }

    /// Counts an open slot for the inode `after` instead of the inode `before`.
    fn update_open_counts(
        &mut self,
        before: Option<Inode>,
        after: Option<Inode>,
    ) -> Option<(Inode, Node)> {
        if let Some(node) = after.and_then(|inode| self.nodes.get_mut(&inode)) {
            node.open += 1;
        }
        let before = before?;
        self.nodes.entry(before).and_modify(|node| node.open -= 1);
        self.remove_if_unused(before)
    }

    /// Removes an inode if nothing refers to it any more.
    fn remove_if_unused(&mut self, inode: Inode) -> Option<(Inode, Node)> {
        let node = self.nodes.get(&inode)?;
        if node.links > 0 || node.open > 0 {
            return None;
        }
        let node = self.nodes.remove(&inode)?;
        self.totals.bytes -= node.size().unwrap_or(0);
        Some((inode, node))
    }

    fn resize(&mut self, inode: Inode, size: u64) {
        let Some(node) = self.nodes.get_mut(&inode) else { return };
        if let NodeKind::Archive(archive) = &node.kind {
            // The only possible change to an archive is to truncate it to zero bytes.
            self.totals.bytes -= archive.size;
            node.kind = NodeKind::File(Content::default());
        }
        self.change_content(inode, |content| content.resize(size));
    }

    fn change_content(&mut self, inode: Inode, change: impl FnOnce(&mut Content)) {
        let Some(node) = self.nodes.get_mut(&inode) else { return };
        let NodeKind::File(content) = &mut node.kind else { return };
        let before = content.size();
        change(content);
        node.mtime = None;
        self.totals.bytes = self.totals.bytes + content.size() - before;
    }
}

#[cfg(test)]
mod tests;
