//! How a store lies in its region: header, table, entries, free list. All words little-endian.
//!
//! Offset 0 holds the header (one block), then comes the table (a u32 for each chunk of 4 MiB:
//! the slot of its page, 0 for none), then slots of 4 KiB, each a block of the disk or a page of
//! 1024 entries. Slot numbers count from 1. Free slots are threaded through their first word.

use fsdyno_record::Bytes;

use super::{Memory, OpenError};

/// Bytes in a block, in a page, in a slot.
pub const BLOCK: u64 = 4096;
/// Entries in a page, hence blocks in a chunk.
pub const PAGE_ENTRIES: u64 = BLOCK / 4;

const MAGIC: u64 = u64::from_le_bytes(*b"fsdynost");
const VERSION: u64 = 1;
/// The bit that tells a repeated byte (in the low 8 bits) from a slot's number.
const REPEATED: u32 = 1 << 31;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing was ever written there, or it was forgotten: zeros.
    Untouched,
    /// One byte, repeated.
    Repeated(u8),
    /// Its bytes lie in this slot.
    Slot(u32),
}

impl Entry {
    /// What the next block must hold to continue a run of this one.
    pub fn next(self) -> Entry {
        match self {
            Entry::Slot(slot) => Entry::Slot(slot + 1),
            other => other,
        }
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
    /// Blocks stored, pages not counted.
    pub stored: u64,
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
        let slots = ((size - least) / BLOCK).min(u64::from(REPEATED) - 2);
        Ok(Header { capacity, slots, next: 1, free: 0, stored: 0 })
    }

    pub fn read(memory: &mut impl Memory) -> Result<Header, OpenError> {
        if memory.size() < BLOCK {
            return Err(OpenError::Corrupt("size"));
        }
        let mut words = [0; 7];
        for (word, bytes) in words.iter_mut().zip(memory.slice(0, 56).chunks_exact(8)) {
            *word = u64_of(bytes);
        }
        let [magic, version, capacity, slots, next, free, stored] = words;
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
        Ok(Header { capacity: Bytes(capacity), slots, next, free, stored })
    }

    pub fn write(&self, memory: &mut impl Memory) {
        let words =
            [MAGIC, VERSION, self.capacity.0, self.slots, self.next, self.free, self.stored];
        for (bytes, word) in memory.slice(0, 56).chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
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

    pub fn offset_of(&self, slot: u32) -> u64 {
        data_at(self.capacity) + (u64::from(slot) - 1) * BLOCK
    }

    pub fn place(&self, memory: &mut impl Memory, block: u64) -> Option<Place> {
        let chunk = block / PAGE_ENTRIES;
        if chunk >= chunks(self.capacity) {
            return None;
        }
        let page = u32_at(memory, BLOCK + chunk * 4);
        // A page beyond what was given out can only come from a damaged region.
        (page != 0 && u64::from(page) < self.next)
            .then(|| Place(self.offset_of(page) + block % PAGE_ENTRIES * 4))
    }

    /// As [`Header::place`], giving the chunk a page if it has none; none if there is no room.
    pub fn place_or_new(&mut self, memory: &mut impl Memory, block: u64) -> Option<Place> {
        if let Some(place) = self.place(memory, block) {
            return Some(place);
        }
        let page = self.take(memory)?;
        memory.slice(self.offset_of(page), BLOCK as usize).fill(0);
        set_u32_at(memory, BLOCK + block / PAGE_ENTRIES * 4, page);
        self.place(memory, block)
    }

    pub fn entry(&self, memory: &mut impl Memory, place: Place) -> Entry {
        match u32_at(memory, place.0) {
            0 => Entry::Untouched,
            word if word & REPEATED != 0 => Entry::Repeated(word as u8),
            slot if u64::from(slot) < self.next => Entry::Slot(slot),
            _ => Entry::Untouched,
        }
    }

    pub fn set_entry(&self, memory: &mut impl Memory, place: Place, entry: Entry) {
        let word = match entry {
            Entry::Untouched | Entry::Repeated(0) => 0,
            Entry::Repeated(byte) => REPEATED | u32::from(byte),
            Entry::Slot(slot) => slot,
        };
        set_u32_at(memory, place.0, word);
    }

    /// A slot for a block of the disk.
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
