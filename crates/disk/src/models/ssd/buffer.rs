//! The drive's write buffer in DRAM: pages on their way to flash, in order of arrival.

use std::collections::VecDeque;

/// Sectors of a page, one bit each.
pub const PAGE: u64 = 8;

/// A place of the buffer.
pub type Slot = u16;
const NONE: Slot = Slot::MAX;

/// Most places of a buffer.
pub const MOST_SLOTS: usize = NONE as usize;

/// A page in the buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    page: u64,
    /// Its place in the order of arrival.
    order: u64,
    /// Sectors of it that are here.
    here: u8,
    /// Sectors whose writer has been told that they are written.
    told: u8,
    /// A die is being given it; newer data of the page take another place.
    leaving: bool,
    /// The next place whose page has the same hash.
    next: Slot,
}

/// The buffer.
#[derive(Debug)]
pub struct Buffer {
    entries: Vec<Entry>,
    free: Vec<Slot>,
    /// First place of each hash.
    heads: Vec<Slot>,
    /// Those that no die has been given, in order of arrival.
    waiting: VecDeque<Slot>,
    /// Kept for writes that are under way.
    reserved: usize,
    arrivals: u64,
    /// Sectors that are told to be written, and are only here.
    told: u64,
}

impl Buffer {
    /// An empty buffer of `slots` pages.
    pub fn new(slots: usize) -> Buffer {
        let slots = slots.clamp(1, MOST_SLOTS);
        Buffer {
            entries: vec![Entry::default(); slots],
            free: (0..slots as Slot).rev().collect(),
            heads: vec![NONE; slots.next_power_of_two()],
            waiting: VecDeque::with_capacity(slots),
            reserved: 0,
            arrivals: 0,
            told: 0,
        }
    }

    /// Keeps room for a write of `pages`; false if there is none. A write beyond the whole buffer gets
    /// all of it.
    pub fn reserve(&mut self, pages: usize) -> bool {
        let right = self.reserved + pages.min(self.entries.len()) <= self.free.len();
        if right {
            self.reserved += pages.min(self.entries.len());
        }
        right
    }

    /// A write of the sectors from `first` to before `end`, for which room was kept, has arrived. It
    /// is `told` if its writer is not made to wait until it is on flash.
    pub fn insert(&mut self, first: u64, end: u64, told: bool) {
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
            entry.here |= mask;
            if told {
                self.told += u64::from((mask & !entry.told).count_ones());
                entry.told |= mask;
            }
        }
    }

    /// Whether all sectors from `first` to before `end` are here.
    pub fn hit(&self, first: u64, end: u64) -> bool {
        !self.is_empty()
            && (first / PAGE..end.div_ceil(PAGE)).all(|page| {
                let mask = sectors_of(page, first, end);
                let here = |slot: Slot| self.entries[usize::from(slot)].here & mask == mask;
                self.find(page).is_some_and(here)
            })
    }

    /// Drops what waits of the pages from `first` to before `end`.
    pub fn drop_pages(&mut self, first: u64, end: u64) {
        for at in (0..self.waiting.len()).rev() {
            let slot = self.waiting[at];
            if (first..end).contains(&self.entries[usize::from(slot)].page) {
                self.waiting.remove(at);
                self.release(slot);
            }
        }
    }

    /// Whether it holds nothing at all.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// Pages that no die has been given.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When the page came that has waited longest, in the order of arrival.
    pub fn oldest_waiting(&self) -> Option<u64> {
        self.waiting.front().map(|slot| self.entries[usize::from(*slot)].order)
    }

    /// Gives the next page to a die.
    pub fn take(&mut self) -> Option<(Slot, u64)> {
        let slot = self.waiting.pop_front()?;
        let entry = &mut self.entries[usize::from(slot)];
        entry.leaving = true;
        Some((slot, entry.page))
    }

    /// The place in the order of arrival of what is in `slot`.
    pub fn order(&self, slot: Slot) -> u64 {
        self.entries[usize::from(slot)].order
    }

    /// The number of the latest arrival.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The page in `slot` is on flash: gives it and its sectors, and frees the place.
    pub fn finish(&mut self, slot: Slot) -> (u64, u8) {
        let entry = self.entries[usize::from(slot)];
        self.release(slot);
        (entry.page, entry.here)
    }

    /// Sectors that a power cut would lose though their writers were told.
    pub fn volatile(&self) -> u64 {
        self.told
    }

    fn bucket(&self, page: u64) -> usize {
        // Fibonacci hashing (Knuth, volume 3, 6.4).
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.heads.len() - 1)
    }

    /// The newest data of a page.
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
        self.told -= u64::from(entry.told.count_ones());
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

/// The sectors of `page` that lie from `first` to before `end`.
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
    fn what_is_written_again_before_it_leaves_takes_no_second_place() {
        let mut buffer = Buffer::new(4);
        assert!(buffer.reserve(2));
        buffer.insert(4, 12, true);
        assert_eq!((buffer.waiting(), buffer.volatile()), (2, 8));
        assert!(buffer.hit(4, 12) && buffer.hit(5, 6) && !buffer.hit(4, 13));
        buffer.insert(6, 9, true);
        assert_eq!((buffer.waiting(), buffer.volatile()), (2, 8));
        let (slot, page) = buffer.take().unwrap();
        assert_eq!(page, 0);
        buffer.insert(0, 8, false);
        assert_eq!((buffer.waiting(), buffer.volatile()), (2, 8));
        assert_eq!(buffer.finish(slot), (0, 0xf0));
        assert!(buffer.hit(0, 8), "the newer data of the page are still here");
        assert_eq!(buffer.volatile(), 4);
        buffer.drop_pages(0, 2);
        assert_eq!((buffer.waiting(), buffer.volatile(), buffer.hit(0, 8)), (0, 0, false));
    }

    #[test]
    fn room_is_bounded_and_pages_of_one_hash_are_kept_apart() {
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
