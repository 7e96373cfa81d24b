//! Compares an estimated number with bounds, to test a claim about it.
//!
//! The number may be a ratio, a mean or an exponent of growth. Its interval is the displayed one; the p-value comes
//! from the same t test, with the bound instead of 1 or 0 as the null hypothesis.

use crate::compare::{Comparison, Method};
use crate::growth::Growth;
use crate::interval::{LEVEL, Summary};
use crate::normal;
use crate::permutation::Permutation;
use crate::power::{MAX_REPEATS, POWER};
use crate::student::two_sided_tail;

/// An estimated number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The number of pairs, of values (on the smaller of two sides), or of points.
    pub n: usize,
    /// The number.
    pub value: f64,
    /// Its 95 % interval, or `None` if there is only a single value.
    pub interval: Option<(f64, f64)>,
    /// True if nothing varied, so that the interval has zero width: not because a spread is impossible, but because
    /// none was observed.
    pub exact: bool,
    /// Standard error and degrees of freedom (for a ratio, of its logarithm), or `None` if no spread was observed.
    error: Option<(f64, f64)>,
    /// True if the number is a ratio.
    is_ratio: bool,
    /// The permutation test at a ratio of 1.
    permutation_at_1: Option<Permutation>,
    /// The permutation test at a different ratio ([`Estimate::with_permutation_at`]).
    permutation_at_bound: Option<(f64, Permutation)>,
}

impl Estimate {
    /// Creates the estimate of a ratio of two conditions.
    pub fn of_ratio(comparison: &Comparison) -> Estimate {
        Estimate {
            n: comparison.n,
            value: comparison.ratio,
            interval: comparison.interval,
            exact: comparison.exact,
            error: comparison.error,
            is_ratio: true,
            permutation_at_1: comparison.relabelled.filter(|_| comparison.method == Method::Welch),
            permutation_at_bound: None,
        }
    }

    /// Creates the estimate of a mean.
    pub fn of_mean(summary: &Summary) -> Estimate {
        let n = summary.n as f64;
        let error = summary.sd.filter(|sd| *sd > 0.0).map(|sd| (sd / n.sqrt(), n - 1.0));
        Estimate {
            n: summary.n,
            value: summary.mean,
            interval: summary.interval(),
            exact: summary.exact(),
            error,
            is_ratio: false,
            permutation_at_1: None,
            permutation_at_bound: None,
        }
    }

    /// Creates the estimate of an exponent of growth; its n is the number of points.
    pub fn of_growth(growth: &Growth) -> Estimate {
        let error = growth.error.filter(|error| *error > 0.0);
        Estimate {
            n: growth.n,
            value: growth.exponent,
            interval: growth.interval,
            exact: growth.error == Some(0.0),
            error: error.map(|error| (error, growth.n.saturating_sub(2) as f64)),
            is_ratio: false,
            permutation_at_1: None,
            permutation_at_bound: None,
        }
    }

    /// Returns the estimate with the same number but without a known spread.
    pub fn without_spread(self) -> Estimate {
        Estimate {
            interval: None,
            exact: false,
            error: None,
            permutation_at_1: None,
            permutation_at_bound: None,
            ..self
        }
    }

    /// Adds the permutation test at a ratio of `bound`: `moved` is the comparison with every base value multiplied by
    /// `bound`, so that the two sides are equal exactly if the ratio is the bound.
    pub fn with_permutation_at(self, bound: f64, moved: &Comparison) -> Estimate {
        let test = moved.relabelled.filter(|_| moved.method == Method::Welch);
        Estimate { permutation_at_bound: test.map(|test| (bound, test)), ..self }
    }

    /// Returns the probability of an estimate this far from `bound` or farther if the true number is the bound, or
    /// `None` if no spread was observed, or if the number is a ratio and the bound is not positive. If a permutation
    /// test was made at the bound (1, or that of [`Estimate::with_permutation_at`]) and can reach 5 %, p is the larger
    /// of the two p-values.
    pub fn p(&self, bound: f64) -> Option<f64> {
        let (error, degrees_of_freedom) = self.error?;
        let p = two_sided_tail(self.distance(bound)? / error, degrees_of_freedom);
        let tests = [self.permutation_at_1.map(|test| (1.0, test)), self.permutation_at_bound];
        let mut tests_at_bound = tests.into_iter().flatten().filter(|(at, _)| *at == bound);
        let permuted = tests_at_bound
            .next()
            .map(|(_, test)| test)
            .filter(|test| test.smallest_p < 1.0 - LEVEL);
        Some(permuted.map_or(p, |test| test.p.max(p)))
    }

    /// Returns the approximate number of repeats that would separate the number from `bound`, if the number and the
    /// spread are correct: (z(0.975) + z(0.95))^2 spread^2 / distance^2, the normal approximation of a t test that
    /// misses one difference in twenty. At least three, or `None` if no spread was observed, or if more than
    /// [`MAX_REPEATS`] are needed.
    pub fn n_to_separate_from(&self, bound: f64) -> Option<u32> {
        let (error, _) = self.error?;
        let z = normal::quantile((1.0 + LEVEL) / 2.0) + normal::quantile(POWER);
        let n = (z * error / self.distance(bound)?).powi(2) * self.n as f64;
        (n <= f64::from(MAX_REPEATS)).then(|| (n.ceil() as u32).max(3))
    }

    /// Returns the distance from a bound, on the scale of the error.
    fn distance(&self, bound: f64) -> Option<f64> {
        let distance = if self.is_ratio { (self.value / bound).ln() } else { self.value - bound };
        distance.is_finite().then_some(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{paired, welch};
    use crate::growth::exponent;
    use crate::permutation::two_samples;
    use proptest::prelude::*;

    #[test]
    fn the_p_of_a_ratio_at_1_equals_the_p_of_its_comparison_and_changes_with_the_bound() {
        let pairs = [(1.0, 1.5), (1.1, 1.7), (0.9, 1.3), (1.0, 1.6)];
        let comparison = paired(&pairs).unwrap();
        let estimate = Estimate::of_ratio(&comparison);
        assert!((estimate.p(1.0).unwrap() / comparison.p.unwrap() - 1.0).abs() < 1e-9);
        // A bound is equivalent to a longer base: here every base value is multiplied by 1.5.
        let moved: Vec<(f64, f64)> = pairs.iter().map(|(base, new)| (base * 1.5, *new)).collect();
        let p = paired(&moved).unwrap().p.unwrap();
        assert!((estimate.p(1.5).unwrap() - p).abs() < 1e-9);
        assert_eq!(estimate.p(0.0), None);
    }

    #[test]
    fn a_mean_is_tested_by_the_textbook_one_sample_test() {
        // Mean 3, sd sqrt(2.5), n 5: at 1, t = 2 / sqrt(0.5) = 2.828, p = 0.0474 (t table, 4 degrees).
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let estimate = Estimate::of_mean(&summary);
        assert!((estimate.p(1.0).unwrap() - 0.0474).abs() < 1e-4);
        assert_eq!(estimate.p(3.0), Some(1.0));
        // z = 1.960 + 1.645; (3.605 * sqrt(0.5) / 2)^2 * 5 = 8.1.
        assert_eq!(estimate.n_to_separate_from(1.0), Some(9));
        assert_eq!(estimate.n_to_separate_from(3.0), None);
    }

    #[test]
    fn equal_values_and_a_single_value_have_no_p() {
        let still = Estimate::of_mean(&Summary::of(&[2.0, 2.0]).unwrap());
        assert!(still.exact && still.p(1.0).is_none() && still.interval == Some((2.0, 2.0)));
        let alone = Estimate::of_ratio(&paired(&[(1.0, 2.0)]).unwrap());
        assert!(!alone.exact && alone.p(1.0).is_none() && alone.interval.is_none());
        assert_eq!(alone.n_to_separate_from(1.0), None);
    }

    #[test]
    fn the_permutation_test_raises_only_the_p_at_a_ratio_of_1() {
        let (base, new) = ([1.0, 1.01, 1.02, 1.03], [1.04, 1.05, 1.06, 9.0]);
        let test = two_samples(&base, &new, 1);
        let comparison = welch(&base, &new).unwrap().with_permutation(test);
        let estimate = Estimate::of_ratio(&comparison);
        let larger = comparison.p.unwrap().max(test.unwrap().p);
        assert!((estimate.p(1.0).unwrap() - larger).abs() < 1e-9);
        let plain = Estimate::of_ratio(&welch(&base, &new).unwrap());
        assert_eq!(estimate.p(1.2), plain.p(1.2));
    }

    #[test]
    fn a_permutation_test_at_another_ratio_uses_the_scaled_base() {
        let (base, new) = ([10.0, 10.1, 10.2, 10.3], [9.5, 9.6, 9.7, 10.05]);
        let longer = new.map(|value| value * 1.05);
        let plain = Estimate::of_ratio(&welch(&base, &longer).unwrap());
        let moved = base.map(|value| value * 1.05);
        let test = two_samples(&moved, &longer, 1);
        let comparison = welch(&moved, &longer).unwrap().with_permutation(test);
        let estimate = plain.with_permutation_at(1.05, &comparison);
        // Of 70 relabellings, four are as far apart: this one, the one with 10.0 for 10.05, and their mirror images.
        assert!(plain.p(1.05).unwrap() < 0.05);
        assert!((estimate.p(1.05).unwrap() - 4.0 / 70.0).abs() < 1e-9);
        assert_eq!(estimate.p(1.0), plain.p(1.0));
    }

    #[test]
    fn an_exponent_is_tested_with_the_error_of_its_slope() {
        let points = [(1.0, 1.0), (2.0, 4.2), (4.0, 15.5), (8.0, 66.0)];
        let growth = exponent(&points).unwrap();
        let estimate = Estimate::of_growth(&growth);
        // The end of the interval is where p is 5 %.
        assert!((estimate.p(growth.interval.unwrap().0).unwrap() - 0.05).abs() < 1e-9);
        assert!(Estimate::of_growth(&exponent(&points[..2]).unwrap()).p(1.0).is_none());
    }

    proptest! {
        #[test]
        fn the_interval_excludes_a_bound_exactly_if_its_p_is_below_five_percent(
            values in prop::collection::vec(0.1..10.0f64, 2..9), bound in 0.1..10.0f64,
        ) {
            let estimate = Estimate::of_mean(&Summary::of(&values).unwrap());
            let (low, high) = estimate.interval.unwrap();
            if let Some(p) = estimate.p(bound).filter(|p| (p - 0.05).abs() > 1e-6) {
                prop_assert_eq!(p < 0.05, bound < low || bound > high);
            }
        }
    }
}
