//! The layout of a store in its region: header, table, entries, free list. All words are little-endian.
//!
//! The header is at offset 0 (one block), followed by the table (a u32 for each chunk of 2 MiB:
//! the slot of its page, 0 if it has none), then slots of 4 KiB, each a block of the disk or a page of
//! 512 entries. Slots are numbered from 1. Free slots are linked through their first word.
//!
//! An entry is one word of 64 bits: the visible content, the medium's content, and the mask of the sectors
//! that differ. Every change to a block is one store of that word, so that a power cut between
//! any two instructions of the guest leaves each block in its old or its new state. Words are written
//! in this order: the header (an allocated slot leaves the free list before it is filled),
//! the bytes, the entry, and only then the release of a slot that no entry refers to. A power cut
//! may therefore leak slots, and may tear the bytes of the one request being received from the driver; it
//! loses nothing else.

use std::sync::atomic::{Ordering, compiler_fence};

use fsdyno_record::Bytes;

use super::{Memory, OpenError};

/// Size of a block, of a page and of a slot, in bytes.
pub const BLOCK: u64 = 4096;
/// Number of entries in a page, and hence of blocks in a chunk.
pub const PAGE_ENTRIES: u64 = BLOCK / 8;
/// The mask of a block with only volatile sectors.
pub const ALL_SECTORS: u8 = 0xff;

const MAGIC: u64 = u64::from_le_bytes(*b"fsdynost");
const VERSION: u64 = 2;
/// Number of bits of each of the two codes in an entry.
const CODE_BITS: u32 = 28;
/// The bit of a code that marks a repeated byte (in the low 8 bits) instead of a slot's number.
const REPEATED: u64 = 1 << (CODE_BITS - 1);
/// Maximum number of slots that the code of an entry can represent: 512 GiB of blocks.
const MAX_SLOTS: u64 = REPEATED - 1;
/// Offset of the header's mutable fields: next, free, stored, cached.
const MUTABLE_OFFSET: u64 = 32;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Never written, or discarded: zeros.
    Untouched,
    /// One repeated byte.
    Repeated(u8),
    /// The bytes in this slot.
    Slot(u32),
}

impl Content {
    /// Returns the content that the next block must have to continue a run.
    pub fn next(self) -> Content {
        match self {
            Content::Slot(slot) => Content::Slot(slot + 1),
            other => other,
        }
    }

    fn code(self) -> u64 {
        match self {
            Content::Untouched | Content::Repeated(0) => 0,
            Content::Repeated(byte) => REPEATED | u64::from(byte),
            Content::Slot(slot) => slot.into(),
        }
    }
}

/// The visible content of a block, and its content on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Content that a read returns.
    pub visible: Content,
    /// The medium's content of the sectors in `mask`.
    pub medium: Content,
    /// Mask of the volatile sectors, the first in the lowest bit. All other sectors have the
    /// same content on the medium as is visible.
    pub mask: u8,
}

impl Entry {
    /// Creates the entry of a block whose visible content is on the medium.
    pub fn persisted(visible: Content) -> Entry {
        Entry { visible, medium: Content::Untouched, mask: 0 }
    }
}

/// The offset of an entry in the region.
#[derive(Clone, Copy, Debug)]
pub struct EntryAddress(u64);

/// The header's fields, which are written back after each change.
#[derive(Clone, Debug)]
pub struct Header {
    pub capacity: Bytes,
    /// Number of slots in the region.
    slots: u64,
    /// The end of the allocated slots: this slot and all above are unallocated and not in the free list.
    next: u64,
    /// Head of the free list; 0 if it is empty.
    free: u64,
    /// Number of slots allocated to blocks, excluding those allocated to pages.
    pub stored: u64,
    /// Number of blocks with volatile sectors.
    pub cached: u64,
    /// The chunk looked up last, and the offset of its page. Pages never move.
    last_lookup: Option<(u64, u64)>,
}

/// Returns the number of chunks of a disk.
pub fn chunks(capacity: Bytes) -> u64 {
    capacity.0.div_ceil(BLOCK * PAGE_ENTRIES)
}

/// Returns the offset of the slots.
pub fn slots_offset(capacity: Bytes) -> u64 {
    BLOCK + (chunks(capacity) * 4).div_ceil(BLOCK) * BLOCK
}

impl Header {
    pub fn new(capacity: Bytes, size: u64) -> Result<Header, OpenError> {
        let minimum = slots_offset(capacity);
        if size < minimum {
            let (size, minimum) = (Bytes(size), Bytes(minimum));
            return Err(OpenError::TooSmall { capacity, size, minimum });
        }
        let slots = ((size - minimum) / BLOCK).min(MAX_SLOTS);
        Ok(Header { capacity, slots, next: 1, free: 0, stored: 0, cached: 0, last_lookup: None })
    }

    pub fn read(memory: &mut impl Memory) -> Result<Header, OpenError> {
        if memory.size() < BLOCK {
            return Err(OpenError::Corrupt("size"));
        }
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(memory.slice(0, 64).chunks_exact(8)) {
            *word = parse_u64(bytes);
        }
        let [magic, version, capacity, slots, next, free, stored, cached] = words;
        let check =
            |valid: bool, field| if valid { Ok(()) } else { Err(OpenError::Corrupt(field)) };
        check(magic == MAGIC, "magic number")?;
        check(version == VERSION, "version")?;
        check(capacity <= 1 << 60, "capacity")?;
        let max_slots = Header::new(Bytes(capacity), memory.size())
            .map_err(|_| OpenError::Corrupt("size"))?
            .slots;
        check(slots <= max_slots, "number of slots")?;
        check((1..=slots + 1).contains(&next), "next slot")?;
        check(free < next && stored < next, "free list")?;
        let capacity = Bytes(capacity);
        Ok(Header { capacity, slots, next, free, stored, cached, last_lookup: None })
    }

    /// Writes the whole header.
    pub fn write(&self, memory: &mut impl Memory) {
        let words = [MAGIC, VERSION, self.capacity.0, self.slots];
        put_words(memory.slice(0, 32), words);
        self.update(memory);
    }

    /// Writes the mutable fields, after all earlier and before all later stores in program order.
    pub fn update(&self, memory: &mut impl Memory) {
        compiler_fence(Ordering::SeqCst);
        let words = [self.next, self.free, self.stored, self.cached];
        put_words(memory.slice(MUTABLE_OFFSET, 32), words);
        compiler_fence(Ordering::SeqCst);
    }

    /// Clears the table, writing only blocks that are not zero, so that a sparse file stays sparse.
    pub fn clear_table(&self, memory: &mut impl Memory) {
        for at in (BLOCK..slots_offset(self.capacity)).step_by(BLOCK as usize) {
            let page = memory.slice(at, BLOCK as usize);
            if page.iter().any(|byte| *byte != 0) {
                page.fill(0);
            }
        }
    }

    /// Counts the cached blocks: after a power cut, the header may be one request behind the entries.
    pub fn count_cached(&mut self, memory: &mut impl Memory) {
        self.cached = 0;
        for chunk in 0..chunks(self.capacity) {
            let Some(EntryAddress(page)) = self.entry_address(memory, chunk * PAGE_ENTRIES) else {
                continue;
            };
            let words = memory.slice(page, BLOCK as usize).chunks_exact(8).map(parse_u64);
            self.cached += words.filter(|word| word >> (2 * CODE_BITS) != 0).count() as u64;
        }
    }

    pub fn offset_of(&self, slot: u32) -> u64 {
        slots_offset(self.capacity) + (u64::from(slot) - 1) * BLOCK
    }

    pub fn entry_address(&mut self, memory: &mut impl Memory, block: u64) -> Option<EntryAddress> {
        let chunk = block / PAGE_ENTRIES;
        let entry_offset = block % PAGE_ENTRIES * 8;
        if let Some((_, page)) = self.last_lookup.filter(|last| last.0 == chunk) {
            return Some(EntryAddress(page + entry_offset));
        }
        if chunk >= chunks(self.capacity) {
            return None;
        }
        let page = read_u32(memory, BLOCK + chunk * 4);
        // A page beyond the region's slots means that the region is damaged.
        if page == 0 || u64::from(page) > self.slots {
            return None;
        }
        let page = self.offset_of(page);
        self.last_lookup = Some((chunk, page));
        Some(EntryAddress(page + entry_offset))
    }

    /// Like [`Header::entry_address`], but allocates a page if the chunk has none; returns `None` if the region is
    /// full.
    pub fn entry_address_or_new(
        &mut self,
        memory: &mut impl Memory,
        block: u64,
    ) -> Option<EntryAddress> {
        if let Some(address) = self.entry_address(memory, block) {
            return Some(address);
        }
        let page = self.allocate(memory)?;
        self.update(memory);
        memory.slice(self.offset_of(page), BLOCK as usize).fill(0);
        compiler_fence(Ordering::SeqCst);
        write_u32(memory, BLOCK + block / PAGE_ENTRIES * 4, page);
        self.entry_address(memory, block)
    }

    pub fn entry(&self, memory: &mut impl Memory, address: EntryAddress) -> Entry {
        self.decode(parse_u64(memory.slice(address.0, 8)))
    }

    fn decode(&self, word: u64) -> Entry {
        let mask = (word >> (2 * CODE_BITS)) as u8;
        let visible = self.content(word);
        if mask == 0 {
            return Entry::persisted(visible);
        }
        Entry { visible, medium: self.content(word >> CODE_BITS), mask }
    }

    fn content(&self, code: u64) -> Content {
        match code & ((1 << CODE_BITS) - 1) {
            0 => Content::Untouched,
            code if code & REPEATED != 0 => Content::Repeated(code as u8),
            // Not compared with `next`: after a power cut, the header may be one request behind the entries.
            slot if slot <= self.slots => Content::Slot(slot as u32),
            _ => Content::Untouched,
        }
    }

    pub fn set_entry(&self, memory: &mut impl Memory, address: EntryAddress, entry: Entry) {
        let medium = if entry.mask == 0 { 0 } else { entry.medium.code() };
        let word = entry.visible.code()
            | (medium << CODE_BITS)
            | (u64::from(entry.mask) << (2 * CODE_BITS));
        compiler_fence(Ordering::SeqCst);
        put_words(memory.slice(address.0, 8), [word]);
        compiler_fence(Ordering::SeqCst);
    }

    /// Allocates a slot for a block of the disk. In the region, it remains free until [`Header::update`].
    pub fn allocate_block(&mut self, memory: &mut impl Memory) -> Option<u32> {
        let slot = self.allocate(memory)?;
        self.stored += 1;
        Some(slot)
    }

    fn allocate(&mut self, memory: &mut impl Memory) -> Option<u32> {
        if self.free != 0 {
            let slot = self.free as u32;
            let next = u64::from(read_u32(memory, self.offset_of(slot)));
            // A list that contains a slot at or above `next` is damaged; it is cut off here.
            self.free = if next < self.next { next } else { 0 };
            return Some(slot);
        }
        (self.next <= self.slots).then(|| {
            self.next += 1;
            (self.next - 1) as u32
        })
    }

    /// Frees a block's slot.
    pub fn release(&mut self, memory: &mut impl Memory, slot: u32) {
        self.stored = self.stored.saturating_sub(1);
        if u64::from(slot) + 1 == self.next {
            self.next -= 1;
            return;
        }
        write_u32(memory, self.offset_of(slot), self.free as u32);
        self.free = slot.into();
    }
}

fn read_u32(memory: &mut impl Memory, at: u64) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(memory.slice(at, 4));
    u32::from_le_bytes(bytes)
}

fn write_u32(memory: &mut impl Memory, at: u64, word: u32) {
    memory.slice(at, 4).copy_from_slice(&word.to_le_bytes());
}

fn parse_u64(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn put_words<const N: usize>(bytes: &mut [u8], words: [u64; N]) {
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}
