//! Packing a tree into an archive and unpacking it, as GNU tar does.

use std::os::fd::OwnedFd;

use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::RECORD;

use crate::run::Failure;
use crate::tree::calls::{Attributes, Calls, NEW, Place};
use crate::tree::ustar::{BLOCK, Header};

const READ: i32 = libc::O_RDONLY | libc::O_NOFOLLOW;
const LONG: usize = RECORD as usize;

/// Packs the tree `from` into the new file `archive`, in which its members are called as the path of
/// `from` says; before each record `compute` passes, as if it were compressed.
///
/// # Errors
/// The first call that fails; EOPNOTSUPP for what is neither file nor directory.
pub fn pack(
    calls: &mut Calls<'_, '_>,
    mut from: Place,
    archive: Place,
    compute: Nanos,
) -> Result<(), Failure> {
    let file = calls.open(OpKind::Create, &archive, NEW, 0o644)?;
    let mut records = Records { file, archive, record: Vec::with_capacity(LONG), compute };
    member(calls, &mut from, &mut records, &mut [0; LONG])?;
    // Two blocks of zeros end an archive, and its last record is filled up with them.
    records.push(calls, &[0; 2 * BLOCK])?;
    let missing = (LONG - records.record.len()) % LONG;
    records.push(calls, &[0; LONG][..missing])?;
    calls.close(records.file);
    Ok(())
}

/// The archive that is written.
struct Records {
    file: OwnedFd,
    archive: Place,
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

/// Packs one file or directory with all that is below it.
fn member(
    calls: &mut Calls<'_, '_>,
    from: &mut Place,
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
    from: &Place,
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
            // The file has become shorter since its header was made.
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

/// Unpacks the file `archive` below the directory `to`; after each record that is read `compute`
/// passes, as if it were expanded.
///
/// # Errors
/// The first call that fails; EBADMSG on a read means that the archive is none.
pub fn unpack(
    calls: &mut Calls<'_, '_>,
    archive: Place,
    to: Place,
    compute: Nanos,
) -> Result<(), Failure> {
    let file = calls.open(OpKind::Open, &archive, READ, 0)?;
    let mut source = Source { file, archive, record: vec![0; LONG], at: LONG, compute };
    members(calls, &mut source, to)?;
    calls.close(source.file);
    Ok(())
}

/// The archive that is read.
struct Source {
    file: OwnedFd,
    archive: Place,
    record: Vec<u8>,
    /// How much of the record is used up.
    at: usize,
    compute: Nanos,
}

impl Source {
    /// The next blocks that hold `most` bytes, or those of them that the record has.
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

/// A directory that was unpacked, by the length of its path; its time and mode wait until all that is
/// below it is there.
type Waiting = Vec<(usize, Attributes)>;

fn members(calls: &mut Calls<'_, '_>, source: &mut Source, to: Place) -> Result<(), Failure> {
    let mut waiting = Waiting::new();
    let mut last = to.clone();
    let mut buffer = Vec::with_capacity(LONG);
    loop {
        let block = source.blocks(calls, BLOCK)?;
        if block.iter().all(|byte| *byte == 0) {
            return settle(calls, &mut waiting, &mut last, b"");
        }
        let Some((header, path)) = Header::read(block) else {
            return calls.fail(OpKind::Read, &source.archive, libc::EBADMSG);
        };
        let mut next = to.clone();
        next.descend(path.as_bytes());
        settle(calls, &mut waiting, &mut last, next.path.as_bytes())?;
        let attributes = Attributes { mode: header.mode, mtime: header.mtime };
        if header.directory {
            calls.make_directory(&next)?;
            waiting.push((next.path.as_bytes().len(), attributes));
        } else {
            let file = calls.open(OpKind::Create, &next, NEW, 0o600)?;
            data(calls, source, (&file, &next), header.size, &mut buffer)?;
            calls.set_file_attributes(&file, &next, attributes)?;
            calls.close(file);
        }
        last = next;
    }
}

/// Gives time and mode to those directories that `next` does not lie in. Those that wait lie in each
/// other and all are parts of the path `last`.
fn settle(
    calls: &mut Calls<'_, '_>,
    waiting: &mut Waiting,
    last: &mut Place,
    next: &[u8],
) -> Result<(), Failure> {
    while let Some((length, attributes)) = waiting.pop() {
        last.path.truncate(length);
        let below = next.strip_prefix(last.path.as_bytes());
        if below.is_some_and(|rest| rest.starts_with(b"/")) {
            waiting.push((length, attributes));
            break;
        }
        calls.set_attributes(last, attributes)?;
    }
    Ok(())
}

/// The bytes of one file, a record a call.
fn data(
    calls: &mut Calls<'_, '_>,
    source: &mut Source,
    (file, place): (&OwnedFd, &Place),
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
        calls.write(file, place, buffer)?;
        left -= chunk as u64;
    }
    Ok(())
}
