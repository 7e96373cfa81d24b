//! Decodes calls that the code injected into a program recorded (struct event of inside/inside.c).

use libc::c_long;

use crate::bpf::parts::Captured;
use crate::inode::{Info, Key};
use crate::shared::layout::{EMPTY_PATH, HAS_FOUND, HAS_MADE, HAS_PLACE_0, HAS_PLACE_1, IS_BEGIN};

/// A path as the injected code resolved it.
#[derive(Clone, Debug, Default)]
pub struct SeenPlace {
    /// The address of the path.
    pub path: u64,
    /// The directory.
    pub dir: Key,
    /// The last component that was looked up, or empty for the directory itself.
    pub name: Vec<u8>,
    /// The object that it named.
    pub node: Option<Info>,
    /// The beginning of the path: 0 for `/`, 1 for the working directory, else an open directory.
    pub base: u8,
    /// The number of components.
    pub walked: u8,
    /// The number of components after the first that does not exist.
    pub beyond: u8,
    /// The number of symbolic links that were followed at the end of the path.
    pub links: u8,
}

/// A recorded call. Values are reused, because allocating one takes longer than recording a call.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Sequence numbers of the start and the end.
    pub sequence: (u64, u64),
    /// CLOCK_MONOTONIC at the start and the end, in nanoseconds.
    pub wall: (u64, u64),
    /// Time within the call for which the thread waited for a processor, if it is known.
    pub delay: u64,
    /// CPU time of the thread before and after the call and the work of the injected code, in nanoseconds.
    pub cpu: (u64, u64),
    /// Number.
    pub number: c_long,
    /// Arguments.
    pub args: [u64; 6],
    /// Result, or -errno.
    pub result: i64,
    /// Values read from memory: total length and number of buffers, a lock, times, or the length of a link's target.
    pub more: [u64; 4],
    /// True if the call only begins.
    pub begins: bool,
    /// True if the path is empty, so that the call is on the descriptor itself.
    pub empty: bool,
    /// The object that the call created or opened.
    pub made: Option<Info>,
    /// The object of its descriptor, if the recorder may not know it yet.
    pub found: Option<Info>,
    /// The data that the arguments pointed to, if the kernel recorded the call.
    pub captured: Option<Captured>,
    /// Its paths.
    pub places: [Option<SeenPlace>; 2],
}

/// The event of one sequence number.
pub enum Step {
    /// close(2) of a descriptor began: from then on, a different call may reuse its number.
    Closing(i32, Option<Info>),
    /// A call ended.
    Call(Box<Seen>),
}

/// A reader of consecutive numbers.
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

    fn place(&mut self, into: &mut SeenPlace) -> Option<()> {
        let [path, dev, ino] = self.longs()?;
        let [exists, base, walked, length, beyond, links, ..] = self.bytes::<8>()?;
        let node = self.info()?;
        let (length, padded) = (usize::from(length), usize::from(length).next_multiple_of(8));
        let (name, rest) = self.0.split_at_checked(padded)?;
        self.0 = rest;
        let node = (exists != 0).then_some(node);
        let name = name.get(..length)?;
        into.name.clear();
        into.name.extend_from_slice(name);
        let name = std::mem::take(&mut into.name);
        *into = SeenPlace { path, dir: (dev, ino), name, node, base, walked, beyond, links };
        Some(())
    }
}

impl Seen {
    /// Decodes an event into this value; None if the bytes are not an event.
    pub fn read(&mut self, bytes: &[u8]) -> Option<()> {
        let mut from = Words(bytes);
        let _length = from.int()?;
        let flags = from.int()? as usize;
        let [begin, end, wall_begin, wall_end, cpu_begin, cpu_end, number] = from.longs()?;
        (self.sequence, self.wall, self.cpu) =
            ((begin, end), (wall_begin, wall_end), (cpu_begin, cpu_end));
        self.number = number as c_long;
        self.args = from.longs()?;
        self.result = from.long()? as i64;
        self.more = from.longs()?;
        self.begins = flags & IS_BEGIN != 0;
        self.empty = flags & EMPTY_PATH != 0;
        let info = if flags & HAS_MADE != 0 { Some(from.info()?) } else { None };
        (self.found, self.made) = if flags & HAS_FOUND != 0 { (info, None) } else { (None, info) };
        for (at, flag) in [HAS_PLACE_0, HAS_PLACE_1].into_iter().enumerate() {
            let place = &mut self.places[at];
            if flags & flag != 0 {
                from.place(place.get_or_insert_default())?;
            } else if let Some(place) = place {
                // Address 0 denotes that the call has no such path.
                place.path = 0;
            }
        }
        Some(())
    }
}
