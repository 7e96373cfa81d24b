//! How a store lies in its region: header, table, entries, free list. All words little-endian.
//!
//! Offset 0 holds the header (one block), then comes the table (a u32 for each chunk of 2 MiB:
//! the slot of its page, 0 for none), then slots of 4 KiB, each a block of the disk or a page of
//! 512 entries. Slot numbers count from 1. Free slots are threaded through their first word.
//!
//! An entry is one word of 64 bits: what the drive answers, what is on the medium, and which
//! sectors differ. All that happens to a block is one store of that word, so that a guest that is
//! cut between any two instructions leaves each block as it was before or as it is after. Words go
//! in this order: the header (a slot that is taken is out of the free list before it is filled),
//! the bytes, the entry, and only then the release of a slot that no entry names any more. So a cut
//! may leak slots, and may tear the bytes of the one request that is on its way from the driver; it
//! loses nothing else.

use std::sync::atomic::{Ordering, compiler_fence};

use fsdyno_record::Bytes;

use super::{Memory, OpenError};

/// Bytes in a block, in a page, in a slot.
pub const BLOCK: u64 = 4096;
/// Entries in a page, hence blocks in a chunk.
pub const PAGE_ENTRIES: u64 = BLOCK / 8;
/// The mask of a block none of whose sectors is on the medium.
pub const ALL: u8 = 0xff;

const MAGIC: u64 = u64::from_le_bytes(*b"fsdynost");
const VERSION: u64 = 2;
/// Bits of one of the two codes in an entry.
const CODE_BITS: u32 = 28;
/// The bit of a code that tells a repeated byte (in the low 8 bits) from a slot's number.
const REPEATED: u64 = 1 << (CODE_BITS - 1);
/// Slots that an entry can tell apart: 512 GiB of blocks.
const MOST_SLOTS: u64 = REPEATED - 1;
/// Where the fields that change begin: next, free, stored, cached.
const CHANGING_AT: u64 = 32;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing was ever written there, or it was forgotten: zeros.
    Untouched,
    /// One byte, repeated.
    Repeated(u8),
    /// Its bytes lie in this slot.
    Slot(u32),
}

impl Held {
    /// What the next block must hold to continue a run of this one.
    pub fn next(self) -> Held {
        match self {
            Held::Slot(slot) => Held::Slot(slot + 1),
            other => other,
        }
    }

    fn code(self) -> u64 {
        match self {
            Held::Untouched | Held::Repeated(0) => 0,
            Held::Repeated(byte) => REPEATED | u64::from(byte),
            Held::Slot(slot) => slot.into(),
        }
    }
}

/// A block as the drive answers it and as it is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What a read finds.
    pub visible: Held,
    /// What the sectors of `mask` hold on the medium.
    pub medium: Held,
    /// Sectors that are not on the medium yet, the first in the lowest bit. All others are there
    /// as they are visible.
    pub mask: u8,
}

impl Entry {
    /// A block whose medium holds what is visible.
    pub fn landed(visible: Held) -> Entry {
        Entry { visible, medium: Held::Untouched, mask: 0 }
    }
}

/// Where an entry lies in the region.
#[derive(Clone, Copy, Debug)]
pub struct Place(u64);

/// The header's fields, written back after each change.
#[derive(Clone, Debug)]
pub struct Header {
    pub capacity: Bytes,
    /// Slots that the region has room for.
    slots: u64,
    /// The lowest slot that was never given out.
    next: u64,
    /// Head of the free list; 0 if it is empty.
    free: u64,
    /// Slots of blocks, pages not counted.
    pub stored: u64,
    /// Blocks of which a sector is not on the medium yet.
    pub cached: u64,
    /// The chunk that was looked up last, and where its page lies. A page stays where it is.
    last: Option<(u64, u64)>,
}

/// How many chunks a disk has.
pub fn chunks(capacity: Bytes) -> u64 {
    capacity.0.div_ceil(BLOCK * PAGE_ENTRIES)
}

/// Where the slots begin.
pub fn data_at(capacity: Bytes) -> u64 {
    BLOCK + (chunks(capacity) * 4).div_ceil(BLOCK) * BLOCK
}

impl Header {
    pub fn new(capacity: Bytes, size: u64) -> Result<Header, OpenError> {
        let least = data_at(capacity);
        if size < least {
            let (size, least) = (Bytes(size), Bytes(least));
            return Err(OpenError::TooSmall { capacity, size, least });
        }
        let slots = ((size - least) / BLOCK).min(MOST_SLOTS);
        Ok(Header { capacity, slots, next: 1, free: 0, stored: 0, cached: 0, last: None })
    }

    pub fn read(memory: &mut impl Memory) -> Result<Header, OpenError> {
        if memory.size() < BLOCK {
            return Err(OpenError::Corrupt("size"));
        }
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(memory.slice(0, 64).chunks_exact(8)) {
            *word = u64_of(bytes);
        }
        let [magic, version, capacity, slots, next, free, stored, cached] = words;
        let check = |right: bool, what| if right { Ok(()) } else { Err(OpenError::Corrupt(what)) };
        check(magic == MAGIC, "magic number")?;
        check(version == VERSION, "version")?;
        check(capacity <= 1 << 60, "capacity")?;
        let most = Header::new(Bytes(capacity), memory.size())
            .map_err(|_| OpenError::Corrupt("size"))?
            .slots;
        check(slots <= most, "number of slots")?;
        check((1..=slots + 1).contains(&next), "next slot")?;
        check(free < next && stored < next, "free list")?;
        let capacity = Bytes(capacity);
        Ok(Header { capacity, slots, next, free, stored, cached, last: None })
    }

    /// Writes all of it.
    pub fn write(&self, memory: &mut impl Memory) {
        let words = [MAGIC, VERSION, self.capacity.0, self.slots];
        put_words(memory.slice(0, 32), words);
        self.update(memory);
    }

    /// Writes what changes, before anything that comes after it in the program.
    pub fn update(&self, memory: &mut impl Memory) {
        compiler_fence(Ordering::SeqCst);
        let words = [self.next, self.free, self.stored, self.cached];
        put_words(memory.slice(CHANGING_AT, 32), words);
        compiler_fence(Ordering::SeqCst);
    }

    /// Clears the table, touching only what is not clear yet, so that a sparse file stays sparse.
    pub fn clear_table(&self, memory: &mut impl Memory) {
        for at in (BLOCK..data_at(self.capacity)).step_by(BLOCK as usize) {
            let page = memory.slice(at, BLOCK as usize);
            if page.iter().any(|byte| *byte != 0) {
                page.fill(0);
            }
        }
    }

    /// Counts the cached blocks: after a cut the header may be a request behind the entries.
    pub fn count_cached(&mut self, memory: &mut impl Memory) {
        self.cached = 0;
        for chunk in 0..chunks(self.capacity) {
            let Some(Place(page)) = self.place(memory, chunk * PAGE_ENTRIES) else { continue };
            let words = memory.slice(page, BLOCK as usize).chunks_exact(8).map(u64_of);
            self.cached += words.filter(|word| word >> (2 * CODE_BITS) != 0).count() as u64;
        }
    }

    pub fn offset_of(&self, slot: u32) -> u64 {
        data_at(self.capacity) + (u64::from(slot) - 1) * BLOCK
    }

    pub fn place(&mut self, memory: &mut impl Memory, block: u64) -> Option<Place> {
        let chunk = block / PAGE_ENTRIES;
        let within = block % PAGE_ENTRIES * 8;
        if let Some((_, page)) = self.last.filter(|last| last.0 == chunk) {
            return Some(Place(page + within));
        }
        if chunk >= chunks(self.capacity) {
            return None;
        }
        let page = u32_at(memory, BLOCK + chunk * 4);
        // A page beyond the region's slots can only come from a damaged region.
        if page == 0 || u64::from(page) > self.slots {
            return None;
        }
        let page = self.offset_of(page);
        self.last = Some((chunk, page));
        Some(Place(page + within))
    }

    /// As [`Header::place`], giving the chunk a page if it has none; none if there is no room.
    pub fn place_or_new(&mut self, memory: &mut impl Memory, block: u64) -> Option<Place> {
        if let Some(place) = self.place(memory, block) {
            return Some(place);
        }
        let page = self.take(memory)?;
        self.update(memory);
        memory.slice(self.offset_of(page), BLOCK as usize).fill(0);
        compiler_fence(Ordering::SeqCst);
        set_u32_at(memory, BLOCK + block / PAGE_ENTRIES * 4, page);
        self.place(memory, block)
    }

    pub fn entry(&self, memory: &mut impl Memory, place: Place) -> Entry {
        self.decode(u64_of(memory.slice(place.0, 8)))
    }

    fn decode(&self, word: u64) -> Entry {
        let mask = (word >> (2 * CODE_BITS)) as u8;
        let visible = self.held(word);
        if mask == 0 {
            return Entry::landed(visible);
        }
        Entry { visible, medium: self.held(word >> CODE_BITS), mask }
    }

    fn held(&self, code: u64) -> Held {
        match code & ((1 << CODE_BITS) - 1) {
            0 => Held::Untouched,
            code if code & REPEATED != 0 => Held::Repeated(code as u8),
            // Not `next`: after a cut the header may be a request behind the entries.
            slot if slot <= self.slots => Held::Slot(slot as u32),
            _ => Held::Untouched,
        }
    }

    pub fn set_entry(&self, memory: &mut impl Memory, place: Place, entry: Entry) {
        let medium = if entry.mask == 0 { 0 } else { entry.medium.code() };
        let word = entry.visible.code()
            | (medium << CODE_BITS)
            | (u64::from(entry.mask) << (2 * CODE_BITS));
        compiler_fence(Ordering::SeqCst);
        put_words(memory.slice(place.0, 8), [word]);
        compiler_fence(Ordering::SeqCst);
    }

    /// A slot for a block of the disk. It is free until [`Header::update`].
    pub fn take_block(&mut self, memory: &mut impl Memory) -> Option<u32> {
        let slot = self.take(memory)?;
        self.stored += 1;
        Some(slot)
    }

    fn take(&mut self, memory: &mut impl Memory) -> Option<u32> {
        if self.free != 0 {
            let slot = self.free as u32;
            let next = u64::from(u32_at(memory, self.offset_of(slot)));
            // A list that leaves what was given out is damaged; it ends here.
            self.free = if next < self.next { next } else { 0 };
            return Some(slot);
        }
        (self.next <= self.slots).then(|| {
            self.next += 1;
            (self.next - 1) as u32
        })
    }

    /// Gives a block's slot back.
    pub fn release(&mut self, memory: &mut impl Memory, slot: u32) {
        self.stored = self.stored.saturating_sub(1);
        if u64::from(slot) + 1 == self.next {
            self.next -= 1;
            return;
        }
        set_u32_at(memory, self.offset_of(slot), self.free as u32);
        self.free = slot.into();
    }
}

fn u32_at(memory: &mut impl Memory, at: u64) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(memory.slice(at, 4));
    u32::from_le_bytes(bytes)
}

fn set_u32_at(memory: &mut impl Memory, at: u64, word: u32) {
    memory.slice(at, 4).copy_from_slice(&word.to_le_bytes());
}

fn u64_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn put_words<const N: usize>(bytes: &mut [u8], words: [u64; N]) {
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}
