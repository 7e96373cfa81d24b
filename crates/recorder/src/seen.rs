//! A call that the code inside a program recorded (struct event of inside/inside.c), and the parts of a call that the
//! recorder reads from a stopped thread otherwise.

use libc::{c_long, pid_t};
use rustix::fs::Stat;

use crate::run::Recorder;
use crate::shared::layout::{EMPTY_PATH, HAS_MADE, HAS_PLACE_0, HAS_PLACE_1, IS_BEGIN};
use crate::sys;
use crate::tree::Key;

/// An inode as the code inside saw it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    /// Device and inode number.
    pub key: Key,
    /// The device that it stands for.
    pub rdev: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its blocks of 512 bytes.
    pub blocks: u64,
    /// Its type and permissions.
    pub mode: u32,
    /// Its links.
    pub links: u32,
}

impl Info {
    /// As stat(2) gives it, with the fields that are known.
    pub fn stat(&self) -> Stat {
        // SAFETY: it consists of integers.
        let mut stat: Stat = unsafe { std::mem::zeroed() };
        (stat.st_dev, stat.st_ino) = self.key;
        stat.st_rdev = self.rdev;
        stat.st_size = self.size as i64;
        stat.st_blocks = self.blocks as i64;
        stat.st_mode = self.mode;
        stat.st_nlink = u64::from(self.links);
        stat
    }
}

/// A path as the code inside resolved it.
#[derive(Clone, Debug)]
pub struct SeenPlace {
    /// The address of the path.
    pub path: u64,
    /// The directory.
    pub dir: Key,
    /// The last component that was looked up; none for the directory itself.
    pub name: Vec<u8>,
    /// The object that it named.
    pub node: Option<Info>,
    /// `/`, the working directory, or an open directory.
    pub base: u8,
    /// The number of components.
    pub walked: u8,
    /// The number of those after the first that does not exist.
    pub beyond: u8,
}

/// A recorded call.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Sequence numbers of its begin and end.
    pub sequence: (u64, u64),
    /// CLOCK_MONOTONIC around it, in nanoseconds.
    pub wall: (u64, u64),
    /// CPU time of the thread before and after it with the work of the code inside, in nanoseconds.
    pub cpu: (u64, u64),
    /// Number.
    pub number: c_long,
    /// Arguments.
    pub args: [u64; 6],
    /// Result, or -errno.
    pub result: i64,
    /// Values that stood in memory: the total length and the number of buffers, a lock, times, the length of a link.
    pub more: [u64; 4],
    /// The call only begins.
    pub begins: bool,
    /// The path is empty: the descriptor itself is meant.
    pub empty: bool,
    /// The object that it made or opened.
    pub made: Option<Info>,
    /// Its paths.
    pub places: Vec<SeenPlace>,
}

/// Reads numbers one after another.
struct Words<'b>(&'b [u8]);

impl Words<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn long(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }

    fn int(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_ne_bytes)
    }

    fn longs<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut all = [0; N];
        for one in &mut all {
            *one = self.long()?;
        }
        Some(all)
    }

    fn info(&mut self) -> Option<Info> {
        let [dev, ino, rdev, size, blocks] = self.longs()?;
        Some(Info { key: (dev, ino), rdev, size, blocks, mode: self.int()?, links: self.int()? })
    }

    fn place(&mut self) -> Option<SeenPlace> {
        let [path, dev, ino] = self.longs()?;
        let [exists, base, walked, length, beyond, ..] = self.bytes::<8>()?;
        let node = self.info()?;
        let (length, padded) = (usize::from(length), usize::from(length).next_multiple_of(8));
        let (name, rest) = self.0.split_at_checked(padded)?;
        self.0 = rest;
        let node = (exists != 0).then_some(node);
        let (dir, name) = ((dev, ino), name[..length].into());
        Some(SeenPlace { path, dir, name, node, base, walked, beyond })
    }
}

impl Seen {
    /// Reads the bytes of an event; none if they are not one.
    pub fn read(bytes: &[u8]) -> Option<Seen> {
        let mut from = Words(bytes);
        let _length = from.int()?;
        let flags = from.int()? as usize;
        let [begin, end, wall_begin, wall_end, cpu_begin, cpu_end, number] = from.longs()?;
        let args = from.longs()?;
        let result = from.long()? as i64;
        let more = from.longs()?;
        let made = if flags & HAS_MADE != 0 { Some(from.info()?) } else { None };
        let mut places = Vec::new();
        for flag in [HAS_PLACE_0, HAS_PLACE_1] {
            if flags & flag != 0 {
                places.push(from.place()?);
            }
        }
        Some(Seen {
            sequence: (begin, end),
            wall: (wall_begin, wall_end),
            cpu: (cpu_begin, cpu_end),
            number: number as c_long,
            args,
            result,
            more,
            begins: flags & IS_BEGIN != 0,
            empty: flags & EMPTY_PATH != 0,
            made,
            places,
        })
    }
}

impl Recorder {
    /// Memory of the thread: of a call that was seen inside, nothing.
    pub fn memory(&self, tid: pid_t, address: u64, length: usize) -> Vec<u8> {
        match &self.seen {
            Some(_) => Vec::new(),
            None => sys::memory(tid, address, length),
        }
    }

    /// Numbers in the memory of the thread.
    pub fn words<const N: usize>(&self, tid: pid_t, address: u64) -> Option<[u64; N]> {
        match &self.seen {
            Some(seen) => seen.more.get(..N)?.try_into().ok(),
            None => sys::words(tid, address),
        }
    }
}
