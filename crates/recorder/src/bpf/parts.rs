//! Decodes the records of the programs in the kernel.

use libc::c_long;
use rustix::fs::{FileType, RawMode};

use super::layout::{HEADER, Part, RESULT_INDEX, UNREAD, file, record};
use crate::inode::{Info, Key};

/// The open file of a descriptor, read from the kernel. (The device is that of the superblock; stat(2) may return a
/// different one.)
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// The device of its file system, and its inode number.
    pub key: Key,
    /// The magic number of its file system (linux/magic.h).
    pub magic: u64,
    /// Its size.
    pub size: u64,
    /// The file position after the call.
    pub position: u64,
    /// The device of a device file, as stat(2) returns it.
    pub rdev: u64,
    /// The number of its links.
    pub links: u32,
    /// Its type and permissions.
    pub mode: u32,
    /// True if the open call created it.
    pub made: bool,
    /// The flags of open(2).
    pub flags: u32,
}

impl File {
    fn read(bytes: &[u8]) -> Option<File> {
        /// FMODE_CREATED of Linux.
        const CREATED: u32 = 1 << 20;
        // dev_t in the kernel: 12 bits for the major number, 20 for the minor number.
        let rdev = int(bytes, file::RDEV)?;
        Some(File {
            key: (int(bytes, file::DEVICE)?.into(), long(bytes, file::INODE)?),
            size: long(bytes, file::SIZE)?,
            magic: long(bytes, file::MAGIC)?,
            position: long(bytes, file::POSITION)?,
            rdev: rustix::fs::makedev(rdev >> 20, rdev & 0xf_ffff),
            links: int(bytes, file::LINKS)?,
            mode: int(bytes, file::MODE)?,
            made: int(bytes, file::FILE_MODE)? & CREATED != 0,
            flags: int(bytes, file::FLAGS)?,
        })
    }

    /// Returns the type of the file.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode as RawMode)
    }

    /// Returns the attributes of the file, under a different key.
    pub fn info(&self, key: Key) -> Info {
        let blocks = self.size.div_ceil(512);
        Info { key, rdev: self.rdev, size: self.size, blocks, mode: self.mode, links: self.links }
    }
}

/// The memory and the files to which the arguments of a call refer.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// By address: bytes, or a string with its NUL.
    memory: Vec<(u64, Vec<u8>)>,
    /// By descriptor.
    files: Vec<(i32, File)>,
    /// A bitmap of the descriptors that exec closes.
    pub closing: Vec<u8>,
    /// The number of parts that could not be read.
    pub unread: u32,
}

impl Captured {
    /// Returns the memory captured at exactly this address, or empty if there is none.
    pub fn memory(&self, address: u64) -> &[u8] {
        let found = self.memory.iter().find(|(at, _)| *at == address);
        found.map_or(&[], |(_, bytes)| bytes)
    }

    /// Returns at most `length` captured bytes from an address on, or empty if there are none.
    pub fn bytes(&self, address: u64, length: usize) -> &[u8] {
        let found = self.memory.iter().find_map(|(at, bytes)| {
            let from = usize::try_from(address.checked_sub(*at)?).ok()?;
            bytes.get(from..).filter(|it| !it.is_empty())
        });
        found.map_or(&[], |it| &it[..it.len().min(length)])
    }

    /// Returns the string at an address, without its NUL.
    pub fn text(&self, address: u64) -> Option<&[u8]> {
        self.memory(address).strip_suffix(&[0])
    }

    /// Returns the open file of a descriptor.
    pub fn file(&self, number: i32) -> Option<&File> {
        self.files.iter().find(|(descriptor, _)| *descriptor == number).map(|(_, file)| file)
    }
}

/// A record of an event.
#[derive(Clone, Debug)]
pub struct Record {
    /// The kind ([`super::layout`]).
    pub kind: i32,
    /// The thread ID.
    pub thread: i32,
    /// The number of records that were lost before this one.
    pub lost: u64,
    /// CLOCK_MONOTONIC at the start and the end.
    pub wall: (u64, u64),
    /// Time within the call for which the thread waited for a processor.
    pub delay: u64,
    /// CPU time of the thread outside recorded calls so far, in nanoseconds.
    pub think: u64,
    /// The number of the call.
    pub number: c_long,
    /// The arguments.
    pub args: [u64; 6],
    /// The result.
    pub result: i64,
    /// The memory and the files to which the arguments refer.
    pub captured: Captured,
}

fn long(bytes: &[u8], at: i16) -> Option<u64> {
    bytes.get(at as usize..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

fn int(bytes: &[u8], at: i16) -> Option<u32> {
    bytes.get(at as usize..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

impl Record {
    /// Decodes a record; None if it is damaged.
    pub fn read(bytes: &[u8]) -> Option<Record> {
        let mut args = [0; 6];
        for (at, arg) in args.iter_mut().enumerate() {
            *arg = long(bytes, record::ARGS + 8 * at as i16)?;
        }
        let mut it = Record {
            kind: int(bytes, record::KIND)? as i32,
            thread: int(bytes, record::THREAD)? as i32,
            lost: long(bytes, record::LOST)?,
            wall: (long(bytes, record::BEGIN)?, long(bytes, record::END)?),
            delay: long(bytes, record::DELAY)?,
            think: long(bytes, record::THINK)?,
            number: long(bytes, record::NUMBER)? as c_long,
            args,
            result: long(bytes, record::RESULT)? as i64,
            captured: Captured::default(),
        };
        let mut rest = bytes.get(record::PARTS as usize..)?;
        while !rest.is_empty() {
            let (slot, length) = (int(rest, 0)?, int(rest, 4)?);
            rest = &rest[HEADER as usize..];
            if length == UNREAD {
                it.captured.unread += 1;
                continue;
            }
            let part = rest.get(..length as usize)?;
            rest = rest.get((length as usize).next_multiple_of(8)..)?;
            it.add(slot, part);
        }
        Some(it)
    }

    fn add(&mut self, slot: u32, part: &[u8]) {
        let arg = (slot >> 4 & 7) as u16;
        let value =
            if arg == RESULT_INDEX { self.result as u64 } else { self.args[arg as usize % 6] };
        match slot & 15 {
            kind if kind == Part::File as u32 => {
                self.captured.files.extend(File::read(part).map(|file| (value as i32, file)));
            }
            kind if kind == Part::Closing as u32 => self.captured.closing = part.to_vec(),
            _ => self.captured.memory.push((value, part.to_vec())),
        }
    }
}
