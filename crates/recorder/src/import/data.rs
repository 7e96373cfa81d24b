//! Calls on descriptors: reads and writes, copies, syncs, locks, mappings.

use fsdyno_trace::{Call, CallKind, Compressibility, CopyKind, Kind, LockOp, SyncKind};

use super::said::{Said, Wrong};
use super::symbols::number;
use super::world::{Outside, Thread, World};

impl World {
    /// A call that moves bytes or the position.
    pub fn moves(
        &mut self,
        of: CallKind,
        said: &Said<'_>,
        thread: &Thread,
    ) -> Result<Result<Call, Outside>, Wrong> {
        let moved = said.result.max(0) as u64;
        if of == CallKind::Copy {
            return self.copied(said, thread);
        }
        let open = match self.file(said, thread, 0)? {
            Ok(open) => open,
            Err(it) => return Ok(Err(it)),
        };
        let (file, node) = (open.file, open.node);
        if of == CallKind::Seek {
            let (offset, whence) = (said.number(1)?, said.number(2)? as u32);
            if !said.fails() {
                *open.position.borrow_mut() = moved;
            }
            return Ok(Ok(Call::Seek { file, offset, whence }));
        }
        let vector = said.name.contains("readv") || said.name.contains("writev");
        let positioned = said.name.starts_with('p');
        let (length, buffers) = if vector {
            let sum = said.arg(1)?.split("iov_len=").skip(1);
            let sum = sum.filter_map(|it| number(&it[..it.find([',', '}']).unwrap_or(it.len())]));
            (
                sum.fold(0u64, |sum, it| sum.saturating_add(it as u64)),
                said.number(2)?.clamp(0, 1024) as u32,
            )
        } else {
            (said.number(2)? as u64, 0)
        };
        let offset = if positioned { Some(said.number(3)? as u64) } else { None };
        let begin = offset.unwrap_or(*open.position.borrow());
        if offset.is_none() && !said.fails() {
            *open.position.borrow_mut() = begin.saturating_add(moved);
        }
        Ok(Ok(if of == CallKind::Read {
            self.reached(node, begin.saturating_add(moved));
            Call::Read { file, offset, length, buffers }
        } else {
            if !said.fails() {
                // What was not shown until now was there without these bytes.
                self.changed(node);
            }
            Call::Write { file, offset, length, buffers, class: Compressibility::Unknown }
        }))
    }

    /// A copy between two descriptors.
    fn copied(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Result<Call, Outside>, Wrong> {
        let (from_at, to_at) = if said.name.starts_with("sendfile") { (1, 0) } else { (0, 2) };
        let copy = match said.name {
            "sendfile" | "sendfile64" => CopyKind::Sendfile,
            "splice" => CopyKind::Splice,
            _ => CopyKind::CopyFileRange,
        };
        let length_at = if copy == CopyKind::Sendfile { 3 } else { 4 };
        let offset = |at: usize| -> Option<u64> {
            let text = said.args.get(at)?.split("=>").next()?;
            number(text.trim().trim_matches(['[', ']']))
                .filter(|_| text.contains('['))
                .map(|it| it as u64)
        };
        let (from_offset, to_offset) = match copy {
            CopyKind::Sendfile => (offset(2), None),
            _ => (offset(1), offset(3)),
        };
        let from = self.file(said, thread, from_at)?;
        let to = self.file(said, thread, to_at)?;
        if let (Err(it), Err(_)) = (&from, &to) {
            return Ok(Err(Outside(it.0)));
        }
        if let Ok(open) = &to {
            self.changed(open.node);
        }
        let (from, to) = (from.ok().map(|it| it.file), to.ok().map(|it| it.file));
        let length = said.number(length_at)? as u64;
        Ok(Ok(Call::Copy { copy, from, from_offset, to, to_offset, length }))
    }

    /// Another call on a descriptor.
    pub fn on_descriptor(
        &mut self,
        of: CallKind,
        said: &Said<'_>,
        thread: &Thread,
    ) -> Result<Result<Call, Outside>, Wrong> {
        let name = said.name;
        let open = |it: &mut World| it.file(said, thread, 0);
        macro_rules! opened {
            () => {
                match open(self)? {
                    Ok(open) => open,
                    Err(it) => return Ok(Err(it)),
                }
            };
        }
        Ok(Ok(match of {
            CallKind::Fallocate => {
                let open = opened!();
                self.changed(open.node);
                let number = |at| said.number(at);
                let (mode, offset) = (number(1)? as u32, number(2)? as u64);
                Call::Fallocate { file: open.file, mode, offset, length: number(3)? as u64 }
            }
            CallKind::Sync => {
                let file = opened!().file;
                let sync = match name {
                    "fsync" => SyncKind::Fsync,
                    "fdatasync" => SyncKind::Fdatasync,
                    "syncfs" => SyncKind::Syncfs,
                    _ => SyncKind::Range,
                };
                let range = sync == SyncKind::Range;
                let value = |at| if range { said.number(at).map(|it| it as u64) } else { Ok(0) };
                Call::Sync { sync, file, offset: value(1)?, length: value(2)? }
            }
            CallKind::SyncAll => Call::SyncAll {},
            CallKind::Readdir => {
                let open = opened!();
                self.shown(open.node, Some(Kind::Directory), None, None);
                Call::Readdir { file: open.file, length: said.number(2)? as u64 }
            }
            CallKind::Lock => {
                let (lock, waits) = lock_of(said.number(1)? as i32);
                Call::Lock { file: opened!().file, lock, whole: true, waits, offset: 0, length: 0 }
            }
            CallKind::Map => return self.map(said, thread),
            _ => {
                let file = opened!().file;
                let readahead = name == "readahead";
                let advice = if readahead {
                    libc::POSIX_FADV_WILLNEED as u32
                } else {
                    said.number(3)? as u32
                };
                let (offset, length) = (said.number(1)? as u64, said.number(2)? as u64);
                Call::Advise { file, advice, offset, length }
            }
        }))
    }

    /// A mapping of a file.
    fn map(&mut self, said: &Said<'_>, thread: &Thread) -> Result<Result<Call, Outside>, Wrong> {
        let flags = said.number(3)? as i32;
        let number = |at: usize| said.number(at).map(|it| it as u64);
        let (length, offset) = (number(1)?, number(5)?);
        let writable = said.number(2)? as i32 & libc::PROT_WRITE != 0;
        let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        let open = self.file(said, thread, 4)?;
        Ok(open.map(|open| Call::Map { file: open.file, offset, length, shared, writable }))
    }
}

/// The operation of an flock(2), and whether it waits.
fn lock_of(flags: i32) -> (LockOp, bool) {
    let lock = match flags & !libc::LOCK_NB {
        libc::LOCK_SH => LockOp::Shared,
        libc::LOCK_EX => LockOp::Exclusive,
        _ => LockOp::Unlock,
    };
    (lock, flags & libc::LOCK_NB == 0)
}
