//! The drive's read segments and read-ahead.

/// A range of sectors in the drive's memory, or empty if start and end are equal.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
}

/// A fixed number of read segments with least-recently-used replacement.
#[derive(Debug)]
pub struct ReadCache {
    segments: Vec<Segment>,
    /// Sectors that one segment holds.
    length: u64,
    /// The segment of the last read, which read-ahead extends.
    current: Option<usize>,
    /// True if the last read continued an earlier one.
    sequential: bool,
    /// End of the last read.
    consumed: u64,
    uses: u64,
}

impl ReadCache {
    /// Creates `count` empty segments of `length` sectors.
    pub fn new(count: u32, length: u64) -> ReadCache {
        let segments = vec![Segment::default(); count.max(1) as usize];
        ReadCache { segments, length, current: None, sequential: false, consumed: 0, uses: 0 }
    }

    /// Returns true if all sectors of a read are cached; if so, marks them as read.
    pub fn hit(&mut self, start: u64, end: u64) -> bool {
        let Some(at) = self.find(start).filter(|at| end <= self.segments[*at].end) else {
            return false;
        };
        self.use_segment(at, end);
        self.sequential = true;
        true
    }

    /// Returns the first missing sector of a read.
    pub fn missing_from(&self, start: u64, end: u64) -> u64 {
        self.find(start).map_or(start, |at| self.segments[at].end.min(end))
    }

    /// Adds a read from the platter: it extends the segment that ends at `from`, or replaces the least recently
    /// used segment.
    pub fn add(&mut self, start: u64, from: u64, end: u64) {
        let before = self.segments.iter().position(|s| s.end == from && s.start < from);
        self.sequential = before.is_some();
        let at = before.unwrap_or_else(|| self.oldest_index());
        if before.is_none() {
            self.segments[at] = Segment { start, end, used: 0 };
        }
        self.set_end(at, end);
        self.use_segment(at, end);
    }

    /// Adds `count` sectors from `first` that were read ahead.
    pub fn extend(&mut self, first: u64, count: u64) {
        if let Some(at) = self.current.filter(|at| self.segments[*at].end == first) {
            self.set_end(at, first + count);
        }
    }

    /// Drops the sectors that a write covers and all later ones of the segment; earlier ones are kept.
    pub fn forget(&mut self, start: u64, end: u64) {
        for (at, segment) in self.segments.iter_mut().enumerate() {
            if segment.start < end && start < segment.end {
                segment.end = start.max(segment.start);
                if self.current == Some(at) {
                    self.current = None;
                }
            }
        }
    }

    /// Returns true if the last read continued an earlier one.
    pub fn is_sequential(&self) -> bool {
        self.sequential
    }

    /// Returns the first sector and the number of sectors to read ahead, or `None` if less than half a segment is
    /// free.
    pub fn read_ahead(&self, sectors_of_disk: u64) -> Option<(u64, u64)> {
        let first = self.segments[self.current?].end;
        let target = (self.consumed + self.length).min(sectors_of_disk);
        let count = target.saturating_sub(first);
        (count > 0 && count >= self.length / 2).then_some((first, count))
    }

    fn find(&self, sector: u64) -> Option<usize> {
        self.segments.iter().position(|s| s.start <= sector && sector < s.end)
    }

    fn oldest_index(&self) -> usize {
        let ages = self.segments.iter().enumerate();
        ages.min_by_key(|(_, segment)| segment.used).map_or(0, |(at, _)| at)
    }

    fn set_end(&mut self, at: usize, end: u64) {
        let segment = &mut self.segments[at];
        segment.end = end;
        segment.start = segment.start.max(end.saturating_sub(self.length));
    }

    fn use_segment(&mut self, at: usize, consumed: u64) {
        self.uses += 1;
        self.segments[at].used = self.uses;
        self.current = Some(at);
        self.consumed = consumed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequential_read_extends_its_segment_and_a_write_cuts_it() {
        let mut cache = ReadCache::new(2, 100);
        cache.add(10, 10, 20);
        assert!(!cache.is_sequential());
        assert_eq!(cache.read_ahead(1000), Some((20, 100)));
        cache.extend(20, 50);
        assert!(cache.hit(20, 30) && !cache.hit(60, 80));
        assert_eq!(cache.missing_from(60, 80), 70);
        cache.add(60, 70, 80);
        assert!(cache.is_sequential() && cache.hit(10, 80));
        cache.forget(40, 41);
        assert!(cache.hit(10, 40) && !cache.hit(30, 41));
    }

    #[test]
    fn the_least_recently_used_segment_is_replaced() {
        let mut cache = ReadCache::new(2, 100);
        cache.add(0, 0, 8);
        cache.add(500, 500, 508);
        assert!(cache.hit(0, 8));
        cache.add(900, 900, 908);
        assert!(cache.hit(0, 8) && !cache.hit(500, 508));
    }

    #[test]
    fn nothing_is_read_ahead_beyond_the_end_of_the_disk() {
        let mut cache = ReadCache::new(1, 100);
        cache.add(0, 0, 40);
        assert_eq!(cache.read_ahead(130), Some((40, 90)));
        assert_eq!(cache.read_ahead(40), None);
    }
}
