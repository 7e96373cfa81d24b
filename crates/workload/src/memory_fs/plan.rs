//! The effect of each call, according to the rules of Linux.

use super::change::{Change, Entry, OpenFile, Outcome, Slot};
use super::node::{Inode, Node, NodeKind};
use super::operands::{Operands, PathStart};
use super::path::{Follow, LastComponent, Links, PathEnd};
use super::{Errno, MemoryFs};
use crate::call::{Call, Compound};
use crate::op::{DirSlot, Op, OpenFlags, Payload};

/// Maximum size of a file in bytes.
pub(super) const MAX_FILE_SIZE: u64 = i64::MAX as u64;

/// The outcome of a call that returns 0.
impl From<Vec<Change>> for Outcome {
    fn from(changes: Vec<Change>) -> Outcome {
        Outcome { changes, bytes: 0 }
    }
}

pub(super) type Changes = Result<Vec<Change>, Errno>;

impl MemoryFs {
    /// Returns the effect of an op in this state, without changing anything.
    ///
    /// A call that the engine expands into many fails as a whole here, and its result is 0; the real call may be
    /// partly done when it fails.
    ///
    /// # Errors
    /// The error that Linux returns.
    pub fn plan(&self, op: &Op) -> Result<Outcome, Errno> {
        let of = Operands::new(self, op);
        let open = |dir, slot, flags, mode| {
            self.open(of.dir(dir)?, of.name, of.file_slot(slot), flags, mode)
        };
        let read = |slot, at, length| self.read(of.file(slot)?, at, length, of.file_slot(slot));
        let write = |slot, at, payload| self.write(of.file(slot)?, at, payload, of.file_slot(slot));
        let changes = match op.call {
            Call::Mkdir { dir, mode } => self.create_changes(
                self.new_entry(of.dir(dir)?, of.name, true)?,
                Node::directory(mode),
            ),
            Call::Symlink { dir } => self.symlink(of.source(dir), of.second_name)?,
            Call::OpenDir { dir, slot } => {
                self.open_directory(of.dir(dir)?, of.name, of.dir_slot(slot))?
            }
            Call::CloseDir { slot: DirSlot::ROOT } => return Err(Errno::BadSlot),
            Call::CloseDir { slot } => {
                of.open_dir(slot)?;
                vec![Change::Dir { slot: of.dir_slot(slot), open: None }]
            }
            Call::Create { dir, file, flags, mode } => {
                open(dir, file, OpenFlags { create: true, ..flags }, mode)?
            }
            Call::Open { dir, file, flags } => open(dir, file, flags, 0)?,
            Call::Close { file } => {
                of.file(file)?;
                vec![Change::File { slot: of.file_slot(file), open: None }]
            }
            Call::Write { file, payload } | Call::Append { file, payload } => {
                return write(file, None, payload);
            }
            Call::WriteAt { file, offset, payload } => return write(file, Some(offset), payload),
            Call::Read { file, length } => return read(file, None, length),
            Call::ReadAt { file, offset, length } => return read(file, Some(offset), length),
            Call::Truncate { file, length } => self.truncate(of.file(file)?, length)?,
            Call::Fallocate { file, length } => self.reserve(of.file(file)?, length)?,
            Call::Stat { dir } | Call::Chown { dir } => {
                of.inode(dir, Follow::No).map(|_| vec![])?
            }
            Call::StatFile { file } | Call::ChownFile { file } | Call::Setxattr { file, .. } => {
                of.file(file).map(|_| vec![])?
            }
            Call::Chmod { dir, mode } => set_mode(of.inode(dir, Follow::Yes)?, mode),
            Call::ChmodFile { file, mode } => set_mode(of.file(file)?.inode, mode),
            Call::Utimes { dir, mtime } => set_mtime(of.inode(dir, Follow::No)?, mtime),
            Call::UtimesFile { file, mtime } => set_mtime(of.file(file)?.inode, mtime),
            Call::Rename { dir, to } => self.rename(of.source(dir), of.destination(to))?,
            Call::Link { dir, to } => self.link(of.source(dir), of.destination(to))?,
            Call::Unlink { dir } => self.unlink(of.dir(dir)?, of.name)?,
            Call::Rmdir { dir } => self.rmdir(of.dir(dir)?, of.name)?,
            Call::Fsync { file } => vec![Change::Synced { inode: of.file(file)?.inode }],
            Call::FsyncDir { dir } => vec![Change::Synced { inode: of.open_dir(dir)? }],
            Call::Sync => vec![Change::SyncedAll],
            Call::Compound(compound) => self.plan_compound(compound, of)?,
            Call::Rare(call) => return self.plan_rare(call, of),
        };
        Ok(changes.into())
    }

    /// Returns the changes of a call that the engine expands into many.
    fn plan_compound(&self, compound: Compound, of: Operands<'_>) -> Changes {
        match compound {
            Compound::Scan { dir } => self.resolve_tree(of.source(dir)).map(|_| Vec::new()),
            Compound::StatEach { dir, read } => {
                self.stat_each(of.source(dir), read.is_some()).map(|()| Vec::new())
            }
            Compound::RemoveTree { dir, synced, .. } => self.remove_tree(of.source(dir), synced),
            Compound::CopyTree { dir, to } => self.copy_tree(of.source(dir), of.destination(to)),
            Compound::PackTree { dir, to, .. } => {
                self.pack_tree(of.source(dir), of.destination(to))
            }
            Compound::UnpackTree { dir, to, .. } => {
                self.unpack_tree(of.source(dir), of.destination(to))
            }
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
