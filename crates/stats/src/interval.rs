//! A sample's summary: mean, spread, and the 95 % interval of the mean.

use crate::student::two_sided_quantile;

/// The confidence level of every interval that fsdyno shows.
pub const LEVEL: f64 = 0.95;

/// A sample's summary, in the unit of its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n - 1), or `None` for a single value.
    pub sd: Option<f64>,
    /// Half the width of the 95 % interval of the mean, or `None` for a single value.
    pub half_width: Option<f64>,
}

impl Summary {
    /// Returns the summary of some finite values; `None` if there are no values or one is not finite.
    ///
    /// The interval is mean +- t * sd / sqrt(n) with Student's t for n - 1 degrees of freedom ("Student" 1908, The
    /// probable error of a mean).
    pub fn of(values: &[f64]) -> Option<Summary> {
        let n = values.len();
        if n == 0 || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let sd = (n > 1).then(|| {
            // Equal values have no spread, whatever the rounding of their mean.
            if values.windows(2).all(|pair| pair[0] == pair[1]) {
                return 0.0;
            }
            let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
            (squares / (n - 1) as f64).sqrt()
        });
        let half_width =
            sd.map(|sd| two_sided_quantile(LEVEL, (n - 1) as f64) * sd / (n as f64).sqrt());
        Some(Summary { n, mean, sd, half_width })
    }

    /// Returns the summary of values whose number was set by a pilot, which are the first `pilot` values
    /// ([`crate::plan::Rule::TwoStage`]). The interval is Stein's, from the pilot's spread alone ([`stein_interval`]);
    /// the half width is derived from its upper half, relative to the mean. `None` as for [`Summary::of`]. If Stein's
    /// interval cannot be computed (a value of zero, or fewer values than in the pilot), the interval is that of
    /// [`Summary::of`].
    pub fn of_two_stages(values: &[f64], pilot: usize) -> Option<Summary> {
        let mut summary = Summary::of(values)?;
        if let Some((low, high)) = stein_interval(values, pilot) {
            summary.half_width = Some(summary.mean * ((high / low).sqrt() - 1.0));
        }
        Some(summary)
    }

    /// Returns true if there are several values and all are equal: the interval then has zero width because no spread
    /// was observed, not because the mean is certain. Tables mark it "exact".
    pub fn exact(&self) -> bool {
        self.sd == Some(0.0)
    }

    /// Returns the 95 % interval of the mean, or `None` for a single value.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.half_width.map(|half| (self.mean - half, self.mean + half))
    }

    /// Returns the half width of the interval as a share of the mean (0.004 for "+- 0.4 %"), or `None` for a single
    /// value or a mean of zero.
    pub fn relative_half_width(&self) -> Option<f64> {
        self.half_width.filter(|_| self.mean != 0.0).map(|half| half / self.mean.abs())
    }
}

/// Returns the interval of the geometric mean by Stein's rule: the mean of all values, with the spread and the degrees
/// of freedom of the pilot alone, because the spread of all values, whose number depends on the pilot, would make the
/// interval too narrow. `values` are in the order of their runs, starting with the pilot's.
///
/// `None` if the pilot has fewer than two values, there are fewer values than in the pilot, or a value is not positive
/// and finite.
pub fn stein_interval(values: &[f64], pilot: usize) -> Option<(f64, f64)> {
    let spread = logs(values.get(..pilot)?)?;
    let all = logs(values)?;
    let t = two_sided_quantile(LEVEL, (spread.n - 1) as f64);
    let half = t * spread.sd? / (all.n as f64).sqrt();
    Some(((all.mean - half).exp(), (all.mean + half).exp()))
}

/// Returns the summary of the logarithms of positive values.
pub(crate) fn logs(values: &[f64]) -> Option<Summary> {
    let logs: Option<Vec<f64>> = values.iter().map(|v| (*v > 0.0).then(|| v.ln())).collect();
    Summary::of(&logs?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_five_has_the_interval_of_the_textbook() {
        // sd = sqrt(2.5), t(4) = 2.776445, half width = 2.776445 * sqrt(2.5 / 5).
        let summary = Summary::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((summary.n, summary.mean), (5, 3.0));
        assert!((summary.sd.unwrap() - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((summary.half_width.unwrap() - 1.963_243).abs() < 1e-6);
        assert!((summary.relative_half_width().unwrap() - 0.654_414).abs() < 1e-6);
    }

    #[test]
    fn a_second_stage_narrows_the_interval_by_its_size_but_not_by_its_spread() {
        // Logs -0.02 to 0.02: s = 0.015811, t(4) = 2.7764; ten values: 2.7764 * 0.015811 / sqrt(10).
        let pilot: Vec<f64> = (-2..=2).map(|i| (f64::from(i) / 100.0).exp()).collect();
        let calm = [pilot.clone(), vec![1.0; 5]].concat();
        let wild = [pilot.clone(), vec![0.5, 2.0, 0.5, 2.0, 1.0]].concat();
        let half =
            |values: &[f64]| Summary::of_two_stages(values, 5).unwrap().relative_half_width();
        assert!((half(&calm).unwrap() - 0.013_882f64.exp_m1()).abs() < 1e-6, "{:?}", half(&calm));
        assert_eq!(half(&calm), half(&wild));
        assert_eq!(Summary::of_two_stages(&calm[..3], 5), Summary::of(&calm[..3]));
    }

    #[test]
    fn one_value_has_no_interval() {
        let summary = Summary::of(&[7.0]).unwrap();
        assert_eq!((summary.mean, summary.sd, summary.interval()), (7.0, None, None));
        assert!(!summary.exact(), "one value shows no spread and no lack of it");
    }

    #[test]
    fn identical_values_have_an_interval_of_zero_width_and_are_marked() {
        // The sum of ten 0.1 is not 1 in floating point, nor is their mean 0.1.
        let tenths = Summary::of(&[0.1; 10]).unwrap();
        assert!(tenths.exact() && tenths.half_width == Some(0.0));
        let twos = Summary::of(&[2.0, 2.0, 2.0]).unwrap();
        assert!(twos.exact() && twos.interval() == Some((2.0, 2.0)));
        assert!(!Summary::of(&[2.0, 2.0, 2.0 + 1e-9]).unwrap().exact());
    }

    #[test]
    fn no_values_and_invalid_values_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }
}
