//! Imports calls on descriptors: reads and writes, copies, syncs, locks, mappings.

use fsdyno_trace::{Call, Compressibility, CopyKind, Kind, LockOp, SyncKind};

use super::parsed_call::{ParseError, ParsedCall};
use super::state::{Fault, ImportState, Open, Outside, Thread, readable};
use super::symbols::number;

/// The range of a read or write.
struct Extent {
    /// The offset of a positioned call.
    offset: Option<u64>,
    /// The length, and the number of buffers of a vectored call.
    length: (u64, u32),
    /// The range of the transferred bytes in the file.
    bytes: std::ops::Range<u64>,
}

/// Returns the requested length of a read or write, and its number of buffers.
fn length_of(parsed: &ParsedCall<'_>) -> Result<(u64, u32), ParseError> {
    if !(parsed.name.contains("readv") || parsed.name.contains("writev")) {
        return Ok((parsed.number(2)? as u64, 0));
    }
    let sum = parsed.arg(1)?.split("iov_len=").skip(1);
    let sum = sum.filter_map(|it| number(&it[..it.find([',', '}']).unwrap_or(it.len())]));
    let length = sum.fold(0u64, |sum, it| sum.saturating_add(it as u64));
    Ok((length, parsed.number(2)?.clamp(0, 1024) as u32))
}

/// Returns the extent of a read or write; advances the position of the file.
fn extent(parsed: &ParsedCall<'_>, open: &Open) -> Result<Extent, ParseError> {
    let moved = parsed.result.max(0) as u64;
    let length = length_of(parsed)?;
    let offset = if parsed.name.starts_with('p') { Some(parsed.number(3)? as u64) } else { None };
    let begin = offset.unwrap_or(*open.position.borrow());
    let end = begin.saturating_add(moved);
    if offset.is_none() && !parsed.fails() {
        *open.position.borrow_mut() = end;
    }
    Ok(Extent { offset, length, bytes: begin..end })
}

impl ImportState {
    /// Imports read(2) and its variants.
    pub fn read(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let open = self.file(parsed, thread, 0)?;
        let Extent { offset, length: (length, buffers), bytes } = extent(parsed, &open)?;
        self.reached(open.node, bytes.end);
        Ok(Call::Read { file: open.file, offset, length, buffers })
    }

    /// Imports write(2) and its variants.
    pub fn write_call(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let open = self.file(parsed, thread, 0)?;
        let Extent { offset, length: (length, buffers), .. } = extent(parsed, &open)?;
        if !parsed.fails() {
            // Later stats and reads do not show the initial size.
            self.mark_size_changed(open.node);
        }
        let class = Compressibility::Unknown;
        Ok(Call::Write { file: open.file, offset, length, buffers, class })
    }

    /// Imports lseek(2).
    pub fn seek(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let open = self.file(parsed, thread, 0)?;
        let (offset, whence) = (parsed.number(1)?, parsed.number(2)? as u32);
        if !parsed.fails() {
            *open.position.borrow_mut() = parsed.result.max(0) as u64;
        }
        Ok(Call::Seek { file: open.file, offset, whence })
    }

    /// Imports a copy between two descriptors.
    pub fn copy(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let (from_at, to_at) = if parsed.name.starts_with("sendfile") { (1, 0) } else { (0, 2) };
        let copy = match parsed.name {
            "sendfile" | "sendfile64" => CopyKind::Sendfile,
            "splice" => CopyKind::Splice,
            _ => CopyKind::CopyFileRange,
        };
        let length_at = if copy == CopyKind::Sendfile { 3 } else { 4 };
        let offset = |at: usize| -> Option<u64> {
            let text = parsed.args.get(at)?.split("=>").next()?;
            number(text.trim().trim_matches(['[', ']']))
                .filter(|_| text.contains('['))
                .map(|it| it as u64)
        };
        let (from_offset, to_offset) = match copy {
            CopyKind::Sendfile => (offset(2), None),
            _ => (offset(1), offset(3)),
        };
        let from = readable(self.file(parsed, thread, from_at))?;
        let to = readable(self.file(parsed, thread, to_at))?;
        if let (Err(it), Err(_)) = (&from, &to) {
            return Err(Outside(it.0).into());
        }
        if let Ok(open) = &to {
            self.mark_size_changed(open.node);
        }
        let (from, to) = (from.ok().map(|it| it.file), to.ok().map(|it| it.file));
        let length = parsed.number(length_at)? as u64;
        Ok(Call::Copy { copy, from, from_offset, to, to_offset, length })
    }

    /// Imports fallocate(2).
    pub fn fallocate(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let open = self.file(parsed, thread, 0)?;
        self.mark_size_changed(open.node);
        let number = |at| parsed.number(at);
        let (mode, offset) = (number(1)? as u32, number(2)? as u64);
        Ok(Call::Fallocate { file: open.file, mode, offset, length: number(3)? as u64 })
    }

    /// Imports fsync(2) and its variants.
    pub fn sync(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let file = self.file(parsed, thread, 0)?.file;
        let sync = match parsed.name {
            "fsync" => SyncKind::Fsync,
            "fdatasync" => SyncKind::Fdatasync,
            "syncfs" => SyncKind::Syncfs,
            _ => SyncKind::Range,
        };
        let range = sync == SyncKind::Range;
        let value = |at| if range { parsed.number(at).map(|it| it as u64) } else { Ok(0) };
        Ok(Call::Sync { sync, file, offset: value(1)?, length: value(2)? })
    }

    /// Imports getdents64(2), getdents(2).
    pub fn readdir(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let open = self.file(parsed, thread, 0)?;
        self.set_shown_attributes(open.node, Some(Kind::Directory), None, None);
        Ok(Call::Readdir { file: open.file, length: parsed.number(2)? as u64 })
    }

    /// Imports flock(2).
    pub fn flock(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let (lock, waits) = lock_of(parsed.number(1)? as i32);
        let file = self.file(parsed, thread, 0)?.file;
        Ok(Call::Lock { file, lock, whole: true, waits, offset: 0, length: 0 })
    }

    /// Imports posix_fadvise(2), readahead(2).
    pub fn advise(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let file = self.file(parsed, thread, 0)?.file;
        let advice = match parsed.name {
            "readahead" => libc::POSIX_FADV_WILLNEED as u32,
            _ => parsed.number(3)? as u32,
        };
        let (offset, length) = (parsed.number(1)? as u64, parsed.number(2)? as u64);
        Ok(Call::Advise { file, advice, offset, length })
    }

    /// Imports mmap(2) of a file.
    pub fn map(&mut self, parsed: &ParsedCall<'_>, thread: &Thread) -> Result<Call, Fault> {
        let flags = parsed.number(3)? as i32;
        let number = |at: usize| parsed.number(at).map(|it| it as u64);
        let (length, offset) = (number(1)?, number(5)?);
        let writable = parsed.number(2)? as i32 & libc::PROT_WRITE != 0;
        let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        let file = self.file(parsed, thread, 4)?.file;
        Ok(Call::Map { file, offset, length, shared, writable })
    }
}

/// Returns the operation of an flock(2), and true if it waits.
fn lock_of(flags: i32) -> (LockOp, bool) {
    let lock = match flags & !libc::LOCK_NB {
        libc::LOCK_SH => LockOp::Shared,
        libc::LOCK_EX => LockOp::Exclusive,
        _ => LockOp::Unlock,
    };
    (lock, flags & libc::LOCK_NB == 0)
}
