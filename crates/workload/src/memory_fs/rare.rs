//! The effect of the calls that generators rarely make.

use super::change::{Change, Entry, OpenFile, Outcome};
use super::node::{Inode, Node, NodeKind};
use super::operands::{Operands, PathStart};
use super::path::{Follow, LastComponent, Links};
use super::plan::{Changes, MAX_FILE_SIZE};
use super::{Errno, MemoryFs};
use crate::op::Payload;
use crate::rare::{AllocateMode, RareCall, RenameFlag};

/// The directory of the temporary name in an exchange; no directory has this number.
const TEMPORARY_DIR: Inode = Inode::MAX;

impl MemoryFs {
    /// Returns the effect of a rare call in this state, without changing anything. Extended attributes are not
    /// modelled, so calls on them succeed.
    pub(super) fn plan_rare(&self, call: RareCall, of: Operands<'_>) -> Result<Outcome, Errno> {
        let changes = match call {
            RareCall::Fdatasync { file } => vec![Change::Synced { inode: of.file(file)?.inode }],
            RareCall::Readlink { dir } => {
                let node = self.node(of.inode(dir, Follow::No)?);
                let target = node.and_then(Node::target).ok_or(Errno::Invalid)?;
                return Ok(bytes(target.len() as u64));
            }
            RareCall::Access { dir } => of.inode(dir, Follow::Yes).map(|_| Vec::new())?,
            RareCall::Status { dir, follow } => {
                let follow = if follow { Follow::Yes } else { Follow::No };
                return Ok(bytes(self.status_size(of.inode(dir, follow)?)));
            }
            RareCall::StatusFile { file } => {
                return Ok(bytes(self.status_size(of.file(file)?.inode)));
            }
            RareCall::Statfs => Vec::new(),
            RareCall::Readdir { file, .. } => {
                self.check_directory(of.file(file)?.inode).map(|()| Vec::new())?
            }
            RareCall::Seek { file, offset } => {
                let open = OpenFile { position: offset, ..of.file(file)? };
                let changes = vec![Change::File { slot: of.file_slot(file), open: Some(open) }];
                return Ok(Outcome { changes, bytes: offset });
            }
            RareCall::Getxattr { dir }
            | RareCall::Listxattr { dir }
            | RareCall::Setxattr { dir, .. }
            | RareCall::Removexattr { dir } => of.inode(dir, Follow::No).map(|_| Vec::new())?,
            RareCall::GetxattrFile { file }
            | RareCall::ListxattrFile { file }
            | RareCall::SetxattrFile { file, .. }
            | RareCall::RemovexattrFile { file }
            | RareCall::SyncRange { file, .. }
            | RareCall::Fadvise { file, .. } => of.file(file).map(|_| Vec::new())?,
            RareCall::Truncate { dir, length } => {
                let inode = of.inode(dir, Follow::Yes)?;
                self.node(inode).and_then(Node::size).ok_or(Errno::IsDirectory)?;
                vec![Change::Resized { inode, size: length }]
            }
            RareCall::Rename { dir, to, flag } => {
                self.rename_with_flag(of.source(dir), of.destination(to), flag)?
            }
            RareCall::CopyRange { from, from_offset, file, offset, length } => {
                let range = (from_offset, offset, u64::from(length));
                return self.copy_range(of.file(from)?, of.file(file)?, range);
            }
            RareCall::Allocate { file, mode, offset, length } => {
                self.allocate(of.file(file)?, mode, offset, length)?
            }
        };
        Ok(changes.into())
    }

    /// Returns the size of a regular file, the length of a symbolic link's target, or else 0.
    fn status_size(&self, inode: Inode) -> u64 {
        let Some(node) = self.node(inode) else { return 0 };
        node.size().or_else(|| node.target().map(|target| target.len() as u64)).unwrap_or(0)
    }

    fn rename_with_flag(
        &self,
        from: PathStart<'_>,
        to: PathStart<'_>,
        flag: RenameFlag,
    ) -> Changes {
        let new = self.resolve_parent(to.0?, to.1, &mut Links::default())?;
        let LastComponent::Name(new_name) = new.last else { return Err(Errno::Busy) };
        let existing = self.child(new.dir, &new_name)?;
        if flag == RenameFlag::NoReplace {
            let old = self.resolve_parent(from.0?, from.1, &mut Links::default())?;
            let LastComponent::Name(old_name) = old.last else { return Err(Errno::Busy) };
            self.child(old.dir, &old_name)?.ok_or(Errno::Missing)?;
            return match existing {
                Some(_) => Err(Errno::Exists),
                None => self.rename(from, to),
            };
        }
        let old = self.resolve_parent(from.0?, from.1, &mut Links::default())?;
        let LastComponent::Name(old_name) = old.last else { return Err(Errno::Busy) };
        let inode = self.child(old.dir, &old_name)?.ok_or(Errno::Missing)?;
        let replaced = existing.ok_or(Errno::Missing)?;
        let is_below = |inode, dir| {
            self.node(inode).is_some_and(Node::is_directory) && self.is_within(dir, inode)
        };
        if is_below(inode, new.dir) || is_below(replaced, old.dir) {
            return Err(Errno::Invalid);
        }
        if inode == replaced {
            return Ok(Vec::new());
        }
        let from = Entry { dir: old.dir, name: old_name };
        let to = Entry { dir: new.dir, name: new_name };
        let temporary = Entry { dir: TEMPORARY_DIR, name: Box::default() };
        Ok(vec![
            Change::Renamed { from: from.clone(), to: temporary.clone(), inode },
            Change::Renamed { from: to.clone(), to: from, inode: replaced },
            Change::Renamed { from: temporary, to, inode },
        ])
    }

    fn copy_range(
        &self,
        from: OpenFile,
        to: OpenFile,
        (from_offset, offset, length): (u64, u64, u64),
    ) -> Result<Outcome, Errno> {
        if !from.read || !to.write || to.append {
            return Err(Errno::BadSlot);
        }
        let content = self.node(from.inode).and_then(Node::content).ok_or(Errno::Invalid)?;
        self.node(to.inode).and_then(Node::content).ok_or(Errno::Invalid)?;
        let length = length.min(content.size().saturating_sub(from_offset));
        let end = offset.checked_add(length).filter(|end| *end <= MAX_FILE_SIZE);
        end.ok_or(Errno::TooLarge)?;
        let overlaps = from_offset < offset + length && offset < from_offset + length;
        if from.inode == to.inode && length > 0 && overlaps {
            return Err(Errno::Invalid);
        }
        let mut changes = Vec::new();
        let mut copied = 0;
        while copied < length {
            let Some(piece) = content.piece(from_offset + copied) else { break };
            let part = u64::from(piece.length).min(length - copied);
            let payload = Payload { length: part as u32, ..piece };
            changes.push(Change::Written { inode: to.inode, offset: offset + copied, payload });
            copied += part;
        }
        Ok(Outcome { changes, bytes: copied })
    }

    fn allocate(&self, file: OpenFile, mode: AllocateMode, offset: u64, length: u64) -> Changes {
        if length == 0 {
            return Err(Errno::Invalid);
        }
        if !file.write {
            return Err(Errno::BadSlot);
        }
        let end = offset.checked_add(length).filter(|end| *end <= MAX_FILE_SIZE);
        let end = end.ok_or(Errno::TooLarge)?;
        let inode = file.inode;
        let node = self.node(inode).ok_or(Errno::BadSlot)?;
        let size = match &node.kind {
            NodeKind::File(content) => content.size(),
            NodeKind::Archive(_) | NodeKind::Directory(_) | NodeKind::Symlink(_) => {
                return Err(Errno::NotSupported);
            }
        };
        let mut changes = Vec::new();
        let extends = matches!(mode, AllocateMode::Extend | AllocateMode::Zero) && end > size;
        if !matches!(mode, AllocateMode::Extend | AllocateMode::KeepSize) {
            let mut position = offset;
            while position < end.min(size) {
                let length = (end.min(size) - position).min(u32::MAX.into()) as u32;
                let payload = Payload::zeros(position, length);
                changes.push(Change::Written { inode, offset: position, payload });
                position += u64::from(length);
            }
        }
        if extends {
            changes.push(Change::Resized { inode, size: end });
        }
        Ok(changes)
    }
}

fn bytes(bytes: u64) -> Outcome {
    Outcome { changes: Vec::new(), bytes }
}
