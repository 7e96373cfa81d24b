//! Writing into a store without a copy: the source fills the slots themselves.

use super::layout::{BLOCK, Entry, Place};
use super::{MAX_SLICE, Memory, Store, StoreError};

/// Blocks of one write whose slots lie together.
struct Run {
    /// First slot.
    slot: u32,
    /// First byte on the disk.
    start: u64,
    /// One past the last byte on the disk.
    end: u64,
    /// Whether the slots were taken for this run (else they hold these blocks already).
    fresh: bool,
    /// What a fresh block held before: one byte, repeated.
    before: u8,
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
            result = match self.next_run(at, end) {
                None => Err(StoreError::Full),
                Some(run) => {
                    at = run.end;
                    self.fill_run(&run, source).map_err(StoreError::Source)
                }
            };
        }
        self.header.write(&mut self.memory);
        result
    }

    /// The longest run from `at` whose slots lie together; none if there is no room for its first
    /// block.
    fn next_run(&mut self, at: u64, end: u64) -> Option<Run> {
        let block = at / BLOCK;
        let place = self.header.place_or_new(&mut self.memory, block)?;
        let held = self.entry(place);
        let (slot, fresh, before) = match held {
            Entry::Slot(slot) => (slot, false, 0),
            Entry::Repeated(byte) => (self.header.take_block(&mut self.memory)?, true, byte),
            Entry::Untouched => (self.header.take_block(&mut self.memory)?, true, 0),
        };
        let mut run = Run { slot, start: at, end: ((block + 1) * BLOCK).min(end), fresh, before };
        // Only whole blocks join: the parts of a block are filled up from what it held before.
        if at % BLOCK == 0 {
            while run.end + BLOCK <= end && run.end - run.start < MAX_SLICE as u64 {
                let next = slot + ((run.end - run.start) / BLOCK) as u32;
                if !self.join(run.end / BLOCK, next, fresh) {
                    break;
                }
                run.end += BLOCK;
            }
        }
        Some(run)
    }

    /// Whether `block` lies in slot `next` (or, `fresh`, could be given it, and now has it taken).
    fn join(&mut self, block: u64, next: u32, fresh: bool) -> bool {
        if !fresh {
            let Some(place) = self.place(block) else { return false };
            return self.entry(place) == Entry::Slot(next);
        }
        let Some(place) = self.header.place_or_new(&mut self.memory, block) else { return false };
        if matches!(self.entry(place), Entry::Slot(_)) {
            return false;
        }
        match self.header.take_block(&mut self.memory) {
            Some(slot) if slot == next => true,
            Some(other) => {
                self.header.release(&mut self.memory, other);
                false
            }
            None => false,
        }
    }

    fn fill_run<E>(
        &mut self,
        run: &Run,
        source: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let from = self.header.offset_of(run.slot);
        let within = run.start % BLOCK;
        let length = run.end - run.start;
        if run.fresh && length % BLOCK != 0 {
            self.memory.slice(from, BLOCK as usize).fill(run.before);
        }
        let filled = source(self.memory.slice(from + within, length as usize));
        // From the last to the first, so that slots at the end of what was given out go back to
        // it, and the free list gives out the others in rising order.
        let first = run.start / BLOCK;
        for block in (first..run.end.div_ceil(BLOCK)).rev() {
            let slot = run.slot + (block - first) as u32;
            // The page exists: next_run or join has seen to it.
            let Some(place) = self.place(block) else { continue };
            if filled.is_err() && run.fresh {
                self.header.release(&mut self.memory, slot);
            } else {
                self.settle(place, slot, run.fresh);
            }
        }
        filled
    }

    /// Gives a filled block its entry: its slot, or the byte it repeats.
    fn settle(&mut self, place: Place, slot: u32, fresh: bool) {
        let from = self.header.offset_of(slot);
        match repeated_byte(self.memory.slice(from, BLOCK as usize)) {
            Some(byte) => {
                self.header.release(&mut self.memory, slot);
                self.set_entry(place, Entry::Repeated(byte));
            }
            None if fresh => self.set_entry(place, Entry::Slot(slot)),
            None => {}
        }
    }
}

/// The byte that fills all of a block; none at the first that differs.
fn repeated_byte(block: &[u8]) -> Option<u8> {
    let byte = *block.first()?;
    let pattern = u64::from_ne_bytes([byte; 8]);
    // Word by word: most blocks differ in the first two.
    let same = |word: &[u8]| word.try_into().map(u64::from_ne_bytes).is_ok_and(|w| w == pattern);
    block.chunks_exact(8).all(same).then_some(byte)
}
