//! Exact confidence limits of a proportion: `k` successes in `n` trials.

use crate::student::incomplete_beta;

/// Returns the two-sided interval of Clopper and Pearson 1934 (Biometrika 26, 404-413): the proportions under which the
/// probabilities of `successes` or more, and of `successes` or fewer, out of `trials` are both at least half of `1 -
/// level`. If all or none succeeded, one limit is exactly 0 or 1, and the other takes the whole error probability
/// `1 - level`.
///
/// The interval is also valid for the mean probability of trials in strata with different probabilities, if `trials`
/// times the limit differs from `successes` by at least one: the sum of such trials varies less than a binomial sum
/// with the same mean (Hoeffding 1956, Ann. Math. Statist. 27, 713-721).
///
/// NaN if there are no trials or more successes than trials, or if `level` is not between 0 and 1.
pub fn interval(successes: u64, trials: u64, level: f64) -> (f64, f64) {
    if trials == 0 || successes > trials || !(level > 0.0 && level < 1.0) {
        return (f64::NAN, f64::NAN);
    }
    let sides = if successes == 0 || successes == trials { 1.0 } else { 2.0 };
    let tail = (1.0 - level) / sides;
    (lower_limit(successes, trials, tail), 1.0 - lower_limit(trials - successes, trials, tail))
}

/// Returns how many trials without a single success are needed to show with confidence `level` that the probability of
/// success is below `proportion`.
pub fn trials_to_show_below(proportion: f64, level: f64) -> u64 {
    ((1.0 - level).ln() / (-proportion).ln_1p()).ceil() as u64
}

/// Returns the proportion under which `successes` or more of `trials` have the probability `tail`: I_p(k, n - k + 1),
/// which rises with p.
fn lower_limit(successes: u64, trials: u64, tail: f64) -> f64 {
    if successes == 0 {
        return 0.0;
    }
    let (a, b) = (successes as f64, (trials - successes + 1) as f64);
    let (mut low, mut high) = (0.0, 1.0);
    loop {
        let middle = (low + high) / 2.0;
        // No floating-point number is left between the two.
        if middle <= low || middle >= high {
            return middle;
        }
        if incomplete_beta(middle, a, b) < tail {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::{Beta, Binomial, ContinuousCDF, DiscreteCDF};

    use super::*;

    #[test]
    fn limits_match_published_values() {
        // None of n: 1 - 0.05^(1/n), the "rule of three" (Hanley and Lippman-Hand 1983, JAMA 249, 1743-1745).
        for (trials, most) in [(10, 0.2589), (50, 0.0582), (299, 0.00997), (300, 0.00994)] {
            let (low, high) = interval(0, trials, 0.95);
            assert_eq!(low, 0.0);
            assert!((high - most).abs() < 5e-5, "0 of {trials}: {high}");
        }
        // Clopper and Pearson's chart and later tables: 1 of 10 and 5 of 10.
        for (successes, low, high) in [(1, 0.0025, 0.4450), (5, 0.1871, 0.8129)] {
            let found = interval(successes, 10, 0.95);
            assert!((found.0 - low).abs() < 5e-5 && (found.1 - high).abs() < 5e-5, "{found:?}");
        }
        assert_eq!(interval(10, 10, 0.95).1, 1.0);
        assert_eq!([0.05, 0.01, 0.001].map(|p| trials_to_show_below(p, 0.95)), [59, 299, 2995]);
        for invalid in [interval(0, 0, 0.95), interval(2, 1, 0.95), interval(0, 1, 1.0)] {
            assert!(invalid.0.is_nan() && invalid.1.is_nan());
        }
    }

    proptest! {
        #[test]
        fn each_limit_leaves_half_of_the_error_probability_in_its_tail(n in 2_u64..2000, k in 0_u64..2000) {
            let k = k % (n - 1) + 1;
            let (low, high) = interval(k, n, 0.95);
            let beta = |p: f64, a: u64, b: u64| Beta::new(a as f64, b as f64).unwrap().cdf(p);
            prop_assert!((beta(low, k, n - k + 1) - 0.025).abs() < 1e-9);
            prop_assert!(k == n || (beta(high, k + 1, n - k) - 0.975).abs() < 1e-9);
            let at_most = Binomial::new(high, n).unwrap().cdf(k);
            prop_assert!(k == n || (at_most - 0.025).abs() < 1e-9, "{}", at_most);
        }

        #[test]
        fn the_number_of_trials_without_a_success_is_the_minimum(p in 1e-5_f64..0.9) {
            let n = trials_to_show_below(p, 0.95);
            prop_assert!(interval(0, n, 0.95).1 <= p * (1.0 + 1e-9));
            prop_assert!(n == 1 || interval(0, n - 1, 0.95).1 > p * (1.0 - 1e-9));
        }
    }
}
