//! Calls on whole trees, which the engine expands: remove, copy, pack and unpack.

use super::change::{Change, Entry};
use super::node::{Archive, Inode, Member, Node, NodeKind};
use super::operands::PathStart;
use super::path::Follow;
use super::plan::Changes;
use super::{Errno, MemoryFs};
use crate::op::RECORD;

/// Size of an archive block in bytes.
const BLOCK: u64 = 512;

impl MemoryFs {
    /// Returns the directory at a path, which must not be a symbolic link.
    pub(super) fn resolve_tree(&self, start: PathStart<'_>) -> Result<Inode, Errno> {
        let inode = self.resolve(start.0?, start.1, Follow::No)?;
        self.check_directory(inode).map(|()| inode)
    }

    /// Checks that each file in a directory can be read, if `read`.
    pub(super) fn stat_each(&self, start: PathStart<'_>, read: bool) -> Result<(), Errno> {
        let inode = self.resolve_tree(start)?;
        let entries =
            self.node(inode).and_then(Node::as_directory).map(|directory| &directory.entries);
        for name in entries.into_iter().flat_map(|entries| entries.keys()).filter(|_| read) {
            let is_link = |inode| self.node(inode).is_some_and(|node| node.target().is_some());
            if self.child(inode, name)?.is_some_and(is_link) {
                let target = self.resolve(inode, name, Follow::Yes)?;
                self.node(target).and_then(Node::size).ok_or(Errno::IsDirectory)?;
            }
        }
        Ok(())
    }

    /// Removes a directory and everything below it; with `synced`, each directory is synced once its files are removed.
    pub(super) fn remove_tree(&self, entry: PathStart<'_>, synced: bool) -> Changes {
        let (entry, inode) = self.resolve_directory(entry.0?, entry.1)?;
        let mut changes = Vec::new();
        self.remove_entries(inode, synced, &mut changes);
        changes.push(Change::Removed { entry, inode });
        Ok(changes)
    }

    fn remove_entries(&self, dir: Inode, synced: bool, changes: &mut Vec<Change>) {
        let Some(directory) = self.node(dir).and_then(Node::as_directory) else { return };
        let mut files = 0;
        for (name, inode) in &directory.entries {
            match self.node(*inode).is_some_and(Node::is_directory) {
                true => self.remove_entries(*inode, synced, changes),
                false => files += 1,
            }
            let entry = Entry { dir, name: name.clone() };
            changes.push(Change::Removed { entry, inode: *inode });
        }
        if synced && files > 0 {
            changes.push(Change::Synced { inode: dir });
        }
    }

    pub(super) fn copy_tree(&self, from: PathStart<'_>, to: PathStart<'_>) -> Changes {
        let inode = self.resolve(from.0?, from.1, Follow::No)?;
        let tree = self.copy_of(inode)?;
        let entry = self.new_entry(to.0?, to.1, tree.node.is_directory())?;
        if self.is_within(entry.dir, inode) {
            return Err(Errno::Invalid);
        }
        Ok(self.create_tree(entry, &tree))
    }

    pub(super) fn pack_tree(&self, from: PathStart<'_>, to: PathStart<'_>) -> Changes {
        let entry = self.new_entry(to.0?, to.1, false)?;
        let inode = self.resolve(from.0?, from.1, Follow::No)?;
        if self.is_within(entry.dir, inode) {
            return Err(Errno::Invalid);
        }
        let tree = self.copy_of(inode)?;
        // Two blocks of zeros end an archive, and zeros pad its last record.
        let size = ((tree.blocks() + 2) * BLOCK).next_multiple_of(RECORD);
        let archive = Archive { size, path: from.1.to_vec(), tree };
        Ok(self.create_changes(entry, Node::new(NodeKind::Archive(Box::new(archive)), 0o644)))
    }

    pub(super) fn unpack_tree(&self, from: PathStart<'_>, to: PathStart<'_>) -> Changes {
        let inode = self.resolve(from.0?, from.1, Follow::No)?;
        let Some(Node { kind: NodeKind::Archive(archive), .. }) = self.node(inode) else {
            return Err(Errno::NotSupported);
        };
        let path = [to.1, b"/", &archive.path].concat();
        let entry = self.new_entry(to.0?, &path, archive.tree.node.is_directory())?;
        Ok(self.create_tree(entry, &archive.tree))
    }

    /// Returns a tree to copy or pack: its files and directories, without the names that files have outside the tree.
    fn copy_of(&self, inode: Inode) -> Result<Member, Errno> {
        let node = self.node(inode).ok_or(Errno::Missing)?;
        let (kind, mut children) = match &node.kind {
            NodeKind::Symlink(_) => return Err(Errno::NotSupported),
            NodeKind::File(_) | NodeKind::Archive(_) => (node.kind.clone(), Vec::new()),
            NodeKind::Directory(directory) => {
                let names = directory.entries.iter();
                let children = names.map(|(name, inode)| Ok((name.clone(), self.copy_of(*inode)?)));
                (NodeKind::Directory(Default::default()), children.collect::<Result<_, Errno>>()?)
            }
        };
        children.shrink_to_fit();
        Ok(Member { node: Node { mtime: node.mtime, ..Node::new(kind, node.mode) }, children })
    }

    /// Returns the changes that create a tree under a new name and then restore the times of its directories.
    fn create_tree(&self, entry: Entry, tree: &Member) -> Vec<Change> {
        let (mut changes, mut times) = (Vec::new(), Vec::new());
        let mut pending = vec![(entry, tree)];
        let mut inode = self.next_inode();
        while let Some((entry, Member { node, children })) = pending.pop() {
            pending.extend(children.iter().map(|(name, member)| {
                let entry = Entry { dir: inode, name: name.clone() };
                (entry, member)
            }));
            changes.push(Change::Created { entry, node: Box::new(node.clone()) });
            if let (true, Some(_)) = (node.is_directory(), node.mtime) {
                times.push(Change::TimeSet { inode, mtime: node.mtime });
            }
            inode += 1;
        }
        changes.extend(times);
        changes
    }
}

impl Member {
    /// Returns the number of blocks in an archive: a header and the data of each member.
    fn blocks(&self) -> u64 {
        let own_blocks = 1 + self.node.size().unwrap_or(0).div_ceil(BLOCK);
        own_blocks + self.children.iter().map(|(_, member)| member.blocks()).sum::<u64>()
    }
}
