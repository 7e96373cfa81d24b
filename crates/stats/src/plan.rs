//! Sets the number and the order of repeats, by rules that are fixed before the first result is known.
//!
//! Stopping when an interval looks narrow enough makes intervals too narrow. Therefore there are only two rules: a
//! fixed number, or Stein's two stages: a pilot that only estimates the spread, and one number of repeats derived from
//! this estimate ("A two-sample test for a linear hypothesis whose power is independent of the variance", Annals of
//! Mathematical Statistics 16, 1945).

use fsdyno_record::seed;

use crate::interval::{LEVEL, logs};
use crate::student::two_sided_quantile;

/// Repeats of the pilot (issue 6). With fewer, t is so large that the second stage costs more than the smaller pilot
/// saves: at the same spread, a pilot of three repeats leads to 2.4 times as many repeats in total, and a pilot of two
/// to twenty times as many.
pub const PILOT: u32 = 5;

/// The rule that sets the number of repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// A fixed number.
    Fixed(u32),
    /// A pilot of [`PILOT`], then as many repeats as the requested width needs.
    TwoStage {
        /// The requested half width of the 95 % interval of a geometric mean or ratio, relative:
        /// 0.01 is 1 %.
        half_width: f64,
        /// The maximum number of repeats.
        cap: u32,
    },
}

/// The total number of repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    /// Repeats of each condition, including the pilot.
    pub n: u32,
    /// The number that the rule requires; more than `n` if it exceeds the cap.
    pub wanted: u32,
    /// True if `n` is the required number. Otherwise the result is shown as "not reached", with its cap.
    pub reached: bool,
}

impl Rule {
    /// Returns the number of repeats to run before [`Rule::total`] is called: all repeats of a fixed number; for two
    /// stages the pilot, limited by the cap.
    pub fn first(self) -> u32 {
        match self {
            Rule::Fixed(n) => n,
            Rule::TwoStage { cap, .. } => PILOT.min(cap),
        }
    }

    /// Returns the number of repeats, from the first-stage values of each condition (or of each ratio). All conditions
    /// have the same number, set by the one with the largest spread, because every block includes every condition.
    ///
    /// The second stage raises n to t^2 s^2 / d^2, rounded up: s from the logarithms of the pilot, t
    /// with its degrees of freedom, d = ln(1 + half width) (Stein 1945).
    ///
    /// `None` if the rule has two stages and a condition has fewer than two values, a value is not
    /// positive and finite, or the requested width is not positive.
    pub fn total<V: AsRef<[f64]>>(self, first: &[V]) -> Option<Total> {
        let (half_width, cap) = match self {
            Rule::Fixed(n) => return Some(Total { n, wanted: n, reached: true }),
            Rule::TwoStage { half_width, cap } => (half_width, cap),
        };
        if first.is_empty() || !(half_width > 0.0 && half_width.is_finite()) {
            return None;
        }
        let mut wanted = self.first();
        for values in first {
            let pilot = logs(values.as_ref())?;
            let t = two_sided_quantile(LEVEL, (pilot.n - 1) as f64);
            let n = (t * pilot.sd? / half_width.ln_1p()).powi(2).ceil();
            // The cast saturates if the float is too large.
            wanted = wanted.max(n as u32);
        }
        Some(Total { n: wanted.min(cap), wanted, reached: wanted <= cap })
    }
}

/// Returns the order of the runs: each condition once in every block, and each block shuffled by the stored seed
/// (randomised complete blocks; Fisher, The Design of Experiments, 1935, chapter IV). A drift on a host then affects
/// all conditions alike.
///
/// A block's order depends only on the seed and on the block's number, so a second stage adds blocks without changing
/// earlier ones.
pub fn order(conditions: usize, blocks: std::ops::Range<u32>, seed: u64) -> Vec<Vec<usize>> {
    let shuffled = |block: u32| {
        let mut order: Vec<usize> = (0..conditions).collect();
        let mut draws = seed::stream(seed, &format!("order of round {block}"));
        // Fisher and Yates's shuffle, from the end (Knuth, vol. 2, algorithm 3.4.2P).
        for last in (1..conditions).rev() {
            order.swap(last, draws.below(last as u64 + 1) as usize);
        }
        order
    };
    blocks.map(shuffled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::stein_interval;

    #[test]
    fn the_n_of_the_second_stage_matches_a_worked_example() {
        // Logs -0.02 -0.01 0 0.01 0.02: s^2 = 0.00025, t(4) = 2.7764, d = 0.01:
        // 2.7764^2 * 0.00025 / 0.0001 = 19.27.
        let pilot: Vec<f64> = (-2..=2).map(|i| (f64::from(i) / 100.0).exp()).collect();
        let calm = vec![1.0, 1.001, 1.0, 0.999, 1.0];
        let half_width = 0.01f64.exp_m1();
        let rule = Rule::TwoStage { half_width, cap: 30 };
        assert_eq!(rule.first(), 5);
        let total = rule.total(&[calm.clone(), pilot.clone()]).unwrap();
        assert_eq!(total, Total { n: 20, wanted: 20, reached: true });
        assert_eq!(rule.total(&[calm]).unwrap(), Total { n: 5, wanted: 5, reached: true });
        let capped = Rule::TwoStage { half_width, cap: 12 }.total(&[pilot]).unwrap();
        assert_eq!(capped, Total { n: 12, wanted: 20, reached: false });
    }

    #[test]
    fn a_fixed_number_is_fixed_and_a_pilot_without_spread_plans_nothing() {
        let none: [[f64; 0]; 0] = [];
        let fixed = Rule::Fixed(7);
        assert_eq!((fixed.first(), fixed.total(&none).unwrap().n), (7, 7));
        let rule = Rule::TwoStage { half_width: 0.01, cap: 100 };
        assert_eq!(rule.total(&none), None);
        for bad in [[1.0, 0.0], [1.0, f64::NAN], [-1.0, 1.0]] {
            assert_eq!(rule.total(&[bad]), None);
        }
        assert_eq!(rule.total(&[[1.0]]), None);
        assert_eq!(Rule::TwoStage { half_width: 0.0, cap: 9 }.total(&[[1.0, 2.0]]), None);
        assert_eq!(Rule::TwoStage { half_width: 0.1, cap: 3 }.first(), 3);
        let still = rule.total(&[[2.0; 5]]).unwrap();
        assert_eq!((still.n, still.reached), (5, true));
        let endless = Rule::TwoStage { half_width: 1e-12, cap: 50 }.total(&[[1.0, 9.0]]).unwrap();
        assert_eq!((endless.n, endless.wanted, endless.reached), (50, u32::MAX, false));
    }

    #[test]
    fn steins_interval_covers_and_is_no_wider_than_requested() {
        // Normal logs by Box and Muller, true mean 0; 2000 studies estimate 0.95 to +-0.005.
        let mut draws = seed::stream(23, "stein");
        let mut unit = || (draws.draw() >> 11) as f64 / (1u64 << 53) as f64;
        let mut value = || {
            let (a, b) = (1.0 - unit(), unit());
            (0.05 * (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()).exp()
        };
        let rule = Rule::TwoStage { half_width: 0.04, cap: u32::MAX };
        let mut covered = 0;
        for _ in 0..2000 {
            let mut values: Vec<f64> = (0..PILOT).map(|_| value()).collect();
            let n = rule.total(&[&values]).unwrap().n;
            values.extend((PILOT..n).map(|_| value()));
            let (low, high) = stein_interval(&values, PILOT as usize).unwrap();
            assert!((high / low).sqrt() <= 1.04 + 1e-12, "{low} {high}");
            covered += usize::from(low <= 1.0 && high >= 1.0);
        }
        assert!((1880..=1990).contains(&covered), "{covered} of 2000");
        assert_eq!(stein_interval(&[1.0, 2.0], 5), None);
        assert_eq!(stein_interval(&[1.0, 2.0], 1), None);
    }

    #[test]
    fn false_alarms_after_two_stages_are_hardly_above_the_nominal_rate() {
        // Two equal conditions whose n was set by the pilot with the larger spread, by Welch and by pairs: n depends on
        // the spread of each, not on their difference. 4000 comparisons at 5 %: 200 +-14.
        let mut draws = seed::stream(29, "two stages");
        let mut unit = || (draws.draw() >> 11) as f64 / (1u64 << 53) as f64;
        let mut value = || {
            let (a, b) = (1.0 - unit(), unit());
            (0.05 * (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()).exp()
        };
        let rule = Rule::TwoStage { half_width: 0.04, cap: 200 };
        let (mut welch, mut paired) = (0, 0);
        for _ in 0..4000 {
            let mut sides: Vec<Vec<f64>> =
                (0..2).map(|_| (0..5).map(|_| value()).collect()).collect();
            let n = rule.total(&sides).unwrap().n;
            sides.iter_mut().for_each(|side| side.extend((5..n).map(|_| value())));
            let alarm =
                |c: Option<crate::compare::Comparison>| u32::from(c.unwrap().p.unwrap() < 0.05);
            welch += alarm(crate::compare::welch(&sides[0], &sides[1]));
            let pairs: Vec<(f64, f64)> =
                sides[0].iter().copied().zip(sides[1].iter().copied()).collect();
            paired += alarm(crate::compare::paired(&pairs));
        }
        println!("of 4000: {welch} by Welch, {paired} by pairs");
        assert!(welch < 280 && paired < 280, "{welch} {paired}");
        assert!(welch > 120 && paired > 120, "{welch} {paired}");
    }

    #[test]
    fn the_order_follows_the_published_algorithms() {
        // tests/oracle/order.py.
        let expected = ORDER;
        assert_eq!(order(5, 0..3, 42), expected);
        assert_eq!(order(5, 1..3, 42), expected[1..], "a second stage moves no block");
    }

    // From tests/oracle/order.py.
    const ORDER: [[usize; 5]; 3] = [[3, 0, 2, 1, 4], [0, 4, 1, 3, 2], [0, 1, 3, 4, 2]];

    #[test]
    fn every_block_has_each_condition_once_and_no_position_is_preferred() {
        let blocks = order(4, 0..4000, 9);
        let mut seen = [[0u32; 4]; 4];
        for block in &blocks {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            block
                .iter()
                .enumerate()
                .for_each(|(position, condition)| seen[*condition][position] += 1);
        }
        // 1000 expected, standard deviation 27.
        assert!(seen.iter().flatten().all(|n| (880..=1120).contains(n)), "{seen:?}");
        assert!(order(0, 0..2, 1).iter().all(Vec::is_empty));
    }
}
