//! The volatile write cache: extents sorted by sector, of which those nearest to the head are
//! candidates for destaging.

use std::collections::VecDeque;

use super::geometry::{Geometry, Position};

/// Maximum number of cached extents. An estimate: no manufacturer publishes it. It limits the bytes that
/// an insertion moves to 16 KiB, about 2,000 instructions at worst. A profile can set fewer (`write_extents`).
pub const MAX_EXTENTS: usize = 4096;

/// Extents considered on either side of the head. Shortest access first would consider all of them; those
/// far away by sector are far away by cylinder too, so the best is nearly always among these.
const NEIGHBOURS: usize = 32;

/// A range of dirty sectors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    /// First sector.
    pub first: u64,
    /// One past the last sector.
    pub end: u64,
    /// Number of flushes before the oldest write in it.
    pub epoch: u64,
    /// Position of the first sector.
    pub position: Position,
}

/// A part of an extent that is being destaged.
#[derive(Clone, Copy, Debug)]
pub struct DestageRun {
    /// First sector.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u64,
    epoch: u64,
}

/// The cache. Extents never overlap.
#[derive(Debug)]
pub struct WriteCache {
    extents: Vec<Extent>,
    free: Vec<u32>,
    /// Indices into `extents`, sorted by first sector.
    order: Vec<u32>,
    /// The run that the arm is currently writing.
    running: Option<DestageRun>,
    limit: u64,
    /// Maximum number of extents, including reservations.
    max_extents: usize,
    dirty: u64,
    reserved: u64,
    reservations: usize,
    /// Epoch of the first entry of `counts`.
    oldest: u64,
    /// Number of extents and runs being written, for each epoch from `oldest` to the current one.
    counts: VecDeque<u32>,
}

impl WriteCache {
    /// Creates an empty cache of `limit` sectors and `extents` extents (0: [`MAX_EXTENTS`]), for at most
    /// `flushes` flushes at a time.
    pub fn new(limit: u64, extents: u32, flushes: u32) -> WriteCache {
        let mut counts = VecDeque::with_capacity(flushes as usize + 2);
        counts.push_back(0);
        WriteCache {
            extents: vec![Extent::default(); MAX_EXTENTS],
            free: (0..MAX_EXTENTS as u32).rev().collect(),
            order: Vec::with_capacity(MAX_EXTENTS),
            running: None,
            limit,
            max_extents: if extents == 0 { MAX_EXTENTS } else { MAX_EXTENTS.min(extents as usize) },
            dirty: 0,
            reserved: 0,
            reservations: 0,
            oldest: 0,
            counts,
        }
    }

    /// Returns the maximum size of a cached write, in sectors.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number of sectors not yet persisted.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Returns true if an extent is waiting to be destaged.
    pub fn has_extents(&self) -> bool {
        !self.order.is_empty()
    }

    /// Returns true if so little space is left that destaging is urgent.
    pub fn is_nearly_full(&self) -> bool {
        self.dirty * 4 >= self.limit * 3 || self.order.len() * 4 >= self.max_extents * 3
    }

    /// Reserves space for a write of `sectors`; returns false if there is none.
    pub fn reserve(&mut self, sectors: u64) -> bool {
        let fits = self.dirty + self.reserved + sectors <= self.limit
            && self.order.len() + self.reservations < self.max_extents;
        if fits {
            self.reserved += sectors;
            self.reservations += 1;
        }
        fits
    }

    /// Inserts a write that has a reservation.
    ///
    /// The write is merged with every extent that it overlaps, and with adjacent ones that no flush separates
    /// from it, so that one run can write them together.
    pub fn insert(&mut self, first: u64, end: u64, geometry: &Geometry) {
        self.reserved = self.reserved.saturating_sub(end - first);
        self.reservations = self.reservations.saturating_sub(1);
        let now = self.epoch();
        let mut whole = Extent { first, end, epoch: now, position: Position::default() };
        // The first extent that ends at `first` or later, and the last that starts by `end`.
        let mut from = self.order.partition_point(|at| self.extents[*at as usize].end < first);
        let mut to = from;
        while let Some(extent) = self.extent(to).filter(|extent| extent.first <= end) {
            let touches = extent.end == first || extent.first == end;
            if touches && extent.epoch != now {
                // It stays separate. One that ends at `first` is the first, one that starts at `end` the last.
                if extent.end == first {
                    from += 1;
                    to += 1;
                    continue;
                }
                break;
            }
            whole.first = whole.first.min(extent.first);
            whole.end = whole.end.max(extent.end);
            whole.epoch = whole.epoch.min(extent.epoch);
            to += 1;
        }
        for at in from..to {
            let index = self.order[at];
            let old = self.extents[index as usize];
            self.dirty -= old.end - old.first;
            self.count(old.epoch, -1);
            self.free.push(index);
        }
        whole.position = geometry.locate(whole.first);
        self.dirty += whole.end - whole.first;
        self.count(whole.epoch, 1);
        // A slot is free: the write has a reservation.
        if let Some(index) = self.free.pop() {
            self.extents[index as usize] = whole;
            self.order.splice(from..to, [index]);
        }
    }

    /// Returns true if all sectors of a read are in one dirty extent, or in the run being written.
    pub fn hit(&self, first: u64, end: u64) -> bool {
        let at = self.order.partition_point(|at| self.extents[*at as usize].end <= first);
        let waits =
            self.extent(at).is_some_and(|extent| extent.first <= first && end <= extent.end);
        let is_running = |run: DestageRun| run.first <= first && end <= run.first + run.sectors;
        waits || self.running.is_some_and(is_running)
    }

    /// Returns the extent with minimum `cost` among those nearest to `sector` that were written in `epoch` or
    /// before, and its cost. If any such extent exists, one is found.
    pub fn nearest(
        &self,
        sector: u64,
        epoch: u64,
        cost: impl Fn(&Extent) -> u64,
    ) -> Option<(usize, u64)> {
        let middle = self.order.partition_point(|at| self.extents[*at as usize].first < sector);
        let mut best: Option<(usize, u64)> = None;
        let mut consider = |at: usize| -> bool {
            let Some(extent) = self.extent(at).filter(|extent| extent.epoch <= epoch) else {
                return false;
            };
            let cost = cost(extent);
            if best.is_none_or(|best| cost < best.1) {
                best = Some((at, cost));
            }
            true
        };
        let above = (middle..self.order.len()).take(4 * NEIGHBOURS);
        let below = (0..middle).rev().take(4 * NEIGHBOURS);
        let found = above.filter(|at| consider(*at)).take(NEIGHBOURS).count()
            + below.filter(|at| consider(*at)).take(NEIGHBOURS).count();
        if found == 0 {
            // All nearby extents are newer than the waiting flush.
            (0..self.order.len()).any(consider);
        }
        best
    }

    /// Starts to destage up to `max_sectors` sectors from the front of the extent at index `at`.
    pub fn take(&mut self, at: usize, max_sectors: u64, geometry: &Geometry) -> DestageRun {
        let index = self.order[at];
        let extent = &mut self.extents[index as usize];
        let sectors = (extent.end - extent.first).min(max_sectors);
        let run = DestageRun { first: extent.first, sectors, epoch: extent.epoch };
        self.running = Some(run);
        extent.first += sectors;
        if extent.first == extent.end {
            self.order.remove(at);
            self.free.push(index);
        } else {
            extent.position = geometry.locate(extent.first);
            // The rest of the extent and the run are counted separately.
            self.count(run.epoch, 1);
        }
        run
    }

    /// Marks a run as persisted.
    pub fn finish(&mut self, run: DestageRun) {
        self.running = None;
        self.dirty -= run.sectors;
        self.count(run.epoch, -1);
        self.drop_empty_epochs();
    }

    /// Returns the current epoch of writes.
    pub fn epoch(&self) -> u64 {
        self.oldest + self.counts.len() as u64 - 1
    }

    /// Begins a new epoch and returns the previous one, for which a flush waits.
    pub fn begin_epoch(&mut self) -> u64 {
        let epoch = self.epoch();
        self.counts.push_back(0);
        self.drop_empty_epochs();
        epoch
    }

    /// Returns true if all writes of `epoch` or earlier are persisted.
    pub fn is_settled(&self, epoch: u64) -> bool {
        self.oldest > epoch
    }

    fn extent(&self, at: usize) -> Option<&Extent> {
        self.order.get(at).map(|index| &self.extents[*index as usize])
    }

    fn count(&mut self, epoch: u64, change: i32) {
        let at = epoch.saturating_sub(self.oldest) as usize;
        if let Some(count) = self.counts.get_mut(at) {
            *count = count.saturating_add_signed(change);
        }
    }

    fn drop_empty_epochs(&mut self) {
        while self.counts.len() > 1 && self.counts.front() == Some(&0) {
            self.counts.pop_front();
            self.oldest += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use crate::models::Model;

    fn geometry() -> Geometry {
        let spec = catalog::get("hdd-7200").unwrap();
        let Model::Hdd(hdd) = &spec.model else { panic!("hdd-7200 is not a hard disk") };
        Geometry::new(hdd, spec.capacity.0 / 512, 0)
    }

    fn write(cache: &mut WriteCache, first: u64, end: u64) {
        assert!(cache.reserve(end - first));
        cache.insert(first, end, &geometry());
    }

    fn extents(cache: &WriteCache) -> Vec<(u64, u64, u64)> {
        let extents = cache.order.iter().map(|at| cache.extents[*at as usize]);
        extents.map(|extent| (extent.first, extent.end, extent.epoch)).collect()
    }

    #[test]
    fn writes_that_overlap_or_touch_become_one_extent() {
        let mut cache = WriteCache::new(1000, 0, 1);
        write(&mut cache, 100, 108);
        write(&mut cache, 116, 124);
        assert_eq!(extents(&cache), [(100, 108, 0), (116, 124, 0)]);
        write(&mut cache, 108, 116);
        write(&mut cache, 96, 104);
        write(&mut cache, 120, 122);
        assert_eq!((extents(&cache), cache.dirty()), (vec![(96, 124, 0)], 28));
        assert!(cache.hit(96, 124) && !cache.hit(95, 100) && !cache.hit(120, 125));
    }

    #[test]
    fn a_flush_separates_adjacent_extents_and_waits_only_for_older_ones() {
        let mut cache = WriteCache::new(1000, 0, 1);
        write(&mut cache, 100, 108);
        let flush = cache.begin_epoch();
        write(&mut cache, 108, 116);
        write(&mut cache, 92, 100);
        assert_eq!(extents(&cache), [(92, 100, 1), (100, 108, 0), (108, 116, 1)]);
        let (at, _) = cache.nearest(0, flush, |extent| extent.first).unwrap();
        assert_eq!(at, 1, "a younger extent was offered to the flush");
        let run = cache.take(at, 4, &geometry());
        cache.finish(run);
        assert!(!cache.is_settled(flush), "half an extent is left");
        let (at, _) = cache.nearest(0, flush, |extent| extent.first).unwrap();
        let run = cache.take(at, 100, &geometry());
        assert!(!cache.is_settled(flush), "the rest is still being written");
        assert!(cache.hit(104, 108), "sectors being written are still in memory");
        cache.finish(run);
        assert!(cache.is_settled(flush));
        assert_eq!(cache.dirty(), 16);
    }

    #[test]
    fn space_is_bounded_by_sectors_and_by_entries() {
        let mut cache = WriteCache::new(16, 0, 1);
        assert!(cache.reserve(10) && !cache.reserve(7) && cache.reserve(6));
        let mut cache = WriteCache::new(u64::MAX / 8, 0, 1);
        (0..MAX_EXTENTS as u64).for_each(|at| write(&mut cache, at * 16, at * 16 + 8));
        assert!(!cache.reserve(1));
        let run = cache.take(7, 8, &geometry());
        cache.finish(run);
        write(&mut cache, 10, 12);
        assert!(!cache.reserve(1));
        let mut cache = WriteCache::new(1000, 2, 1);
        write(&mut cache, 100, 108);
        write(&mut cache, 200, 208);
        assert!(!cache.reserve(1), "a third extent was accepted in a cache of two");
    }
}
