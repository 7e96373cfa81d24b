//! The effect of each call, according to the rules of Linux.

use super::change::{Change, Entry, OpenFile, Outcome, Slot};
use super::node::{Inode, Node, NodeKind};
use super::path::{Follow, LastComponent, Links, PathEnd};
use super::{Errno, MemoryFs, ROOT};
use crate::call::{Call, Compound};
use crate::op::{DirSlot, FileSlot, Op, OpenFlags, Payload};

/// Maximum size of a file in bytes.
pub(super) const MAX_FILE_SIZE: u64 = i64::MAX as u64;

/// The outcome of a call that returns 0.
impl From<Vec<Change>> for Outcome {
    fn from(changes: Vec<Change>) -> Outcome {
        Outcome { changes, bytes: 0 }
    }
}

pub(super) type Changes = Result<Vec<Change>, Errno>;

/// The directory at which a path begins, or the error of resolving it, and the path.
pub(super) type PathStart<'a> = (Result<Inode, Errno>, &'a [u8]);

impl MemoryFs {
    /// Returns the effect of an op in this state, without changing anything.
    ///
    /// A call that the engine expands into many fails as a whole here, and its result is 0; the real call may be
    /// partly done when it fails.
    ///
    /// # Errors
    /// The error that Linux returns.
    pub fn plan(&self, op: &Op) -> Result<Outcome, Errno> {
        let (name, second_name) = (op.name.as_bytes(), op.second_name.as_bytes());
        let start = |slot, path: &[u8]| self.start(op.thread, slot, path);
        let dir = |slot| start(slot, name);
        let file = |slot: FileSlot| self.open_file(op.thread, slot).ok_or(Errno::BadSlot);
        let file_slot = |slot: FileSlot| (op.thread, slot.0);
        let dir_slot = |slot: DirSlot| (op.thread, slot.0);
        let open_dir = |slot| self.open_dir(op.thread, slot).ok_or(Errno::BadSlot);
        let (source, destination) =
            (|slot| (dir(slot), name), |slot| (start(slot, second_name), second_name));
        let open = |directory, slot, flags, mode| {
            self.open(dir(directory)?, name, file_slot(slot), flags, mode)
        };
        let inode_of = |slot, follow| self.resolve(dir(slot)?, name, follow);
        let read = |slot, at, length| self.read(file(slot)?, at, length, file_slot(slot));
        let write = |slot, at, payload| self.write(file(slot)?, at, payload, file_slot(slot));
        let changes = match op.call {
            Call::Mkdir { dir: at, mode } => {
                self.create_changes(self.new_entry(dir(at)?, name, true)?, Node::directory(mode))
            }
            Call::Symlink { dir: at } => self.symlink(source(at), second_name)?,
            Call::OpenDir { dir: at, slot } => {
                self.open_directory(dir(at)?, name, dir_slot(slot))?
            }
            Call::CloseDir { slot: DirSlot::ROOT } => return Err(Errno::BadSlot),
            Call::CloseDir { slot } => {
                open_dir(slot).map(|_| vec![Change::Dir { slot: dir_slot(slot), open: None }])?
            }
            Call::Create { dir, file, flags, mode } => {
                open(dir, file, OpenFlags { create: true, ..flags }, mode)?
            }
            Call::Open { dir, file, flags } => open(dir, file, flags, 0)?,
            Call::Close { file: slot } => {
                file(slot).map(|_| vec![Change::File { slot: file_slot(slot), open: None }])?
            }
            Call::Write { file, payload } | Call::Append { file, payload } => {
                return write(file, None, payload);
            }
            Call::WriteAt { file, offset, payload } => return write(file, Some(offset), payload),
            Call::Read { file, length } => return read(file, None, length),
            Call::ReadAt { file, offset, length } => return read(file, Some(offset), length),
            Call::Truncate { file: slot, length } => self.truncate(file(slot)?, length)?,
            Call::Fallocate { file: slot, length } => self.reserve(file(slot)?, length)?,
            Call::Stat { dir } | Call::Chown { dir } => {
                inode_of(dir, Follow::No).map(|_| vec![])?
            }
            Call::StatFile { file: slot }
            | Call::ChownFile { file: slot }
            | Call::Setxattr { file: slot, .. } => file(slot).map(|_| vec![])?,
            Call::Chmod { dir: at, mode } => set_mode(inode_of(at, Follow::Yes)?, mode),
            Call::ChmodFile { file: slot, mode } => set_mode(file(slot)?.inode, mode),
            Call::Utimes { dir: at, mtime } => set_mtime(inode_of(at, Follow::No)?, mtime),
            Call::UtimesFile { file: slot, mtime } => set_mtime(file(slot)?.inode, mtime),
            Call::Rename { dir, to: at } => self.rename(source(dir), destination(at))?,
            Call::Link { dir, to: at } => self.link(source(dir), destination(at))?,
            Call::Unlink { dir: at } => self.unlink(dir(at)?, name)?,
            Call::Rmdir { dir: at } => self.rmdir(dir(at)?, name)?,
            Call::Fsync { file: slot } => vec![Change::Synced { inode: file(slot)?.inode }],
            Call::FsyncDir { dir: at } => vec![Change::Synced { inode: open_dir(at)? }],
            Call::Sync => vec![Change::SyncedAll],
            Call::Compound(compound) => self.plan_compound(compound, op)?,
            Call::Rare(call) => return self.plan_rare(call, op),
        };
        Ok(changes.into())
    }

    /// Returns the changes of a call that the engine expands into many.
    fn plan_compound(&self, compound: Compound, op: &Op) -> Changes {
        let (name, other) = (op.name.as_bytes(), op.second_name.as_bytes());
        let from = |slot| (self.start(op.thread, slot, name), name);
        let to = |slot| (self.start(op.thread, slot, other), other);
        match compound {
            Compound::Scan { dir } => self.resolve_tree(from(dir)).map(|_| Vec::new()),
            Compound::StatEach { dir, read } => {
                self.stat_each(from(dir), read.is_some()).map(|()| Vec::new())
            }
            Compound::RemoveTree { dir, synced, .. } => self.remove_tree(from(dir), synced),
            Compound::CopyTree { dir, to: at } => self.copy_tree(from(dir), to(at)),
            Compound::PackTree { dir, to: at, .. } => self.pack_tree(from(dir), to(at)),
            Compound::UnpackTree { dir, to: at, .. } => self.unpack_tree(from(dir), to(at)),
        }
    }

    /// Returns the directory at which a path begins.
    pub(super) fn start(&self, thread: u32, slot: DirSlot, path: &[u8]) -> Result<Inode, Errno> {
        match path.first() {
            None => Err(Errno::Missing),
            Some(b'/') => Ok(ROOT),
            Some(_) => self.open_dir(thread, slot).ok_or(Errno::BadSlot),
        }
    }

    pub(super) fn create_changes(&self, entry: Entry, node: Node) -> Vec<Change> {
        vec![Change::Created { entry, node: Box::new(node) }]
    }

    fn symlink(&self, start: PathStart<'_>, target: &[u8]) -> Changes {
        if target.is_empty() {
            return Err(Errno::Missing);
        }
        let entry = self.new_entry(start.0?, start.1, false)?;
        Ok(self.create_changes(entry, Node::new(NodeKind::Symlink(target.to_vec()), 0o777)))
    }

    fn open_directory(&self, dir: Inode, name: &[u8], slot: Slot) -> Changes {
        let inode = self.resolve(dir, name, Follow::Yes)?;
        self.check_directory(inode)?;
        if slot.1 == DirSlot::ROOT.0 {
            return Err(Errno::BadSlot);
        }
        Ok(vec![Change::Dir { slot, open: Some(inode) }])
    }

    /// Plans openat(2). A slot that is already open is closed, as by dup2(2).
    fn open(&self, dir: Inode, name: &[u8], slot: Slot, flags: OpenFlags, mode: u32) -> Changes {
        if flags.create && flags.directory {
            return Err(Errno::Invalid);
        }
        let mut changes = Vec::new();
        let inode = match self.find_or_new(dir, name, flags)? {
            OpenTarget::New(at) => {
                changes = self.create_changes(at, Node::file(mode));
                self.next_inode()
            }
            OpenTarget::Existing(inode) => {
                let node = self.node(inode).ok_or(Errno::Missing)?;
                let writes = flags.write || flags.truncate;
                if node.is_directory() && (writes || flags.create) {
                    return Err(Errno::IsDirectory);
                }
                if flags.directory && !node.is_directory() {
                    return Err(Errno::NotDirectory);
                }
                if flags.truncate {
                    changes.push(Change::Resized { inode, size: 0 });
                }
                inode
            }
        };
        let (read, write) = (flags.read || !flags.write, flags.write);
        let open = OpenFile { inode, position: 0, read, write, append: flags.append };
        changes.push(Change::File { slot, open: Some(open) });
        Ok(changes)
    }

    /// Returns the inode that openat(2) opens, or the name that it creates.
    fn find_or_new(&self, dir: Inode, name: &[u8], flags: OpenFlags) -> Result<OpenTarget, Errno> {
        let (mut start, mut path) = (dir, name);
        let (mut links, mut must_be_directory) = (Links::default(), false);
        loop {
            let PathEnd { dir, last, has_slash } = self.resolve_parent(start, path, &mut links)?;
            must_be_directory |= has_slash;
            let inode = match last {
                LastComponent::Dot => Some(dir),
                LastComponent::DotDot => Some(self.parent(dir)?),
                LastComponent::Name(_) if flags.create && has_slash => {
                    return Err(Errno::IsDirectory);
                }
                LastComponent::Name(name) => match self.child(dir, &name)? {
                    None if flags.create => {
                        self.check_exists(dir)?;
                        return Ok(OpenTarget::New(Entry { dir, name }));
                    }
                    child => child,
                },
            };
            let inode = inode.ok_or(Errno::Missing)?;
            if flags.create && flags.exclusive {
                return Err(Errno::Exists);
            }
            match self.node(inode).and_then(|node| node.target()) {
                Some(_) if flags.nofollow && !must_be_directory => {
                    return Err(if flags.directory { Errno::NotDirectory } else { Errno::Loop });
                }
                Some(target) => {
                    links.follow()?;
                    (start, path) = (dir, target);
                }
                None if must_be_directory => {
                    return self.check_directory(inode).map(|()| OpenTarget::Existing(inode));
                }
                None => return Ok(OpenTarget::Existing(inode)),
            }
        }
    }

    fn write(
        &self,
        file: OpenFile,
        explicit_offset: Option<u64>,
        payload: Payload,
        slot: Slot,
    ) -> Result<Outcome, Errno> {
        if !file.write {
            return Err(Errno::BadSlot);
        }
        let node = self.node(file.inode).ok_or(Errno::BadSlot)?;
        let size = node.size().unwrap_or(0);
        // With O_APPEND, pwrite(2) also appends on Linux, whatever its offset.
        let offset = if file.append { size } else { explicit_offset.unwrap_or(file.position) };
        let bytes = u64::from(payload.length);
        let end =
            offset.checked_add(bytes).filter(|end| *end <= MAX_FILE_SIZE).ok_or(Errno::TooLarge)?;
        if bytes == 0 {
            return Ok(Outcome::default());
        }
        node.content().ok_or(Errno::NotSupported)?;
        let mut changes = vec![Change::Written { inode: file.inode, offset, payload }];
        if explicit_offset.is_none() {
            changes.push(Change::File { slot, open: Some(OpenFile { position: end, ..file }) });
        }
        Ok(Outcome { changes, bytes })
    }

    fn read(
        &self,
        file: OpenFile,
        explicit_offset: Option<u64>,
        length: u32,
        slot: Slot,
    ) -> Result<Outcome, Errno> {
        if !file.read {
            return Err(Errno::BadSlot);
        }
        let size = self.node(file.inode).and_then(Node::size).ok_or(Errno::IsDirectory)?;
        let offset = explicit_offset.unwrap_or(file.position);
        let bytes = size.saturating_sub(offset).min(u64::from(length));
        let mut changes = Vec::new();
        if explicit_offset.is_none() && bytes > 0 {
            let position = offset + bytes;
            changes.push(Change::File { slot, open: Some(OpenFile { position, ..file }) });
        }
        Ok(Outcome { changes, bytes })
    }

    fn truncate(&self, file: OpenFile, size: u64) -> Changes {
        if size > MAX_FILE_SIZE || !file.write {
            return Err(Errno::Invalid);
        }
        let node = self.node(file.inode).ok_or(Errno::BadSlot)?;
        match node.kind {
            NodeKind::Archive(_) if size > 0 => Err(Errno::NotSupported),
            _ => Ok(vec![Change::Resized { inode: file.inode, size }]),
        }
    }

    /// Plans fallocate(2) from the beginning of a file.
    fn reserve(&self, file: OpenFile, length: u64) -> Changes {
        if length == 0 || length > MAX_FILE_SIZE {
            return Err(Errno::Invalid);
        }
        if !file.write {
            return Err(Errno::BadSlot);
        }
        let content = self.node(file.inode).and_then(Node::content).ok_or(Errno::NotSupported)?;
        let size = content.size().max(length);
        Ok(vec![Change::Resized { inode: file.inode, size }])
    }

    pub(super) fn rename(&self, from: PathStart<'_>, to: PathStart<'_>) -> Changes {
        let old = self.resolve_parent(from.0?, from.1, &mut Links::default())?;
        let new = self.resolve_parent(to.0?, to.1, &mut Links::default())?;
        let (LastComponent::Name(old_name), LastComponent::Name(new_name)) = (old.last, new.last)
        else {
            return Err(Errno::Busy);
        };
        let inode = self.child(old.dir, &old_name)?.ok_or(Errno::Missing)?;
        let replaced = self.child(new.dir, &new_name)?;
        let is_directory = self.node(inode).is_some_and(|node| node.is_directory());
        if !is_directory && (old.has_slash || new.has_slash) {
            return Err(Errno::NotDirectory);
        }
        if is_directory && self.is_within(new.dir, inode) {
            return Err(Errno::Invalid);
        }
        if replaced.is_some_and(|replaced| self.is_within(old.dir, replaced)) {
            return Err(Errno::NotEmpty);
        }
        if replaced == Some(inode) {
            return Ok(Vec::new());
        }
        self.check_exists(new.dir)?;
        if let Some(replaced) = replaced.and_then(|replaced| self.node(replaced)) {
            match (is_directory, replaced.as_directory()) {
                (true, None) => return Err(Errno::NotDirectory),
                (false, Some(_)) => return Err(Errno::IsDirectory),
                (true, Some(directory)) if !directory.entries.is_empty() => {
                    return Err(Errno::NotEmpty);
                }
                (true, Some(_)) | (false, None) => {}
            }
        }
        let from = Entry { dir: old.dir, name: old_name };
        let to = Entry { dir: new.dir, name: new_name };
        Ok(vec![Change::Renamed { from, to, inode }])
    }

    fn link(&self, from: PathStart<'_>, to: PathStart<'_>) -> Changes {
        let inode = self.resolve(from.0?, from.1, Follow::No)?;
        let entry = self.new_entry(to.0?, to.1, false)?;
        if self.node(inode).is_some_and(|node| node.is_directory()) {
            return Err(Errno::NotPermitted);
        }
        Ok(vec![Change::Linked { entry, inode }])
    }

    fn unlink(&self, dir: Inode, name: &[u8]) -> Changes {
        let PathEnd { dir, last, has_slash } =
            self.resolve_parent(dir, name, &mut Links::default())?;
        let LastComponent::Name(name) = last else { return Err(Errno::IsDirectory) };
        let inode = self.child(dir, &name)?.ok_or(Errno::Missing)?;
        if self.node(inode).is_some_and(|node| node.is_directory()) {
            return Err(Errno::IsDirectory);
        }
        if has_slash {
            return Err(Errno::NotDirectory);
        }
        Ok(vec![Change::Removed { entry: Entry { dir, name }, inode }])
    }

    pub(super) fn rmdir(&self, dir: Inode, name: &[u8]) -> Changes {
        let (entry, inode) = self.resolve_directory(dir, name)?;
        let node = self.node(inode).and_then(|node| node.as_directory());
        match node.ok_or(Errno::NotDirectory)?.entries.is_empty() {
            true => Ok(vec![Change::Removed { entry, inode }]),
            false => Err(Errno::NotEmpty),
        }
    }

    /// Returns the name and the inode of a directory to remove.
    pub(super) fn resolve_directory(
        &self,
        dir: Inode,
        name: &[u8],
    ) -> Result<(Entry, Inode), Errno> {
        let PathEnd { dir, last, .. } = self.resolve_parent(dir, name, &mut Links::default())?;
        let name = match last {
            LastComponent::Name(name) => name,
            LastComponent::Dot => return Err(Errno::Invalid),
            LastComponent::DotDot => return Err(Errno::NotEmpty),
        };
        let inode = self.child(dir, &name)?.ok_or(Errno::Missing)?;
        self.check_directory(inode)?;
        Ok((Entry { dir, name }, inode))
    }
}

/// The inode that openat(2) opens or creates.
enum OpenTarget {
    /// An existing inode.
    Existing(Inode),
    /// A new file with this name.
    New(Entry),
}

fn set_mode(inode: Inode, mode: u32) -> Vec<Change> {
    vec![Change::ModeSet { inode, mode: mode & 0o7777 }]
}

fn set_mtime(inode: Inode, mtime: i64) -> Vec<Change> {
    vec![Change::TimeSet { inode, mtime: Some(mtime) }]
}
