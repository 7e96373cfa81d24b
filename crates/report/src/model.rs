//! Sections, rows and ratios: what every output shows, as data.

use crate::validity::Flag;
use fsdyno_record::trial::Phase;
use fsdyno_record::{Histogram, OpKind};
use fsdyno_stats::Summary;
use fsdyno_stats::compare::Comparison;

use crate::measure::Measure;
use crate::number::{format_ratio, sanitize};
use crate::pairing::Matching;
use crate::run::Run;

/// One phase of one workload, over every file system that ran it.
#[derive(Debug)]
pub struct Section<'a> {
    /// The workload, with the parameters that distinguish it from others with the same name.
    pub workload: String,
    /// The phase.
    pub phase: String,
    /// The op that `rate` counts and whose latency is shown. `None` in a replay, or if there was no op on names; `rate`
    /// then counts all ops, and no latency is shown.
    pub main_op: Option<OpKind>,
    /// The work unit that `rate` counts instead of the main op, if the workload names one.
    pub unit: Option<String>,
    /// The op whose latencies are shown: the main op, or the one that took most of the time if the main op took only
    /// a small part.
    pub latency_op: Option<OpKind>,
    /// The measure of all rows, for ratios and verdicts.
    pub measure: Measure,
    /// The base of ratios: `best`, or the label of the baseline.
    pub versus: String,
    /// The rows in the order of the trials, unsafe rows last.
    pub rows: Vec<Row<'a>>,
    /// Pairs of rows that differ only in the age of their file system.
    pub aged: Vec<Pair>,
    /// The smallest difference that matters, relative.
    pub least_difference: f64,
    /// The p-values of the pairs that would be shown if a different row were the best.
    pub unshown: Vec<f64>,
}

/// One file system in one phase.
#[derive(Debug)]
pub struct Row<'a> {
    /// The label, and the conditions that distinguish this row from others with that label.
    pub name: String,
    /// The part of the name after the label.
    pub variant: String,
    /// Kind of the file system; the label for an existing directory.
    pub kind: String,
    /// The row's successful trials, each with this phase, by seed.
    pub trials: Vec<Run<'a>>,
    /// Seconds until the last call returned.
    pub returned: Summary,
    /// Seconds until durable, or `None` if that is unknown in a trial.
    pub durable: Option<Summary>,
    /// The summary of the values of the section's measure.
    pub measured: Summary,
    /// Seconds per operation, if the phase ended at a time limit.
    pub per_operation: Option<Summary>,
    /// CPU seconds of the threads that issue ops.
    pub cpu: Summary,
    /// Main ops per second over the time to returned (all ops if there is no main op), or `None` if that time is zero.
    pub rate: Option<Summary>,
    /// Latencies of the main op over all seeds.
    pub latency: Option<Histogram>,
    /// The comparison with the best row, or with the baseline, with p adjusted by Holm's method for all comparisons of
    /// the report, or `None` if there is no such row, and for that row itself.
    pub comparison: Option<Comparison>,
    /// How the row's trials were matched for that comparison.
    pub matching: Option<Matching>,
    /// Index of the row with which this row is compared.
    pub base: Option<usize>,
    /// The row's time divided by the time of the best row or of the baseline, or `None` if there is no such row.
    pub ratio: Option<Ratio>,
    /// True if the geometric mean of the row's times is the smallest of several rows with several trials; single trials
    /// are not ranked.
    pub best: bool,
    /// The flags of the row's trials, the most serious first.
    pub flags: Vec<Flag>,
    /// The reasons why acknowledged data may be lost at a power cut, one sentence for each option; empty for most rows.
    pub risks: Vec<String>,
}

impl<'a> Row<'a> {
    /// The label given by the user or derived from the spec.
    pub fn label(&self) -> &'a str {
        self.trials.first().map_or("", |(trial, _)| &trial.plan.label)
    }

    /// Returns true if acknowledged data is durable.
    pub fn is_safe(&self) -> bool {
        self.risks.is_empty()
    }

    /// The name for charts, with a mark if the row is unsafe.
    pub fn marked_name(&self) -> String {
        let mark = if self.is_safe() { String::new() } else { format!("{} ", Flag::Unsafe) };
        mark + &self.name
    }

    /// The name for a sentence, with its commas in parentheses: `ext4 (ssd-sata, 4 threads)`.
    pub fn in_sentence(&self) -> String {
        match self.variant.strip_prefix(", ") {
            Some(variant) => format!("{} ({variant})", sanitize(self.label())),
            None => self.name.clone(),
        }
    }

    /// The row's time, regardless of the section's measure: per operation if a phase ended at a time limit, otherwise
    /// until durable if that is known, otherwise until returned.
    pub fn time(&self) -> &Summary {
        let time = self.durable.as_ref().unwrap_or(&self.returned);
        self.per_operation.as_ref().unwrap_or(time)
    }

    /// The mean of a value over the row's trials, or `None` if the value is unknown for any of them.
    pub fn mean(&self, value: impl Fn(&Phase) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.trials.iter().map(|(_, phase)| value(phase)).collect();
        Summary::of(&values?).map(|summary| summary.mean)
    }
}

impl Section<'_> {
    /// The header of the rate: `create/s`, or `op/s`, over all calls, if no single op represents the phase.
    pub fn rate_head(&self) -> String {
        let unit = self.unit.as_deref();
        format!("{}/s", unit.unwrap_or(self.main_op.map_or("op", OpKind::name)))
    }

    /// The op of p50 and p99, such as `fsync`, if it is not the op that the rate counts.
    pub fn latency_note(&self) -> Option<&'static str> {
        let differs = self.unit.is_some() || self.latency_op != self.main_op;
        self.latency_op.filter(|_| differs).map(OpKind::name)
    }

    /// The header of the ratio: `vs best`, `vs ext4`.
    pub fn ratio_head(&self) -> String {
        format!("vs {}", self.versus)
    }

    /// The title of the section: `dirops create`.
    pub fn title(&self) -> String {
        title(&self.workload, &self.phase)
    }
}

/// Returns the title of a workload's phase: `dirops create`.
pub fn title(workload: &str, phase: &str) -> String {
    match is_named_alike(workload, phase) {
        true => workload.to_string(),
        false => format!("{workload} {phase}"),
    }
}

/// Returns true if a phase has the name of its workload, like the phase of a replay without marks. The name is then
/// shown only once.
pub fn is_named_alike(workload: &str, phase: &str) -> bool {
    workload.split(' ').next() == Some(phase)
}

/// The ratio of a row's time to that of its base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Ratio of the geometric means of the times, to which the interval and the verdict refer.
    pub value: f64,
    /// The significance of the ratio.
    pub significance: Significance,
}

/// The significance of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// The two rows differ; or there is no test, as for single trials and for the base itself.
    Plain,
    /// Several trials of both rows leave the difference undecided.
    Undecided,
    /// The two rows differ by less than the smallest difference that matters.
    Same,
    /// The two rows differ by no more than the error of the processor profile.
    WithinError,
}

impl std::fmt::Display for Ratio {
    /// Writes the ratio, with a mark if the trials leave it undecided (`~ 1.08x`) or show no difference that matters
    /// (`= 1.00x`), or if it is within the error of the processor profile (`? 1.20x`).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = match self.significance {
            Significance::Plain => "",
            Significance::Undecided => "~ ",
            Significance::Same => "= ",
            Significance::WithinError => "? ",
        };
        write!(f, "{mark}{}", format_ratio(self.value))
    }
}

/// The rows of a fresh and of an aged file system, by their indices in the section.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The fresh row.
    pub fresh: usize,
    /// The aged row.
    pub aged: usize,
    /// The comparison of the aged row with the fresh row, adjusted by Holm's method with all comparisons of the report.
    pub comparison: Comparison,
    /// True if the fresh row is also the base of the aged row; the comparison is then counted once.
    pub is_row_comparison: bool,
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn a_phase_with_the_name_of_its_workload_is_named_once() {
        assert_eq!(
            title("replay of build on server-2026", "replay"),
            "replay of build on server-2026"
        );
        assert_eq!(title("replay of build", "checkout"), "replay of build checkout");
        assert_eq!(title("churn", "churn"), "churn");
        assert_eq!(title("dirops files=10", "create"), "dirops files=10 create");
    }
}
