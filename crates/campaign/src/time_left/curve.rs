//! The time curve of a trial: phases differ in speed, so half of the operations are not half of the time.

use std::time::Duration;

/// Number of parts of the operations whose times are known.
const PARTS: usize = 20;

/// Number of parts that must have been reported before the end of the trial. [OWN]
const MIN_REACHED: usize = 15;

/// The time that a trial spends on its first operations, for each twentieth of them: in seconds, or as shares of the
/// time for all operations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Curve {
    times: [f64; PARTS],
    reached: usize,
}

impl Curve {
    /// Records that this number of operations of `total` is done after this time.
    pub fn reach(&mut self, ops: u64, total: u64, time: Duration) {
        let reached = (PARTS as u64 * ops).checked_div(total).unwrap_or(0).min(PARTS as u64);
        let (known, reached) = (self.reached, reached as usize);
        let before = known.checked_sub(1).map_or(0.0, |last| self.times[last]);
        for part in known..reached {
            let share = (part - known + 1) as f64 / (reached - known) as f64;
            self.times[part] = before + (time.as_secs_f64() - before) * share;
        }
        self.reached = known.max(reached);
    }

    /// Returns the curve of the trial as shares, if it has ended after this time; `None` if most of its operations were
    /// not reported.
    pub fn ended(mut self, time: Duration) -> Option<Curve> {
        let is_enough = self.reached >= MIN_REACHED && !time.is_zero();
        self.reach(1, 1, time);
        let all = time.as_secs_f64();
        is_enough.then(|| Curve { times: self.times.map(|time| (time / all).min(1.0)), ..self })
    }

    /// Returns the ratio of the time left to the time spent when this number of operations of `total` is done; `None`
    /// if the time spent is a share of zero.
    pub fn left_over_spent(&self, ops: u64, total: u64) -> Option<f64> {
        let position = (PARTS as f64 * ops as f64 / total.max(1) as f64).min(PARTS as f64);
        let whole = (position as usize).min(PARTS);
        let before = if whole == 0 { 0.0 } else { self.times[whole - 1] };
        let after = self.times[whole.min(PARTS - 1)];
        let spent = before + (after - before) * (position - whole as f64);
        (spent > 0.0).then(|| (1.0 - spent).max(0.0) / spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_half_of_the_operations_may_take_most_of_the_time() {
        let mut curve = Curve::default();
        let seconds = Duration::from_secs;
        curve.reach(500, 1000, seconds(10));
        assert_eq!(curve.ended(seconds(10)), None, "half of the operations were not reported");
        curve.reach(800, 1000, seconds(28));
        let shares = curve.ended(seconds(40)).unwrap();
        for (ops, expected) in [(250, 7.0), (500, 3.0), (800, 12.0 / 28.0), (900, 6.0 / 34.0)] {
            let left = shares.left_over_spent(ops, 1000).unwrap();
            assert!((left - expected).abs() < 1e-9, "{ops}: {left}");
        }
        assert_eq!(shares.left_over_spent(1000, 1000), Some(0.0));
        assert_eq!(shares.left_over_spent(0, 1000), None);
    }

    #[test]
    fn a_trial_without_operations_has_no_curve() {
        let mut curve = Curve::default();
        curve.reach(0, 0, Duration::from_secs(1));
        assert_eq!(curve.ended(Duration::from_secs(1)), None);
    }
}
