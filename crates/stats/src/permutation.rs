//! Permutation tests: how often relabelling the values would by chance separate two conditions as far as was observed.
//!
//! They assume no distribution of the times, only that labels are exchangeable if the conditions do not differ, which a
//! randomised order ensures (Fisher 1935, The Design of Experiments, section 21). If there are few relabellings, all
//! are counted; otherwise a random sample is drawn with a seed.

use fsdyno_record::seed::{self, SplitMix64};

/// The largest number of relabellings that are all counted, which takes a few tens of milliseconds.
pub const EXACT_UP_TO: u64 = 200_000;

/// The number of relabellings drawn otherwise: a p-value of 0.05 is then known to +-0.0014, one standard error.
pub const DRAWN: u32 = 24_999;

/// The result of a permutation test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Permutation {
    /// The probability that a random relabelling gives a difference at least as large as the observed one.
    pub p: f64,
    /// True if every relabelling was counted.
    pub exact: bool,
    /// The smallest `p` that this number of values can give: three against three never reach a p below 0.1.
    pub smallest_p: f64,
}

/// Tests pairs by flipping the signs of the logarithms of their ratios; the statistic is the absolute value of their
/// mean. All 2^n patterns are counted up to n = 17.
///
/// `None` if there is no pair or a time is not positive and finite.
pub fn paired(base_and_new: &[(f64, f64)], seed: u64) -> Option<Permutation> {
    let ratios: Option<Vec<f64>> =
        base_and_new.iter().map(|(b, n)| Some(log(*n)? - log(*b)?)).collect();
    let logs = ratios.filter(|ratios| !ratios.is_empty())?;
    let observed = logs.iter().sum::<f64>().abs();
    let is_as_far = |signs: &mut dyn FnMut(usize) -> bool| {
        let sum: f64 =
            logs.iter().enumerate().map(|(index, v)| if signs(index) { -v } else { *v }).sum();
        reaches(sum.abs(), observed)
    };
    let n = logs.len();
    let patterns = if n < 64 { 1u64 << n } else { u64::MAX };
    // The observed pattern and its mirror image are always at least as far apart.
    let smallest_p = 2.0 / patterns as f64;
    if patterns <= EXACT_UP_TO {
        let hits =
            (0..patterns).filter(|bits| is_as_far(&mut |index| bits >> index & 1 == 1)).count();
        return Some(Permutation { p: hits as f64 / patterns as f64, exact: true, smallest_p });
    }
    let mut draws = seed::stream(seed, "signs");
    Some(sampled_test(smallest_p, || is_as_far(&mut |_| draws.draw() >> 63 == 1)))
}

/// Tests independent values by relabelling them; the statistic is the absolute difference between
/// the means of their logarithms.
///
/// `None` if a side is empty or a time is not positive and finite.
pub fn two_samples(base: &[f64], new: &[f64], seed: u64) -> Option<Permutation> {
    let values: Option<Vec<f64>> = base.iter().chain(new).map(|v| log(*v)).collect();
    let mut values = values.filter(|_| !base.is_empty() && !new.is_empty())?;
    // The mean is subtracted so that a difference of two large sums does not lose precision.
    let centre = values.iter().sum::<f64>() / values.len() as f64;
    values.iter_mut().for_each(|v| *v -= centre);
    // The sum of all values is now zero, so the sum of one side determines the difference.
    let (n, side) = (values.len(), base.len().min(new.len()));
    let smaller = if base.len() <= new.len() { &values[..side] } else { &values[n - side..] };
    let observed = smaller.iter().sum::<f64>().abs();
    let all = choose(n as u64, side as u64);
    // Two sides of equal size also have a mirror image.
    let smallest_p = if 2 * side == n { 2.0 } else { 1.0 } / all as f64;
    if all <= EXACT_UP_TO {
        let mut hits = 0u64;
        for_each_choice(n, side, |chosen| {
            let sum: f64 = chosen.iter().map(|index| values[*index]).sum();
            hits += u64::from(reaches(sum.abs(), observed));
        });
        return Some(Permutation { p: hits as f64 / all as f64, exact: true, smallest_p });
    }
    let mut draws = seed::stream(seed, "labels");
    Some(sampled_test(smallest_p, || {
        shuffle_front(&mut values, side, &mut draws);
        reaches(values[..side].iter().sum::<f64>().abs(), observed)
    }))
}

/// Returns the share of drawn relabellings that are at least as far apart. The observed one is counted too, so p is
/// never zero (Phipson and Smyth 2010, "Permutation p-values should never be zero").
fn sampled_test(smallest_p: f64, mut is_as_far: impl FnMut() -> bool) -> Permutation {
    let hits = (0..DRAWN).filter(|_| is_as_far()).count();
    Permutation { p: (hits + 1) as f64 / f64::from(DRAWN + 1), exact: false, smallest_p }
}

/// Returns true if a sum is at least the observed one; sums of the same numbers in a different order may differ by
/// rounding.
fn reaches(sum: f64, observed: f64) -> bool {
    sum >= observed * (1.0 - 1e-10) - 1e-14
}

fn log(time: f64) -> Option<f64> {
    (time > 0.0 && time.is_finite()).then(|| time.ln())
}

/// Returns the binomial coefficient; `u64::MAX` if it does not fit.
fn choose(n: u64, k: u64) -> u64 {
    let step = |so_far: u128, i: u64| so_far.saturating_mul(u128::from(n - i)) / u128::from(i + 1);
    u64::try_from((0..k).fold(1, step)).unwrap_or(u64::MAX)
}

/// Visits every choice of `k` of `n` indices, in lexicographic order (Knuth, vol. 4A, algorithm 7.2.1.3L).
fn for_each_choice(n: usize, k: usize, mut visit: impl FnMut(&[usize])) {
    let mut chosen: Vec<usize> = (0..k).collect();
    loop {
        visit(&chosen);
        let Some(last) = (0..k).rev().find(|index| chosen[*index] < n - k + index) else { return };
        chosen[last] += 1;
        (last + 1..k).for_each(|next| chosen[next] = chosen[next - 1] + 1);
    }
}

/// Moves a random choice of `k` values to the front (a partial Fisher-Yates shuffle).
fn shuffle_front(values: &mut [f64], k: usize, draws: &mut SplitMix64) {
    for index in 0..k {
        let remaining = values.len() - index;
        values.swap(index, index + draws.below(remaining as u64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: [f64; 6] = [10.0, 10.4, 9.8, 10.1, 10.2, 9.9];
    const NEW: [f64; 5] = [10.3, 10.6, 10.15, 10.5, 10.05];

    #[test]
    fn exact_tests_match_scipy() {
        // tests/oracle/permutation.py: permutation_test, all relabellings.
        let two = two_samples(&BASE, &NEW, 1).unwrap();
        assert!(two.exact && (two.p - TWO_SAMPLES).abs() < 1e-12, "{two:?}");
        assert_eq!(two_samples(&NEW, &BASE, 1).unwrap().p, two.p);
        let pairs: Vec<(f64, f64)> = BASE.into_iter().zip(NEW).collect();
        let signs = paired(&pairs, 1).unwrap();
        assert!(signs.exact && (signs.p - PAIRED).abs() < 1e-12, "{signs:?}");
    }

    // From tests/oracle/permutation.py.
    const TWO_SAMPLES: f64 = 0.093_073_593_073_593_07;
    const PAIRED: f64 = 0.125;

    #[test]
    fn sampled_tests_approximate_the_counted_ones() {
        // Ten against ten: 184,756 choices are counted; with one more on a side, they are drawn.
        let many: Vec<f64> = (0..10).map(|i| 10.0 + f64::from(i * 7 % 10) / 20.0).collect();
        let more: Vec<f64> = many.iter().map(|v| v + 0.1).collect();
        let counted = two_samples(&many, &more, 1).unwrap();
        assert!(counted.exact);
        let mut draws = seed::stream(5, "test");
        let values: Vec<f64> = many.iter().chain(&more).map(|v| v.ln()).collect();
        let mean = values.iter().sum::<f64>() / 20.0;
        let mut values: Vec<f64> = values.iter().map(|v| v - mean).collect();
        let observed = values[..10].iter().sum::<f64>().abs();
        let sampled = sampled_test(0.0, || {
            shuffle_front(&mut values, 10, &mut draws);
            reaches(values[..10].iter().sum::<f64>().abs(), observed)
        });
        assert!((sampled.p - counted.p).abs() < 0.015, "{sampled:?} {counted:?}");
        let pairs: Vec<(f64, f64)> = (0..40).map(|i| (1.0, 1.0 + f64::from(i % 3))).collect();
        let (one, two) = (paired(&pairs, 1).unwrap(), paired(&pairs, 1).unwrap());
        assert!(!one.exact && one == two && one.p < 1e-4 && one.p > 0.0, "{one:?}");
    }

    #[test]
    fn too_few_values_report_the_smallest_possible_p() {
        let three = two_samples(&[1.0, 1.1, 1.2], &[9.0, 9.1, 9.2], 1).unwrap();
        assert_eq!((three.p, three.smallest_p, three.exact), (0.1, 0.1, true));
        let five = paired(&[(1.0, 2.0); 5], 1).unwrap();
        assert_eq!((five.p, five.smallest_p), (2.0 / 32.0, 2.0 / 32.0));
    }

    #[test]
    fn p_is_one_if_nothing_differs_and_impossible_times_are_rejected() {
        assert_eq!(paired(&[(3.0, 3.0), (4.0, 4.0)], 1).unwrap().p, 1.0);
        assert_eq!(two_samples(&[2.0, 2.0], &[2.0, 2.0], 1).unwrap().p, 1.0);
        assert!(paired(&[], 1).is_none() && paired(&[(0.0, 1.0)], 1).is_none());
        assert!(two_samples(&[], &[1.0], 1).is_none() && two_samples(&[1.0], &[-1.0], 1).is_none());
    }

    #[test]
    fn false_alarms_occur_at_the_nominal_rate() {
        // 400 comparisons of equal conditions at 5 %: 20 expected, standard deviation 4.4.
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
