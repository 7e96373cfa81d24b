//! The inodes of the file system in memory.

use std::collections::BTreeMap;

use super::content::Content;

/// Number of an inode: 0 is the root, the others follow in order of creation. A number is never reused.
pub type Inode = usize;

/// An inode.
#[derive(Clone, Debug)]
pub struct Node {
    /// File, directory or symbolic link.
    pub kind: NodeKind,
    /// Permission bits (0o7777), which nothing here enforces.
    pub mode: u32,
    /// Modification time in seconds since 1970, if it was set after the last change; the change itself sets it to a
    /// time that is not modelled.
    pub mtime: Option<i64>,
    /// Number of names. A directory has one, and none once it is removed.
    pub links: u32,
    /// Number of slots in which it is open.
    pub(super) open: u32,
}

/// The kind of an inode.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A directory.
    Directory(Directory),
    /// A regular file.
    File(Content),
    /// A regular file created by [`Compound::PackTree`](crate::Compound::PackTree). The order of its members, and hence
    /// its bytes, are known only to the file system that was packed.
    Archive(Box<Archive>),
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
}

/// Inodes by name.
pub(super) type Entries = BTreeMap<Box<[u8]>, Inode>;

/// The names in a directory.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Its parent directory; the root is its own parent.
    pub(super) parent: Inode,
    /// Its name in the parent directory.
    pub(super) name: Box<[u8]>,
    /// The names in it.
    pub(super) entries: Entries,
}

/// A packed tree.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Size of the archive in bytes.
    pub size: u64,
    /// Path of the packed tree, as given.
    pub(super) path: Vec<u8>,
    /// The tree.
    pub(super) tree: Member,
}

/// A file or directory of a packed or copied tree, with its entries.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) node: Node,
    pub(super) children: Vec<(Box<[u8]>, Member)>,
}

impl Node {
    /// Creates an inode without a name.
    pub(super) fn new(kind: NodeKind, mode: u32) -> Node {
        Node { kind, mode, mtime: None, links: 0, open: 0 }
    }

    /// Creates an empty file without a name.
    pub(super) fn file(mode: u32) -> Node {
        Node::new(NodeKind::File(Content::default()), mode & 0o7777)
    }

    /// Creates an empty directory without a name; mkdir(2) ignores set-id bits.
    pub(super) fn directory(mode: u32) -> Node {
        Node::new(NodeKind::Directory(Directory::default()), mode & 0o1777)
    }

    /// Returns true if the inode is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, NodeKind::Directory(_))
    }

    /// Returns the content of a regular file whose bytes are known.
    pub fn content(&self) -> Option<&Content> {
        match &self.kind {
            NodeKind::File(content) => Some(content),
            NodeKind::Directory(_) | NodeKind::Archive(_) | NodeKind::Symlink(_) => None,
        }
    }

    /// Consumes the node and returns the content of a regular file whose bytes are known.
    pub fn into_content(self) -> Option<Content> {
        match self.kind {
            NodeKind::File(content) => Some(content),
            NodeKind::Directory(_) | NodeKind::Archive(_) | NodeKind::Symlink(_) => None,
        }
    }

    /// Returns the size of a regular file in bytes; `None` for a directory or symbolic link.
    pub fn size(&self) -> Option<u64> {
        match &self.kind {
            NodeKind::File(content) => Some(content.size()),
            NodeKind::Archive(archive) => Some(archive.size),
            NodeKind::Directory(_) | NodeKind::Symlink(_) => None,
        }
    }

    pub(super) fn as_directory(&self) -> Option<&Directory> {
        match &self.kind {
            NodeKind::Directory(directory) => Some(directory),
            NodeKind::File(_) | NodeKind::Archive(_) | NodeKind::Symlink(_) => None,
        }
    }

    pub(super) fn target(&self) -> Option<&[u8]> {
        match &self.kind {
            NodeKind::Symlink(target) => Some(target),
            NodeKind::Directory(_) | NodeKind::File(_) | NodeKind::Archive(_) => None,
        }
    }
}
