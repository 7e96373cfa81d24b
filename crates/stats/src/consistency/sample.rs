//! Checks whether a mean and a deviation are possible, and what they imply about the unknown runs.
//!
//! The tests for results in whole units are GRIM (Brown and Heathers, "The GRIM test", Social Psychological and
//! Personality Science 8, 2017) and GRIMMER (Anaya 2016; in the form of Allard 2018).

use super::range::{Range, above};
use super::{Contradiction, Rule};

/// The divisor of a printed standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// n, for the population's deviation, as in older tables and in the STDEVP of spreadsheets.
    Runs,
    /// n - 1, for the sample's deviation.
    RunsLessOne,
}

/// A table cell: the mean of some runs and the statistics printed with it. Values of runs (times, rates) are never
/// negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The mean.
    pub mean: Range,
    /// The standard deviation, or `None` if it is not printed.
    pub sd: Option<Range>,
    /// The divisor of the standard deviation.
    pub divisor: Divisor,
    /// Number of runs, at least one.
    pub runs: u32,
    /// The step of one run's value: 1 for a clock of whole seconds, or a rate without decimals, or `None` if a run may
    /// have any value.
    pub unit: Option<f64>,
    /// The smallest and the largest run, or `None` if they are not printed.
    pub extremes: Option<(Range, Range)>,
}

impl Sample {
    /// Creates the cell of a single run, with its mean only.
    pub fn single(value: Range) -> Sample {
        let divisor = Divisor::Runs;
        Sample { mean: value, sd: None, divisor, runs: 1, unit: None, extremes: None }
    }

    pub(super) fn n(&self) -> f64 {
        f64::from(self.runs.max(1))
    }

    /// Returns the deviation with the divisor n: zero for one run, any nonnegative value if no deviation is printed.
    pub(super) fn deviation(&self) -> Range {
        let n = self.n();
        if n == 1.0 {
            return Range::exactly(0.0);
        }
        match (self.sd, self.divisor) {
            (None, _) => Range { low: 0.0, high: f64::INFINITY },
            (Some(sd), Divisor::Runs) => sd,
            (Some(sd), Divisor::RunsLessOne) => sd.scaled(((n - 1.0) / n).sqrt()),
        }
    }

    /// Returns the smallest and the largest sum of runs, in units, that fit the printed mean, or `None` if no whole
    /// number fits it.
    fn sums(&self, unit: f64) -> Option<(f64, f64)> {
        let units = self.n() / unit;
        let first = (self.mean.low * units - SNAP).ceil().max(0.0);
        let last = (self.mean.high * units + SNAP).floor();
        (first <= last).then_some((first, last))
    }

    /// Returns the mean, narrowed to the values that runs in whole units can have; the printed range if there are none.
    pub(super) fn exact_mean(&self) -> Range {
        let sums = self.unit.and_then(|unit| self.sums(unit).zip(Some(unit)));
        sums.map_or(self.mean, |((first, last), unit)| Range {
            low: first * unit / self.n(),
            high: last * unit / self.n(),
        })
    }

    /// Returns the range in which every run lies: no run is further than sd sqrt(n - 1) from the mean (Samuelson 1968,
    /// "How deviant can you be?"), and none is below zero or beyond the printed extremes.
    pub(super) fn run_range(&self) -> Range {
        let mean = self.exact_mean();
        let reach = match self.deviation().high {
            // No run is negative, so one run may account for the whole sum.
            high if high.is_infinite() => mean.high * (self.n() - 1.0),
            high => high * (self.n() - 1.0).sqrt(),
        };
        let range = Range { low: (mean.low - reach).max(0.0), high: mean.high + reach };
        self.extremes.map_or(range, |(least, most)| {
            range.intersection(Range { low: least.low, high: most.high })
        })
    }

    /// Returns true if all runs had the same value: they are whole units, and the deviation is smaller than
    /// unit sqrt(n - 1) / n, the deviation if a single run differs by one unit.
    pub(super) fn all_equal(&self) -> bool {
        let n = self.n();
        let least = self.unit.map_or(0.0, |unit| unit * (n - 1.0).sqrt() / n);
        n == 1.0 || self.deviation().high < least * (1.0 - SNAP)
    }
}

/// The tolerance within which a sum in units counts as a whole number: more than the error of floating-point
/// arithmetic.
const SNAP: f64 = 1e-6;

/// Returns the contradictions within one cell.
pub fn check_sample(name: &str, sample: &Sample) -> Vec<Contradiction> {
    let findings = [check_units(sample), check_extremes(sample), check_spread(sample)];
    let contradiction = |(rule, message)| Contradiction { name: name.into(), rule, message };
    findings.into_iter().flatten().map(contradiction).collect()
}

type Finding = Option<(Rule, String)>;

/// Checks that runs in whole units can have the mean and the deviation.
fn check_units(sample: &Sample) -> Finding {
    let unit = sample.unit?;
    let n = sample.n();
    let Some((first, last)) = sample.sums(unit) else {
        let message = format!("no {n} runs of whole steps of {unit} have the mean {}", sample.mean);
        return Some((Rule::MeanOfUnits, message));
    };
    let sd = sample.deviation();
    // Among more than a thousand sums, at least one always fits.
    if sd.high.is_infinite() || last - first > 1000.0 {
        return None;
    }
    let fits = |sum: f64| {
        // The sum of squares is a whole number with the same parity as the sum, and is smallest if the runs are as
        // equal as possible.
        let squares = |sd: f64| n * (sd / unit).powi(2) + sum * sum / n;
        let rest = sum % n;
        let least =
            (n - rest) * ((sum - rest) / n).powi(2) + rest * ((sum - rest) / n + 1.0).powi(2);
        let low = (squares(sd.low) - SNAP * (1.0 + squares(sd.low) * SNAP)).ceil().max(least);
        let high = (squares(sd.high) + SNAP * (1.0 + squares(sd.high) * SNAP)).floor();
        low < high || (low == high && (low - sum) % 2.0 == 0.0)
    };
    let mut sum = first;
    while sum <= last {
        if fits(sum) {
            return None;
        }
        sum += 1.0;
    }
    let mean = sample.mean;
    let message =
        format!("no {n} runs of whole steps of {unit} with the mean {mean} deviate by {sd}");
    Some((Rule::DeviationOfUnits, message))
}

/// Checks that the mean lies between the extremes.
fn check_extremes(sample: &Sample) -> Finding {
    let (least, most) = sample.extremes?;
    let outside = above(least.low, sample.mean.high) || above(sample.mean.low, most.high);
    let message = || format!("the mean {} is not between {least} and {most}", sample.mean);
    outside.then(|| (Rule::MeanOutside, message()))
}

/// Checks that the deviation fits the extremes or, because runs are not negative, the mean: at most sqrt((max -
/// mean)(mean - min)) (Bhatia and Davis 2000), which is mean sqrt(n - 1) for the extremes 0 and n mean; at least (max -
/// min) / sqrt(2 n) (von Szokefalvi Nagy 1918).
fn check_spread(sample: &Sample) -> Finding {
    let (sd, mean, n) = (sample.deviation(), sample.mean, sample.n());
    let most = mean.high * (n - 1.0).sqrt();
    if above(sd.low, most) {
        let message =
            format!("{n} runs with the mean {mean} cannot deviate by {sd}: {most:.3} at most");
        return Some((Rule::DeviationAndRange, message));
    }
    let (low, high) = sample.extremes?;
    // The product is largest if the mean is in the middle of the extremes, or as near to it as the mean's range allows.
    let middle = ((low.low + high.high) / 2.0).clamp(mean.low, mean.high);
    let most = ((high.high - middle).max(0.0) * (middle - low.low).max(0.0)).sqrt();
    let least = (high.low - low.high).max(0.0) / (2.0 * n).sqrt();
    let is_contradiction = above(sd.low, most) || above(least, sd.high);
    let message =
        || format!("{n} runs from {low} to {high} deviate by {least:.3} to {most:.3}, not by {sd}");
    is_contradiction.then(|| (Rule::DeviationAndRange, message()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::parse_rounded;
    use crate::describe;
    use proptest::prelude::*;

    fn cell(mean: &str, sd: &str, runs: u32, unit: Option<f64>) -> Sample {
        let (mean, sd) = (parse_rounded(mean).unwrap(), parse_rounded(sd));
        Sample { mean, sd, divisor: Divisor::Runs, runs, unit, extremes: None }
    }

    fn rules(sample: &Sample) -> Vec<Rule> {
        check_sample("cell", sample).into_iter().map(|found| found.rule).collect()
    }

    #[test]
    fn a_mean_of_whole_units_can_have_only_some_decimals() {
        // The GRIM paper's own example: 28 integer answers cannot have the mean 5.19.
        assert_eq!(rules(&cell("5.19", "", 28, Some(1.0))), [Rule::MeanOfUnits]);
        assert_eq!(rules(&cell("5.18", "", 28, Some(1.0))), []);
        assert_eq!(rules(&cell("5.19", "", 28, None)), []);
        assert_eq!(rules(&cell("0.517", "", 10, Some(0.01))), []);
    }

    #[test]
    fn a_deviation_of_whole_units_can_have_only_some_values() {
        assert_eq!(rules(&cell("13.70", "1.10", 10, Some(1.0))), []);
        // Ten whole seconds, sum 137: the sum of squares 1889 gives 1.10; the next ones are 1887 (1.005) and 1891.
        assert_eq!(rules(&cell("13.70", "1.05", 10, Some(1.0))), [Rule::DeviationOfUnits]);
        // The mean 13.7 is not a whole number of seconds, so the runs cannot all be equal.
        assert_eq!(rules(&cell("13.70", "0.00", 10, Some(1.0))), [Rule::DeviationOfUnits]);
        assert_eq!(rules(&cell("13.00", "0.00", 10, Some(1.0))), []);
    }

    #[test]
    fn mean_and_deviation_are_compared_with_the_extremes() {
        let broken_rules = |mean, sd, low, high| {
            let extremes = Some((parse_rounded(low).unwrap(), parse_rounded(high).unwrap()));
            rules(&Sample { extremes, ..cell(mean, sd, 10, None) })
        };
        assert_eq!(broken_rules("5.0", "1.2", "3.1", "6.9"), []);
        assert_eq!(
            broken_rules("7.2", "1.2", "3.1", "6.9"),
            [Rule::MeanOutside, Rule::DeviationAndRange]
        );
        assert_eq!(broken_rules("5.0", "2.1", "3.1", "6.9"), [Rule::DeviationAndRange]);
        // At least 3.8 / sqrt(20) = 0.85.
        assert_eq!(broken_rules("5.0", "0.7", "3.1", "6.9"), [Rule::DeviationAndRange]);
        assert_eq!(rules(&cell("2.0", "6.3", 10, None)), [Rule::DeviationAndRange]);
        assert_eq!(rules(&cell("2.0", "6.0", 10, None)), []);
    }

    proptest! {
        #[test]
        fn results_of_real_runs_are_never_a_contradiction(
            runs in prop::collection::vec(0u32..400, 1..15), decimals in 0usize..3, cents: bool,
        ) {
            let unit = if cents { 0.01 } else { 1.0 };
            let runs: Vec<f64> = runs.into_iter().map(|units| f64::from(units) * unit).collect();
            let text = |value: f64| parse_rounded(&format!("{value:.decimals$}")).unwrap();
            let edge = |pick: fn(f64, f64) -> f64| text(runs.iter().copied().reduce(pick).unwrap());
            for divisor in [Divisor::Runs, Divisor::RunsLessOne] {
                let sample = Sample {
                    mean: text(describe::mean(&runs).unwrap()),
                    sd: match divisor {
                        Divisor::Runs => describe::population_sd(&runs).map(text),
                        Divisor::RunsLessOne => describe::sample_sd(&runs).map(text),
                    },
                    divisor,
                    runs: runs.len() as u32,
                    unit: Some(unit),
                    extremes: Some((edge(f64::min), edge(f64::max))),
                };
                prop_assert_eq!(check_sample("", &sample), []);
                let range = sample.run_range();
                prop_assert!(runs.iter().all(|v| !above(range.low, *v) && !above(*v, range.high)));
                if sample.all_equal() {
                    prop_assert!(runs.iter().all(|v| *v == runs[0]));
                }
            }
        }
    }
}
