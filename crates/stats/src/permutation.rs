//! Permutation tests: how often relabelling alone would set two conditions so far apart.
//!
//! They ask no distribution of the times, only that labels are exchangeable where nothing differs,
//! which a randomised order makes true (Fisher 1935, The Design of Experiments, section 21). All
//! relabellings are counted where they are few, else some are drawn by a seed.

use fsdyno_record::seed::{self, SplitMix64};

/// Up to so many relabellings all are counted: some tens of milliseconds.
pub const EXACT_UP_TO: u64 = 200_000;

/// Otherwise so many are drawn: a p-value of 0.05 is then known to +-0.0014, one standard error.
pub const DRAWN: u32 = 24_999;

/// What a permutation test tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Permutation {
    /// The probability of a difference so large, either way, by relabelling alone.
    pub p: f64,
    /// Whether every relabelling was counted.
    pub exact: bool,
    /// The least `p` that so few values can give: three against three never come below 0.1.
    pub least: f64,
}

/// Tests pairs by changing signs of the logarithms of their ratios; the statistic is their mean's
/// size. All 2^n patterns up to n = 17.
///
/// None of no pairs or where a time is not positive and finite.
pub fn paired(base_and_new: &[(f64, f64)], seed: u64) -> Option<Permutation> {
    let ratios: Option<Vec<f64>> =
        base_and_new.iter().map(|(b, n)| Some(log(*n)? - log(*b)?)).collect();
    let logs = ratios.filter(|ratios| !ratios.is_empty())?;
    let seen = logs.iter().sum::<f64>().abs();
    let far = |signs: &mut dyn FnMut(usize) -> bool| {
        let sum: f64 = logs.iter().enumerate().map(|(at, v)| if signs(at) { -v } else { *v }).sum();
        reaches(sum.abs(), seen)
    };
    let n = logs.len();
    let all = if n < 64 { 1u64 << n } else { u64::MAX };
    // The pattern as it is and its mirror image are always as far apart.
    let least = 2.0 / all as f64;
    if all <= EXACT_UP_TO {
        let hits = (0..all).filter(|bits| far(&mut |at| bits >> at & 1 == 1)).count();
        return Some(Permutation { p: hits as f64 / all as f64, exact: true, least });
    }
    let mut draws = seed::stream(seed, "signs");
    Some(drawn(least, || far(&mut |_| draws.draw() >> 63 == 1)))
}

/// Tests values that share nothing by relabelling them; the statistic is the size of the difference
/// between the means of their logarithms.
///
/// None if a side is empty or a time is not positive and finite.
pub fn two_samples(base: &[f64], new: &[f64], seed: u64) -> Option<Permutation> {
    let values: Option<Vec<f64>> = base.iter().chain(new).map(|v| log(*v)).collect();
    let mut values = values.filter(|_| !base.is_empty() && !new.is_empty())?;
    // About their mean, so that a difference of two large sums does not lose digits.
    let centre = values.iter().sum::<f64>() / values.len() as f64;
    values.iter_mut().for_each(|v| *v -= centre);
    // Of numbers whose sum is zero, the sum of one side tells the difference.
    let (n, side) = (values.len(), base.len().min(new.len()));
    let smaller = if base.len() <= new.len() { &values[..side] } else { &values[n - side..] };
    let seen = smaller.iter().sum::<f64>().abs();
    let all = choose(n as u64, side as u64);
    // Two equal sides have a mirror image.
    let least = if 2 * side == n { 2.0 } else { 1.0 } / all as f64;
    if all <= EXACT_UP_TO {
        let mut hits = 0u64;
        for_each_choice(n, side, |chosen| {
            let sum: f64 = chosen.iter().map(|at| values[*at]).sum();
            hits += u64::from(reaches(sum.abs(), seen));
        });
        return Some(Permutation { p: hits as f64 / all as f64, exact: true, least });
    }
    let mut draws = seed::stream(seed, "labels");
    Some(drawn(least, || {
        shuffle_front(&mut values, side, &mut draws);
        reaches(values[..side].iter().sum::<f64>().abs(), seen)
    }))
}

/// The share of drawn relabellings that are as far apart, the one seen counted among them, so that
/// p is never zero (Phipson and Smyth 2010, "Permutation p-values should never be zero").
fn drawn(least: f64, mut far: impl FnMut() -> bool) -> Permutation {
    let hits = (0..DRAWN).filter(|_| far()).count();
    Permutation { p: (hits + 1) as f64 / f64::from(DRAWN + 1), exact: false, least }
}

/// Whether a sum is as far out as the one seen; sums of the same numbers in another order may differ
/// by their rounding.
fn reaches(sum: f64, seen: f64) -> bool {
    sum >= seen * (1.0 - 1e-10) - 1e-14
}

fn log(time: f64) -> Option<f64> {
    (time > 0.0 && time.is_finite()).then(|| time.ln())
}

/// Binomial coefficient; the largest number where it does not fit.
fn choose(n: u64, k: u64) -> u64 {
    let step = |so_far: u128, i: u64| so_far.saturating_mul(u128::from(n - i)) / u128::from(i + 1);
    u64::try_from((0..k).fold(1, step)).unwrap_or(u64::MAX)
}

/// Every choice of `k` of `n` places, in lexicographic order (Knuth, vol. 4A, algorithm 7.2.1.3L).
fn for_each_choice(n: usize, k: usize, mut visit: impl FnMut(&[usize])) {
    let mut chosen: Vec<usize> = (0..k).collect();
    loop {
        visit(&chosen);
        let Some(at) = (0..k).rev().find(|at| chosen[*at] < n - k + at) else { return };
        chosen[at] += 1;
        (at + 1..k).for_each(|next| chosen[next] = chosen[next - 1] + 1);
    }
}

/// Brings a random choice of `k` values to the front (Fisher and Yates, stopped early).
fn shuffle_front(values: &mut [f64], k: usize, draws: &mut SplitMix64) {
    for at in 0..k {
        let rest = values.len() - at;
        values.swap(at, at + draws.below(rest as u64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: [f64; 6] = [10.0, 10.4, 9.8, 10.1, 10.2, 9.9];
    const NEW: [f64; 5] = [10.3, 10.6, 10.15, 10.5, 10.05];

    #[test]
    fn counted_tests_are_those_of_scipy() {
        // tests/oracle/permutation.py: permutation_test, all relabellings.
        let two = two_samples(&BASE, &NEW, 1).unwrap();
        assert!(two.exact && (two.p - TWO_SAMPLES).abs() < 1e-12, "{two:?}");
        assert_eq!(two_samples(&NEW, &BASE, 1).unwrap().p, two.p);
        let pairs: Vec<(f64, f64)> = BASE.into_iter().zip(NEW).collect();
        let signs = paired(&pairs, 1).unwrap();
        assert!(signs.exact && (signs.p - PAIRED).abs() < 1e-12, "{signs:?}");
    }

    // From that script.
    const TWO_SAMPLES: f64 = 0.093_073_593_073_593_07;
    const PAIRED: f64 = 0.125;

    #[test]
    fn drawn_tests_come_near_the_counted_ones() {
        // Ten against ten: 184,756 choices are counted; one more on a side, and they are drawn.
        let many: Vec<f64> = (0..10).map(|i| 10.0 + f64::from(i * 7 % 10) / 20.0).collect();
        let more: Vec<f64> = many.iter().map(|v| v + 0.1).collect();
        let counted = two_samples(&many, &more, 1).unwrap();
        assert!(counted.exact);
        let mut draws = seed::stream(5, "test");
        let values: Vec<f64> = many.iter().chain(&more).map(|v| v.ln()).collect();
        let mean = values.iter().sum::<f64>() / 20.0;
        let mut values: Vec<f64> = values.iter().map(|v| v - mean).collect();
        let seen = values[..10].iter().sum::<f64>().abs();
        let sampled = drawn(0.0, || {
            shuffle_front(&mut values, 10, &mut draws);
            reaches(values[..10].iter().sum::<f64>().abs(), seen)
        });
        assert!((sampled.p - counted.p).abs() < 0.015, "{sampled:?} {counted:?}");
        let pairs: Vec<(f64, f64)> = (0..40).map(|i| (1.0, 1.0 + f64::from(i % 3))).collect();
        let (one, two) = (paired(&pairs, 1).unwrap(), paired(&pairs, 1).unwrap());
        assert!(!one.exact && one == two && one.p < 1e-4 && one.p > 0.0, "{one:?}");
    }

    #[test]
    fn so_few_that_nothing_could_be_shown_say_so() {
        let three = two_samples(&[1.0, 1.1, 1.2], &[9.0, 9.1, 9.2], 1).unwrap();
        assert_eq!((three.p, three.least, three.exact), (0.1, 0.1, true));
        let five = paired(&[(1.0, 2.0); 5], 1).unwrap();
        assert_eq!((five.p, five.least), (2.0 / 32.0, 2.0 / 32.0));
    }

    #[test]
    fn where_nothing_differs_p_is_one_and_impossible_times_are_refused() {
        assert_eq!(paired(&[(3.0, 3.0), (4.0, 4.0)], 1).unwrap().p, 1.0);
        assert_eq!(two_samples(&[2.0, 2.0], &[2.0, 2.0], 1).unwrap().p, 1.0);
        assert!(paired(&[], 1).is_none() && paired(&[(0.0, 1.0)], 1).is_none());
        assert!(two_samples(&[], &[1.0], 1).is_none() && two_samples(&[1.0], &[-1.0], 1).is_none());
    }

    #[test]
    fn alarms_come_as_often_as_promised() {
        // 400 comparisons of values alike at 5 %: 20 expected, standard deviation 4.4.
        let mut draws = seed::stream(11, "alike");
        let mut value = || 1.0 + draws.draw() as f64 / u64::MAX as f64;
        let alarms = (0..400).filter(|_| {
            let base: Vec<f64> = (0..6).map(|_| value()).collect();
            let new: Vec<f64> = (0..6).map(|_| value()).collect();
            two_samples(&base, &new, 1).is_some_and(|test| test.p < 0.05)
        });
        let alarms = alarms.count();
        assert!((6..=34).contains(&alarms), "{alarms}");
    }
}
