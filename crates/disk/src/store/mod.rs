//! The disk's bytes: a compact store over a region of memory that grows with what is written.
//!
//! Everything lies in the region, so that the host can open the same file afterwards: a header, a
//! table with one entry for each 2 MiB of disk, pages of entries for each 4 KiB block, and the
//! blocks. A block that was never written, or that holds one byte repeated, is neither stored nor
//! read. Nothing is allocated on the heap.
//!
//! The volatile write cache is real: the store keeps a block both as the drive answers it and as
//! it is on the medium, until [`Store::land`] says that the two are one. What a power cut leaves
//! is [`View::Medium`].

mod cache;
mod layout;
mod write;

use fsdyno_record::Bytes;
use layout::{ALL, BLOCK, Entry, Header, Held, PAGE_ENTRIES, Place};

pub use write::To;

/// The longest slice that the store asks of its memory and hands to a sink or source, in bytes.
pub const MAX_SLICE: usize = 1 << 20;

/// The region that a store lies in.
pub trait Memory {
    /// `length` bytes from `offset`; the store asks only for what lies within [`Memory::size`],
    /// and for at most [`MAX_SLICE`] bytes.
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8];
    /// The region's size in bytes.
    fn size(&self) -> u64;
}

/// A region of this process's own.
impl Memory for Vec<u8> {
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        &mut self[offset as usize..offset as usize + length]
    }

    fn size(&self) -> u64 {
        self.len() as u64
    }
}

/// A region that its owner gets back.
impl<M: Memory> Memory for &mut M {
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        (**self).slice(offset, length)
    }

    fn size(&self) -> u64 {
        (**self).size()
    }
}

/// Why a region is no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Too little memory for header and table.
    #[error("lay out a disk of {capacity} in {size}: its tables alone take {least}")]
    TooSmall {
        /// The disk's capacity.
        capacity: Bytes,
        /// The region's size.
        size: Bytes,
        /// The least that would do.
        least: Bytes,
    },
    /// Not a store, or one that was cut off or overwritten.
    #[error("open a disk's store: its {0} is wrong")]
    Corrupt(&'static str),
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError<E> {
    /// The region has no room for more blocks.
    #[error("store a block: the region of the disk's bytes is full")]
    Full,
    /// The range ends beyond the disk.
    #[error("store a block: it lies beyond the end of the disk")]
    Beyond,
    /// The source of the bytes failed.
    #[error(transparent)]
    Source(E),
}

/// Which of a disk's two faces is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What the drive answers, out of its cache where that is newer.
    Visible,
    /// What a power cut would leave.
    Medium,
}

/// What a block holds in one of the views.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Whole(Held),
    /// Some sectors of one slot and some of another.
    Mixed(Entry),
}

impl Seen {
    fn of(entry: Entry, view: View) -> Seen {
        match (view, entry.mask) {
            (View::Visible, _) | (View::Medium, 0) => Seen::Whole(entry.visible),
            (View::Medium, ALL) => Seen::Whole(entry.medium),
            (View::Medium, _) => Seen::Mixed(entry),
        }
    }
}

/// The bytes of a disk.
pub struct Store<M> {
    memory: M,
    header: Header,
}

/// How large a region must be for a disk of `capacity` of which at most `limit` bytes are stored.
pub fn region_size(capacity: Bytes, limit: Bytes) -> u64 {
    let blocks = limit.0.div_ceil(BLOCK);
    // In the worst case each stored block needs a page of entries of its own.
    let pages = layout::chunks(capacity).min(blocks);
    layout::data_at(capacity) + (blocks + pages) * BLOCK
}

impl<M: Memory> Store<M> {
    /// An empty disk. The region may hold anything.
    ///
    /// # Errors
    /// [`OpenError::TooSmall`].
    pub fn create(mut memory: M, capacity: Bytes) -> Result<Store<M>, OpenError> {
        let header = Header::new(capacity, memory.size())?;
        header.clear_table(&mut memory);
        let mut store = Store { memory, header };
        store.header.write(&mut store.memory);
        Ok(store)
    }

    /// The disk that a region holds.
    ///
    /// # Errors
    /// [`OpenError::Corrupt`].
    pub fn open(mut memory: M) -> Result<Store<M>, OpenError> {
        let mut header = Header::read(&mut memory)?;
        header.count_cached(&mut memory);
        Ok(Store { memory, header })
    }

    /// The region itself.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The disk's size.
    pub fn capacity(&self) -> Bytes {
        self.header.capacity
    }

    /// Bytes of the blocks that are stored, tables not counted.
    pub fn stored(&self) -> Bytes {
        Bytes(self.header.stored * BLOCK)
    }

    /// Hands `length` visible bytes from `offset` to `sink`, in order, in slices as long as they
    /// lie together. What lies beyond the disk's end reads as zeros.
    ///
    /// # Errors
    /// The sink's own.
    pub fn read_with<E>(
        &mut self,
        offset: u64,
        length: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = offset;
        let end = offset.saturating_add(length);
        while at < end {
            let (seen, mut stop) = self.run(at, end, View::Visible);
            stop = stop.min(end);
            match seen {
                Seen::Whole(Held::Slot(slot)) => {
                    let from = self.header.offset_of(slot) + at % BLOCK;
                    sink(self.memory.slice(from, (stop - at) as usize))?;
                }
                Seen::Whole(Held::Repeated(byte)) => fill(byte, stop - at, sink)?,
                Seen::Whole(Held::Untouched) | Seen::Mixed(_) => fill(0, stop - at, sink)?,
            }
            at = stop;
        }
        Ok(())
    }

    /// Forgets the whole blocks within a range, on the medium too; they read as zeros afterwards.
    /// Of the parts of blocks at its ends TRIM promises nothing, and they stay. A drive may forget
    /// at any moment from the request on; this one does it at once.
    pub fn trim(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length).min(self.header.capacity.0) / BLOCK;
        let first = offset.div_ceil(BLOCK);
        // From the last to the first, so that the free list gives them out in rising order.
        let mut block = end;
        while block > first {
            block -= 1;
            match self.place(block) {
                // A chunk without a page has nothing to forget.
                None => block = (block / PAGE_ENTRIES * PAGE_ENTRIES).max(first),
                Some(place) => {
                    let old = self.entry(place);
                    self.replace(place, old, Entry::landed(Held::Untouched));
                }
            }
        }
        self.header.update(&mut self.memory);
    }

    /// Hands every block that does not read as zeros in a view to `out`, with its offset on the
    /// disk, in rising order; blocks that lie together come in one slice.
    pub fn export(&mut self, view: View, out: &mut dyn FnMut(u64, &[u8])) {
        let end = self.header.capacity.0;
        let mut at = 0;
        while at < end {
            let (seen, stop) = self.run(at, end, view);
            match seen {
                Seen::Whole(Held::Untouched | Held::Repeated(0)) => {}
                Seen::Whole(Held::Slot(slot)) => {
                    let from = self.header.offset_of(slot);
                    out(at, self.memory.slice(from, (stop - at) as usize));
                }
                Seen::Whole(Held::Repeated(byte)) => {
                    let block = [byte; BLOCK as usize];
                    (at..stop).step_by(BLOCK as usize).for_each(|block_at| out(block_at, &block));
                }
                Seen::Mixed(entry) => out(at, &self.mixed(entry)),
            }
            at = stop;
        }
    }

    /// What the block at byte `at` holds, and how far what follows is of the same kind (for slots:
    /// lies next to it in memory), at most until `end` rounded up to a block.
    fn run(&mut self, at: u64, end: u64, view: View) -> (Seen, u64) {
        let last = end.min(at - at % BLOCK + MAX_SLICE as u64).div_ceil(BLOCK);
        let mut block = at / BLOCK;
        let Some(place) = self.place(block) else {
            let nothing = Seen::Whole(Held::Untouched);
            return (nothing, ((block / PAGE_ENTRIES + 1) * PAGE_ENTRIES) * BLOCK);
        };
        let first = Seen::of(self.entry(place), view);
        block += 1;
        let Seen::Whole(held) = first else { return (first, block * BLOCK) };
        let mut expected = held.next();
        while block < last {
            let next = match self.place(block) {
                Some(place) => Seen::of(self.entry(place), view),
                None => Seen::Whole(Held::Untouched),
            };
            if next != Seen::Whole(expected) {
                break;
            }
            expected = expected.next();
            block += 1;
        }
        (first, block * BLOCK)
    }

    /// Gives a block another entry, keeps the count of cached blocks, and releases the slots that
    /// only the old entry named.
    fn replace(&mut self, place: Place, old: Entry, new: Entry) {
        if old != new {
            self.header.set_entry(&mut self.memory, place, new);
        }
        match (old.mask, new.mask) {
            (0, 1..) => self.header.cached += 1,
            (1.., 0) => self.header.cached = self.header.cached.saturating_sub(1),
            _ => {}
        }
        let mut gone = [old.visible, old.medium];
        if gone[0] == gone[1] {
            gone[1] = Held::Untouched;
        }
        for held in gone {
            let Held::Slot(slot) = held else { continue };
            if held != new.visible && held != new.medium {
                self.header.release(&mut self.memory, slot);
            }
        }
    }

    /// Where the entry of a block lies; none if its chunk has no page yet.
    fn place(&mut self, block: u64) -> Option<Place> {
        self.header.place(&mut self.memory, block)
    }

    fn entry(&mut self, place: Place) -> Entry {
        self.header.entry(&mut self.memory, place)
    }
}

/// Sends `length` times `byte`.
fn fill<E>(byte: u8, length: u64, sink: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let block;
    let bytes: &[u8] = if byte == 0 {
        &ZEROS
    } else {
        block = [byte; BLOCK as usize];
        &block
    };
    let mut left = length;
    while left > 0 {
        let take = left.min(bytes.len() as u64);
        sink(&bytes[..take as usize])?;
        left -= take;
    }
    Ok(())
}
