//! The normal distribution: its distribution function and its quantiles.

use std::f64::consts::PI;

/// Returns P(Z <= x) for a standard normal variable Z.
///
/// For |x| below 4 it is computed by the series of Marsaglia ("Evaluating the normal distribution", Journal of
/// Statistical Software 11(4), 2004), otherwise by the continued fraction of the tail (Abramowitz and Stegun 1964,
/// 26.2.14), which keeps the precision of a small tail. NaN for NaN.
pub fn cdf(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
    if x.abs() < 4.0 {
        let (mut sum, mut term, mut odd) = (x, x, 1.0);
        while term.abs() > 1e-17 * sum.abs() {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        return 0.5 + density * sum;
    }
    // From 4 on, the levels of the fraction beyond the sixtieth add less than the precision of an f64.
    let fraction = (1..=60).rev().fold(x.abs(), |below, k| x.abs() + f64::from(k) / below);
    let tail = density / fraction;
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Returns the x below which a standard normal variable lies with probability `p` (0.975 gives 1.96).
///
/// Minus infinity at 0 and plus infinity at 1; NaN outside that range.
pub fn quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p == 0.0 || p == 1.0 {
        return if p == 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    // This range is wide enough for a tail of 1e-300. Bisection cannot diverge, and 120 halvings exceed the result's
    // precision.
    let (mut low, mut high) = (-38.0, 38.0);
    for _ in 0..120 {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, Normal};

    #[test]
    fn the_distribution_function_matches_statrs() {
        let oracle = Normal::new(0.0, 1.0).unwrap();
        for step in -320..=320 {
            let x = f64::from(step) / 40.0;
            let exact = oracle.cdf(x);
            // statrs itself is accurate to 1e-10 in the tails.
            assert!((cdf(x) - exact).abs() < 1e-9 * exact, "{x} {} {exact}", cdf(x));
        }
    }

    #[test]
    fn quantiles_match_the_printed_tables_and_invert_the_distribution_function() {
        // Abramowitz and Stegun 1964, table 26.5.
        for (p, x) in [(0.5, 0.0), (0.95, 1.644_85), (0.975, 1.959_96), (0.995, 2.575_83)] {
            assert!((quantile(p) - x).abs() < 5e-6, "{p}");
        }
        for p in [1e-200, 1e-9, 0.01, 0.3, 0.77, 0.9999] {
            assert!((cdf(quantile(p)) / p - 1.0).abs() < 1e-9, "{p}");
        }
        assert!(quantile(0.0) < -1e300 && quantile(1.0) > 1e300 && quantile(1.1).is_nan());
    }
}
