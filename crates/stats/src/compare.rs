//! Two conditions compared: their ratio, its 95 % interval, and a verdict that may be "~".

use crate::interval::{LEVEL, Summary};
use crate::student::two_sided_quantile;

/// What a comparison of times says of the new condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It took less time, and the interval excludes chance.
    Faster,
    /// It took more time, and the interval excludes chance.
    Slower,
    /// The interval is 1 and nothing else: equal to the last digit.
    Same,
    /// The data do not tell.
    Unknown,
}

/// The ratio of two times, new over base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// How many pairs, or how many values on the smaller side.
    pub n: usize,
    /// Ratio of the geometric means; below 1 the new condition took less time.
    pub ratio: f64,
    /// The 95 % interval of the ratio; none where a single value leaves it unknown.
    pub interval: Option<(f64, f64)>,
    /// What follows.
    pub verdict: Verdict,
}

/// Compares times paired by seed, as the lab gives them: each pair shares everything arbitrary, so
/// the t interval is taken over the logarithms of the pairs' ratios.
///
/// None if there is no pair or a time is not positive.
pub fn paired(base_and_new: &[(f64, f64)]) -> Option<Comparison> {
    let logs: Option<Vec<f64>> =
        base_and_new.iter().map(|(base, new)| Some(log(*new)? - log(*base)?)).collect();
    let summary = Summary::of(&logs?)?;
    Some(judge(summary.n, summary.mean, summary.half_width))
}

/// Compares times that share nothing, as a host gives them, by Welch's t interval over their
/// logarithms with the degrees of freedom of Welch and Satterthwaite (Welch 1947).
///
/// None if a side is empty or a time is not positive.
pub fn welch(base: &[f64], new: &[f64]) -> Option<Comparison> {
    let logs = |values: &[f64]| values.iter().map(|v| log(*v)).collect::<Option<Vec<f64>>>();
    let (base, new) = (Summary::of(&logs(base)?)?, Summary::of(&logs(new)?)?);
    let half_width = base.sd.zip(new.sd).map(|(base_sd, new_sd)| {
        let (a, b) = (base_sd.powi(2) / base.n as f64, new_sd.powi(2) / new.n as f64);
        if a + b == 0.0 {
            return 0.0;
        }
        let freedom =
            (a + b).powi(2) / (a.powi(2) / (base.n - 1) as f64 + b.powi(2) / (new.n - 1) as f64);
        two_sided_quantile(LEVEL, freedom) * (a + b).sqrt()
    });
    Some(judge(base.n.min(new.n), new.mean - base.mean, half_width))
}

fn log(time: f64) -> Option<f64> {
    (time > 0.0 && time.is_finite()).then(|| time.ln())
}

fn judge(n: usize, log_ratio: f64, half_width: Option<f64>) -> Comparison {
    let interval = half_width.map(|half| ((log_ratio - half).exp(), (log_ratio + half).exp()));
    let verdict = match interval {
        None => Verdict::Unknown,
        Some((low, high)) if low == 1.0 && high == 1.0 => Verdict::Same,
        Some((_, high)) if high < 1.0 => Verdict::Faster,
        Some((low, _)) if low > 1.0 => Verdict::Slower,
        Some(_) => Verdict::Unknown,
    };
    Comparison { n, ratio: log_ratio.exp(), interval, verdict }
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
        assert_eq!(welch(&base, &new).unwrap().verdict, Verdict::Unknown);
    }

    #[test]
    fn a_single_pair_tells_nothing_however_far_apart() {
        let comparison = paired(&[(1.0, 9.0)]).unwrap();
        assert_eq!((comparison.verdict, comparison.interval), (Verdict::Unknown, None));
        assert_eq!(welch(&[1.0, 1.1], &[9.0]).unwrap().verdict, Verdict::Unknown);
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
    fn identical_conditions_are_the_same_and_impossible_times_are_refused() {
        assert_eq!(paired(&[(2.0, 2.0), (3.0, 3.0)]).unwrap().verdict, Verdict::Same);
        assert_eq!(welch(&[2.0, 2.0], &[2.0, 2.0]).unwrap().verdict, Verdict::Same);
        assert_eq!(paired(&[]), None);
        assert_eq!(paired(&[(0.0, 1.0)]), None);
    }
}
