//! Calls on whole trees, which the engine expands: remove, copy, pack and unpack.

use super::change::{Change, Entry};
use super::node::{Archive, Inode, Member, Node, NodeKind};
use super::path::Follow;
use super::plan::{At, Changes};
use super::{Errno, MemoryFs};
use crate::op::RECORD;

/// Size of an archive block in bytes.
const BLOCK: u64 = 512;

impl MemoryFs {
    /// Returns the directory at a path, which must not be a symbolic link.
    pub(super) fn directory_at(&self, at: At<'_>) -> Result<Inode, Errno> {
        let inode = self.resolve(at.0?, at.1, Follow::No)?;
        self.check_directory(inode).map(|()| inode)
    }

    /// Checks that each file in a directory can be read, if `read`.
    pub(super) fn stat_each(&self, at: At<'_>, read: bool) -> Result<(), Errno> {
        let inode = self.directory_at(at)?;
        let entries = self.node(inode).and_then(Node::as_directory).map(|it| &it.entries);
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
    pub(super) fn remove_tree(&self, at: At<'_>, synced: bool) -> Changes {
        let (at, inode) = self.named_directory(at.0?, at.1)?;
        let mut changes = Vec::new();
        self.remove_below(inode, synced, &mut changes);
        changes.push(Change::Removed { at, inode });
        Ok(changes)
    }

    fn remove_below(&self, dir: Inode, synced: bool, changes: &mut Vec<Change>) {
        let Some(directory) = self.node(dir).and_then(Node::as_directory) else { return };
        let mut files = 0;
        for (name, inode) in &directory.entries {
            match self.node(*inode).is_some_and(Node::is_directory) {
                true => self.remove_below(*inode, synced, changes),
                false => files += 1,
            }
            let at = Entry { dir, name: name.clone() };
            changes.push(Change::Removed { at, inode: *inode });
        }
        if synced && files > 0 {
            changes.push(Change::Synced { inode: dir });
        }
    }

    pub(super) fn copy_tree(&self, from: At<'_>, to: At<'_>) -> Changes {
        let inode = self.resolve(from.0?, from.1, Follow::No)?;
        let tree = self.member(inode)?;
        let at = self.vacant(to.0?, to.1, tree.node.is_directory())?;
        if self.lies_in(at.dir, inode) {
            return Err(Errno::Invalid);
        }
        Ok(self.make_tree(at, &tree))
    }

    pub(super) fn pack_tree(&self, from: At<'_>, to: At<'_>) -> Changes {
        let at = self.vacant(to.0?, to.1, false)?;
        let inode = self.resolve(from.0?, from.1, Follow::No)?;
        if self.lies_in(at.dir, inode) {
            return Err(Errno::Invalid);
        }
        let tree = self.member(inode)?;
        // Two blocks of zeros end an archive, and zeros pad its last record.
        let size = ((tree.blocks() + 2) * BLOCK).next_multiple_of(RECORD);
        let archive = Archive { size, path: from.1.to_vec(), tree };
        Ok(self.made(at, Node::new(NodeKind::Archive(Box::new(archive)), 0o644)))
    }

    pub(super) fn unpack_tree(&self, from: At<'_>, to: At<'_>) -> Changes {
        let inode = self.resolve(from.0?, from.1, Follow::No)?;
        let Some(Node { kind: NodeKind::Archive(archive), .. }) = self.node(inode) else {
            return Err(Errno::NotSupported);
        };
        let path = [to.1, b"/", &archive.path].concat();
        let at = self.vacant(to.0?, &path, archive.tree.node.is_directory())?;
        Ok(self.make_tree(at, &archive.tree))
    }

    /// Returns a tree to copy or pack: its files and directories, without the names that files have outside the tree.
    fn member(&self, inode: Inode) -> Result<Member, Errno> {
        let node = self.node(inode).ok_or(Errno::Missing)?;
        let (kind, mut below) = match &node.kind {
            NodeKind::Symlink(_) => return Err(Errno::NotSupported),
            NodeKind::File(_) | NodeKind::Archive(_) => (node.kind.clone(), Vec::new()),
            NodeKind::Directory(directory) => {
                let names = directory.entries.iter();
                let below = names.map(|(name, inode)| Ok((name.clone(), self.member(*inode)?)));
                (NodeKind::Directory(Default::default()), below.collect::<Result<_, Errno>>()?)
            }
        };
        below.shrink_to_fit();
        Ok(Member { node: Node { mtime: node.mtime, ..Node::new(kind, node.mode) }, below })
    }

    /// Returns the changes that create a tree under a new name and then restore the times of its directories.
    fn make_tree(&self, at: Entry, tree: &Member) -> Vec<Change> {
        let (mut changes, mut times) = (Vec::new(), Vec::new());
        let mut waiting = vec![(at, tree)];
        let mut inode = self.next_inode();
        while let Some((at, Member { node, below })) = waiting.pop() {
            waiting.extend(below.iter().map(|(name, member)| {
                let at = Entry { dir: inode, name: name.clone() };
                (at, member)
            }));
            changes.push(Change::Made { at, node: Box::new(node.clone()) });
            if let (true, Some(_)) = (node.is_directory(), node.mtime) {
                times.push(Change::Modified { inode, mtime: node.mtime });
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
        let own = 1 + self.node.size().unwrap_or(0).div_ceil(BLOCK);
        own + self.below.iter().map(|(_, member)| member.blocks()).sum::<u64>()
    }
}
