//! Packs a tree into an archive and unpacks it, like GNU tar.

use std::os::fd::OwnedFd;

use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::RECORD;

use crate::failure::Failure;
use crate::tree::calls::{Attributes, Calls, NEW_FILE_FLAGS, TreePath};
use crate::tree::ustar::{BLOCK, Header};

const READ: i32 = libc::O_RDONLY | libc::O_NOFOLLOW;
const RECORD_SIZE: usize = RECORD as usize;

/// Packs the tree `from` into the new file `archive`, with member names that start with the path of
/// `from`; spins for `compute` before each record, as if it were compressed.
///
/// # Errors
/// The first call that fails; EOPNOTSUPP for anything that is neither a file nor a directory.
pub fn pack(
    calls: &mut Calls<'_, '_>,
    mut from: TreePath,
    archive: TreePath,
    compute: Nanos,
) -> Result<(), Failure> {
    let file = calls.open(OpKind::Create, &archive, NEW_FILE_FLAGS, 0o644)?;
    let mut records = Records { file, archive, record: Vec::with_capacity(RECORD_SIZE), compute };
    pack_member(calls, &mut from, &mut records, &mut [0; RECORD_SIZE])?;
    // Two blocks of zeros end an archive, and zeros fill its last record.
    records.push(calls, &[0; 2 * BLOCK])?;
    let padding = (RECORD_SIZE - records.record.len()) % RECORD_SIZE;
    records.push(calls, &[0; RECORD_SIZE][..padding])?;
    calls.close(records.file);
    Ok(())
}

/// The archive being written.
struct Records {
    file: OwnedFd,
    archive: TreePath,
    record: Vec<u8>,
    compute: Nanos,
}

impl Records {
    /// Appends bytes, and writes each record that is full.
    fn push(&mut self, calls: &mut Calls<'_, '_>, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let (fitting, rest) = bytes.split_at(bytes.len().min(RECORD_SIZE - self.record.len()));
            self.record.extend_from_slice(fitting);
            bytes = rest;
            if self.record.len() == RECORD_SIZE {
                calls.compute(self.compute);
                calls.write(&self.file, &self.archive, &self.record)?;
                self.record.clear();
            }
        }
        Ok(())
    }
}

/// Packs one file or directory recursively.
fn pack_member(
    calls: &mut Calls<'_, '_>,
    from: &mut TreePath,
    records: &mut Records,
    buffer: &mut [u8; RECORD_SIZE],
) -> Result<(), Failure> {
    let status = calls.stat(from)?;
    let is_directory = status.kind == libc::S_IFDIR;
    if !is_directory && status.kind != libc::S_IFREG {
        return calls.fail(OpKind::Open, from, libc::EOPNOTSUPP);
    }
    let Attributes { mode, mtime } = status.attributes;
    let header =
        Header { is_directory, mode, mtime, size: if is_directory { 0 } else { status.size } };
    let Some(block) = header.block(from.path.as_bytes()) else {
        return calls.fail(OpKind::Write, from, libc::ENAMETOOLONG);
    };
    if !is_directory {
        return pack_file(calls, from, (&block, header.size), records, buffer);
    }
    records.push(calls, &block)?;
    for name in calls.names(from)?.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let parent_length = from.descend(name);
        pack_member(calls, from, records, buffer)?;
        from.path.truncate(parent_length);
    }
    Ok(())
}

fn pack_file(
    calls: &mut Calls<'_, '_>,
    from: &TreePath,
    (header, size): (&[u8; BLOCK], u64),
    records: &mut Records,
    buffer: &mut [u8; RECORD_SIZE],
) -> Result<(), Failure> {
    let file = calls.open(OpKind::Open, from, READ, 0)?;
    records.push(calls, header)?;
    let mut remaining = size;
    while remaining > 0 {
        let chunk = remaining.min(RECORD) as usize;
        let count = calls.read(&file, from, &mut buffer[..chunk])?;
        if count == 0 {
            // The file has become shorter since its header was written.
            return calls.fail(OpKind::Read, from, libc::EBADMSG);
        }
        remaining -= count as u64;
        records.push(calls, &buffer[..count])?;
    }
    let padding = size.next_multiple_of(BLOCK as u64) - size;
    records.push(calls, &[0; BLOCK][..padding as usize])?;
    calls.close(file);
    Ok(())
}

/// Unpacks the file `archive` below the directory `to`; spins for `compute` after each record,
/// as if it were decompressed.
///
/// # Errors
/// The first call that fails; EBADMSG on a read means that the file is not an archive.
pub fn unpack(
    calls: &mut Calls<'_, '_>,
    archive: TreePath,
    to: TreePath,
    compute: Nanos,
) -> Result<(), Failure> {
    let file = calls.open(OpKind::Open, &archive, READ, 0)?;
    let mut source =
        Source { file, archive, record: vec![0; RECORD_SIZE], position: RECORD_SIZE, compute };
    unpack_members(calls, &mut source, to)?;
    calls.close(source.file);
    Ok(())
}

/// The archive being read.
struct Source {
    file: OwnedFd,
    archive: TreePath,
    record: Vec<u8>,
    /// Number of bytes of the record used so far.
    position: usize,
    compute: Nanos,
}

impl Source {
    /// Returns the next blocks that hold `length` bytes, or as many as the record still has.
    fn blocks(&mut self, calls: &mut Calls<'_, '_>, length: usize) -> Result<&[u8], Failure> {
        if self.position == RECORD_SIZE {
            if calls.read(&self.file, &self.archive, &mut self.record)? != RECORD_SIZE {
                return calls.fail(OpKind::Read, &self.archive, libc::EBADMSG);
            }
            calls.compute(self.compute);
            self.position = 0;
        }
        let from = self.position;
        self.position = RECORD_SIZE.min(from + length.next_multiple_of(BLOCK));
        Ok(&self.record[from..self.position])
    }
}

/// Unpacked directories, each by the length of its path; its time and mode are set after its contents.
type PendingDirectories = Vec<(usize, Attributes)>;

fn unpack_members(
    calls: &mut Calls<'_, '_>,
    source: &mut Source,
    to: TreePath,
) -> Result<(), Failure> {
    let mut pending = PendingDirectories::new();
    let mut last = to.clone();
    let mut buffer = Vec::with_capacity(RECORD_SIZE);
    loop {
        let block = source.blocks(calls, BLOCK)?;
        if block.iter().all(|byte| *byte == 0) {
            return set_pending_attributes(calls, &mut pending, &mut last, b"");
        }
        let Some((header, path)) = Header::parse(block) else {
            return calls.fail(OpKind::Read, &source.archive, libc::EBADMSG);
        };
        let mut next = to.clone();
        next.descend(path.as_bytes());
        set_pending_attributes(calls, &mut pending, &mut last, next.path.as_bytes())?;
        let attributes = Attributes { mode: header.mode, mtime: header.mtime };
        if header.is_directory {
            calls.make_directory(&next)?;
            pending.push((next.path.as_bytes().len(), attributes));
        } else {
            let file = calls.open(OpKind::Create, &next, NEW_FILE_FLAGS, 0o600)?;
            unpack_file(calls, source, (&file, &next), header.size, &mut buffer)?;
            calls.set_file_attributes(&file, &next, attributes)?;
            calls.close(file);
        }
        last = next;
    }
}

/// Sets time and mode of the pending directories that do not contain `next`. They are nested
/// and all are prefixes of the path `last`.
fn set_pending_attributes(
    calls: &mut Calls<'_, '_>,
    pending: &mut PendingDirectories,
    last: &mut TreePath,
    next: &[u8],
) -> Result<(), Failure> {
    while let Some((length, attributes)) = pending.pop() {
        last.path.truncate(length);
        let rest = next.strip_prefix(last.path.as_bytes());
        if rest.is_some_and(|rest| rest.starts_with(b"/")) {
            pending.push((length, attributes));
            break;
        }
        calls.set_directory_attributes(last, attributes)?;
    }
    Ok(())
}

/// Writes the bytes of one file, one record per call.
fn unpack_file(
    calls: &mut Calls<'_, '_>,
    source: &mut Source,
    (file, path): (&OwnedFd, &TreePath),
    size: u64,
    buffer: &mut Vec<u8>,
) -> Result<(), Failure> {
    let mut remaining = size;
    while remaining > 0 {
        let chunk = remaining.min(RECORD) as usize;
        buffer.clear();
        while buffer.len() < chunk {
            let missing = chunk - buffer.len();
            let blocks = source.blocks(calls, missing)?;
            buffer.extend_from_slice(&blocks[..blocks.len().min(missing)]);
        }
        calls.write(file, path, buffer)?;
        remaining -= chunk as u64;
    }
    Ok(())
}
