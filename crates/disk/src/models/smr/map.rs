//! The map of the media cache: the sectors whose newest content is there, and the bands to clean.
//!
//! Entries are found by their 1 MiB chunk; none crosses a chunk boundary. Bands with entries form
//! a queue in the order in which they became dirty.

/// Sectors of a chunk, 1 MiB.
pub const CHUNK: u64 = 2048;
/// Maximum number of entries.
pub const MAX_ENTRIES: usize = 1 << 20;
const NONE: u32 = u32::MAX;

/// A range of sectors in the media cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The first sector.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Position of the first sector in the log, counted from the drive's first write and never wrapped.
    pub at: u64,
    next: u32,
}

impl Entry {
    /// Returns one past the last sector.
    pub fn end(&self) -> u64 {
        self.first + self.sectors
    }

    /// Returns the part of the entry from `first` to before `end`, if any.
    pub fn part(&self, first: u64, end: u64) -> Option<Entry> {
        let (from, to) = (self.first.max(first), self.end().min(end));
        let at = self.at + from.saturating_sub(self.first);
        (from < to).then(|| Entry { first: from, sectors: to - from, at, next: NONE })
    }
}

/// The map.
#[derive(Debug)]
pub struct Map {
    entries: Vec<Entry>,
    /// First free entry; free entries are linked by `next`.
    free: u32,
    used: usize,
    max_entries: usize,
    /// First entry for each hash of a chunk; the others are linked by `next`.
    heads: Vec<u32>,
    /// Sectors in the media cache.
    live: u64,
    /// Sectors of a band.
    band: u64,
    /// The next band in the queue after each dirty band; `NONE` for the last one and for clean ones.
    following: Vec<u32>,
    dirty: Vec<u64>,
    oldest: u32,
    newest: u32,
}

impl Map {
    /// Creates an empty map of `max_entries` entries for a disk of `sectors` sectors in bands of `band`.
    pub fn new(max_entries: usize, sectors: u64, band: u64) -> Map {
        let bands = sectors.div_ceil(band) as usize;
        let linked = (1..=max_entries as u32).map(|next| Entry {
            next: if next as usize == max_entries { NONE } else { next },
            ..Entry::default()
        });
        Map {
            entries: linked.collect(),
            free: 0,
            used: 0,
            max_entries,
            heads: vec![NONE; (max_entries / 2).next_power_of_two()],
            live: 0,
            band,
            following: vec![NONE; bands],
            dirty: vec![0; bands.div_ceil(64)],
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Returns the number of entries that can still be added.
    pub fn room(&self) -> usize {
        self.max_entries - self.used
    }

    /// Returns the number of sectors in the media cache.
    pub fn live_sectors(&self) -> u64 {
        self.live
    }

    /// Returns the band that has been dirty for the longest time.
    pub fn oldest_band(&self) -> Option<u64> {
        (self.oldest != NONE).then_some(self.oldest.into())
    }

    /// Removes the oldest band from the queue.
    pub fn pop_band(&mut self) {
        let Some(band) = self.oldest_band() else { return };
        self.oldest = self.following[band as usize];
        if self.oldest == NONE {
            self.newest = NONE;
        }
        self.following[band as usize] = NONE;
        self.dirty[(band / 64) as usize] &= !(1 << (band % 64));
    }

    /// Adds a band to the queue, unless it is already in it.
    pub fn push_band(&mut self, band: u64) {
        let Some(word) = self.dirty.get_mut((band / 64) as usize) else { return };
        if *word & (1 << (band % 64)) != 0 {
            return;
        }
        *word |= 1 << (band % 64);
        match self.newest {
            NONE => self.oldest = band as u32,
            newest => self.following[newest as usize] = band as u32,
        }
        self.newest = band as u32;
    }

    /// Maps the sectors from `first` to before `end` to the log from `at` on. The map must have room for two entries
    /// per chunk that they touch.
    pub fn insert(&mut self, first: u64, end: u64, at: u64) {
        self.remove(first, end);
        let mut from = first;
        while from < end {
            let to = end.min((from / CHUNK + 1) * CHUNK);
            self.add(Entry {
                first: from,
                sectors: to - from,
                at: at + (from - first),
                next: NONE,
            });
            self.push_band(from / self.band);
            from = to;
        }
    }

    /// Removes the sectors from `first` to before `end`.
    pub fn remove(&mut self, first: u64, end: u64) {
        let mut chunk = first / CHUNK;
        while self.used > 0 && chunk * CHUNK < end {
            let bucket = self.bucket(chunk);
            let (mut before, mut index) = (NONE, self.heads[bucket]);
            while index != NONE {
                let entry = self.entries[index as usize];
                let next = entry.next;
                if entry.first / CHUNK != chunk || entry.part(first, end).is_none() {
                    before = index;
                } else {
                    self.unlink(bucket, before, index);
                    // The rest of the entry moves to the head of the list, where it is not visited again.
                    let mut added = NONE;
                    let rests = [entry.part(entry.first, first), entry.part(end, entry.end())];
                    for rest in rests.into_iter().flatten() {
                        self.add(rest);
                        added = if added == NONE { self.heads[bucket] } else { added };
                    }
                    before = if before == NONE { added } else { before };
                }
                index = next;
            }
            chunk += 1;
        }
    }

    /// Calls `visit` with each part of the range from `first` to before `end` that is in the media cache.
    pub fn visit_range(&self, first: u64, end: u64, mut visit: impl FnMut(Entry)) {
        let mut chunk = first / CHUNK;
        while self.used > 0 && chunk * CHUNK < end {
            let mut index = self.heads[self.bucket(chunk)];
            while index != NONE {
                let entry = self.entries[index as usize];
                if entry.first / CHUNK == chunk {
                    if let Some(part) = entry.part(first, end) {
                        visit(part);
                    }
                }
                index = entry.next;
            }
            chunk += 1;
        }
    }

    fn bucket(&self, chunk: u64) -> usize {
        // Fibonacci hashing: consecutive chunks are spread over all buckets.
        let hash = chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        hash as usize & (self.heads.len() - 1)
    }

    fn add(&mut self, entry: Entry) {
        let index = self.free;
        let Some(slot) = self.entries.get_mut(index as usize) else { return };
        self.free = slot.next;
        let bucket = self.bucket(entry.first / CHUNK);
        self.entries[index as usize] = Entry { next: self.heads[bucket], ..entry };
        self.heads[bucket] = index;
        self.used += 1;
        self.live += entry.sectors;
    }

    fn unlink(&mut self, bucket: usize, before: u32, index: u32) {
        let entry = self.entries[index as usize];
        match before {
            NONE => self.heads[bucket] = entry.next,
            before => self.entries[before as usize].next = entry.next,
        }
        self.entries[index as usize].next = self.free;
        self.free = index;
        self.used -= 1;
        self.live -= entry.sectors;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fsdyno_record::seed::SplitMix64;

    use super::*;

    #[test]
    fn the_map_agrees_with_a_map_of_single_sectors() {
        let mut map = Map::new(4096, 64 * CHUNK, 4 * CHUNK);
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut draws, mut at) = (SplitMix64::new(3), 0);
        for _ in 0..3000 {
            let first = draws.below(8 * CHUNK);
            let longest = if draws.below(4) == 0 { 3000 } else { 40 };
            let end = first + 1 + draws.below(longest);
            if draws.below(5) == 0 || map.room() < 100 {
                map.remove(first, end);
                (first..end).for_each(|sector| {
                    model.remove(&sector);
                });
            } else {
                map.insert(first, end, at);
                (first..end).for_each(|sector| {
                    model.insert(sector, at + sector - first);
                });
                at += end - first;
            }
            assert_eq!(map.live_sectors(), model.len() as u64);
        }
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        map.visit_range(0, 64 * CHUNK, |entry| {
            for at in 0..entry.sectors {
                assert_eq!(found.insert(entry.first + at, entry.at + at), None);
            }
        });
        assert_eq!(found, model);
    }

    #[test]
    fn bands_are_cleaned_in_the_order_in_which_they_became_dirty() {
        let mut map = Map::new(64, 64 * CHUNK, 4 * CHUNK);
        for band in [5, 2, 5, 9] {
            map.insert(band * 4 * CHUNK, band * 4 * CHUNK + 8, 0);
        }
        let mut order = Vec::new();
        while let Some(band) = map.oldest_band() {
            order.push(band);
            map.pop_band();
        }
        assert_eq!(order, [5, 2, 9]);
        map.push_band(2);
        assert_eq!(map.oldest_band(), Some(2));
    }
}
