//! Power analysis: how many repeats would decide a comparison.
//!
//! Powers are those of the two-sided t test of log ratios at [`LEVEL`]; the noncentral t distribution is approximated
//! by Abramowitz and Stegun 1964, 26.7.10, which gives the same n as the exact distribution (tests/oracle/power.py)
//! down to four repeats.

use crate::interval::LEVEL;
use crate::normal;
use crate::student::two_sided_quantile;

/// The power for which fsdyno plans: a real difference is missed one time in twenty, as rarely as a difference is
/// claimed where there is none.
pub const POWER: f64 = 0.95;

/// The maximum number of repeats in a plan; if more are needed, the result is `None`.
pub const MAX_REPEATS: u32 = 1_000_000;

/// The design of a comparison, with the spread of the logarithms (0.01 is approximately 1 %).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Design {
    /// Pairs; n is the number of pairs.
    Pairs {
        /// Sample standard deviation of the logarithms of the pairs' ratios.
        sd: f64,
    },
    /// Two independent samples; n is the number on each side.
    Sides {
        /// Sample standard deviation of the logarithms of the base.
        base: f64,
        /// Sample standard deviation of the logarithms of the new condition.
        new: f64,
    },
}

impl Design {
    /// Returns the standard error of the log ratio of n repeats, and its degrees of freedom (Welch 1947).
    fn standard_error(self, n: f64) -> (f64, f64) {
        match self {
            Design::Pairs { sd } => (sd / n.sqrt(), n - 1.0),
            Design::Sides { base, new } => {
                let (a, b) = (base * base, new * new);
                (((a + b) / n).sqrt(), (n - 1.0) * (a + b).powi(2) / (a * a + b * b))
            }
        }
    }

    fn is_valid(self) -> bool {
        let is_spread = |sd: f64| sd >= 0.0 && sd.is_finite();
        match self {
            Design::Pairs { sd } => is_spread(sd) && sd > 0.0,
            Design::Sides { base, new } => is_spread(base) && is_spread(new) && base + new > 0.0,
        }
    }
}

/// Returns the probability that `n` repeats find a true ratio of 1 + `effect` (0.03 is 3 %), that is, that the interval
/// excludes 1. NaN for fewer than two repeats, a spread that is not positive and finite, or an effect of -1 or less.
pub fn power_to_find(design: Design, n: u32, effect: f64) -> f64 {
    if n < 2 || !design.is_valid() || effect.is_nan() || effect <= -1.0 {
        return f64::NAN;
    }
    let (error, freedom) = design.standard_error(f64::from(n));
    let (noncentrality, critical) =
        (effect.ln_1p().abs() / error, two_sided_quantile(LEVEL, freedom));
    1.0 - noncentral_cdf(critical, freedom, noncentrality)
        + noncentral_cdf(-critical, freedom, noncentrality)
}

/// Returns the probability that `n` repeats of truly equal conditions show that they are equal, that is, that the
/// interval lies between 1 / (1 + `threshold`) and 1 + `threshold`. The result is a lower bound, because a miss on both
/// sides is counted twice, and it is close to the true probability if that is above one half (Phillips 1990, "Power of
/// the two one-sided tests procedure"). NaN as for [`power_to_find`].
pub fn power_to_show_same(design: Design, n: u32, threshold: f64) -> f64 {
    if n < 2 || !design.is_valid() || threshold.is_nan() || threshold <= -1.0 {
        return f64::NAN;
    }
    let (error, freedom) = design.standard_error(f64::from(n));
    let (noncentrality, critical) =
        (threshold.ln_1p().abs() / error, two_sided_quantile(LEVEL, freedom));
    (1.0 - 2.0 * noncentral_cdf(critical, freedom, noncentrality)).max(0.0)
}

/// Returns the smallest n that finds a true ratio of 1 + `effect` with probability `power`, or `None` if it would
/// exceed [`MAX_REPEATS`], if [`power_to_find`] is NaN, or if the effect is zero.
pub fn n_to_find(design: Design, effect: f64, power: f64) -> Option<u32> {
    smallest_n(power, |n| power_to_find(design, n, effect))
}

/// Returns the smallest n that shows truly equal conditions to be the same within `threshold` with probability
/// `power`, or `None` as for [`n_to_find`].
pub fn n_to_show_same(design: Design, threshold: f64, power: f64) -> Option<u32> {
    smallest_n(power, |n| power_to_show_same(design, n, threshold))
}

/// Returns the n that would decide: enough to find a true difference of `threshold`, and to show true equality within
/// `threshold`, each with probability `power`. A true difference between zero and `threshold` may remain undecided.
/// `None` as for [`n_to_find`].
///
/// The given spread is itself an estimate: from five values, the true spread is 0.6 to 2.9 times as large (95 %,
/// chi-squared with four degrees of freedom), and the required n 0.4 to 8 times.
pub fn n_that_would_decide(design: Design, threshold: f64, power: f64) -> Option<u32> {
    Some(n_to_find(design, threshold, power)?.max(n_to_show_same(design, threshold, power)?))
}

/// Returns the smallest n whose power reaches the target; power rises with n.
fn smallest_n(target: f64, power: impl Fn(u32) -> f64) -> Option<u32> {
    if !(target > 0.0 && target < 1.0) {
        return None;
    }
    let reached = |n: u32| power(n) >= target;
    let mut high = 2;
    while !reached(high) {
        high = high.checked_mul(2).filter(|n| *n <= 2 * MAX_REPEATS)?;
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if reached(middle) { high = middle } else { low = middle }
    }
    (high <= MAX_REPEATS).then_some(high)
}

/// Returns P(T <= t) of a noncentral t variable (Abramowitz and Stegun 1964, 26.7.10).
fn noncentral_cdf(t: f64, freedom: f64, noncentrality: f64) -> f64 {
    let shrunk = t * (1.0 - 1.0 / (4.0 * freedom)) - noncentrality;
    normal::cdf(shrunk / (1.0 + t * t / (2.0 * freedom)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Verdict, paired};
    use fsdyno_record::seed;

    /// Returns an effect as large as `size` standard deviations, each 0.01.
    fn effect(size: f64) -> f64 {
        (0.01 * size).exp_m1()
    }

    #[test]
    fn the_n_matches_the_noncentral_t_distribution() {
        // tests/oracle/power.py, scipy's nct: pairs, and values on each side.
        for (power, size, pairs, sides) in [
            (0.8, 3.0, 4, 4),
            (0.8, 2.0, 5, 6),
            (0.8, 1.0, 10, 17),
            (0.8, 0.2, 199, 394),
            (0.95, 3.0, 4, 5),
            (0.95, 2.0, 6, 8),
            (0.95, 1.0, 16, 27),
            (0.95, 0.5, 54, 105),
            (0.95, 0.2, 327, 651),
        ] {
            let both = Design::Sides { base: 0.01, new: 0.01 };
            assert_eq!(n_to_find(Design::Pairs { sd: 0.01 }, effect(size), power), Some(pairs));
            assert_eq!(n_to_find(both, effect(size), power), Some(sides), "{power} {size}");
        }
    }

    /// Draws normal values by the Box-Muller method.
    fn normals(seed: u64) -> impl FnMut() -> f64 {
        let mut draws = seed::stream(seed, "power");
        let mut unit = move || (draws.draw() >> 11) as f64 / (1u64 << 53) as f64;
        move || {
            let (a, b) = (1.0 - unit(), unit());
            (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()
        }
    }

    /// Returns the share of samples with true log ratio `ratio` and deviation `sd` that get the verdict.
    fn frequency(n: u32, ratio: f64, sd: f64, threshold: f64, verdict: Verdict) -> f64 {
        let mut normal = normals(17);
        let got = (0..4000).filter(|_| {
            let pairs: Vec<(f64, f64)> =
                (0..n).map(|_| (1.0, (ratio + sd * normal()).exp())).collect();
            paired(&pairs).is_some_and(|c| c.with_threshold(threshold).verdict == verdict)
        });
        got.count() as f64 / 4000.0
    }

    #[test]
    fn the_n_that_would_decide_decides_as_often_as_promised() {
        // 4000 trials estimate a share of 0.95 to +-0.0035, one standard error.
        let (sd, threshold) = (0.02, 0.02);
        let design = Design::Pairs { sd };
        let n = n_to_find(design, threshold, POWER).unwrap();
        let found = frequency(n, threshold.ln_1p(), sd, 0.0, Verdict::Slower);
        assert!(found > 0.94, "{sd} {threshold}: n = {n} finds {found}");
        let fewer = frequency(n - 2, threshold.ln_1p(), sd, 0.0, Verdict::Slower);
        assert!(fewer < 0.95, "{sd} {threshold}: n = {n} is too many: {fewer}");
        let n = n_to_show_same(design, threshold, POWER).unwrap();
        let same = frequency(n, 0.0, sd, threshold, Verdict::Same);
        assert!(same > 0.94, "{sd} {threshold}: n = {n} shows {same}");
        let fewer = frequency(n - 2, 0.0, sd, threshold, Verdict::Same);
        assert!(fewer < 0.95, "{sd} {threshold}: n = {n} is too many: {fewer}");
        assert_eq!(n_that_would_decide(design, threshold, POWER), Some(n));
    }

    #[test]
    fn eight_pairs_find_one_percent_only_if_their_spread_is_smaller() {
        // The lab's requirement (issue 6): eight paired seeds detect +1 % with a power of 95 %.
        assert!(power_to_find(Design::Pairs { sd: 0.006 }, 8, 0.01) > 0.95);
        assert!(power_to_find(Design::Pairs { sd: 0.008 }, 8, 0.01) < 0.95);
    }

    #[test]
    fn an_impossible_plan_has_no_n() {
        for sd in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(n_to_find(Design::Pairs { sd }, 0.03, POWER), None);
        }
        let design = Design::Pairs { sd: 0.1 };
        assert_eq!(n_to_find(design, 0.0, POWER), None);
        assert_eq!(n_to_find(design, 1e-9, POWER), None);
        assert_eq!(n_to_find(design, f64::NAN, POWER), None);
        assert_eq!(n_that_would_decide(design, 0.03, 1.0), None);
        assert!(power_to_find(design, 1, 0.03).is_nan());
    }
}
