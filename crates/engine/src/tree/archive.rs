//! Packs a tree into an archive and unpacks it, like GNU tar.

use std::os::fd::OwnedFd;

use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::RECORD;

use crate::failure::Failure;
use crate::tree::calls::{Attributes, Calls, NEW_FILE_FLAGS, TreePath};
use crate::tree::ustar::{BLOCK, Header};

const READ: i32 = libc::O_RDONLY | libc::O_NOFOLLOW;
const LONG: usize = RECORD as usize;

/// Packs the tree `from` into the new file `archive`, with member names that start with the path of
/// `from`; spins for `compute` before each record, as if it were compressed.
///
/// # Errors
/// The first call that fails; EOPNOTSUPP for what is neither file nor directory.
pub fn pack(
    calls: &mut Calls<'_, '_>,
    mut from: TreePath,
    archive: TreePath,
    compute: Nanos,
) -> Result<(), Failure> {
    let file = calls.open(OpKind::Create, &archive, NEW_FILE_FLAGS, 0o644)?;
    let mut records = Records { file, archive, record: Vec::with_capacity(LONG), compute };
    member(calls, &mut from, &mut records, &mut [0; LONG])?;
    // Two blocks of zeros end an archive, and zeros fill its last record.
    records.push(calls, &[0; 2 * BLOCK])?;
    let missing = (LONG - records.record.len()) % LONG;
    records.push(calls, &[0; LONG][..missing])?;
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
            let (now, later) = bytes.split_at(bytes.len().min(LONG - self.record.len()));
            self.record.extend_from_slice(now);
            bytes = later;
            if self.record.len() == LONG {
                calls.compute(self.compute);
                calls.write(&self.file, &self.archive, &self.record)?;
                self.record.clear();
            }
        }
        Ok(())
    }
}

/// Packs one file or directory recursively.
fn member(
    calls: &mut Calls<'_, '_>,
    from: &mut TreePath,
    records: &mut Records,
    buffer: &mut [u8; LONG],
) -> Result<(), Failure> {
    let status = calls.stat(from)?;
    let directory = status.kind == libc::S_IFDIR;
    if !directory && status.kind != libc::S_IFREG {
        return calls.fail(OpKind::Open, from, libc::EOPNOTSUPP);
    }
    let Attributes { mode, mtime } = status.attributes;
    let header = Header { directory, mode, mtime, size: if directory { 0 } else { status.size } };
    let Some(block) = header.block(from.path.as_bytes()) else {
        return calls.fail(OpKind::Write, from, libc::ENAMETOOLONG);
    };
    if !directory {
        return file(calls, from, (&block, header.size), records, buffer);
    }
    records.push(calls, &block)?;
    for name in calls.names(from)?.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let above = from.descend(name);
        member(calls, from, records, buffer)?;
        from.path.truncate(above);
    }
    Ok(())
}

fn file(
    calls: &mut Calls<'_, '_>,
    from: &TreePath,
    (header, size): (&[u8; BLOCK], u64),
    records: &mut Records,
    buffer: &mut [u8; LONG],
) -> Result<(), Failure> {
    let file = calls.open(OpKind::Open, from, READ, 0)?;
    records.push(calls, header)?;
    let mut left = size;
    while left > 0 {
        let most = left.min(RECORD) as usize;
        let got = calls.read(&file, from, &mut buffer[..most])?;
        if got == 0 {
            // The file has become shorter since its header was written.
            return calls.fail(OpKind::Read, from, libc::EBADMSG);
        }
        left -= got as u64;
        records.push(calls, &buffer[..got])?;
    }
    let filled = size.next_multiple_of(BLOCK as u64) - size;
    records.push(calls, &[0; BLOCK][..filled as usize])?;
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
    let mut source = Source { file, archive, record: vec![0; LONG], at: LONG, compute };
    members(calls, &mut source, to)?;
    calls.close(source.file);
    Ok(())
}

/// The archive being read.
struct Source {
    file: OwnedFd,
    archive: TreePath,
    record: Vec<u8>,
    /// Number of bytes of the record used so far.
    at: usize,
    compute: Nanos,
}

impl Source {
    /// Returns the next blocks that hold `most` bytes, or as many as the record still has.
    fn blocks(&mut self, calls: &mut Calls<'_, '_>, most: usize) -> Result<&[u8], Failure> {
        if self.at == LONG {
            if calls.read(&self.file, &self.archive, &mut self.record)? != LONG {
                return calls.fail(OpKind::Read, &self.archive, libc::EBADMSG);
            }
            calls.compute(self.compute);
            self.at = 0;
        }
        let from = self.at;
        self.at = LONG.min(from + most.next_multiple_of(BLOCK));
        Ok(&self.record[from..self.at])
    }
}

/// An unpacked directory, by the length of its path; its time and mode are set after
/// its contents.
type Waiting = Vec<(usize, Attributes)>;

fn members(calls: &mut Calls<'_, '_>, source: &mut Source, to: TreePath) -> Result<(), Failure> {
    let mut waiting = Waiting::new();
    let mut last = to.clone();
    let mut buffer = Vec::with_capacity(LONG);
    loop {
        let block = source.blocks(calls, BLOCK)?;
        if block.iter().all(|byte| *byte == 0) {
            return set_finished(calls, &mut waiting, &mut last, b"");
        }
        let Some((header, path)) = Header::read(block) else {
            return calls.fail(OpKind::Read, &source.archive, libc::EBADMSG);
        };
        let mut next = to.clone();
        next.descend(path.as_bytes());
        set_finished(calls, &mut waiting, &mut last, next.path.as_bytes())?;
        let attributes = Attributes { mode: header.mode, mtime: header.mtime };
        if header.directory {
            calls.make_directory(&next)?;
            waiting.push((next.path.as_bytes().len(), attributes));
        } else {
            let file = calls.open(OpKind::Create, &next, NEW_FILE_FLAGS, 0o600)?;
            data(calls, source, (&file, &next), header.size, &mut buffer)?;
            calls.set_file_attributes(&file, &next, attributes)?;
            calls.close(file);
        }
        last = next;
    }
}

/// Sets time and mode of waiting directories that do not contain `next`. They are nested
/// and all are prefixes of the path `last`.
fn set_finished(
    calls: &mut Calls<'_, '_>,
    waiting: &mut Waiting,
    last: &mut TreePath,
    next: &[u8],
) -> Result<(), Failure> {
    while let Some((length, attributes)) = waiting.pop() {
        last.path.truncate(length);
        let below = next.strip_prefix(last.path.as_bytes());
        if below.is_some_and(|rest| rest.starts_with(b"/")) {
            waiting.push((length, attributes));
            break;
        }
        calls.set_directory_attributes(last, attributes)?;
    }
    Ok(())
}

/// Writes the bytes of one file, one record per call.
fn data(
    calls: &mut Calls<'_, '_>,
    source: &mut Source,
    (file, path): (&OwnedFd, &TreePath),
    size: u64,
    buffer: &mut Vec<u8>,
) -> Result<(), Failure> {
    let mut left = size;
    while left > 0 {
        let chunk = left.min(RECORD) as usize;
        buffer.clear();
        while buffer.len() < chunk {
            let missing = chunk - buffer.len();
            let blocks = source.blocks(calls, missing)?;
            buffer.extend_from_slice(&blocks[..blocks.len().min(missing)]);
        }
        calls.write(file, path, buffer)?;
        left -= chunk as u64;
    }
    Ok(())
}
