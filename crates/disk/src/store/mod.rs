//! The disk's bytes: a compact store, whose use of its memory region grows with the data written.
//!
//! All of its state is in the region, so that the host can open the same file afterwards: a header, a table with one
//! entry for each chunk (2 MiB) of the disk, pages with one entry for each 4 KiB block, and the blocks. A block that
//! was never written, or that holds one repeated byte, is neither stored nor read. Nothing is allocated on the heap.
//!
//! The volatile write cache holds data, too: the store has both the visible and the medium's content of
//! a block, until [`Store::persist`] makes them equal. A power cut leaves [`View::Medium`].

mod cache;
mod layout;
mod write;

use fsdyno_record::Bytes;
use layout::{ALL_SECTORS, BLOCK, Content, Entry, EntryAddress, Header, PAGE_ENTRIES};

pub use write::Destination;

/// Maximum size of a slice that the store requests from its memory or passes to a sink or source, in bytes.
pub const MAX_SLICE: usize = 1 << 20;

/// The region that holds a store.
pub trait Memory {
    /// Returns `length` bytes from `offset` on. The store requests only bytes within [`Memory::size`], and at
    /// most [`MAX_SLICE`] of them.
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8];
    /// Returns the region's size in bytes.
    fn size(&self) -> u64;
}

/// A region in this process's memory.
impl Memory for Vec<u8> {
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        &mut self[offset as usize..offset as usize + length]
    }

    fn size(&self) -> u64 {
        self.len() as u64
    }
}

/// A borrowed region.
impl<M: Memory> Memory for &mut M {
    fn slice(&mut self, offset: u64, length: usize) -> &mut [u8] {
        (**self).slice(offset, length)
    }

    fn size(&self) -> u64 {
        (**self).size()
    }
}

/// An error in opening a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Too little memory for the header and the table.
    #[error("lay out a disk of {capacity} in {size}: its tables alone need {minimum}")]
    TooSmall {
        /// The disk's capacity.
        capacity: Bytes,
        /// The region's size.
        size: Bytes,
        /// The minimum size.
        minimum: Bytes,
    },
    /// Not a store, or a truncated or overwritten one.
    #[error("open a disk's store: its {0} is invalid")]
    Corrupt(&'static str),
}

/// An error in writing to a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError<E> {
    /// The region is full.
    #[error("store a block: the region of the disk's bytes is full")]
    Full,
    /// The range ends beyond the disk.
    #[error("store a block: it lies beyond the end of the disk")]
    PastEnd,
    /// The source of the bytes failed.
    #[error(transparent)]
    Source(E),
}

/// A view of a disk's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What a read returns: the cached content if it is newer.
    Visible,
    /// The content after a power cut.
    Medium,
}

/// The content of a block in one of the views.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ViewedBlock {
    Whole(Content),
    /// Sectors from both contents.
    Mixed(Entry),
}

impl ViewedBlock {
    fn of(entry: Entry, view: View) -> ViewedBlock {
        match (view, entry.mask) {
            (View::Visible, _) | (View::Medium, 0) => ViewedBlock::Whole(entry.visible),
            (View::Medium, ALL_SECTORS) => ViewedBlock::Whole(entry.medium),
            (View::Medium, _) => ViewedBlock::Mixed(entry),
        }
    }
}

/// The bytes of a disk.
pub struct Store<M> {
    memory: M,
    header: Header,
}

/// Returns the size of a region for a disk of `capacity` that stores at most `limit` bytes.
pub fn region_size(capacity: Bytes, limit: Bytes) -> u64 {
    let blocks = limit.0.div_ceil(BLOCK);
    // In the worst case each stored block needs its own page of entries.
    let pages = layout::chunks(capacity).min(blocks);
    layout::slots_offset(capacity) + (blocks + pages) * BLOCK
}

impl<M: Memory> Store<M> {
    /// Creates an empty disk, regardless of the region's content.
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

    /// Opens the disk in a region.
    ///
    /// # Errors
    /// [`OpenError::Corrupt`].
    pub fn open(mut memory: M) -> Result<Store<M>, OpenError> {
        let mut header = Header::read(&mut memory)?;
        header.count_cached(&mut memory);
        Ok(Store { memory, header })
    }

    /// Returns the region.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Returns the disk's size.
    pub fn capacity(&self) -> Bytes {
        self.header.capacity
    }

    /// Returns the total size of the stored blocks, without tables.
    pub fn stored(&self) -> Bytes {
        Bytes(self.header.stored * BLOCK)
    }

    /// Passes `length` visible bytes from `offset` to `sink`, in order, in slices of
    /// contiguous bytes. Bytes beyond the disk's end read as zeros.
    ///
    /// # Errors
    /// Errors from the sink.
    pub fn read_with<E>(
        &mut self,
        offset: u64,
        length: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = offset;
        let end = offset.saturating_add(length);
        while at < end {
            let (viewed, mut stop) = self.find_run(at, end, View::Visible);
            stop = stop.min(end);
            match viewed {
                ViewedBlock::Whole(Content::Slot(slot)) => {
                    let from = self.header.offset_of(slot) + at % BLOCK;
                    sink(self.memory.slice(from, (stop - at) as usize))?;
                }
                ViewedBlock::Whole(Content::Repeated(byte)) => fill(byte, stop - at, sink)?,
                ViewedBlock::Whole(Content::Untouched) | ViewedBlock::Mixed(_) => {
                    fill(0, stop - at, sink)?
                }
            }
            at = stop;
        }
        Ok(())
    }

    /// Discards the whole blocks within a range, on the medium too; they read as zeros afterwards.
    /// Partial blocks at its ends, for which TRIM guarantees nothing, do not change. A drive may discard
    /// at any time after the request; this one discards immediately.
    pub fn trim(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length).min(self.header.capacity.0) / BLOCK;
        let first = offset.div_ceil(BLOCK);
        // From the last to the first, so that the free list returns slots in ascending order.
        let mut block = end;
        while block > first {
            block -= 1;
            match self.entry_address(block) {
                // A chunk without a page has nothing to discard.
                None => block = (block / PAGE_ENTRIES * PAGE_ENTRIES).max(first),
                Some(address) => {
                    let old = self.entry(address);
                    self.replace(address, old, Entry::persisted(Content::Untouched));
                }
            }
        }
        self.header.update(&mut self.memory);
    }

    /// Passes to `out` every block of the view that is not all zeros, with its offset on the disk, in ascending order.
    /// Blocks with contiguous slots are passed in one slice.
    pub fn export(&mut self, view: View, out: &mut dyn FnMut(u64, &[u8])) {
        let end = self.header.capacity.0;
        let mut at = 0;
        while at < end {
            let (viewed, stop) = self.find_run(at, end, view);
            match viewed {
                ViewedBlock::Whole(Content::Untouched | Content::Repeated(0)) => {}
                ViewedBlock::Whole(Content::Slot(slot)) => {
                    let from = self.header.offset_of(slot);
                    out(at, self.memory.slice(from, (stop - at) as usize));
                }
                ViewedBlock::Whole(Content::Repeated(byte)) => {
                    let block = [byte; BLOCK as usize];
                    (at..stop).step_by(BLOCK as usize).for_each(|offset| out(offset, &block));
                }
                ViewedBlock::Mixed(entry) => out(at, &self.medium_content(entry)),
            }
            at = stop;
        }
    }

    /// Returns the content of the block at byte `at`, and the end of the run of blocks of the same kind (for slots:
    /// contiguous in memory). The run may end beyond `end`.
    fn find_run(&mut self, at: u64, end: u64, view: View) -> (ViewedBlock, u64) {
        let last = end.min(at - at % BLOCK + MAX_SLICE as u64).div_ceil(BLOCK);
        let mut block = at / BLOCK;
        let Some(address) = self.entry_address(block) else {
            let untouched = ViewedBlock::Whole(Content::Untouched);
            return (untouched, ((block / PAGE_ENTRIES + 1) * PAGE_ENTRIES) * BLOCK);
        };
        let first = ViewedBlock::of(self.entry(address), view);
        block += 1;
        let ViewedBlock::Whole(content) = first else { return (first, block * BLOCK) };
        let mut expected = content.next();
        while block < last {
            let next = match self.entry_address(block) {
                Some(address) => ViewedBlock::of(self.entry(address), view),
                None => ViewedBlock::Whole(Content::Untouched),
            };
            if next != ViewedBlock::Whole(expected) {
                break;
            }
            expected = expected.next();
            block += 1;
        }
        (first, block * BLOCK)
    }

    /// Replaces a block's entry, updates the count of cached blocks, and releases the slots that
    /// only the old entry referred to.
    fn replace(&mut self, address: EntryAddress, old: Entry, new: Entry) {
        if old != new {
            self.header.set_entry(&mut self.memory, address, new);
        }
        match (old.mask, new.mask) {
            (0, 1..) => self.header.cached += 1,
            (1.., 0) => self.header.cached = self.header.cached.saturating_sub(1),
            _ => {}
        }
        let mut candidates = [old.visible, old.medium];
        if candidates[0] == candidates[1] {
            candidates[1] = Content::Untouched;
        }
        for content in candidates {
            let Content::Slot(slot) = content else { continue };
            if content != new.visible && content != new.medium {
                self.header.release(&mut self.memory, slot);
            }
        }
    }

    /// Returns the address of a block's entry, or `None` if its chunk has no page.
    fn entry_address(&mut self, block: u64) -> Option<EntryAddress> {
        self.header.entry_address(&mut self.memory, block)
    }

    fn entry(&mut self, address: EntryAddress) -> Entry {
        self.header.entry(&mut self.memory, address)
    }
}

/// Passes `length` bytes of value `byte` to `sink`.
fn fill<E>(byte: u8, length: u64, sink: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let block;
    let bytes: &[u8] = if byte == 0 {
        &ZEROS
    } else {
        block = [byte; BLOCK as usize];
        &block
    };
    let mut remaining = length;
    while remaining > 0 {
        let count = remaining.min(bytes.len() as u64);
        sink(&bytes[..count as usize])?;
        remaining -= count;
    }
    Ok(())
}
