//! Describes one sample: its centre, its spread by either divisor, and the interval of its median.
//!
//! [`crate::Summary`] has the mean with its t interval. All values are in the caller's unit.

use crate::student::incomplete_beta;

/// Returns the arithmetic mean; `None` if there are no values or one is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    let is_valid = !values.is_empty() && values.iter().all(|v| v.is_finite());
    is_valid.then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the sample standard deviation, divisor n - 1; `None` for fewer than two finite values.
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    Some((squares(values)? / freedom as f64).sqrt())
}

/// Returns the population standard deviation, divisor n, as in older published tables (Layton's): zero for a single
/// value, `None` if there are no values or one is not finite.
pub fn population_sd(values: &[f64]) -> Option<f64> {
    Some((squares(values)? / values.len() as f64).sqrt())
}

/// Returns the sum of squared differences from the mean.
fn squares(values: &[f64]) -> Option<f64> {
    // Equal values have no spread, whatever the rounding of their mean.
    if values.windows(2).all(|pair| pair[0] == pair[1]) {
        return mean(values).map(|_| 0.0);
    }
    let mean = mean(values)?;
    Some(values.iter().map(|v| (v - mean).powi(2)).sum())
}

/// Returns the sample standard deviation as a share of the absolute mean (0.1 is 10 %); `None` for fewer than two
/// finite values or a mean of zero.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean != 0.0)?;
    Some(sample_sd(values)? / mean.abs())
}

/// Returns the middle value, or the mean of the two in the middle; `None` if there are no values or one is not finite.
pub fn median(values: &[f64]) -> Option<f64> {
    sorted(values).map(|sorted| median_of_sorted(&sorted))
}

/// Returns the values in ascending order; `None` if there are no values or one is not finite.
pub(crate) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    mean(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// Returns the median of at least one value in ascending order.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

/// An interval of a median whose ends are two of the values themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianInterval {
    /// The k-th smallest value.
    pub low: f64,
    /// The k-th largest value.
    pub high: f64,
    /// The actual confidence, at least the requested level. Only certain levels are possible for each n, so the two are
    /// rarely equal.
    pub level: f64,
}

/// Returns the narrowest interval between the k-th values from both ends that contains the population's median with
/// probability at least `level`: 1 - 2 P(Binomial(n, 1/2) < k) (Thompson 1936; David and Nagaraja, Order Statistics,
/// 3rd ed. 2003, section 7.1). The interval assumes nothing about the distribution.
///
/// `None` if even the extremes are too uncertain (fewer than six values at 95 %), or if a value is
/// not finite.
pub fn median_interval(values: &[f64], level: f64) -> Option<MedianInterval> {
    let sorted = sorted(values)?;
    let n = sorted.len();
    // P(Binomial(n, p) < k) = I_{1-p}(n - k + 1, k) (DLMF 8.17.5).
    let confidence = |k: usize| 1.0 - 2.0 * incomplete_beta(0.5, (n - k + 1) as f64, k as f64);
    let k = (1..=n / 2).take_while(|k| confidence(*k) >= level).last()?;
    Some(MedianInterval { low: sorted[k - 1], high: sorted[n - k], level: confidence(k) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ten_runs_of_a_published_table_have_its_deviation() {
        // The only ten times in whole seconds that give Layton's "13.70 1.10" (fdtree, 64 MB journal).
        let runs = [12.0, 13.0, 13.0, 13.0, 13.0, 14.0, 14.0, 14.0, 15.0, 16.0];
        assert!((mean(&runs).unwrap() - 13.7).abs() < 1e-12);
        assert!((population_sd(&runs).unwrap() - 1.10).abs() < 0.005);
        assert!((sample_sd(&runs).unwrap() - 1.16).abs() < 0.005);
        assert!((coefficient_of_variation(&runs).unwrap() - 1.1595 / 13.7).abs() < 1e-5);
        assert_eq!(median(&runs), Some(13.5));
    }

    #[test]
    fn equal_values_have_no_spread_at_all() {
        let tenths = [0.1; 10];
        assert_eq!((sample_sd(&tenths), population_sd(&tenths)), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn no_values_and_invalid_values_have_no_description() {
        for bad in [&[][..], &[f64::NAN], &[1.0, f64::INFINITY]] {
            assert!(mean(bad).is_none() && median(bad).is_none() && population_sd(bad).is_none());
            assert!(sample_sd(bad).is_none() && median_interval(bad, 0.95).is_none());
        }
        assert_eq!((sample_sd(&[3.0]), population_sd(&[3.0])), (None, Some(0.0)));
        assert_eq!(coefficient_of_variation(&[-1.0, 1.0]), None);
    }

    #[test]
    fn the_interval_of_a_median_has_the_ranks_of_the_binomial_tables() {
        let one_to = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
        assert_eq!(median_interval(&one_to(5), 0.95), None);
        // Ranks and levels from scipy.stats.binom.cdf(k - 1, n, 0.5).
        for (n, low, high, level) in [
            (6, 1.0, 6.0, 0.968_75),
            (10, 2.0, 9.0, 0.978_515_625),
            (30, 10.0, 21.0, 0.957_226_05),
            (100, 40.0, 61.0, 0.964_799_80),
        ] {
            let interval = median_interval(&one_to(n), 0.95).unwrap();
            assert_eq!((interval.low, interval.high), (low, high), "{n}");
            assert!((interval.level - level).abs() < 1e-8, "{n}: {}", interval.level);
        }
    }

    proptest! {
        #[test]
        fn the_median_splits_the_values(values in prop::collection::vec(-1e6..1e6f64, 1..40)) {
            let middle = median(&values).unwrap();
            let below = values.iter().filter(|v| **v < middle).count();
            let above = values.iter().filter(|v| **v > middle).count();
            prop_assert!(2 * below <= values.len() && 2 * above <= values.len());
        }
    }
}
