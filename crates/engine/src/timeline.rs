//! A phase in intervals of one length, for which there is always room: when they have become too many,
//! each two neighbours become one.
//!
//! [`Timeline`] counts ops for the hot path, which only compares its clock with the end of the interval;
//! how many ops there were since the last end is asked of the [`crate::board::Board`], which knows. What
//! is looked at from outside at the end of each interval is a [`Gauge`].

use fsdyno_record::Nanos;
use fsdyno_record::series::{MAX_INTERVALS, SHORTEST_INTERVAL, SHORTEST_SAMPLED};

/// Counts of events in intervals since a moment.
#[derive(Clone, Debug)]
pub struct Timeline {
    start: Option<Nanos>,
    interval: Nanos,
    counts: Vec<u64>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline::new()
    }
}

impl Timeline {
    /// Nothing counted yet, nor begun. All memory that it will need is there.
    pub fn new() -> Timeline {
        let counts = Vec::with_capacity(MAX_INTERVALS);
        Timeline { start: None, interval: SHORTEST_INTERVAL, counts }
    }

    /// Intervals are counted from `start`, if they are not from an earlier moment.
    pub fn begin(&mut self, start: Nanos) {
        self.start.get_or_insert(start);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.clear();
        (self.start, self.interval) = (None, SHORTEST_INTERVAL);
    }

    /// When the interval ends that a moment is in.
    pub fn edge(&mut self, at: Nanos) -> Nanos {
        let interval = self.place(at) as u64 + 1;
        self.start.unwrap_or_default() + Nanos(self.interval.0 * interval)
    }

    /// Counts events of one moment.
    pub fn add(&mut self, at: Nanos, events: u64) {
        let place = self.place(at);
        if let Some(count) = self.counts.get_mut(place) {
            *count += events;
        }
    }

    /// Which interval a moment is in; there is one then.
    fn place(&mut self, at: Nanos) -> usize {
        let since = at.since(self.start.unwrap_or_default()).0;
        while since / self.interval.0 >= MAX_INTERVALS as u64 {
            self.coarsen();
        }
        let place = (since / self.interval.0) as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        place
    }

    /// Makes one interval of each two.
    pub fn coarsen(&mut self) {
        let pairs = self.counts.len().div_ceil(2);
        for pair in 0..pairs {
            let second = self.counts.get(2 * pair + 1).copied().unwrap_or(0);
            self.counts[pair] = self.counts[2 * pair] + second;
        }
        self.counts.truncate(pairs);
        self.interval = self.interval + self.interval;
    }

    /// Adds what another thread has counted since the same moment.
    pub fn merge(&mut self, other: &Timeline) {
        let mut other = other.clone();
        while self.interval < other.interval {
            self.coarsen();
        }
        while other.interval < self.interval {
            other.coarsen();
        }
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// Since when intervals are counted; none where nothing has begun.
    pub fn start(&self) -> Option<Nanos> {
        self.start
    }

    /// How long an interval is now.
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// How many events there were in each interval, up to the last that had any moment.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

/// Values that were seen at the ends of intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge<const N: usize> {
    interval: Nanos,
    seen: Vec<[u64; N]>,
}

impl<const N: usize> Default for Gauge<N> {
    fn default() -> Gauge<N> {
        Gauge { interval: SHORTEST_SAMPLED, seen: Vec::with_capacity(MAX_INTERVALS) }
    }
}

impl<const N: usize> Gauge<N> {
    /// What was seen, at the end of each interval of this length.
    pub fn of(interval: Nanos, seen: Vec<[u64; N]>) -> Gauge<N> {
        Gauge { interval, seen }
    }

    /// When to look next, from the start.
    pub fn next(&self) -> Nanos {
        Nanos(self.interval.0 * (self.seen.len() as u64 + 1))
    }

    /// What is seen so long after the start: it holds for all ends that have passed and were not seen.
    pub fn see(&mut self, since: Nanos, values: [u64; N]) {
        while since >= self.next() {
            if self.seen.len() == MAX_INTERVALS {
                self.coarsen();
                continue;
            }
            self.seen.push(values);
        }
    }

    /// Makes one interval of each two: what was seen at the end of the second holds for both.
    pub fn coarsen(&mut self) {
        let pairs = self.seen.len() / 2;
        for pair in 0..pairs {
            self.seen[pair] = self.seen[2 * pair + 1];
        }
        self.seen.truncate(pairs);
        self.interval = self.interval + self.interval;
    }

    /// How long an interval is now.
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// What was seen at the end of each interval.
    pub fn seen(&self) -> &[[u64; N]] {
        &self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn every_event_is_in_the_interval_of_its_moment_however_long_it_goes_on() {
        let (mut timeline, start) = (Timeline::new(), 7 * MS);
        timeline.begin(Nanos(start));
        timeline.begin(Nanos(start + MS));
        // One event a millisecond, ten in each of the shortest intervals.
        for event in 0..2559 {
            timeline.add(Nanos(start + event * MS), 1);
        }
        assert_eq!((timeline.interval(), timeline.counts().len()), (SHORTEST_INTERVAL, 256));
        assert_eq!(timeline.counts()[..255], [10; 255]);
        assert_eq!(timeline.edge(Nanos(start + 2559 * MS)), Nanos(start + 2560 * MS));
        // The first moment for which there is no room makes 129 intervals of twice the length.
        assert_eq!(timeline.edge(Nanos(start + 2560 * MS)), Nanos(start + 2580 * MS));
        assert_eq!(timeline.counts().len(), 129);
        assert_eq!(timeline.counts()[..128], [[20; 127].as_slice(), &[19]].concat());
        timeline.add(Nanos(start + 3600 * 1000 * MS), 5);
        assert!((128..=256).contains(&timeline.counts().len()), "{}", timeline.counts().len());
        assert_eq!(timeline.counts().iter().sum::<u64>(), 2559 + 5);
    }

    #[test]
    fn threads_that_came_unequally_far_are_added_by_moment() {
        let [mut long, mut short] = [(); 2].map(|()| {
            let mut timeline = Timeline::new();
            timeline.begin(Nanos(MS));
            timeline
        });
        for event in 0..100 {
            long.add(Nanos(MS + event * 100 * MS), 1);
            short.add(Nanos(MS + event * 10 * MS), 1);
        }
        let both = [(&long, &short), (&short, &long)].map(|(one, other)| {
            let mut sum = one.clone();
            sum.merge(other);
            (sum.interval(), sum.counts().to_vec())
        });
        assert_eq!(both[0], both[1]);
        assert_eq!(both[0].0, long.interval());
        assert_eq!(both[0].1.iter().sum::<u64>(), 200);
        // Within the first second all events of the short one, and ten of the long one's.
        let first = 1000 * MS / both[0].0.0;
        assert_eq!(both[0].1[..first as usize].iter().sum::<u64>(), 110);
    }

    #[test]
    fn a_gauge_keeps_what_was_seen_at_the_end_of_each_interval() {
        let mut gauge = Gauge::<1>::default();
        let mut looks = 0;
        let hour = 3600 * 1000 * MS;
        while gauge.next().0 < hour {
            let now = gauge.next().0;
            // A little late, as a sleeper is.
            gauge.see(Nanos(now + 1000), [now]);
            looks += 1;
        }
        assert!((128..=256).contains(&gauge.seen().len()));
        let interval = gauge.interval().0;
        for (at, [seen]) in gauge.seen().iter().enumerate() {
            assert_eq!(*seen, interval * (at as u64 + 1));
        }
        // 256 looks until each doubling, 128 between two of them.
        assert!(looks < 256 + 128 * 12, "{looks}");
    }

    #[test]
    fn ends_that_were_slept_through_hold_what_was_seen_next() {
        let mut gauge = Gauge::<2>::default();
        gauge.see(Nanos(39 * MS), [1, 1]);
        assert!(gauge.seen().is_empty(), "before the first end");
        gauge.see(Nanos(125 * MS), [2, 3]);
        assert_eq!(gauge.seen(), [[2, 3]; 3]);
        assert_eq!(gauge.next(), Nanos(160 * MS));
    }
}
