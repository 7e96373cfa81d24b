//! The drive's write buffer in DRAM: pages to be written to flash, in order of arrival.

use std::collections::VecDeque;

/// Sectors of a page; an entry has one bit for each.
pub const PAGE: u64 = 8;

/// A slot of the buffer.
pub type Slot = u16;
const NONE: Slot = Slot::MAX;

/// Maximum number of slots.
pub const MAX_SLOTS: usize = NONE as usize;

/// A page in the buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    page: u64,
    /// Its number in order of arrival.
    order: u64,
    /// Mask of the buffered sectors of the page.
    buffered: u8,
    /// Mask of the sectors whose writes are acknowledged.
    acknowledged: u8,
    /// True while a die programs the page; newer data of the page go into a different slot.
    leaving: bool,
    /// The next slot whose page has the same hash.
    next: Slot,
}

/// The write buffer.
#[derive(Debug)]
pub struct Buffer {
    entries: Vec<Entry>,
    free: Vec<Slot>,
    /// First slot of each hash.
    heads: Vec<Slot>,
    /// Slots not yet passed to a die, in order of arrival.
    waiting: VecDeque<Slot>,
    /// Pages reserved for writes on the link.
    reserved: usize,
    arrivals: u64,
    /// Number of acknowledged sectors that are only in the buffer.
    acknowledged: u64,
}

impl Buffer {
    /// Creates an empty buffer of `slots` pages.
    pub fn new(slots: usize) -> Buffer {
        let slots = slots.clamp(1, MAX_SLOTS);
        Buffer {
            entries: vec![Entry::default(); slots],
            free: (0..slots as Slot).rev().collect(),
            heads: vec![NONE; slots.next_power_of_two()],
            waiting: VecDeque::with_capacity(slots),
            reserved: 0,
            arrivals: 0,
            acknowledged: 0,
        }
    }

    /// Reserves space for a write of `pages` pages; returns false if there is none. A write larger than the buffer
    /// gets all of it.
    pub fn reserve(&mut self, pages: usize) -> bool {
        let fits = self.reserved + pages.min(self.entries.len()) <= self.free.len();
        if fits {
            self.reserved += pages.min(self.entries.len());
        }
        fits
    }

    /// Inserts a write of the sectors from `first` to before `end`, for which space is reserved. It
    /// is `acknowledged` if it completes before its data are on flash.
    pub fn insert(&mut self, first: u64, end: u64, acknowledged: bool) {
        let pages = end.div_ceil(PAGE) - first / PAGE;
        self.reserved = self.reserved.saturating_sub((pages as usize).min(self.entries.len()));
        for page in first / PAGE..end.div_ceil(PAGE) {
            let mask = sectors_of(page, first, end);
            self.arrivals += 1;
            let slot =
                match self.find(page).filter(|slot| !self.entries[usize::from(*slot)].leaving) {
                    Some(slot) => slot,
                    None => match self.add(page) {
                        Some(slot) => slot,
                        None => return,
                    },
                };
            let entry = &mut self.entries[usize::from(slot)];
            entry.buffered |= mask;
            if acknowledged {
                self.acknowledged += u64::from((mask & !entry.acknowledged).count_ones());
                entry.acknowledged |= mask;
            }
        }
    }

    /// Returns true if all sectors from `first` to before `end` are buffered.
    pub fn hit(&self, first: u64, end: u64) -> bool {
        !self.is_empty()
            && (first / PAGE..end.div_ceil(PAGE)).all(|page| {
                let mask = sectors_of(page, first, end);
                let has_all = |slot: Slot| self.entries[usize::from(slot)].buffered & mask == mask;
                self.find(page).is_some_and(has_all)
            })
    }

    /// Drops the waiting pages from `first` to before `end`.
    pub fn drop_pages(&mut self, first: u64, end: u64) {
        for at in (0..self.waiting.len()).rev() {
            let slot = self.waiting[at];
            if (first..end).contains(&self.entries[usize::from(slot)].page) {
                self.waiting.remove(at);
                self.release(slot);
            }
        }
    }

    /// Returns true if the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// Returns the number of pages not yet passed to a die.
    pub fn waiting_pages(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the arrival number of the page that has waited longest.
    pub fn oldest_waiting(&self) -> Option<u64> {
        self.waiting.front().map(|slot| self.entries[usize::from(*slot)].order)
    }

    /// Takes the next page to pass to a die.
    pub fn take(&mut self) -> Option<(Slot, u64)> {
        let slot = self.waiting.pop_front()?;
        let entry = &mut self.entries[usize::from(slot)];
        entry.leaving = true;
        Some((slot, entry.page))
    }

    /// Returns the arrival number of the page in `slot`.
    pub fn order(&self, slot: Slot) -> u64 {
        self.entries[usize::from(slot)].order
    }

    /// Returns the number of the latest arrival.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Frees a slot whose page is on flash; returns the page and its sectors.
    pub fn finish(&mut self, slot: Slot) -> (u64, u8) {
        let entry = self.entries[usize::from(slot)];
        self.release(slot);
        (entry.page, entry.buffered)
    }

    /// Returns the number of acknowledged sectors that a power cut would lose.
    pub fn volatile_sectors(&self) -> u64 {
        self.acknowledged
    }

    fn bucket(&self, page: u64) -> usize {
        // Fibonacci hashing (Knuth, volume 3, 6.4).
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.heads.len() - 1)
    }

    /// Finds the slot with the newest data of a page.
    fn find(&self, page: u64) -> Option<Slot> {
        let mut slot = self.heads[self.bucket(page)];
        while slot != NONE {
            let entry = &self.entries[usize::from(slot)];
            if entry.page == page {
                return Some(slot);
            }
            slot = entry.next;
        }
        None
    }

    fn add(&mut self, page: u64) -> Option<Slot> {
        let slot = self.free.pop()?;
        let bucket = self.bucket(page);
        let next = std::mem::replace(&mut self.heads[bucket], slot);
        self.entries[usize::from(slot)] =
            Entry { page, order: self.arrivals, next, ..Entry::default() };
        self.waiting.push_back(slot);
        Some(slot)
    }

    fn release(&mut self, slot: Slot) {
        let entry = self.entries[usize::from(slot)];
        self.acknowledged -= u64::from(entry.acknowledged.count_ones());
        let bucket = self.bucket(entry.page);
        let mut at = self.heads[bucket];
        if at == slot {
            self.heads[bucket] = entry.next;
        }
        while at != NONE && at != slot {
            let before = &mut self.entries[usize::from(at)];
            at = before.next;
            if at == slot {
                before.next = entry.next;
            }
        }
        self.free.push(slot);
    }
}

/// Returns a mask of the sectors of `page` that lie from `first` to before `end`.
fn sectors_of(page: u64, first: u64, end: u64) -> u8 {
    let from = first.saturating_sub(page * PAGE).min(PAGE) as u32;
    let to = end.saturating_sub(page * PAGE).min(PAGE) as u32;
    let below = |bits: u32| ((1u16 << bits) - 1) as u8;
    below(to) & !below(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_rewritten_before_it_leaves_takes_no_second_slot() {
        let mut buffer = Buffer::new(4);
        assert!(buffer.reserve(2));
        buffer.insert(4, 12, true);
        assert_eq!((buffer.waiting_pages(), buffer.volatile_sectors()), (2, 8));
        assert!(buffer.hit(4, 12) && buffer.hit(5, 6) && !buffer.hit(4, 13));
        buffer.insert(6, 9, true);
        assert_eq!((buffer.waiting_pages(), buffer.volatile_sectors()), (2, 8));
        let (slot, page) = buffer.take().unwrap();
        assert_eq!(page, 0);
        buffer.insert(0, 8, false);
        assert_eq!((buffer.waiting_pages(), buffer.volatile_sectors()), (2, 8));
        assert_eq!(buffer.finish(slot), (0, 0xf0));
        assert!(buffer.hit(0, 8), "the newer data of the page are still buffered");
        assert_eq!(buffer.volatile_sectors(), 4);
        buffer.drop_pages(0, 2);
        assert_eq!(
            (buffer.waiting_pages(), buffer.volatile_sectors(), buffer.hit(0, 8)),
            (0, 0, false)
        );
    }

    #[test]
    fn space_is_bounded_and_pages_of_one_hash_are_distinguished() {
        let mut buffer = Buffer::new(4);
        assert!(buffer.reserve(3) && !buffer.reserve(2) && buffer.reserve(1));
        (0..4).for_each(|page| buffer.insert(page * 8, page * 8 + 8, true));
        assert!(!buffer.reserve(1));
        for page in 0..4 {
            assert!(buffer.hit(page * 8, page * 8 + 8));
        }
        let slots: Vec<Slot> = std::iter::from_fn(|| buffer.take()).map(|taken| taken.0).collect();
        for slot in [slots[2], slots[0], slots[3], slots[1]] {
            buffer.finish(slot);
        }
        assert!(buffer.reserve(4));
    }
}
