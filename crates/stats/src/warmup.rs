//! Detects a warm-up: a first run that differs from the rest (cold caches, tables, CPU frequency).
//!
//! A warm-up is reported, but the first run stays in the sample: whether it counts must be decided before the
//! measurement, not by the data.

use crate::interval::Summary;
use crate::student::{two_sided_quantile, two_sided_tail};

/// A comparison of the first run with the other runs (the rest).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmup {
    /// The first value minus the mean of the rest, in the values' unit.
    pub difference: f64,
    /// The interval of that difference.
    pub interval: (f64, f64),
    /// The difference as a share of the mean of the rest (0.2 is 20 %), or `None` if that mean is zero.
    pub share: Option<f64>,
    /// The probability of a first value that far from the rest, in either direction, by chance, or `None` if the rest
    /// does not vary.
    pub p: Option<f64>,
}

/// Compares the first value with the rest by the prediction interval of one additional value with probability `level`:
/// mean of the rest +- t s sqrt(1 + 1/m), with m values and m - 1 degrees of freedom (Hahn and Meeker, Statistical
/// Intervals, 1991).
///
/// `None` for fewer than three values, a value that is not finite, or a level not between 0 and 1.
pub fn warmup(values: &[f64], level: f64) -> Option<Warmup> {
    let (first, rest) = values.split_first()?;
    let rest = Summary::of(rest).filter(|_| first.is_finite())?;
    let sd = rest.sd.filter(|_| level > 0.0 && level < 1.0)?;
    let freedom = (rest.n - 1) as f64;
    let error = sd * (1.0 + 1.0 / rest.n as f64).sqrt();
    let half = two_sided_quantile(level, freedom) * error;
    let difference = first - rest.mean;
    Some(Warmup {
        difference,
        interval: (difference - half, difference + half),
        share: (rest.mean != 0.0).then(|| difference / rest.mean.abs()),
        p: (error > 0.0).then(|| two_sided_tail(difference / error, freedom)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_first_run_is_found_and_its_numbers_match_scipy() {
        // tests/oracle/drift.py.
        let found = warmup(&[12.0, 10.0, 10.2, 9.9, 10.1, 10.3], 0.95).unwrap();
        assert!((found.difference - 1.9).abs() < 1e-12);
        let (low, high) = found.interval;
        assert!((low - 1.419_106).abs() < 1e-5 && (high - 2.380_894).abs() < 1e-5, "{found:?}");
        assert!((found.p.unwrap() - 3.923_682e-4).abs() < 1e-7, "{found:?}");
        assert!((found.share.unwrap() - 0.188_119).abs() < 1e-6);
    }

    #[test]
    fn a_first_run_like_the_rest_is_not_a_warm_up() {
        let found = warmup(&[10.1, 10.0, 10.2, 9.9, 10.3], 0.95).unwrap();
        assert!(found.p.unwrap() > 0.9 && found.interval.0 < 0.0 && found.interval.1 > 0.0);
    }

    #[test]
    fn without_spread_or_values_nothing_is_claimed() {
        assert_eq!(warmup(&[5.0, 4.0, 4.0], 0.95).unwrap().p, None);
        assert_eq!(warmup(&[5.0, 4.0], 0.95), None);
        assert_eq!(warmup(&[f64::NAN, 4.0, 5.0], 0.95), None);
        assert_eq!(warmup(&[], 0.95), None);
    }
}
