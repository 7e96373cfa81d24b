//! The file system as the tree that a workload is expected to leave.

use super::node::{Inode, Node, NodeKind};
use super::path::Follow;
use super::{MemoryFs, ROOT};
use crate::op::Payload;
use crate::workload::{Expected, ExpectedKind, Links, Tree};

impl MemoryFs {
    /// Returns the inode at a path from the root, not following a link at its end; "" is the root.
    pub fn find(&self, path: &[u8]) -> Option<Inode> {
        if path.is_empty() {
            return Some(ROOT);
        }
        self.resolve(ROOT, path, Follow::No).ok()
    }

    /// Returns the path of a directory from the root ("" for the root itself), or `None` if it was removed.
    pub fn path(&self, dir: Inode) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        let mut inode = dir;
        while inode != ROOT {
            let node = self.node(inode).filter(|node| node.links > 0)?;
            let directory = node.as_directory()?;
            names.push(&directory.name[..]);
            inode = directory.parent;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// Returns the parent of a directory, and its name there; `None` for the root or a removed directory.
    pub fn parent_and_name(&self, dir: Inode) -> Option<(Inode, &[u8])> {
        let node = self.node(dir).filter(|node| node.links > 0 && dir != ROOT)?;
        node.as_directory().map(|directory| (directory.parent, &directory.name[..]))
    }

    /// Returns the path of each name below a directory, relative to it, with its inode: every directory before its
    /// entries, and the names in one directory in sorted order.
    pub fn walk(&self, dir: Inode) -> impl Iterator<Item = (Vec<u8>, Inode)> {
        let mut pending = self.entries_reversed(dir, b"");
        std::iter::from_fn(move || {
            let (path, inode) = pending.pop()?;
            pending.extend(self.entries_reversed(inode, &path));
            Some((path, inode))
        })
    }

    /// Returns the paths of the entries of a directory, which begin with the directory's path, in reverse order.
    fn entries_reversed(&self, dir: Inode, path: &[u8]) -> Vec<(Vec<u8>, Inode)> {
        let directory = self.node(dir).and_then(Node::as_directory);
        let entries = directory.into_iter().flat_map(|directory| directory.entries.iter().rev());
        let path_of = |name: &[u8]| match path {
            b"" => name.to_vec(),
            path => [path, b"/", name].concat(),
        };
        entries.map(|(name, inode)| (path_of(name), *inode)).collect()
    }
}

impl Tree for MemoryFs {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let inode = self.find(path).filter(|inode| *inode != ROOT)?;
        let node = self.node(inode)?;
        let kind = match &node.kind {
            NodeKind::Directory(_) => ExpectedKind::Directory,
            NodeKind::Symlink(_) => ExpectedKind::Symlink,
            NodeKind::File(content) => ExpectedKind::Pieces(content.size()),
            NodeKind::Archive(archive) => ExpectedKind::Sized(archive.size),
        };
        let count = u64::from(node.links);
        Some(Expected {
            kind,
            // A symbolic link has no permissions of its own.
            mode: node.target().is_none().then_some(node.mode),
            mtime: node.mtime,
            links: (count > 1).then_some(Links { group: inode as u64, count }),
        })
    }

    fn files(&self) -> u64 {
        self.totals.names - self.totals.directories
    }

    fn directories(&self) -> u64 {
        self.totals.directories
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        self.node(self.find(path)?)?.content()?.piece(offset)
    }

    fn target(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.node(self.find(path)?)?.target().map(<[u8]>::to_vec)
    }
}
