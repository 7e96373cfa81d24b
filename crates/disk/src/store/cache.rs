//! What is visible and not on the medium yet: how it gets there, and how it is listed.

use super::layout::{ALL, BLOCK, Entry, Held, PAGE_ENTRIES};
use super::{Memory, Store};

/// Bytes in a sector, the unit in which a medium takes what is written.
const SECTOR: u64 = crate::SECTOR;
const PER_BLOCK: u64 = BLOCK / SECTOR;

/// The sectors of the block at byte `start` that the bytes from `from` to `to` touch.
pub(super) fn sectors(start: u64, from: u64, to: u64) -> u8 {
    let first = from.saturating_sub(start) / SECTOR;
    let end = to.min(start + BLOCK).saturating_sub(start).div_ceil(SECTOR);
    let below = |count: u64| if count >= PER_BLOCK { ALL } else { (1 << count) - 1 };
    below(end) & !below(first)
}

impl<M: Memory> Store<M> {
    /// `count` sectors from `first` have reached the medium, as they are visible now.
    ///
    /// Bytes that came in for a sector while an older write of it was on its way to the medium are
    /// there with it: a drive may write newer bytes early. What is not cached stays as it is.
    pub fn land(&mut self, first: u64, count: u64) {
        let capacity = self.header.capacity.0;
        let from = first.saturating_mul(SECTOR).min(capacity);
        let to = from.saturating_add(count.saturating_mul(SECTOR)).min(capacity);
        // From the last to the first, so that the free list gives slots out in rising order.
        let mut block = to.div_ceil(BLOCK);
        while block > from / BLOCK && self.header.cached > 0 {
            block -= 1;
            let Some(place) = self.place(block) else {
                block -= block % PAGE_ENTRIES;
                continue;
            };
            let old = self.entry(place);
            if old.mask != 0 {
                let mask = old.mask & !sectors(block * BLOCK, from, to);
                let medium = if mask == 0 { Held::Untouched } else { old.medium };
                self.replace(place, old, Entry { visible: old.visible, medium, mask });
            }
        }
        self.header.update(&mut self.memory);
    }

    /// All that is cached has reached the medium.
    pub fn land_all(&mut self) {
        if self.header.cached > 0 {
            self.land(0, self.header.capacity.0 / SECTOR);
        }
    }

    /// Whether all that is visible is on the medium.
    pub fn is_landed(&self) -> bool {
        self.header.cached == 0
    }

    /// Hands every range of bytes that is not on the medium yet to `out`, first byte and length,
    /// in rising order; a power cut loses these.
    pub fn volatile(&mut self, out: &mut dyn FnMut(u64, u64)) {
        let blocks = self.header.capacity.0.div_ceil(BLOCK);
        let mut range: Option<(u64, u64)> = None;
        let mut block = 0;
        while block < blocks {
            let Some(place) = self.place(block) else {
                block = (block / PAGE_ENTRIES + 1) * PAGE_ENTRIES;
                continue;
            };
            let mask = self.entry(place).mask;
            for sector in (0..PER_BLOCK).filter(|sector| mask & (1 << sector) != 0) {
                let at = block * BLOCK + sector * SECTOR;
                range = match range {
                    Some((first, end)) if end == at => Some((first, at + SECTOR)),
                    other => {
                        other.into_iter().for_each(|(first, end)| out(first, end - first));
                        Some((at, at + SECTOR))
                    }
                };
            }
            block += 1;
        }
        range.into_iter().for_each(|(first, end)| out(first, end - first));
    }

    /// The medium of a block of which some sectors are cached and some are not.
    pub(super) fn mixed(&mut self, entry: Entry) -> [u8; BLOCK as usize] {
        let mut bytes = [0; BLOCK as usize];
        for sector in 0..PER_BLOCK {
            let cached = entry.mask & (1 << sector) != 0;
            let held = if cached { entry.medium } else { entry.visible };
            let at = (sector * SECTOR) as usize..((sector + 1) * SECTOR) as usize;
            match held {
                Held::Untouched => {}
                Held::Repeated(byte) => bytes[at].fill(byte),
                Held::Slot(slot) => {
                    let from = self.header.offset_of(slot) + sector * SECTOR;
                    bytes[at].copy_from_slice(self.memory.slice(from, SECTOR as usize));
                }
            }
        }
        bytes
    }
}
