//! Paths to inodes, as the kernel resolves them.

use super::change::Entry;
use super::node::Inode;
use super::{Errno, MemoryFs, ROOT};

/// Maximum number of symbolic links followed in one path.
const MAX_SYMLINKS: u32 = 40;

/// Maximum length of a name in bytes.
const MAX_NAME: usize = 255;

/// The end of a path: its last component, and the directory that contains it.
pub(super) struct PathEnd {
    /// The directory.
    pub(super) dir: Inode,
    /// The last component.
    pub(super) last: LastComponent,
    /// True if a slash follows; the component must then be a directory.
    pub(super) has_slash: bool,
}

/// The last component of a path.
pub(super) enum LastComponent {
    /// A name.
    Name(Box<[u8]>),
    /// `.`, or nothing but slashes.
    Dot,
    /// `..`
    DotDot,
}

/// The treatment of a symbolic link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    Yes,
    No,
}

/// Number of symbolic links followed so far.
#[derive(Default)]
pub(super) struct Links(u32);

impl Links {
    pub(super) fn follow(&mut self) -> Result<(), Errno> {
        self.0 += 1;
        if self.0 > MAX_SYMLINKS { Err(Errno::Loop) } else { Ok(()) }
    }
}

impl MemoryFs {
    /// Resolves a path that begins at a directory up to its last component.
    pub(super) fn resolve_parent(
        &self,
        start: Inode,
        path: &[u8],
        links: &mut Links,
    ) -> Result<PathEnd, Errno> {
        if path.is_empty() {
            return Err(Errno::Missing);
        }
        let mut dir = if path[0] == b'/' { ROOT } else { start };
        let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        let Some(mut part) = parts.next() else {
            return Ok(PathEnd { dir, last: LastComponent::Dot, has_slash: false });
        };
        for next in parts {
            dir = self.resolve_component(dir, part, links)?;
            part = next;
        }
        let last = match part {
            b"." => LastComponent::Dot,
            b".." => LastComponent::DotDot,
            name => LastComponent::Name(name.into()),
        };
        Ok(PathEnd { dir, last, has_slash: path.ends_with(b"/") })
    }

    /// Returns the directory to which one component of a path leads.
    fn resolve_component(
        &self,
        dir: Inode,
        part: &[u8],
        links: &mut Links,
    ) -> Result<Inode, Errno> {
        let next = match part {
            b"." => dir,
            b".." => self.parent(dir)?,
            name => self.child(dir, name)?.ok_or(Errno::Missing)?,
        };
        let node = self.node(next).ok_or(Errno::Missing)?;
        let next = match node.target() {
            Some(target) => {
                links.follow()?;
                self.resolve_with(dir, target, Follow::Yes, links)?
            }
            None => next,
        };
        self.check_directory(next)?;
        Ok(next)
    }

    pub(super) fn parent(&self, dir: Inode) -> Result<Inode, Errno> {
        let directory = self.node(dir).and_then(|node| node.as_directory());
        directory.map(|directory| directory.parent).ok_or(Errno::Missing)
    }

    /// Returns the inode of a name in a directory, if the name exists.
    pub(super) fn child(&self, dir: Inode, name: &[u8]) -> Result<Option<Inode>, Errno> {
        if name.len() > MAX_NAME {
            return Err(Errno::NameTooLong);
        }
        let directory = self.node(dir).and_then(|node| node.as_directory());
        Ok(directory.ok_or(Errno::NotDirectory)?.entries.get(name).copied())
    }

    /// Returns the inode at the end of a path.
    pub(super) fn resolve(
        &self,
        start: Inode,
        path: &[u8],
        follow: Follow,
    ) -> Result<Inode, Errno> {
        self.resolve_with(start, path, follow, &mut Links::default())
    }

    fn resolve_with(
        &self,
        start: Inode,
        path: &[u8],
        follow: Follow,
        links: &mut Links,
    ) -> Result<Inode, Errno> {
        let PathEnd { dir, last, has_slash } = self.resolve_parent(start, path, links)?;
        let inode = match last {
            LastComponent::Dot => dir,
            LastComponent::DotDot => self.parent(dir)?,
            LastComponent::Name(name) => self.child(dir, &name)?.ok_or(Errno::Missing)?,
        };
        let target = self.node(inode).and_then(|node| node.target());
        let inode = match target {
            Some(target) if follow == Follow::Yes || has_slash => {
                links.follow()?;
                self.resolve_with(dir, target, Follow::Yes, links)?
            }
            _ => inode,
        };
        if has_slash {
            self.check_directory(inode)?;
        }
        Ok(inode)
    }

    pub(super) fn check_directory(&self, inode: Inode) -> Result<(), Errno> {
        let is_directory = self.node(inode).is_some_and(|node| node.is_directory());
        if is_directory { Ok(()) } else { Err(Errno::NotDirectory) }
    }

    /// Returns a name that can be created: it does not exist, and its directory does. Only the name of a new directory
    /// may end with a slash.
    pub(super) fn new_entry(
        &self,
        start: Inode,
        path: &[u8],
        is_directory: bool,
    ) -> Result<Entry, Errno> {
        let PathEnd { dir, last, has_slash } =
            self.resolve_parent(start, path, &mut Links::default())?;
        let LastComponent::Name(name) = last else { return Err(Errno::Exists) };
        match self.child(dir, &name)? {
            Some(_) => Err(Errno::Exists),
            None if has_slash && !is_directory => Err(Errno::Missing),
            None => self.check_exists(dir).map(|()| Entry { dir, name }),
        }
    }

    /// Fails for a directory that was removed while it was open: no name can be created in it.
    pub(super) fn check_exists(&self, dir: Inode) -> Result<(), Errno> {
        match self.node(dir) {
            Some(node) if node.links > 0 => Ok(()),
            _ => Err(Errno::Missing),
        }
    }

    /// Returns true if `inode` is the directory `dir` or lies below it.
    pub(super) fn is_within(&self, mut inode: Inode, dir: Inode) -> bool {
        loop {
            if inode == dir {
                return true;
            }
            match self.parent(inode) {
                Ok(parent) if parent != inode => inode = parent,
                _ => return false,
            }
        }
    }
}
