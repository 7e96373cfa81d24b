//! A latency histogram of fixed size and bounded relative error, cheap enough for every op.
//!
//! The buckets are log-linear, as in HdrHistogram (G. Tene): each power of two is divided into 64 equal buckets, so a
//! bucket is never wider than 1/64 of the values in it. Values below 128 have a bucket each. A percentile is therefore
//! never too low and at most 1/64 (1.6 %) too high, both for a single histogram and for any number of merged ones:
//! merging adds counts but no error.

/// Number of bits that select the bucket within its octave: 2^6 = 64 buckets.
const SUB_BITS: u32 = 6;

/// Number of buckets that cover every `u64`: 58 octaves of 64, and 64 exact ones.
const BUCKETS: usize = 3776;

/// Counts of latencies in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Empty until the first count, because a thread has a histogram for each kind of op but uses few of them;
    /// afterwards one counter per bucket (30 KiB).
    buckets: Box<[u64]>,
    total: u64,
    max: u64,
}

/// Two histograms are equal if their counts are, whether or not they have allocated memory.
impl PartialEq for Histogram {
    fn eq(&self, other: &Histogram) -> bool {
        let totals = |histogram: &Histogram| (histogram.total, histogram.max);
        totals(self) == totals(other) && self.buckets() == other.buckets()
    }
}

impl Eq for Histogram {}

impl Histogram {
    /// Creates an empty histogram that has not allocated memory.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Allocates the buckets.
    fn allocate(&mut self) {
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS].into_boxed_slice();
        }
    }

    /// Counts one latency in nanoseconds; the first call allocates.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        match self.buckets.get_mut(bucket_of(ns)) {
            Some(bucket) => *bucket += 1,
            None => self.record_first(ns),
        }
        // A sum of 584 years fits.
        self.total = self.total.wrapping_add(ns);
        self.max = self.max.max(ns);
    }

    #[cold]
    #[inline(never)]
    fn record_first(&mut self, ns: u64) {
        self.allocate();
        self.buckets[bucket_of(ns)] += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.buckets.is_empty() {
            return;
        }
        self.allocate();
        for (count, other_count) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *count = count.saturating_add(*other_count);
        }
        self.total = self.total.wrapping_add(other.total);
        self.max = self.max.max(other.max);
    }

    /// Returns true if nothing was counted; reads only the first bucket.
    pub fn is_empty(&self) -> bool {
        self.max == 0 && self.buckets.first().is_none_or(|first| *first == 0)
    }

    /// Sets all counts to zero and keeps the memory; does not touch the memory of an empty histogram.
    pub fn clear(&mut self) {
        if self.is_empty() {
            return;
        }
        self.buckets.fill(0);
        self.total = 0;
        self.max = 0;
    }

    /// Returns the number of latencies (summed on demand, to keep it off the hot path).
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Returns the exact sum of the latencies in nanoseconds.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the exact maximum latency in nanoseconds, or zero if nothing was counted.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the latency in nanoseconds that `p` percent of the ops did not exceed.
    ///
    /// It is the upper bound of the bucket that contains the op of rank ceil(p/100 * count) ("nearest rank"), at most
    /// 1/64 too high and never above [`Histogram::max`], or zero if nothing was counted.
    pub fn percentile(&self, p: f64) -> u64 {
        let count = self.count();
        let rank = ((p / 100.0 * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut cumulative = 0u64;
        for (index, count_in_bucket) in self.buckets.iter().enumerate() {
            cumulative = cumulative.saturating_add(*count_in_bucket);
            if cumulative >= rank {
                return upper_bound(index).min(self.max);
            }
        }
        self.max
    }

    /// Returns the non-empty buckets: upper bound in nanoseconds (inclusive) and count, ascending.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(index, n)| (upper_bound(index), *n))
            .collect()
    }

    /// Creates a histogram from stored buckets, and the sum and maximum stored with them.
    pub fn from_buckets(buckets: &[(u64, u64)], total: u64, max: u64) -> Histogram {
        let mut histogram = Histogram::new();
        histogram.allocate();
        for (upper, n) in buckets {
            let bucket = &mut histogram.buckets[bucket_of(*upper)];
            *bucket = bucket.saturating_add(*n);
        }
        histogram.total = total;
        histogram.max = max;
        histogram
    }
}

/// Returns the bucket of a value: its leading seven bits, and the number of bits shifted out.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let shift = 63 - SUB_BITS - (ns | (1 << SUB_BITS)).leading_zeros();
    ((shift as usize) << SUB_BITS) + (ns >> shift) as usize
}

/// Returns the largest value that falls into a bucket.
fn upper_bound(index: usize) -> u64 {
    let shift = (index >> SUB_BITS).saturating_sub(1) as u32;
    let lead = (index - ((shift as usize) << SUB_BITS)) as u64;
    // In 128 bits, because the last bucket ends at 2^64 - 1; larger bounds are never used.
    u64::try_from(((u128::from(lead) + 1) << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values spread over all magnitudes, not only over the largest.
    fn latency() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift)
    }

    proptest! {
        #[test]
        fn a_bucket_is_at_most_one_64th_above_its_values(ns in latency()) {
            let upper = upper_bound(bucket_of(ns));
            prop_assert!(upper >= ns);
            prop_assert!(upper - ns <= ns / 64, "{ns} is counted at {upper}");
            prop_assert_eq!(bucket_of(upper), bucket_of(ns));
        }

        #[test]
        fn merging_is_recording_everything_in_one(
            a in prop::collection::vec(latency(), 0..50),
            b in prop::collection::vec(latency(), 0..50),
        ) {
            let histogram_of = |values: &[u64]| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|ns| histogram.record(*ns));
                histogram
            };
            let mut merged = histogram_of(&a);
            merged.merge(&histogram_of(&b));
            prop_assert_eq!(merged, histogram_of(&[a, b].concat()));
        }

        #[test]
        fn a_percentile_is_that_of_the_sorted_values_within_one_64th(
            mut values in prop::collection::vec(latency(), 1..80),
            p in 0.0..=100.0f64,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|ns| histogram.record(*ns));
            values.sort_unstable();
            let rank = ((p / 100.0 * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            let percentile = histogram.percentile(p);
            prop_assert!(percentile >= exact && percentile - exact <= exact / 64 && percentile <= histogram.max());
        }

        #[test]
        fn merging_in_any_order_and_grouping_gives_the_same_percentiles(
            parts in prop::collection::vec(prop::collection::vec(latency(), 0..30), 1..6),
        ) {
            let histogram_of = |values: &[u64]| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|ns| histogram.record(*ns));
                histogram
            };
            let (mut merged_forward, mut merged_backward) = (Histogram::new(), Histogram::new());
            parts.iter().for_each(|part| merged_forward.merge(&histogram_of(part)));
            // From the other end, two by two, through the stored form.
            for pair in parts.rchunks(2) {
                let mut merged_pair = histogram_of(&pair[0]);
                pair[1..].iter().for_each(|part| merged_pair.merge(&histogram_of(part)));
                merged_backward.merge(&Histogram::from_buckets(&merged_pair.buckets(), merged_pair.total(), merged_pair.max()));
            }
            prop_assert_eq!(&merged_forward, &merged_backward);
            let mut values = parts.concat();
            values.sort_unstable();
            for p in [1.0, 50.0, 90.0, 99.9] {
                let rank = ((p / 100.0 * values.len() as f64).ceil() as usize).max(1);
                let exact = values.get(rank - 1).copied().unwrap_or(0);
                let percentile = merged_backward.percentile(p);
                // The bound also holds for the merged histogram: merging adds no error.
                prop_assert!(percentile >= exact && percentile - exact <= exact / 64, "{p}: {percentile} {exact}");
            }
        }

        #[test]
        fn stored_buckets_are_restored_exactly(values in prop::collection::vec(latency(), 0..80)) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|ns| histogram.record(*ns));
            let restored =
                Histogram::from_buckets(&histogram.buckets(), histogram.total(), histogram.max());
            prop_assert_eq!(restored, histogram);
        }
    }

    #[test]
    fn small_values_are_exact_and_the_largest_has_a_bucket() {
        assert!((0..128).all(|ns| upper_bound(bucket_of(ns)) == ns));
        assert_eq!(bucket_of(u64::MAX), 3775);
        assert_eq!(upper_bound(3775), u64::MAX);
    }

    #[test]
    fn every_bucket_begins_where_the_one_before_it_ends() {
        assert!((1..3776).all(|i| bucket_of(upper_bound(i - 1) + 1) == i));
    }

    #[test]
    fn an_empty_histogram_returns_zero() {
        let empty = Histogram::new();
        assert_eq!((empty.count(), empty.percentile(50.0), empty.max()), (0, 0, 0));
        assert!(empty.buckets().is_empty());
    }

    #[test]
    fn a_cleared_histogram_is_a_new_one() {
        for ns in [77, 0] {
            let mut histogram = Histogram::new();
            histogram.record(ns);
            assert!(!histogram.is_empty());
            histogram.clear();
            assert!(histogram.is_empty());
            assert_eq!(histogram, Histogram::new());
        }
    }
}
