//! Comparison of two conditions: their ratio, its 95 % interval, and a verdict, which may be undecided ("~").
//!
//! The displayed interval determines the verdict, with two exceptions: the verdict is neither faster nor slower if a
//! p-value does not exclude chance, and it is undecided if it is withheld. Ratios that differ too little from 1 to
//! matter form a band (`threshold` 0.03: 1/1.03 to 1.03):
//!
//! | interval | verdict |
//! |---|---|
//! | wholly within the band | same (two one-sided tests, Schuirmann 1987, each at 2.5 %) |
//! | otherwise, excluding 1 | faster or slower |
//! | otherwise | undecided |
//!
//! A verdict other than undecided becomes [`Verdict::WithinError`] if a systematic error could explain the ratio. Such
//! an error is shared by all values of one side, so repeats do not reduce it.

use crate::holm::holm;
use crate::interval::{LEVEL, Summary};
use crate::permutation::Permutation;
use crate::power::{Design, POWER, n_that_would_decide};
use crate::student::{two_sided_quantile, two_sided_tail};

/// A verdict on the new condition, from a comparison of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The new condition took less time, and the interval excludes chance.
    Faster,
    /// The new condition took more time, and the interval excludes chance.
    Slower,
    /// The interval lies within the band of differences that do not matter; without a band, the times
    /// are exactly equal.
    Same,
    /// The data do not decide.
    Undecided,
    /// The data decide, but the systematic error is at least as large as the difference or, if the times are the same,
    /// larger than the threshold.
    WithinError,
}

/// The statistical method of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The t interval of the logarithms of the pairs' ratios.
    Paired,
    /// Welch's t interval of the logarithms.
    Welch,
}

/// The ratio of two times, new over base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The method.
    pub method: Method,
    /// Number of pairs, or of values on the smaller side.
    pub n: usize,
    /// Ratio of the geometric means; below 1 the new condition took less time.
    pub ratio: f64,
    /// The 95 % interval of the ratio, or `None` if a single value leaves it unknown.
    pub interval: Option<(f64, f64)>,
    /// True if nothing varied: the pairs' ratios, or the values of each side, are exactly equal. The interval
    /// then has zero width because no spread was observed, not because none is possible, and the
    /// verdict is based on the difference alone. Tables mark it "exact".
    pub exact: bool,
    /// The probability of a ratio at least this far from 1 if the conditions do not differ, by the t test of `method`,
    /// or `None` for a single value or if nothing varied.
    pub p: Option<f64>,
    /// `p` adjusted for the number of comparisons in a table; set by [`adjust`].
    pub p_in_table: Option<f64>,
    /// The result of a permutation test of the values, if one was made ([`Comparison::with_permutation`]).
    pub relabelled: Option<Permutation>,
    /// True if the verdict is withheld regardless of the interval ([`Comparison::without_verdict`]).
    pub withheld: bool,
    /// Standard error of the logarithm of the ratio, and its degrees of freedom, or `None` for a single value or if
    /// nothing varied.
    pub error: Option<(f64, f64)>,
    /// The spread from which the n of further trials is planned, or `None` for a single value or if nothing varied.
    pub design: Option<Design>,
    /// The minimum difference that matters (0.03 is 3 %), or zero if every difference matters.
    pub threshold: f64,
    /// The systematic error of the ratio (0.2 is 20 %), or zero if there is none.
    pub systematic: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Relative difference up to which the ratios of two pairs count as equal, to allow for the rounding of the divisions.
/// A nanosecond in a day is a relative difference ten times as large.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// Compares times paired by seed, as in the lab: both times of a pair share all random choices, so the t interval is
/// that of the logarithms of the pairs' ratios.
///
/// `None` if there is no pair or a time is not positive.
pub fn paired(base_and_new: &[(f64, f64)]) -> Option<Comparison> {
    let valid = base_and_new.iter().all(|(base, new)| log(*base).and(log(*new)).is_some());
    let logs: Vec<f64> = base_and_new.iter().map(|(base, new)| (new / base).ln()).collect();
    let summary = Summary::of(&logs).filter(|_| valid)?;
    let constant = logs.iter().all(|log| (log - logs[0]).abs() <= ROUNDING);
    let spread = summary.sd.map(|sd| {
        let error = sd / (summary.n as f64).sqrt();
        Spread { error, freedom: (summary.n - 1) as f64, design: Design::Pairs { sd } }
    });
    let centre = if constant { logs[0] } else { summary.mean };
    Some(Comparison::new(Method::Paired, summary.n, centre, spread, constant))
}

/// Compares independent times, as on a host, by Welch's t interval of their logarithms with
/// the degrees of freedom of Welch and Satterthwaite (Welch 1947).
///
/// `None` if a side is empty or a time is not positive.
pub fn welch(base: &[f64], new: &[f64]) -> Option<Comparison> {
    let logs = |values: &[f64]| values.iter().map(|v| log(*v)).collect::<Option<Vec<f64>>>();
    let equal = |values: &[f64]| values.windows(2).all(|pair| pair[0] == pair[1]);
    let constant = equal(base) && equal(new);
    let centre = if constant { (new.first()? / base.first()?).ln() } else { f64::NAN };
    let (base, new) = (Summary::of(&logs(base)?)?, Summary::of(&logs(new)?)?);
    let spread = base.sd.zip(new.sd).map(|(base_sd, new_sd)| {
        let (a, b) = (base_sd.powi(2) / base.n as f64, new_sd.powi(2) / new.n as f64);
        let freedom =
            (a + b).powi(2) / (a.powi(2) / (base.n - 1) as f64 + b.powi(2) / (new.n - 1) as f64);
        let design = Design::Sides { base: base_sd, new: new_sd };
        Spread { error: (a + b).sqrt(), freedom, design }
    });
    let centre = if constant { centre } else { new.mean - base.mean };
    Some(Comparison::new(Method::Welch, base.n.min(new.n), centre, spread, constant))
}

/// The spread of a log ratio.
struct Spread {
    error: f64,
    freedom: f64,
    design: Design,
}

fn log(time: f64) -> Option<f64> {
    (time > 0.0 && time.is_finite()).then(|| time.ln())
}

impl Comparison {
    fn new(
        method: Method,
        n: usize,
        log_ratio: f64,
        spread: Option<Spread>,
        constant: bool,
    ) -> Comparison {
        let exact = constant && spread.is_some();
        let spread = spread.filter(|_| !exact);
        let half = spread.as_ref().map(|s| two_sided_quantile(LEVEL, s.freedom) * s.error);
        let half = if exact { Some(0.0) } else { half };
        let comparison = Comparison {
            method,
            n,
            ratio: log_ratio.exp(),
            interval: half.map(|half| ((log_ratio - half).exp(), (log_ratio + half).exp())),
            exact,
            p: spread.as_ref().map(|s| two_sided_tail(log_ratio / s.error, s.freedom)),
            p_in_table: None,
            relabelled: None,
            withheld: false,
            error: spread.as_ref().map(|s| (s.error, s.freedom)),
            design: spread.map(|s| s.design),
            threshold: 0.0,
            systematic: 0.0,
            verdict: Verdict::Undecided,
        };
        comparison.decide()
    }

    /// Sets the minimum difference that matters (0.03 is 3 %) and decides the verdict; a negative number or NaN counts
    /// as zero.
    pub fn with_threshold(mut self, threshold: f64) -> Comparison {
        self.threshold = if threshold > 0.0 { threshold } else { 0.0 };
        self.decide()
    }

    /// Adds a permutation test to the t test, for values measured on a host, whose distribution may not be normal: if
    /// the permutation test could have shown a difference at 5 % with this number of values and does not, the verdict
    /// is neither faster nor slower. With at most three values on each side, the permutation test cannot reach 5 %.
    pub fn with_permutation(mut self, test: Option<Permutation>) -> Comparison {
        self.relabelled = test;
        self.decide()
    }

    /// Withholds the verdict, because a flag forbids one for these values
    /// (`Flag::forbids_verdict` of the report).
    pub fn without_verdict(mut self) -> Comparison {
        self.withheld = true;
        self.decide()
    }

    /// Sets the systematic error of the ratio (0.2 is 20 %); a negative number or NaN counts as zero.
    pub fn with_systematic(mut self, error: f64) -> Comparison {
        self.systematic = if error > 0.0 { error } else { 0.0 };
        self.decide()
    }

    fn decide(mut self) -> Comparison {
        let band = 1.0 + self.threshold;
        let chance = self.may_be_chance();
        self.verdict = match self.interval {
            None => Verdict::Undecided,
            Some(_) if self.withheld => Verdict::Undecided,
            Some((low, high)) if low >= 1.0 / band && high <= band => Verdict::Same,
            Some((_, high)) if high < 1.0 && !chance => Verdict::Faster,
            Some((low, _)) if low > 1.0 && !chance => Verdict::Slower,
            Some(_) => Verdict::Undecided,
        };
        let is_within_error = match self.verdict {
            Verdict::Faster | Verdict::Slower => self.ratio.ln().abs() <= self.systematic.ln_1p(),
            Verdict::Same => self.systematic > self.threshold,
            Verdict::Undecided | Verdict::WithinError => false,
        };
        if is_within_error {
            self.verdict = Verdict::WithinError;
        }
        self
    }

    /// Returns the table footnote for an interval that needs an explanation, or `None` if it needs none.
    pub fn note(&self) -> Option<&'static str> {
        match self.interval {
            _ if self.withheld => None,
            None => Some("n = 1: the spread is unknown, so there is no verdict"),
            Some(_) if self.exact => Some(
                "exact: no two repeats differed, so the verdict is based on the difference alone",
            ),
            Some(_) => None,
        }
    }

    /// Returns true if a p-value does not exclude chance.
    fn may_be_chance(&self) -> bool {
        let alpha = 1.0 - LEVEL;
        let relabelled = self.relabelled.filter(|test| test.smallest_p < alpha);
        self.p_in_table.or(self.p).is_some_and(|p| p >= alpha)
            || relabelled.is_some_and(|test| test.p >= alpha)
    }

    /// Returns whether the new condition takes longer by more than the threshold: true if the whole interval lies above
    /// the threshold, false if the whole interval lies at or below it, `None` if neither is certain. For a bisection
    /// these are bad, good and skip.
    pub fn regressed(&self) -> Option<bool> {
        let (low, high) = self.interval.filter(|_| !self.withheld)?;
        if self.verdict == Verdict::WithinError {
            return None;
        }
        let limit = 1.0 + self.threshold;
        if low > limit {
            return (!self.may_be_chance()).then_some(true);
        }
        (high <= limit).then_some(false)
    }

    /// Returns the number of pairs, or of values on each side, that would find a true difference as large as the
    /// threshold and show true equality within the threshold, each with a probability of 95 %, if the spread stays the
    /// same. `None` if there is no threshold, no spread was observed, or the number exceeds a million.
    pub fn n_that_would_decide(&self) -> Option<u32> {
        n_that_would_decide(self.design?, self.threshold, POWER)
    }
}

/// Corrects the comparisons of one table for their number by Holm's method: a comparison whose adjusted p is not below
/// 5 % is neither faster nor slower. "Same" is unaffected, because it does not depend on a small p. A comparison
/// without a p (with a single value, or without any variation) was not tested and does not count. The intervals are
/// not adjusted.
///
/// `unshown` are p-values of comparisons that the same data could have put into the table: if the base was chosen
/// because it is the best, every pair of rows belongs to the family, whether or not it is displayed.
pub fn adjust(table: &mut [Comparison], unshown: &[f64]) {
    let tested: Vec<&mut Comparison> = table.iter_mut().filter(|c| c.p.is_some()).collect();
    let mut p: Vec<f64> = tested.iter().map(|c| c.p.unwrap_or(1.0)).collect();
    p.extend(unshown);
    for (comparison, p) in tested.into_iter().zip(holm(&p)) {
        comparison.p_in_table = Some(p);
        *comparison = comparison.decide();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_move_together_show_a_small_change_that_welch_cannot_see() {
        let base = [10.0, 20.0, 30.0, 40.0];
        let new = [10.11, 20.19, 30.31, 40.38];
        let pairs: Vec<(f64, f64)> = base.into_iter().zip(new).collect();
        let comparison = paired(&pairs).unwrap();
        assert_eq!(comparison.verdict, Verdict::Slower);
        assert!((comparison.ratio - 1.01).abs() < 1e-3);
        assert_eq!(welch(&base, &new).unwrap().verdict, Verdict::Undecided);
    }

    #[test]
    fn a_single_pair_decides_nothing_however_large_its_difference() {
        let comparison = paired(&[(1.0, 9.0)]).unwrap();
        assert_eq!((comparison.verdict, comparison.interval), (Verdict::Undecided, None));
        assert_eq!(welch(&[1.0, 1.1], &[9.0]).unwrap().verdict, Verdict::Undecided);
    }

    #[test]
    fn halved_times_are_faster_by_both_tests() {
        let (base, new) = ([10.0, 10.2, 9.9], [5.0, 5.1, 4.9]);
        let pairs: Vec<(f64, f64)> = base.into_iter().zip(new).collect();
        assert_eq!(paired(&pairs).unwrap().verdict, Verdict::Faster);
        assert_eq!(welch(&base, &new).unwrap().verdict, Verdict::Faster);
    }

    #[test]
    fn welch_has_the_interval_of_a_worked_example() {
        // Logs {0, 1, 2} and {2, 4, 6, 8}: a = 1/3, b = 5/3, freedom = 4 / (1/18 + 25/27) = 4.0755,
        // t = 2.7563 (statrs), half width = 2.7563 * sqrt(2) = 3.8980.
        let exp = |logs: &[f64]| logs.iter().map(|v: &f64| v.exp()).collect::<Vec<_>>();
        let c = welch(&exp(&[0.0, 1.0, 2.0]), &exp(&[2.0, 4.0, 6.0, 8.0])).unwrap();
        let (low, high) = c.interval.unwrap();
        assert!((c.ratio.ln() - 4.0).abs() < 1e-9);
        use statrs::distribution::{ContinuousCDF, StudentsT};
        let t = StudentsT::new(0.0, 1.0, 4.0 / (1.0 / 18.0 + 25.0 / 27.0)).unwrap();
        let half = t.inverse_cdf(0.975) * 2f64.sqrt();
        assert!((low.ln() - (4.0 - half)).abs() < 1e-6 && (high.ln() - (4.0 + half)).abs() < 1e-6);
    }

    #[test]
    fn identical_conditions_are_the_same_and_impossible_times_are_rejected() {
        assert_eq!(paired(&[(2.0, 2.0), (3.0, 3.0)]).unwrap().verdict, Verdict::Same);
        assert_eq!(welch(&[2.0, 2.0], &[2.0, 2.0]).unwrap().verdict, Verdict::Same);
        assert_eq!(paired(&[]), None);
        assert_eq!(paired(&[(0.0, 1.0)]), None);
    }

    #[test]
    fn without_spread_the_verdict_follows_the_difference_and_is_marked_exact() {
        // Equal ratios of unequal times, whose quotients are rounded.
        let thirds: Vec<(f64, f64)> =
            (1..9).map(|i| (f64::from(i) / 7.0, f64::from(i) / 7.0 * 1.1)).collect();
        let pairs = paired(&thirds).unwrap();
        assert!(pairs.exact && pairs.p.is_none() && pairs.design.is_none(), "{pairs:?}");
        assert_eq!(pairs.verdict, Verdict::Slower);
        let (low, high) = pairs.interval.unwrap();
        assert!(low == high && (low - 1.1).abs() < 1e-12);
        assert_eq!(pairs.with_threshold(0.2).verdict, Verdict::Same);
        let sides = welch(&[2.0; 3], &[1.9; 3]).unwrap();
        assert!(sides.exact && sides.verdict == Verdict::Faster);
        // One nanosecond in ten thousand seconds is spread, not rounding.
        let varied = paired(&[(1e4, 1e4), (1e4, 1e4 + 1e-9)]).unwrap();
        assert!(!varied.exact && varied.verdict == Verdict::Undecided);
        // One value is not exact: it shows no spread and no lack of it.
        assert!(!paired(&[(2.0, 2.0)]).unwrap().exact && !welch(&[2.0], &[2.0]).unwrap().exact);
        let half = welch(&[2.0; 3], &[1.9, 1.9, 1.8]).unwrap();
        assert!(!half.exact && half.p.is_some());
        let notes = [pairs.note(), welch(&[2.0], &[3.0]).and_then(|c| c.note()), half.note()];
        let starts = notes.map(|note| note.map(|note| note.split(':').next() == Some("exact")));
        assert_eq!(starts, [Some(true), Some(false), None]);
    }

    #[test]
    fn the_band_of_unimportant_differences_determines_the_verdict() {
        // Two pairs whose log ratios are m - d and m + d: half width 12.706 d.
        let pairs_with_interval = |m: f64, half: f64| {
            let d = half / two_sided_quantile(LEVEL, 1.0);
            paired(&[(1.0, (m - d).exp()), (1.0, (m + d).exp())]).unwrap()
        };
        let threshold = 0.03;
        for (m, half, plain, banded, regressed) in [
            (0.0, 0.02, Verdict::Undecided, Verdict::Same, Some(false)),
            (0.0, 0.04, Verdict::Undecided, Verdict::Undecided, None),
            (0.01, 0.005, Verdict::Slower, Verdict::Same, Some(false)),
            (0.03, 0.02, Verdict::Slower, Verdict::Slower, None),
            (0.05, 0.01, Verdict::Slower, Verdict::Slower, Some(true)),
            (-0.05, 0.01, Verdict::Faster, Verdict::Faster, Some(false)),
            (-0.03, 0.04, Verdict::Undecided, Verdict::Undecided, Some(false)),
        ] {
            let comparison = pairs_with_interval(m, half);
            assert_eq!(comparison.verdict, plain, "{m} {half}");
            let comparison = comparison.with_threshold(threshold);
            assert_eq!((comparison.verdict, comparison.regressed()), (banded, regressed), "{m}");
            assert_eq!(comparison.with_threshold(f64::NAN).verdict, plain);
        }
    }

    #[test]
    fn p_and_interval_agree_and_p_is_that_of_scipy() {
        // tests/oracle/compare.py: ttest_ind(equal_var=False) and ttest_rel of the logarithms.
        let base = [10.0, 10.4, 9.8, 10.1, 10.2];
        let new = [10.3, 10.6, 10.15, 10.5, 10.05];
        let pairs: Vec<(f64, f64)> = base.into_iter().zip(new).collect();
        let (pairs, sides) = (paired(&pairs).unwrap(), welch(&base, &new).unwrap());
        assert!((pairs.p.unwrap() - PAIRED).abs() < 1e-8, "{pairs:?}");
        assert!((sides.p.unwrap() - WELCH).abs() < 1e-8, "{sides:?}");
        let (low, high) = sides.interval.unwrap();
        assert!((low - WELCH_LOW).abs() < 1e-8 && (high - WELCH_HIGH).abs() < 1e-8, "{sides:?}");
    }

    // The output of that script.
    const PAIRED: f64 = 0.090_105_628_938_341_06;
    const WELCH: f64 = 0.164_268_811_470_431_7;
    const WELCH_LOW: f64 = 0.989_155_899_247_101;
    const WELCH_HIGH: f64 = 1.055_476_741_348_414_3;

    #[test]
    fn a_larger_table_requires_a_smaller_p() {
        // A single comparison is slower at p = 0.03. In a table of twenty such comparisons, or of one whose family
        // has a second one that is not displayed, none is significant.
        let half = 0.1 / two_sided_tail_inverse(0.03) * two_sided_quantile(LEVEL, 1.0);
        let d = half / two_sided_quantile(LEVEL, 1.0);
        let alone = paired(&[(1.0, (0.1 - d).exp()), (1.0, (0.1 + d).exp())]).unwrap();
        assert!((alone.p.unwrap() - 0.03).abs() < 1e-6 && alone.verdict == Verdict::Slower);
        let mut table = vec![alone; 20];
        let single = paired(&[(1.0, 2.0)]).unwrap();
        let exact = paired(&[(1.0, 2.0); 3]).unwrap();
        table.extend([single, exact]);
        adjust(&mut table, &[]);
        assert!(table[..20].iter().all(|c| c.verdict == Verdict::Undecided), "{:?}", table[0]);
        assert!((table[0].p_in_table.unwrap() - 0.6).abs() < 1e-4);
        assert_eq!((table[20], table[21]), (single, exact), "an untested comparison stays");
        let mut one = [alone, single, exact];
        adjust(&mut one, &[]);
        assert_eq!(one[0].verdict, Verdict::Slower);
        adjust(&mut one, &[alone.p.unwrap()]);
        assert_eq!(one[0].verdict, Verdict::Undecided, "an undisplayed comparison counts");
        let test = |p, smallest_p| Some(Permutation { p, exact: true, smallest_p });
        assert_eq!(alone.with_permutation(test(0.06, 0.01)).verdict, Verdict::Undecided);
        assert_eq!(alone.with_permutation(test(0.06, 0.01)).regressed(), None);
        assert_eq!(
            alone.with_permutation(test(0.1, 0.1)).verdict,
            alone.verdict,
            "too few to show it"
        );
        let withheld = alone.without_verdict();
        assert_eq!((withheld.verdict, withheld.regressed()), (Verdict::Undecided, None));
    }

    /// Returns the t that the absolute value of a variable with one degree of freedom exceeds with probability `p`.
    fn two_sided_tail_inverse(p: f64) -> f64 {
        two_sided_quantile(1.0 - p, 1.0)
    }

    #[test]
    fn equal_conditions_are_called_different_at_the_nominal_rate() {
        // 4000 comparisons at 5 %: 200 alarms expected, standard deviation 14. Normal logs by Box and
        // Muller; for Welch, one side has three times the spread and fewer values.
        let mut draws = fsdyno_record::seed::stream(31, "alike");
        let mut unit = || (draws.draw() >> 11) as f64 / (1u64 << 53) as f64;
        let mut value = |sd: f64| {
            let (a, b) = (1.0 - unit(), unit());
            (sd * (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()).exp()
        };
        let is_different = |c: Option<Comparison>| {
            c.is_some_and(|c| matches!(c.verdict, Verdict::Faster | Verdict::Slower))
        };
        let (mut pairs, mut sides) = (0, 0);
        for _ in 0..4000 {
            let paired_times: Vec<(f64, f64)> = (0..5).map(|_| (value(0.1), value(0.1))).collect();
            pairs += usize::from(is_different(paired(&paired_times)));
            let base: Vec<f64> = (0..6).map(|_| value(0.3)).collect();
            let new: Vec<f64> = (0..9).map(|_| value(0.1)).collect();
            sides += usize::from(is_different(welch(&base, &new)));
        }
        assert!((150..=250).contains(&pairs), "{pairs}");
        assert!((150..=250).contains(&sides), "{sides}");
    }

    #[test]
    fn a_systematic_error_overrides_a_verdict_of_the_data() {
        let slower = paired(&[(1.0, 1.1), (2.0, 2.21), (3.0, 3.3)]).unwrap();
        assert_eq!(slower.verdict, Verdict::Slower);
        for (error, verdict) in
            [(0.2, Verdict::WithinError), (0.05, Verdict::Slower), (-1.0, Verdict::Slower)]
        {
            assert_eq!(slower.with_systematic(error).verdict, verdict, "{error}");
        }
        let inside = slower.with_threshold(0.03).with_systematic(0.2);
        assert_eq!((inside.verdict, inside.regressed()), (Verdict::WithinError, None));
        assert_eq!(inside.with_systematic(0.0).verdict, Verdict::Slower);
        // Equality is known no more exactly than the error, and an undecided comparison stays undecided.
        let same = paired(&[(1.0, 1.0), (2.0, 2.0)]).unwrap().with_threshold(0.03);
        assert_eq!(same.with_systematic(0.2).verdict, Verdict::WithinError);
        assert_eq!(same.with_systematic(0.02).verdict, Verdict::Same);
        let open = paired(&[(1.0, 1.2), (2.0, 1.9)]).unwrap();
        assert_eq!(open.with_systematic(0.2).verdict, Verdict::Undecided);
    }

    #[test]
    fn an_undecided_comparison_reports_the_n_that_would_decide() {
        let pairs = [(1.0, 1.02), (1.0, 0.99), (1.0, 1.01), (1.0, 0.985)];
        let open = paired(&pairs).unwrap().with_threshold(0.01);
        assert_eq!(open.verdict, Verdict::Undecided);
        let n = open.n_that_would_decide().unwrap();
        assert!(n > 20 && n < 100, "{n}");
        assert_eq!(open.with_threshold(0.0).n_that_would_decide(), None);
        assert_eq!(paired(&pairs[..1]).unwrap().with_threshold(0.01).n_that_would_decide(), None);
    }
}
