//! A phase in a bounded number of intervals of equal length: if there are too many,
//! each pair of adjacent intervals is merged.
//!
//! [`Timeline`] counts ops for the hot path, which only compares its clock with the end of the interval;
//! the ops since the last interval come from [`crate::progress::PhaseProgress`]. A [`Gauge`] holds values that
//! are sampled from outside at the end of each interval.

use fsdyno_record::Nanos;
use fsdyno_record::series::{MAX_INTERVALS, MIN_INTERVAL, MIN_SAMPLED_INTERVAL};

/// Counts of events in intervals from a start on.
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
    /// Creates an empty timeline that has not started, and allocates all its memory.
    pub fn new() -> Timeline {
        let counts = Vec::with_capacity(MAX_INTERVALS);
        Timeline { start: None, interval: MIN_INTERVAL, counts }
    }

    /// Starts the intervals at `start`, unless already started.
    pub fn begin(&mut self, start: Nanos) {
        self.start.get_or_insert(start);
    }

    /// Clears everything.
    pub fn clear(&mut self) {
        self.counts.clear();
        (self.start, self.interval) = (None, MIN_INTERVAL);
    }

    /// Returns the end of the interval that contains a time.
    pub fn interval_end(&mut self, time: Nanos) -> Nanos {
        let interval = self.index(time) as u64 + 1;
        self.start.unwrap_or_default() + Nanos(self.interval.0 * interval)
    }

    /// Counts events at a time.
    pub fn add(&mut self, time: Nanos, events: u64) {
        let index = self.index(time);
        if let Some(count) = self.counts.get_mut(index) {
            *count += events;
        }
    }

    /// Returns the index of the interval that contains a time; adds the interval if missing.
    fn index(&mut self, time: Nanos) -> usize {
        let elapsed = time.since(self.start.unwrap_or_default()).0;
        while elapsed / self.interval.0 >= MAX_INTERVALS as u64 {
            self.coarsen();
        }
        let index = (elapsed / self.interval.0) as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        index
    }

    /// Merges each pair of adjacent intervals.
    pub fn coarsen(&mut self) {
        let pairs = self.counts.len().div_ceil(2);
        for pair in 0..pairs {
            let second = self.counts.get(2 * pair + 1).copied().unwrap_or(0);
            self.counts[pair] = self.counts[2 * pair] + second;
        }
        self.counts.truncate(pairs);
        self.interval = self.interval + self.interval;
    }

    /// Adds the counts of another thread with the same start.
    pub fn merge(&mut self, other: &Timeline) {
        let mut other = other.clone();
        while self.interval < other.interval {
            self.coarsen();
        }
        while other.interval < self.interval {
            other.coarsen();
        }
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, added) in self.counts.iter_mut().zip(&other.counts) {
            *count += added;
        }
    }

    /// Returns the start of the first interval; `None` if not started.
    pub fn start(&self) -> Option<Nanos> {
        self.start
    }

    /// Returns the current length of an interval.
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// Returns the number of events in each interval, up to the last one in use.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

/// Values sampled at the ends of intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge<const N: usize> {
    interval: Nanos,
    samples: Vec<[u64; N]>,
}

impl<const N: usize> Default for Gauge<N> {
    fn default() -> Gauge<N> {
        Gauge { interval: MIN_SAMPLED_INTERVAL, samples: Vec::with_capacity(MAX_INTERVALS) }
    }
}

impl<const N: usize> Gauge<N> {
    /// Creates a gauge from samples taken at the end of each interval of this length.
    pub fn from_samples(interval: Nanos, samples: Vec<[u64; N]>) -> Gauge<N> {
        Gauge { interval, samples }
    }

    /// Returns the time of the next sample, from the start.
    pub fn next_sample(&self) -> Nanos {
        Nanos(self.interval.0 * (self.samples.len() as u64 + 1))
    }

    /// Adds a sample taken `elapsed` after the start; it also applies to earlier intervals that ended without one.
    pub fn add(&mut self, elapsed: Nanos, values: [u64; N]) {
        while elapsed >= self.next_sample() {
            if self.samples.len() == MAX_INTERVALS {
                self.coarsen();
                continue;
            }
            self.samples.push(values);
        }
    }

    /// Merges each pair of adjacent intervals: the sample at the end of the second applies to both.
    pub fn coarsen(&mut self) {
        let pairs = self.samples.len() / 2;
        for pair in 0..pairs {
            self.samples[pair] = self.samples[2 * pair + 1];
        }
        self.samples.truncate(pairs);
        self.interval = self.interval + self.interval;
    }

    /// Returns the current length of an interval.
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// Returns the samples at the end of each interval.
    pub fn samples(&self) -> &[[u64; N]] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn every_event_is_in_the_interval_of_its_time_in_a_phase_of_any_length() {
        let (mut timeline, start) = (Timeline::new(), 7 * MS);
        timeline.begin(Nanos(start));
        timeline.begin(Nanos(start + MS));
        // One event per millisecond, ten in each of the shortest intervals.
        for event in 0..2559 {
            timeline.add(Nanos(start + event * MS), 1);
        }
        assert_eq!((timeline.interval(), timeline.counts().len()), (MIN_INTERVAL, 256));
        assert_eq!(timeline.counts()[..255], [10; 255]);
        assert_eq!(timeline.interval_end(Nanos(start + 2559 * MS)), Nanos(start + 2560 * MS));
        // The first time beyond the maximum results in 129 intervals of twice the length.
        assert_eq!(timeline.interval_end(Nanos(start + 2560 * MS)), Nanos(start + 2580 * MS));
        assert_eq!(timeline.counts().len(), 129);
        assert_eq!(timeline.counts()[..128], [[20; 127].as_slice(), &[19]].concat());
        timeline.add(Nanos(start + 3600 * 1000 * MS), 5);
        assert!((128..=256).contains(&timeline.counts().len()), "{}", timeline.counts().len());
        assert_eq!(timeline.counts().iter().sum::<u64>(), 2559 + 5);
    }

    #[test]
    fn threads_with_unequal_intervals_are_added_by_time() {
        let [mut long, mut short] = [(); 2].map(|()| {
            let mut timeline = Timeline::new();
            timeline.begin(Nanos(MS));
            timeline
        });
        for event in 0..100 {
            long.add(Nanos(MS + event * 100 * MS), 1);
            short.add(Nanos(MS + event * 10 * MS), 1);
        }
        let both = [(&long, &short), (&short, &long)].map(|(first, second)| {
            let mut sum = first.clone();
            sum.merge(second);
            (sum.interval(), sum.counts().to_vec())
        });
        assert_eq!(both[0], both[1]);
        assert_eq!(both[0].0, long.interval());
        assert_eq!(both[0].1.iter().sum::<u64>(), 200);
        // The first second has all events of the short timeline, and ten of the long one.
        let first = 1000 * MS / both[0].0.0;
        assert_eq!(both[0].1[..first as usize].iter().sum::<u64>(), 110);
    }

    #[test]
    fn a_gauge_holds_the_sample_at_the_end_of_each_interval() {
        let mut gauge = Gauge::<1>::default();
        let mut samples = 0;
        let hour = 3600 * 1000 * MS;
        while gauge.next_sample().0 < hour {
            let now = gauge.next_sample().0;
            // Slightly late, as after a sleep.
            gauge.add(Nanos(now + 1000), [now]);
            samples += 1;
        }
        assert!((128..=256).contains(&gauge.samples().len()));
        let interval = gauge.interval().0;
        for (index, [value]) in gauge.samples().iter().enumerate() {
            assert_eq!(*value, interval * (index as u64 + 1));
        }
        // 256 samples until the first doubling, 128 between two later ones.
        assert!(samples < 256 + 128 * 12, "{samples}");
    }

    #[test]
    fn intervals_without_a_sample_get_the_next_sample() {
        let mut gauge = Gauge::<2>::default();
        gauge.add(Nanos(39 * MS), [1, 1]);
        assert!(gauge.samples().is_empty(), "before the first end");
        gauge.add(Nanos(125 * MS), [2, 3]);
        assert_eq!(gauge.samples(), [[2, 3]; 3]);
        assert_eq!(gauge.next_sample(), Nanos(160 * MS));
    }
}
