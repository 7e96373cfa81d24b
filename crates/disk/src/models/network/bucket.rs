//! A rate limit with burst credit, as sold by cloud providers: a token bucket in whole nanoseconds.
//!
//! Tokens are I/O units or bytes. Requests take them in order. Without burst, the limit only spaces
//! requests: one may start when the previous one has used up its share of time. With burst, the spacing
//! is that of the higher rate, and each token is also taken from the credit, which is refilled at the base rate;
//! once the credit is used up, a request waits until the base rate has supplied its tokens.

/// The factor of stored token counts, which makes them exact at whole nanoseconds for whole rates per second.
const SECOND: u128 = 1_000_000_000;

/// A higher rate that is available while credit lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The higher rate, in tokens per second.
    pub rate: u64,
    /// Maximum credit, in tokens.
    pub credit: u64,
    /// The credit at the start, in tokens.
    pub at_start: u64,
}

/// The bucket.
#[derive(Debug)]
pub struct Bucket {
    /// The base rate, in tokens per second.
    rate: u64,
    burst: Option<Burst>,
    /// Credit in tokens times [`SECOND`].
    credit: u128,
    /// The time up to which the credit is filled, in ns.
    filled: u64,
    /// The time at which the next request may start, in ns.
    next: u64,
}

impl Bucket {
    /// Creates a bucket with this base rate, in tokens per second.
    pub fn new(rate: u64, burst: Option<Burst>) -> Bucket {
        let credit = burst.map_or(0, |burst| u128::from(burst.at_start) * SECOND);
        Bucket { rate: rate.max(1), burst, credit, filled: 0, next: 0 }
    }

    /// Takes tokens for a request that arrives at `now`; returns the time at which it may start.
    pub fn take(&mut self, now: u64, tokens: u64) -> u64 {
        let mut start = self.next.max(now);
        let wanted = u128::from(tokens) * SECOND;
        if let Some(burst) = self.burst {
            self.fill(start, burst);
            let missing = wanted.saturating_sub(self.credit).div_ceil(u128::from(self.rate));
            start += u64::try_from(missing).unwrap_or(u64::MAX);
            self.fill(start, burst);
            self.credit = self.credit.saturating_sub(wanted);
        }
        let rate = self.burst.map_or(self.rate, |burst| burst.rate.max(1));
        self.next = start + (wanted / u128::from(rate)) as u64;
        start
    }

    fn fill(&mut self, to: u64, burst: Burst) {
        let more = u128::from(to.saturating_sub(self.filled)) * u128::from(self.rate);
        self.credit = (self.credit + more).min(u128::from(burst.credit) * SECOND);
        self.filled = self.filled.max(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the start of the last of `count` requests of one token that all arrive at time 0.
    fn last(bucket: &mut Bucket, count: u64) -> u64 {
        (0..count).map(|_| bucket.take(0, 1)).last().unwrap()
    }

    #[test]
    fn a_limit_without_burst_only_spaces_requests() {
        let mut bucket = Bucket::new(1000, None);
        assert_eq!([0, 0, 5_000_000].map(|now| bucket.take(now, 1)), [0, 1_000_000, 5_000_000]);
        // A minute without requests adds no credit.
        assert_eq!(
            [60, 60].map(|s| bucket.take(s * 1_000_000_000, 4)),
            [60_000_000_000, 60_004_000_000]
        );
    }

    #[test]
    fn credit_lasts_as_long_as_the_difference_of_the_rates_takes_to_use_it() {
        let burst = Burst { rate: 3000, credit: 27_000, at_start: 27_000 };
        let mut bucket = Bucket::new(300, Some(burst));
        // 27,000 / (3,000 - 300) = 10 s at the higher rate.
        let starts: Vec<u64> = (0..33_000).map(|_| bucket.take(0, 1)).collect();
        let spacing = |at: usize| starts[at] - starts[at - 1];
        assert_eq!([29_900, 30_100].map(spacing), [333_333, 3_333_333]);
        // Once used up, the credit is refilled at the base rate: 3,000 tokens after 10 s.
        let rested = starts[32_999] + 10_000_000_000;
        let after: Vec<u64> = (0..4000).map(|_| bucket.take(rested, 1)).collect();
        assert!(after[3200] - after[3199] < 400_000 && after[3999] - after[3998] > 3_000_000);
    }

    #[test]
    fn credit_is_never_more_than_its_limit() {
        let burst = Burst { rate: 1000, credit: 100, at_start: 0 };
        let mut bucket = Bucket::new(10, Some(burst));
        let day = 86_400_000_000_000;
        assert_eq!(bucket.take(day, 1), day);
        let end = last(&mut bucket, 1000);
        assert!(end > day + 89_000_000_000, "{}", end - day);
    }
}
