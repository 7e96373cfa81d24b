//! Writing into a store without a copy: the source fills the slots themselves.
//!
//! Bytes that go to the cache get a slot of their own, and the slot that held the block stays the
//! medium's until they land. Bytes are copied only where a part of a block is written.

use super::cache::sectors;
use super::layout::{ALL, BLOCK, Entry, Held, Place};
use super::{MAX_SLICE, Memory, Store, StoreError};

/// Where written bytes are once they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// In the drive's volatile cache, until [`Store::land`].
    Cache,
    /// On the medium at once.
    Medium,
}

/// Blocks of one write whose slots lie together.
struct Run {
    /// First slot.
    slot: u32,
    /// First byte on the disk.
    start: u64,
    /// One past the last byte on the disk.
    end: u64,
    /// Whether the slots were taken for this run (else they are what these blocks show already).
    fresh: bool,
}

impl<M: Memory> Store<M> {
    /// Asks `source` to fill `length` bytes from `offset`, in order, in slices as long as slots
    /// lie together (at most [`MAX_SLICE`]). Blocks found to hold one byte repeated give their
    /// slots back. When it fails, what was filled before stays written.
    ///
    /// # Errors
    /// [`StoreError`]: no room, beyond the end (then nothing was asked), or the source's own.
    pub fn write_with<E>(
        &mut self,
        to: To,
        offset: u64,
        length: u64,
        source: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), StoreError<E>> {
        let end = offset.checked_add(length).ok_or(StoreError::Beyond)?;
        if end > self.header.capacity.0 {
            return Err(StoreError::Beyond);
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

    /// Writes bytes that are there already.
    ///
    /// # Errors
    /// As [`Store::write_with`].
    pub fn write_bytes<E>(
        &mut self,
        to: To,
        offset: u64,
        mut bytes: &[u8],
    ) -> Result<(), StoreError<E>> {
        self.write_with(to, offset, bytes.len() as u64, &mut |slice| {
            let (part, rest) = bytes.split_at(slice.len());
            slice.copy_from_slice(part);
            bytes = rest;
            Ok(())
        })
    }

    /// The longest run from `at` whose slots lie together; none if there is no room for its first
    /// block.
    fn next_run(&mut self, to: To, at: u64, end: u64) -> Option<Run> {
        let block = at / BLOCK;
        let place = self.header.place_or_new(&mut self.memory, block)?;
        let stop = ((block + 1) * BLOCK).min(end);
        if to == To::Cache {
            self.keep_medium(place, sectors(block * BLOCK, at, stop))?;
        }
        let (slot, fresh) = match shown(to, self.entry(place)) {
            Some(slot) => (slot, false),
            None => (self.header.take_block(&mut self.memory)?, true),
        };
        let mut run = Run { slot, start: at, end: stop, fresh };
        // Only whole blocks join: the parts of a block are filled up from what it held before.
        if at % BLOCK == 0 {
            while run.end + BLOCK <= end && run.end - run.start < MAX_SLICE as u64 {
                let next = slot + ((run.end - run.start) / BLOCK) as u32;
                if !self.join(to, run.end / BLOCK, next, fresh) {
                    break;
                }
                run.end += BLOCK;
            }
        }
        Some(run)
    }

    /// Whether the whole of `block` can be written into slot `next`, as its own or, `fresh`, as one
    /// that is now taken for it.
    fn join(&mut self, to: To, block: u64, next: u32, fresh: bool) -> bool {
        let Some(place) = self.header.place_or_new(&mut self.memory, block) else { return false };
        let entry = self.entry(place);
        if to == To::Cache && entry.mask != 0 && entry.mask != ALL {
            return false;
        }
        match shown(to, entry) {
            Some(slot) => !fresh && slot == next,
            None if !fresh => false,
            None => match self.header.take_block(&mut self.memory) {
                Some(slot) if slot == next => true,
                Some(other) => {
                    self.header.release(&mut self.memory, other);
                    false
                }
                None => false,
            },
        }
    }

    /// Before `now`, sectors of a block that is partly cached, are overwritten: those that are on
    /// the medium as they are visible are put aside. None if there is no room.
    fn keep_medium(&mut self, place: Place, now: u8) -> Option<()> {
        let entry = self.entry(place);
        let newly = now & !entry.mask;
        if entry.mask == 0 || newly == 0 {
            return Some(());
        }
        let kept = match entry.medium {
            Held::Slot(slot) => slot,
            _ => self.header.take_block(&mut self.memory)?,
        };
        self.header.update(&mut self.memory);
        // All sectors that the mask leaves to `visible` may be overwritten here: nobody reads them.
        let bytes = self.mixed(entry);
        self.memory.slice(self.header.offset_of(kept), BLOCK as usize).copy_from_slice(&bytes);
        let (medium, mask) = (Held::Slot(kept), entry.mask | newly);
        self.replace(place, entry, Entry { visible: entry.visible, medium, mask });
        Some(())
    }

    fn fill_run<E>(
        &mut self,
        to: To,
        run: &Run,
        source: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = run.start / BLOCK;
        let from = self.header.offset_of(run.slot);
        let length = run.end - run.start;
        if run.fresh {
            self.header.update(&mut self.memory);
            if length % BLOCK != 0 {
                self.fill_before(first, run.slot);
            }
        }
        let filled = source(self.memory.slice(from + run.start % BLOCK, length as usize));
        // From the last to the first, so that slots at the end of what was given out go back to
        // it, and the free list gives out the others in rising order.
        for block in (first..run.end.div_ceil(BLOCK)).rev() {
            let slot = run.slot + (block - first) as u32;
            // The page exists: next_run or join has seen to it.
            let Some(place) = self.place(block) else { continue };
            if filled.is_ok() {
                let now = sectors(block * BLOCK, run.start, run.end);
                self.settle(to, place, slot, now);
            } else if run.fresh {
                self.header.release(&mut self.memory, slot);
            }
        }
        filled
    }

    /// Fills a fresh slot with what its block holds now, a part of which is about to change.
    fn fill_before(&mut self, block: u64, slot: u32) {
        let Some(place) = self.place(block) else { return };
        let held = self.entry(place).visible;
        let mut before = [0; BLOCK as usize];
        match held {
            Held::Untouched => {}
            Held::Repeated(byte) => before.fill(byte),
            Held::Slot(old) => {
                let from = self.header.offset_of(old);
                before.copy_from_slice(self.memory.slice(from, BLOCK as usize));
            }
        }
        self.memory.slice(self.header.offset_of(slot), BLOCK as usize).copy_from_slice(&before);
    }

    /// Gives a block of which the sectors `now` were filled its entry: its slot, or the byte it
    /// repeats, and what of it is on the medium.
    fn settle(&mut self, to: To, place: Place, slot: u32, now: u8) {
        let old = self.entry(place);
        let from = self.header.offset_of(slot);
        let visible = match repeated_byte(self.memory.slice(from, BLOCK as usize)) {
            Some(byte) => Held::Repeated(byte),
            None => Held::Slot(slot),
        };
        let new = match to {
            To::Medium if old.mask & !now == 0 => Entry::landed(visible),
            To::Medium => Entry { visible, medium: old.medium, mask: old.mask & !now },
            // The same byte over the same byte changes nothing on the medium.
            To::Cache if old.mask == 0 && same(visible, old.visible) => old,
            To::Cache if old.mask == 0 => Entry { visible, medium: old.visible, mask: now },
            To::Cache => Entry { visible, medium: old.medium, mask: old.mask | now },
        };
        self.replace(place, old, new);
        if visible != Held::Slot(slot) && old.visible != Held::Slot(slot) {
            // It was taken for this write, and nothing has named it.
            self.header.release(&mut self.memory, slot);
        }
    }
}

/// The slot that a block shows, if bytes may be written there: not over those that are the medium's.
fn shown(to: To, entry: Entry) -> Option<u32> {
    match entry.visible {
        Held::Slot(slot) if to == To::Medium || entry.mask != 0 => Some(slot),
        _ => None,
    }
}

/// Whether both hold the same bytes for certain.
fn same(one: Held, other: Held) -> bool {
    let byte = |held| match held {
        Held::Untouched => Some(0),
        Held::Repeated(byte) => Some(byte),
        Held::Slot(_) => None,
    };
    byte(one).is_some() && byte(one) == byte(other)
}

/// The byte that fills all of a block; none at the first that differs.
fn repeated_byte(block: &[u8]) -> Option<u8> {
    let (head, rest) = block.split_first_chunk::<8>()?;
    let byte = head[0];
    // Most blocks differ in the first few bytes; the rest is the block itself, moved on by eight.
    let same = *head == [byte; 8] && *rest == block[..rest.len()];
    same.then_some(byte)
}
