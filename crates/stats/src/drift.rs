//! Tests whether repeats drift over the order in which they ran, and estimates the slope.
//!
//! The test uses ranks, not squares: a single outlier among ten runs must neither look like a drift nor hide one.

use crate::describe::{median, median_of_sorted, sorted};
use crate::normal;

/// The maximum number of values without ties for which the distribution is computed exactly; for more values, the
/// normal approximation is within 0.1 %.
const EXACT_UP_TO: usize = 50;

/// A trend over the order of the runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Number of values.
    pub n: usize,
    /// Kendall's S: rising pairs minus falling pairs.
    pub s: i64,
    /// The probability of an S at least this far from zero if there is no trend.
    pub p: f64,
    /// True if `p` is exact, false if it is from the normal approximation.
    pub exact: bool,
    /// The median slope of all pairs, in the values' unit per run.
    pub slope: f64,
    /// The interval of the slope, or `None` if there are too few pairs for the level.
    pub interval: Option<(f64, f64)>,
    /// The change from the first run to the last according to this slope, as a share of the median (0.05 is 5 %), or
    /// `None` if the median is zero.
    pub change: Option<f64>,
}

/// Tests values in the order of their runs for a trend (Mann, Econometrica 13, 1945; Kendall, Rank
/// Correlation Methods, 4th ed. 1975) and estimates its slope with an interval of probability
/// `level` (Sen, JASA 63, 1968).
///
/// `None` for fewer than three values, a value that is not finite, or a level not between 0 and 1.
pub fn drift(values: &[f64], level: f64) -> Option<Drift> {
    let n = values.len();
    if n < 3 || !(level > 0.0 && level < 1.0) {
        return None;
    }
    let ordered = sorted(values)?;
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut s = 0i64;
    for (i, early) in values.iter().enumerate() {
        for (j, late) in values.iter().enumerate().skip(i + 1) {
            s += i64::from(late > early) - i64::from(late < early);
            slopes.push((late - early) / (j - i) as f64);
        }
    }
    slopes.sort_by(f64::total_cmp);
    let variance = variance(&ordered);
    let exact = n <= EXACT_UP_TO && ordered.windows(2).all(|pair| pair[0] < pair[1]);
    let p = if exact { exact_p(n, s) } else { normal_p(s, variance) };
    let slope = median_of_sorted(&slopes);
    Some(Drift {
        n,
        s,
        p,
        exact,
        slope,
        interval: interval(&slopes, variance, level),
        change: median(values).filter(|m| *m != 0.0).map(|m| slope * (n - 1) as f64 / m.abs()),
    })
}

/// Returns the variance of S without a trend, corrected for ties (Kendall 1975).
fn variance(ordered: &[f64]) -> f64 {
    let term = |size: f64| size * (size - 1.0) * (2.0 * size + 5.0);
    let ties: f64 = ordered.chunk_by(|a, b| a == b).map(|tied| term(tied.len() as f64)).sum();
    (term(ordered.len() as f64) - ties) / 18.0
}

/// Returns P(|S| >= |s|) over all orders of n different values: the distribution of inversions is built up value by
/// value (Knuth, The Art of Computer Programming, vol. 3, section 5.1.1).
fn exact_p(n: usize, s: i64) -> f64 {
    let pairs = n * (n - 1) / 2;
    // The probability of each number of inversions; S = pairs - 2 inversions.
    let mut inversions = vec![1.0];
    for size in 2..=n {
        let mut next = vec![0.0; size * (size - 1) / 2 + 1];
        for (count, probability) in inversions.iter().enumerate() {
            next[count..count + size]
                .iter_mut()
                .for_each(|slot| *slot += probability / size as f64);
        }
        inversions = next;
    }
    let is_as_far = |count: usize| (pairs as i64 - 2 * count as i64).abs() >= s.abs();
    let p: f64 =
        inversions.iter().enumerate().filter(|(count, _)| is_as_far(*count)).map(|(_, p)| p).sum();
    p.min(1.0)
}

/// Returns P(|S| >= |s|) by the normal distribution, with a continuity correction of one because S changes in steps of
/// two (Kendall 1975).
fn normal_p(s: i64, variance: f64) -> f64 {
    if variance == 0.0 {
        return 1.0;
    }
    let z = (s.abs() - 1).max(0) as f64 / variance.sqrt();
    (2.0 * normal::cdf(-z)).min(1.0)
}

/// Returns the two slopes whose ranks are z sqrt(variance) apart, symmetric about the middle (Sen 1968).
fn interval(slopes: &[f64], variance: f64, level: f64) -> Option<(f64, f64)> {
    let distance = normal::quantile((1.0 + level) / 2.0) * variance.sqrt();
    let low = ((slopes.len() as f64 - distance) / 2.0).round() - 1.0;
    let high = ((slopes.len() as f64 + distance) / 2.0).round();
    let inside = low >= 0.0 && high < slopes.len() as f64;
    inside.then(|| (slopes[low as usize], slopes[high as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RISING: [f64; 10] = [10.0, 10.3, 10.1, 10.6, 10.5, 10.9, 11.2, 10.8, 11.4, 11.3];

    #[test]
    fn a_drift_is_found_and_its_numbers_match_scipy() {
        // tests/oracle/drift.py: kendalltau(method="exact") and theilslopes.
        let found = drift(&RISING, 0.95).unwrap();
        assert!(found.exact && (found.p - 9.463_183e-4).abs() < 1e-9, "{found:?}");
        assert!((found.slope - 1.1 / 7.0).abs() < 1e-9);
        let (low, high) = found.interval.unwrap();
        assert!((low - 0.1).abs() < 1e-9 && (high - 0.2).abs() < 1e-9, "{found:?}");
        assert!((found.change.unwrap() - 9.0 * 1.1 / 7.0 / 10.7).abs() < 1e-9);
    }

    #[test]
    fn ties_are_counted_as_in_the_formula() {
        // tests/oracle/drift.py: variance (7*6*19 - 2*1*9 - 3*2*11) / 18.
        let found = drift(&[1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 1.5], 0.95).unwrap();
        assert_eq!((found.s, found.exact), (7, false));
        assert!((found.p - 0.340_762).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn the_normal_approximation_agrees_with_the_exact_distribution() {
        for s in [11, 101, 201, 301] {
            let variance = 30.0 * 29.0 * 65.0 / 18.0;
            assert!((exact_p(30, s) - normal_p(s, variance)).abs() < 2e-3, "{s}");
        }
    }

    #[test]
    fn every_order_of_four_is_counted() {
        // Of 24 orders one rises all the way and one falls; 6 more have S = 4 or -4.
        assert!((exact_p(4, 6) - 2.0 / 24.0).abs() < 1e-12);
        assert!((exact_p(4, -4) - 8.0 / 24.0).abs() < 1e-12);
        assert!((exact_p(4, 0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn an_outlier_is_not_a_drift_and_three_runs_have_no_interval() {
        let mut spiked = [5.0, 5.2, 4.9, 5.1, 5.05, 5.15, 4.95, 5.12, 50.0];
        let found = drift(&spiked, 0.95).unwrap();
        assert!(found.p > 0.2, "{found:?}");
        let (low, high) = found.interval.unwrap();
        assert!(low < 0.0 && high > 0.0 && high < 1.0, "{found:?}");
        spiked.reverse();
        assert_eq!(drift(&spiked, 0.95).unwrap().s, -found.s);
        let few = drift(&[1.0, 2.0, 3.0], 0.95).unwrap();
        assert_eq!((few.interval, few.slope), (None, 1.0));
        assert!((few.p - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn equal_values_do_not_drift_and_too_few_values_have_no_result() {
        let flat = drift(&[3.0; 6], 0.95).unwrap();
        assert_eq!((flat.s, flat.p, flat.slope), (0, 1.0, 0.0));
        assert!(drift(&[1.0, 2.0], 0.95).is_none() && drift(&[1.0, f64::NAN, 2.0], 0.95).is_none());
    }
}
