//! The volatile write cache of a store: persisting cached sectors, and listing them.

use super::layout::{ALL_SECTORS, BLOCK, Content, Entry, PAGE_ENTRIES};
use super::{Memory, Store};

/// Bytes in a sector, the unit of writes to the medium.
const SECTOR: u64 = crate::SECTOR;
/// Number of sectors in a block.
const PER_BLOCK: u64 = BLOCK / SECTOR;

/// Returns a mask of the sectors of the block at byte `start` that the bytes from `from` to `to` touch.
pub(super) fn sectors(start: u64, from: u64, to: u64) -> u8 {
    let first = from.saturating_sub(start) / SECTOR;
    let end = to.min(start + BLOCK).saturating_sub(start).div_ceil(SECTOR);
    let lower_sectors =
        |count: u64| if count >= PER_BLOCK { ALL_SECTORS } else { (1 << count) - 1 };
    lower_sectors(end) & !lower_sectors(first)
}

impl<M: Memory> Store<M> {
    /// Persists `count` sectors from `first`, as they are visible now.
    ///
    /// If a sector was written again while it was being destaged, its newer bytes are
    /// persisted, too: a drive may write newer bytes early. Sectors that are not cached do not change.
    pub fn persist(&mut self, first: u64, count: u64) {
        let capacity = self.header.capacity.0;
        let from = first.saturating_mul(SECTOR).min(capacity);
        let to = from.saturating_add(count.saturating_mul(SECTOR)).min(capacity);
        // From the last to the first, so that the free list returns slots in ascending order.
        let mut block = to.div_ceil(BLOCK);
        while block > from / BLOCK && self.header.cached > 0 {
            block -= 1;
            let Some(address) = self.entry_address(block) else {
                block -= block % PAGE_ENTRIES;
                continue;
            };
            let old = self.entry(address);
            if old.mask != 0 {
                let mask = old.mask & !sectors(block * BLOCK, from, to);
                let medium = if mask == 0 { Content::Untouched } else { old.medium };
                self.replace(address, old, Entry { visible: old.visible, medium, mask });
            }
        }
        self.header.update(&mut self.memory);
    }

    /// Persists all cached sectors.
    pub fn persist_all(&mut self) {
        if self.header.cached > 0 {
            self.persist(0, self.header.capacity.0 / SECTOR);
        }
    }

    /// Returns true if all visible bytes are on the medium.
    pub fn is_persisted(&self) -> bool {
        self.header.cached == 0
    }

    /// Passes every volatile range of bytes (first byte and length) to `out`, in ascending order; a power cut
    /// would lose these.
    pub fn volatile(&mut self, out: &mut dyn FnMut(u64, u64)) {
        let blocks = self.header.capacity.0.div_ceil(BLOCK);
        let mut range: Option<(u64, u64)> = None;
        let mut block = 0;
        while block < blocks {
            let Some(address) = self.entry_address(block) else {
                block = (block / PAGE_ENTRIES + 1) * PAGE_ENTRIES;
                continue;
            };
            let mask = self.entry(address).mask;
            for sector in (0..PER_BLOCK).filter(|sector| mask & (1 << sector) != 0) {
                let start = block * BLOCK + sector * SECTOR;
                range = match range {
                    Some((first, end)) if end == start => Some((first, start + SECTOR)),
                    finished => {
                        finished.into_iter().for_each(|(first, end)| out(first, end - first));
                        Some((start, start + SECTOR))
                    }
                };
            }
            block += 1;
        }
        range.into_iter().for_each(|(first, end)| out(first, end - first));
    }

    /// Returns the medium's content of a partly cached block.
    pub(super) fn medium_content(&mut self, entry: Entry) -> [u8; BLOCK as usize] {
        let mut bytes = [0; BLOCK as usize];
        for sector in 0..PER_BLOCK {
            let cached = entry.mask & (1 << sector) != 0;
            let content = if cached { entry.medium } else { entry.visible };
            let range = (sector * SECTOR) as usize..((sector + 1) * SECTOR) as usize;
            match content {
                Content::Untouched => {}
                Content::Repeated(byte) => bytes[range].fill(byte),
                Content::Slot(slot) => {
                    let from = self.header.offset_of(slot) + sector * SECTOR;
                    bytes[range].copy_from_slice(self.memory.slice(from, SECTOR as usize));
                }
            }
        }
        bytes
    }
}
