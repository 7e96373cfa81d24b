//! Writing to a store without copying: the source fills the slots directly.
//!
//! Bytes for the cache go to a new slot, and the block's old slot remains the medium's until they are
//! persisted. Bytes are copied only if a part of a block is written.

use super::cache::sectors;
use super::layout::{ALL_SECTORS, BLOCK, Content, Entry, EntryAddress};
use super::{MAX_SLICE, Memory, Store, StoreError};

/// The destination of written bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The drive's volatile cache, until [`Store::persist`].
    Cache,
    /// The medium, immediately.
    Medium,
}

/// Blocks of one write that have contiguous slots.
struct Run {
    /// First slot.
    slot: u32,
    /// First byte on the disk.
    start: u64,
    /// One past the last byte on the disk.
    end: u64,
    /// True if the slots were allocated for this run; otherwise they are the visible slots of these blocks.
    fresh: bool,
}

impl<M: Memory> Store<M> {
    /// Makes `source` fill `length` bytes from `offset`, in order, in slices of contiguous
    /// slots (at most [`MAX_SLICE`]). Slots of blocks that then hold one repeated byte are
    /// freed. After a failure, the bytes filled before it remain written.
    ///
    /// # Errors
    /// [`StoreError`]: full, beyond the end (before any call of `source`), or an error from the source.
    pub fn write_with<E>(
        &mut self,
        to: Destination,
        offset: u64,
        length: u64,
        source: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), StoreError<E>> {
        let end = offset.checked_add(length).ok_or(StoreError::PastEnd)?;
        if end > self.header.capacity.0 {
            return Err(StoreError::PastEnd);
        }
        let mut at = offset;
        let mut result = Ok(());
        while at < end && result.is_ok() {
            result = match self.next_run(to, at, end) {
                None => Err(StoreError::Full),
                Some(run) => {
                    at = run.end;
                    self.fill_run(to, &run, source).map_err(StoreError::Source)
                }
            };
        }
        self.header.update(&mut self.memory);
        result
    }

    /// Writes the given bytes.
    ///
    /// # Errors
    /// As [`Store::write_with`].
    pub fn write_bytes<E>(
        &mut self,
        to: Destination,
        offset: u64,
        mut bytes: &[u8],
    ) -> Result<(), StoreError<E>> {
        self.write_with(to, offset, bytes.len() as u64, &mut |slice| {
            let (part, remaining) = bytes.split_at(slice.len());
            slice.copy_from_slice(part);
            bytes = remaining;
            Ok(())
        })
    }

    /// Returns the longest run from `at` with contiguous slots, or `None` if no slot is left for its first block.
    fn next_run(&mut self, to: Destination, at: u64, end: u64) -> Option<Run> {
        let block = at / BLOCK;
        let address = self.header.entry_address_or_new(&mut self.memory, block)?;
        let stop = ((block + 1) * BLOCK).min(end);
        if to == Destination::Cache {
            self.preserve_medium(address, sectors(block * BLOCK, at, stop))?;
        }
        let (slot, fresh) = match writable_slot(to, self.entry(address)) {
            Some(slot) => (slot, false),
            None => (self.header.allocate_block(&mut self.memory)?, true),
        };
        let mut run = Run { slot, start: at, end: stop, fresh };
        // Only whole blocks join a run, since partial blocks are completed with their old bytes.
        if at % BLOCK == 0 {
            while run.end + BLOCK <= end && run.end - run.start < MAX_SLICE as u64 {
                let next = slot + ((run.end - run.start) / BLOCK) as u32;
                if !self.extend_run(to, run.end / BLOCK, next, fresh) {
                    break;
                }
                run.end += BLOCK;
            }
        }
        Some(run)
    }

    /// Extends a run by the whole of `block`, in slot `next`: its own slot or, if `fresh`, a newly allocated one.
    /// Returns false if that is impossible.
    fn extend_run(&mut self, to: Destination, block: u64, next: u32, fresh: bool) -> bool {
        let Some(address) = self.header.entry_address_or_new(&mut self.memory, block) else {
            return false;
        };
        let entry = self.entry(address);
        if to == Destination::Cache && entry.mask != 0 && entry.mask != ALL_SECTORS {
            return false;
        }
        match writable_slot(to, entry) {
            Some(slot) => !fresh && slot == next,
            None if !fresh => false,
            None => match self.header.allocate_block(&mut self.memory) {
                Some(slot) if slot == next => true,
                Some(unsuitable) => {
                    self.header.release(&mut self.memory, unsuitable);
                    false
                }
                None => false,
            },
        }
    }

    /// Preserves the medium's content before the sectors `written` of a partly cached block are overwritten:
    /// copies the sectors whose visible content is the medium's. Returns none if the region is full.
    fn preserve_medium(&mut self, address: EntryAddress, written: u8) -> Option<()> {
        let entry = self.entry(address);
        let newly_cached = written & !entry.mask;
        if entry.mask == 0 || newly_cached == 0 {
            return Some(());
        }
        let medium_slot = match entry.medium {
            Content::Slot(slot) => slot,
            _ => self.header.allocate_block(&mut self.memory)?,
        };
        self.header.update(&mut self.memory);
        // Sectors of the slot outside the mask may be overwritten: they are read from `visible`, never from here.
        let bytes = self.medium_content(entry);
        self.memory
            .slice(self.header.offset_of(medium_slot), BLOCK as usize)
            .copy_from_slice(&bytes);
        let (medium, mask) = (Content::Slot(medium_slot), entry.mask | newly_cached);
        self.replace(address, entry, Entry { visible: entry.visible, medium, mask });
        Some(())
    }

    fn fill_run<E>(
        &mut self,
        to: Destination,
        run: &Run,
        source: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = run.start / BLOCK;
        let from = self.header.offset_of(run.slot);
        let length = run.end - run.start;
        if run.fresh {
            self.header.update(&mut self.memory);
            if length % BLOCK != 0 {
                self.fill_old_bytes(first, run.slot);
            }
        }
        let filled = source(self.memory.slice(from + run.start % BLOCK, length as usize));
        // From the last to the first, so that the slots allocated last are simply returned,
        // and the free list returns the others in ascending order.
        for block in (first..run.end.div_ceil(BLOCK)).rev() {
            let slot = run.slot + (block - first) as u32;
            // The page exists: next_run or extend_run allocated it.
            let Some(address) = self.entry_address(block) else { continue };
            if filled.is_ok() {
                let written = sectors(block * BLOCK, run.start, run.end);
                self.set_written(to, address, slot, written);
            } else if run.fresh {
                self.header.release(&mut self.memory, slot);
            }
        }
        filled
    }

    /// Fills a fresh slot with its block's current bytes, before a part of them changes.
    fn fill_old_bytes(&mut self, block: u64, slot: u32) {
        let Some(address) = self.entry_address(block) else { return };
        let content = self.entry(address).visible;
        let mut current = [0; BLOCK as usize];
        match content {
            Content::Untouched => {}
            Content::Repeated(byte) => current.fill(byte),
            Content::Slot(old) => {
                let from = self.header.offset_of(old);
                current.copy_from_slice(self.memory.slice(from, BLOCK as usize));
            }
        }
        self.memory.slice(self.header.offset_of(slot), BLOCK as usize).copy_from_slice(&current);
    }

    /// Sets the entry of a block after its sectors `written` were filled: its slot or repeated
    /// byte, and which sectors are on the medium.
    fn set_written(&mut self, to: Destination, address: EntryAddress, slot: u32, written: u8) {
        let old = self.entry(address);
        let from = self.header.offset_of(slot);
        let visible = match repeated_byte(self.memory.slice(from, BLOCK as usize)) {
            Some(byte) => Content::Repeated(byte),
            None => Content::Slot(slot),
        };
        let new = match to {
            Destination::Medium if old.mask & !written == 0 => Entry::persisted(visible),
            Destination::Medium => Entry { visible, medium: old.medium, mask: old.mask & !written },
            // Overwriting a repeated byte with itself changes nothing on the medium.
            Destination::Cache if old.mask == 0 && certainly_equal(visible, old.visible) => old,
            Destination::Cache if old.mask == 0 => {
                Entry { visible, medium: old.visible, mask: written }
            }
            Destination::Cache => Entry { visible, medium: old.medium, mask: old.mask | written },
        };
        self.replace(address, old, new);
        if visible != Content::Slot(slot) && old.visible != Content::Slot(slot) {
            // The slot was allocated for this write, and no entry refers to it.
            self.header.release(&mut self.memory, slot);
        }
    }
}

/// Returns the visible slot of a block if it may be overwritten; a slot with the medium's bytes must not be.
fn writable_slot(to: Destination, entry: Entry) -> Option<u32> {
    match entry.visible {
        Content::Slot(slot) if to == Destination::Medium || entry.mask != 0 => Some(slot),
        _ => None,
    }
}

/// Returns true if both contents are known, without reading a slot, to be the same bytes.
fn certainly_equal(first: Content, second: Content) -> bool {
    let byte = |content| match content {
        Content::Untouched => Some(0),
        Content::Repeated(byte) => Some(byte),
        Content::Slot(_) => None,
    };
    byte(first).is_some() && byte(first) == byte(second)
}

/// Returns the byte that fills a whole block, if any.
fn repeated_byte(block: &[u8]) -> Option<u8> {
    let (head, rest) = block.split_first_chunk::<8>()?;
    let byte = head[0];
    // Most blocks differ in the first few bytes; the rest is compared with the block shifted by eight bytes.
    let is_repeated = *head == [byte; 8] && *rest == block[..rest.len()];
    is_repeated.then_some(byte)
}
