//! Translates the calls of a recording into calls of ops.

use fsdyno_trace::{At, Call, CopyKind, Event, FileId, Kind, StatKind, SyncKind, Target};
use fsdyno_workload::memory_fs::Inode;
use fsdyno_workload::op::Payload;
use fsdyno_workload::replay::code::{class as class_byte, payload};
use fsdyno_workload::replay::format::stays_below;
use fsdyno_workload::{Call as OpCall, FileSlot, RareCall};

use crate::compile::Compiler;
use crate::flags::{self, MODE};
use crate::initial::{ROOT, target};
use crate::order::{Access, Resource};
use crate::plan::{Compare, Opened, Plan, Plans, Skip, Touch, plan};

/// The modification time that a replayed call sets, instead of the recorded one, in seconds since 1970.
const MTIME: i64 = 1_000_000_000;

/// The path and the inode of a target, if it has them, and the touched entries that lead to it.
type Place = (Option<Vec<u8>>, Option<Inode>, Vec<Touch>);

fn single(call: OpCall, name: Vec<u8>, touches: Vec<Touch>) -> Plans {
    Ok(vec![Plan { name, ..plan(call, touches, Compare::Success) }])
}

/// Limits a length to the maximum number of bytes per op.
fn op_length(length: u64) -> u32 {
    length.min(0x7fff_f000) as u32
}

impl Compiler {
    /// Returns the calls that replay an event: usually none or one.
    pub(crate) fn plans(&mut self, event: &Event) -> Plans {
        match &event.call {
            Call::Open { at, flags, mode, created, .. } => {
                self.open(at, *flags, *mode, created.is_some())
            }
            Call::Inherit { .. } => Err("files-that-were-open-at-the-start"),
            Call::Close { last: false, .. } => Err("closes-of-one-of-several-descriptors"),
            Call::Close { file, .. } => {
                let open = self.find_open(*file)?;
                let touches = vec![(Resource::slot(open.slot.0), Access::Change)];
                single(OpCall::Close { file: open.slot }, Vec::new(), touches)
            }
            Call::Dup { .. } => Err("duplicated-descriptors"),
            Call::Read { .. } | Call::Write { .. } | Call::Seek { .. } | Call::Copy { .. } => {
                self.plan_transfer(event)
            }
            Call::Truncate { .. }
            | Call::Fallocate { .. }
            | Call::Sync { .. }
            | Call::SyncAll {}
            | Call::Advise { .. }
            | Call::Readdir { .. } => self.plan_file_call(event),
            Call::Setxattr { .. }
            | Call::Getxattr { .. }
            | Call::Listxattr { .. }
            | Call::Removexattr { .. } => self.plan_attribute_call(event),
            Call::Map { file, shared, writable, .. } => {
                self.map(*file, *shared && *writable);
                Err("calls-on-memory-mapped-files")
            }
            Call::Unmap { .. } | Call::Msync { .. } => self.plan_stores(event),
            Call::Chdir { .. } => Err("changes-of-the-working-directory"),
            Call::SetFlags { .. } => Err("changes-of-flags-of-open-files"),
            Call::Mknod { node: Kind::File, .. } | Call::Mknod { .. } => Err("mknods"),
            Call::Stat { .. }
            | Call::Access { .. }
            | Call::Readlink { .. }
            | Call::Chmod { .. }
            | Call::Chown { .. }
            | Call::Utimes { .. }
            | Call::Statfs { .. } => self.plan_status_call(event),
            _ => self.plan_name_call(event),
        }
    }

    fn find_open(&self, file: FileId) -> Result<Opened, Skip> {
        self.files.get(&file).copied().ok_or("calls-on-files-whose-open-is-not-replayed")
    }

    fn inode(&self, at: &At) -> Option<Inode> {
        at.node.and_then(|node| self.nodes.get(&node)).copied()
    }

    fn open(&mut self, at: &At, bits: u32, mode: u32, creates: bool) -> Plans {
        let flags = flags::open(bits).ok_or("opens-of-files-without-a-name")?;
        let access = if creates { Access::Change } else { Access::Read };
        let (name, mut touches) = self.path(at, access)?;
        if bits & flags::DIRECT != 0 {
            self.skip("O_DIRECT-flags-of-opens-which-are-replayed-without");
        }
        let file = self.assign_slot()?;
        touches.push((Resource::slot(file.0), Access::Change));
        if let (Some(inode), true) = (self.inode(at), flags.truncate) {
            touches.push((Resource::data(inode), Access::Change));
        }
        let call = match creates {
            true => OpCall::Create { dir: ROOT, file, flags, mode: mode & MODE },
            false => OpCall::Open { dir: ROOT, file, flags },
        };
        single(call, name, touches)
    }

    /// Returns the accesses of a call to an open file and to its data.
    fn touch(open: Opened, moves_position: bool, data: Access) -> Vec<Touch> {
        let slot = if moves_position { Access::Change } else { Access::Read };
        vec![(Resource::slot(open.slot.0), slot), (Resource::data(open.inode), data)]
    }

    fn read(&self, file: FileId, offset: Option<u64>, length: u64) -> Result<Plan, Skip> {
        let open = self.find_open(file)?;
        let (slot, length) = (open.slot, op_length(length));
        let call = match offset {
            Some(offset) => OpCall::ReadAt { file: slot, offset, length },
            None => OpCall::Read { file: slot, length },
        };
        Ok(plan(call, Self::touch(open, offset.is_none(), Access::Read), Compare::Number))
    }

    fn write(
        &mut self,
        file: FileId,
        offset: Option<u64>,
        length: u64,
        class: u8,
    ) -> Result<Plan, Skip> {
        let open = self.find_open(file)?;
        let (slot, length) = (open.slot, op_length(length));
        let state = self.fs.open_file(0, slot).ok_or("calls-on-files-that-are-not-open")?;
        let at = match offset {
            _ if state.append => self.size(open.inode),
            Some(offset) => offset,
            None => state.position,
        };
        let payload = self.payload(open.inode, class, at, length);
        let call = match offset {
            Some(offset) => OpCall::WriteAt { file: slot, offset, payload },
            None => OpCall::Write { file: slot, payload },
        };
        Ok(plan(call, Self::touch(open, offset.is_none(), Access::Change), Compare::Number))
    }

    fn size(&self, inode: Inode) -> u64 {
        self.fs.node(inode).and_then(|node| node.size()).unwrap_or(0)
    }

    /// Returns contents that the file did not have at this offset before.
    pub(crate) fn payload(&mut self, inode: Inode, class: u8, at: u64, length: u32) -> Payload {
        let size = self.size(inode);
        let times = self.versions.entry(inode).or_default();
        *times += u64::from(at < size);
        payload(inode as u32, class_byte(class, *times), at, length)
    }

    /// Translates calls that move bytes or the position.
    fn plan_transfer(&mut self, event: &Event) -> Plans {
        let result = event.result.max(0) as u64;
        let succeeded = event.result >= 0;
        Ok(vec![match &event.call {
            Call::Read { file, offset, length, .. } => self.read(*file, *offset, *length)?,
            Call::Write { file, offset, length, class, .. } => {
                // A short write is replayed with the length that was written.
                let length = if succeeded { result } else { *length };
                self.write(*file, *offset, length, flags::class(*class))?
            }
            Call::Seek { file, .. } => {
                let open = self.find_open(*file)?;
                let call = RareCall::Seek { file: open.slot, offset: result };
                let touches = vec![(Resource::slot(open.slot.0), Access::Change)];
                plan(OpCall::Rare(call), touches, Compare::Number)
            }
            Call::Copy { copy, from, from_offset, to, to_offset, length } => {
                let length = if succeeded { result } else { *length };
                let (from, to) = ((*from, *from_offset), (*to, *to_offset));
                return self.copy(*copy, from, to, length);
            }
            _ => return Err("unknown-calls"),
        }])
    }

    fn copy(
        &mut self,
        copy: CopyKind,
        (from, from_offset): (Option<FileId>, Option<u64>),
        (to, to_offset): (Option<FileId>, Option<u64>),
        length: u64,
    ) -> Plans {
        match (from, to) {
            (Some(from), None) => Ok(vec![self.read(from, from_offset, length)?]),
            (None, Some(to)) => Ok(vec![self.write(to, to_offset, length, 0)?]),
            (Some(from), Some(to)) => {
                if copy == CopyKind::Clone {
                    self.skip("reflinks-which-are-replayed-by-copy_file_range");
                }
                let (source, open) = (self.find_open(from)?, self.find_open(to)?);
                let position =
                    |it: &Compiler, slot| it.fs.open_file(0, slot).map_or(0, |open| open.position);
                let from_at = from_offset.unwrap_or_else(|| position(self, source.slot));
                let at = to_offset.unwrap_or_else(|| position(self, open.slot));
                let length = op_length(length);
                let call = RareCall::CopyRange {
                    from: source.slot,
                    from_offset: from_at,
                    file: open.slot,
                    offset: at,
                    length,
                };
                let mut touches = Self::touch(open, to_offset.is_none(), Access::Change);
                touches.extend(Self::touch(source, from_offset.is_none(), Access::Read));
                let mut plans = vec![plan(OpCall::Rare(call), touches, Compare::Number)];
                // The op has explicit offsets; a seek then advances the positions.
                let seek = |slot: FileSlot, offset: u64| {
                    let call =
                        RareCall::Seek { file: slot, offset: offset.saturating_add(length.into()) };
                    let touches = vec![(Resource::slot(slot.0), Access::Change)];
                    plan(OpCall::Rare(call), touches, Compare::Number)
                };
                if from_offset.is_none() {
                    plans.push(seek(source.slot, from_at));
                }
                if to_offset.is_none() {
                    plans.push(seek(open.slot, at));
                }
                Ok(plans)
            }
            (None, None) => Err("copies-between-what-are-no-files"),
        }
    }

    /// Translates calls on an open file.
    fn plan_file_call(&mut self, event: &Event) -> Plans {
        let (call, touches) = match &event.call {
            Call::Truncate { target: Target::At(at), length } => {
                let (name, mut touches) = self.path(at, Access::Read)?;
                touches.extend(self.inode(at).map(|inode| (Resource::data(inode), Access::Change)));
                let call = RareCall::Truncate { dir: ROOT, length: *length };
                return single(OpCall::Rare(call), name, touches);
            }
            Call::Truncate { target: Target::File(file), length } => {
                let open = self.find_open(*file)?;
                let call = OpCall::Truncate { file: open.slot, length: *length };
                (call, Self::touch(open, false, Access::Change))
            }
            Call::Fallocate { file, mode, offset, length } => {
                let open = self.find_open(*file)?;
                let allocate_mode =
                    flags::allocate(*mode).ok_or("fallocates-of-a-mode-without-a-replay")?;
                let (file, offset, length) = (open.slot, *offset, *length);
                let call = RareCall::Allocate { file, mode: allocate_mode, offset, length };
                (OpCall::Rare(call), Self::touch(open, false, Access::Change))
            }
            Call::Sync { sync, file, offset, length } => {
                let open = self.find_open(*file)?;
                let file = open.slot;
                let call = match sync {
                    SyncKind::Fsync => OpCall::Fsync { file },
                    SyncKind::Fdatasync => OpCall::Rare(RareCall::Fdatasync { file }),
                    SyncKind::Range => {
                        let (offset, length) = (*offset, *length);
                        OpCall::Rare(RareCall::SyncRange { file, offset, length })
                    }
                    SyncKind::Syncfs => OpCall::Sync,
                };
                let mut touches = Self::touch(open, false, Access::Read);
                // A directory is synced after the names that were created in it.
                touches.push((Resource::names(open.inode), Access::Read));
                (call, touches)
            }
            Call::SyncAll {} => (OpCall::Sync, Vec::new()),
            Call::Advise { file, advice, offset, length } => {
                let open = self.find_open(*file)?;
                let advice = flags::advice(*advice).ok_or("unknown-advice")?;
                let (file, offset, length) = (open.slot, *offset, *length);
                let call = RareCall::Fadvise { file, offset, length, advice };
                (OpCall::Rare(call), Self::touch(open, false, Access::Read))
            }
            Call::Readdir { file, length } => {
                let open = self.find_open(*file)?;
                let (length, to_end) = (op_length(*length), event.result == 0);
                let call = RareCall::Readdir { file: open.slot, length, to_end };
                let mut touches = vec![(Resource::slot(open.slot.0), Access::Change)];
                touches.push((Resource::names(open.inode), Access::Read));
                (OpCall::Rare(call), touches)
            }
            _ => return Err("unknown-calls"),
        };
        Ok(vec![plan(call, touches, Compare::Success)])
    }

    /// Translates calls that read or set attributes, except extended ones.
    fn plan_status_call(&mut self, event: &Event) -> Plans {
        let is_change =
            matches!(event.call, Call::Chmod { .. } | Call::Chown { .. } | Call::Utimes { .. });
        let access = if is_change { Access::Change } else { Access::Read };
        let (place, inode, mut touches) = match &event.call {
            Call::Stat { target, .. }
            | Call::Chmod { target, .. }
            | Call::Chown { target }
            | Call::Utimes { target, .. } => self.place(target)?,
            Call::Statfs { .. } => (None, None, Vec::new()),
            Call::Access { at, .. } | Call::Readlink { at, .. } => {
                let (name, touches) = self.path(at, Access::Read)?;
                (Some(name), self.inode(at), touches)
            }
            _ => return Err("unknown-calls"),
        };
        if let Some(inode) = inode {
            touches.push((Resource::attributes(inode), access));
            touches.extend((!is_change).then_some((Resource::data(inode), Access::Read)));
        }
        let file = || match &event.call {
            Call::Stat { target, .. }
            | Call::Chmod { target, .. }
            | Call::Chown { target }
            | Call::Utimes { target, .. } => target.file(),
            _ => None,
        };
        let slot = match file() {
            Some(file) => self.find_open(file)?.slot,
            None => FileSlot(0),
        };
        let (call, compare) = status_call(&event.call, place.is_some(), slot)?;
        Ok(vec![Plan { name: place.unwrap_or_default(), ..plan(call, touches, compare) }])
    }

    /// Returns the path and the inode of a target, if it has them, and the touched entries that lead to it.
    fn place(&mut self, target: &Target) -> Result<Place, Skip> {
        match target {
            Target::At(at) => {
                let (name, touches) = self.path(at, Access::Read)?;
                Ok((Some(name), self.inode(at), touches))
            }
            Target::File(file) => {
                let open = self.find_open(*file)?;
                let touches = vec![(Resource::slot(open.slot.0), Access::Read)];
                Ok((None, Some(open.inode), touches))
            }
        }
    }

    /// Translates calls on extended attributes. Any user can set only those of `user.` on any file system.
    fn plan_attribute_call(&mut self, event: &Event) -> Plans {
        let (target, name) = match &event.call {
            Call::Setxattr { target, name, .. }
            | Call::Getxattr { target, name, .. }
            | Call::Removexattr { target, name } => (target, &name[..]),
            Call::Listxattr { target, .. } => (target, &b"user.x"[..]),
            _ => return Err("unknown-calls"),
        };
        if !stays_below(name) {
            return Err("attributes-with-unusual-names");
        }
        let is_users = name.starts_with(b"user.");
        let sets = matches!(event.call, Call::Setxattr { .. } | Call::Removexattr { .. });
        if sets && !is_users {
            return Err("attributes-that-are-not-of-users");
        }
        let (place, inode, mut touches) = self.place(target)?;
        let access = if sets { Access::Change } else { Access::Read };
        touches.extend(inode.map(|inode| (Resource::attributes(inode), access)));
        let slot = match target.file() {
            Some(file) => self.find_open(file)?.slot,
            None => FileSlot(0),
        };
        let call = match (&event.call, place.is_some()) {
            (Call::Setxattr { size, .. }, true) => RareCall::Setxattr { dir: ROOT, length: *size },
            (Call::Setxattr { size, .. }, false) => {
                RareCall::SetxattrFile { file: slot, length: *size }
            }
            (Call::Getxattr { .. }, true) => RareCall::Getxattr { dir: ROOT },
            (Call::Getxattr { .. }, false) => RareCall::GetxattrFile { file: slot },
            (Call::Removexattr { .. }, true) => RareCall::Removexattr { dir: ROOT },
            (Call::Removexattr { .. }, false) => RareCall::RemovexattrFile { file: slot },
            (_, true) => RareCall::Listxattr { dir: ROOT },
            (_, false) => RareCall::ListxattrFile { file: slot },
        };
        let compare = if is_users { Compare::Success } else { Compare::Nothing };
        Ok(vec![Plan {
            name: place.unwrap_or_default(),
            other: name.to_vec(),
            ..plan(OpCall::Rare(call), touches, compare)
        }])
    }

    /// Translates calls that create, move or remove names.
    fn plan_name_call(&mut self, event: &Event) -> Plans {
        let access = if event.result < 0 { Access::Read } else { Access::Change };
        match &event.call {
            Call::Mkdir { at, mode, .. } => {
                let (name, touches) = self.path(at, access)?;
                single(OpCall::Mkdir { dir: ROOT, mode: mode & MODE }, name, touches)
            }
            Call::Rmdir { at } => {
                let (name, mut touches) = self.path(at, access)?;
                touches
                    .extend(self.inode(at).map(|inode| (Resource::names(inode), Access::Change)));
                single(OpCall::Rmdir { dir: ROOT }, name, touches)
            }
            Call::Unlink { at } => {
                let (name, touches) = self.path(at, access)?;
                single(OpCall::Unlink { dir: ROOT }, name, touches)
            }
            Call::Symlink { at, length, .. } => {
                let (name, touches) = self.path(at, access)?;
                let other = target(u64::from(*length));
                let call = OpCall::Symlink { dir: ROOT };
                Ok(vec![Plan { name, other, ..plan(call, touches, Compare::Success) }])
            }
            Call::Rename { from, to, flags } => {
                let (name, mut touches) = self.path(from, access)?;
                let (other, more) = self.path(to, access)?;
                touches.extend(more);
                touches
                    .extend(self.inode(to).map(|inode| (Resource::names(inode), Access::Change)));
                let flag = flags::rename(*flags).map_err(|()| "renames-with-unusual-flags")?;
                let call = match flag {
                    None => OpCall::Rename { dir: ROOT, to: ROOT },
                    Some(flag) => OpCall::Rare(RareCall::Rename { dir: ROOT, to: ROOT, flag }),
                };
                Ok(vec![Plan { name, other, ..plan(call, touches, Compare::Success) }])
            }
            Call::Link { from: Target::At(from), to } => {
                let (name, mut touches) = self.path(from, Access::Read)?;
                let (other, more) = self.path(to, access)?;
                touches.extend(more);
                let call = OpCall::Link { dir: ROOT, to: ROOT };
                Ok(vec![Plan { name, other, ..plan(call, touches, Compare::Success) }])
            }
            Call::Link { .. } => Err("links-to-an-open-file"),
            _ => Err("calls-without-a-replay"),
        }
    }
}

/// Returns the op for a call on attributes, and the way its result is compared.
fn status_call(call: &Call, by_name: bool, file: FileSlot) -> Result<(OpCall, Compare), Skip> {
    let (dir, mtime) = (ROOT, MTIME);
    let call = match (call, by_name) {
        (Call::Stat { stat, .. }, true) => {
            let follow = matches!(stat, StatKind::Stat | StatKind::Statx);
            return Ok((OpCall::Rare(RareCall::Status { dir, follow }), Compare::Number));
        }
        (Call::Stat { .. }, false) => {
            return Ok((OpCall::Rare(RareCall::StatusFile { file }), Compare::Number));
        }
        (Call::Readlink { .. }, _) => {
            return Ok((OpCall::Rare(RareCall::Readlink { dir }), Compare::Number));
        }
        (Call::Access { .. }, _) => OpCall::Rare(RareCall::Access { dir }),
        (Call::Statfs { .. }, _) => OpCall::Rare(RareCall::Statfs),
        (Call::Chmod { mode, .. }, true) => OpCall::Chmod { dir, mode: mode & MODE },
        (Call::Chmod { mode, .. }, false) => OpCall::ChmodFile { file, mode: mode & MODE },
        (Call::Chown { .. }, true) => OpCall::Chown { dir },
        (Call::Chown { .. }, false) => OpCall::ChownFile { file },
        (Call::Utimes { .. }, true) => OpCall::Utimes { dir, mtime },
        (Call::Utimes { .. }, false) => OpCall::UtimesFile { file, mtime },
        _ => return Err("unknown-calls"),
    };
    Ok((call, Compare::Success))
}
