//! One row for each phase of each pair of cells: its values, their ratio, and the verdict.

use std::collections::BTreeSet;

use crate::validity::Flag;
use fsdyno_record::{OpKind, Trial};
use fsdyno_stats::compare::{Comparison, Verdict, adjust};

use super::cells::{Cell, Pair, Place, Step};
use super::{CompareOptions, Side, Unmatched};
use crate::device;
use crate::measure::Measure;
use crate::model::is_named_alike;
use crate::number::sanitize;
use crate::pairing::{Matching, Pairing};
use crate::processor;
use crate::run::Run;
use crate::view::{latency_op, most_frequent};

/// The metric of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Seconds until the device's own cache was empty.
    Durable,
    /// Seconds until the last call returned.
    Returned,
    /// CPU seconds of the threads that issue ops.
    Cpu,
    /// The 99th percentile of the latency of the phase's main op, in seconds.
    P99,
}

impl Metric {
    /// Every metric, with its name for `--metric` and its description.
    pub const ALL: &[(&str, &str, Metric)] = &[
        (
            "durable",
            "Time until the device's own cache was empty, or until the last call returned if the former is unknown; \
             for workloads that fill the file system, the device space per file",
            Metric::Durable,
        ),
        ("returned", "Time until the last call returned", Metric::Returned),
        ("cpu", "CPU time of the threads that issue the calls", Metric::Cpu),
        ("p99", "99th percentile of the latency of the phase's main op", Metric::P99),
    ];

    /// The name of the metric for `--metric`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, _, metric)| *metric == self).map_or("", |(name, _, _)| name)
    }
}

/// A note on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The time to durable is unknown, so the time to returned is compared.
    ByReturned,
    /// The phase ended at a time limit, so the time per operation is compared.
    TimePerOperation,
    /// The file systems were filled, so the device space per file is compared.
    BySpace,
    /// There is only one value on a side, or one pair.
    Single,
    /// A value is zero or unknown, so there is no ratio.
    NoRatio,
    /// A flag of the trials forbids a verdict.
    NoVerdict,
    /// No two repeats differed.
    Exact,
    /// Trials of the lab without common seeds, compared as if on a host.
    Unpaired,
    /// The number of trials whose seed the other side does not have.
    Excluded(usize),
    /// The number of repeats that would decide.
    WouldDecide(u32),
    /// A flag of some trial.
    Flag(Flag),
}

/// One phase of one pair of cells.
#[derive(Clone, Debug)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The parts of the cell's name, if both sides are from one result.
    pub place: Place,
    /// The step along an axis, if both sides are from one result.
    pub step: Option<Step>,
    /// The phase.
    pub phase: String,
    /// The measure that was compared.
    pub measure: Measure,
    /// Number of values of the base, and their geometric mean (arithmetic if a value is zero), or `None` if a value
    /// was not measured.
    pub base: (usize, Option<f64>),
    /// Number and mean of the values of the new result, as for the base.
    pub new: (usize, Option<f64>),
    /// The comparison of the two sides, or `None` if a value is zero or unknown.
    pub comparison: Option<Comparison>,
    /// Notes on the row.
    pub marks: Vec<Mark>,
    /// The reasons why acknowledged data of either side may be lost at a power cut.
    pub risks: Vec<String>,
    /// The instructions of both sides, if the step was explained.
    pub explained: Option<ExplainedStep>,
}

/// The instructions of one trial of each side, counted in a second run of the trial.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedStep {
    /// The seed of the trials.
    pub seed: u64,
    /// Instructions per op of the threads that issue ops, of the base.
    pub base: f64,
    /// Instructions per op of the same threads, of the new side.
    pub new: f64,
    /// The function that accounts for most of the difference, or else for the largest part of it, or `None` without a
    /// difference.
    pub source: Option<fsdyno_why::functions::Source>,
}

impl Row {
    /// Returns true if the verdict is a difference of at least the threshold.
    pub fn is_step(&self) -> bool {
        let exceeds_threshold =
            |comparison: Comparison| comparison.ratio.ln().abs() >= comparison.threshold.ln_1p();
        let is_decided = matches!(self.verdict(), Verdict::Faster | Verdict::Slower);
        is_decided && self.comparison.is_some_and(exceeds_threshold)
    }

    /// The verdict; undecided if there is no ratio.
    pub fn verdict(&self) -> Verdict {
        self.comparison.map_or(Verdict::Undecided, |comparison| comparison.verdict)
    }

    /// Returns true if the new side takes longer by more than the threshold, or `None` if that is undecided.
    pub fn regressed(&self) -> Option<bool> {
        self.comparison?.regressed()
    }

    /// The flags of the row's trials.
    pub fn flags(&self) -> impl Iterator<Item = Flag> + '_ {
        self.marks.iter().filter_map(|mark| match mark {
            Mark::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    /// The cell, with the step.
    pub fn group(&self) -> String {
        match &self.step {
            Some(step) => format!("{}: {step}", self.cell),
            None => self.cell.clone(),
        }
    }

    /// The title of the row: `dirops on ext4, create`.
    pub fn title(&self) -> String {
        match is_named_alike(&self.cell, &self.phase) {
            true => self.group(),
            false => format!("{}, {}", self.group(), self.phase),
        }
    }
}

/// The rows of all pairs, with p-values adjusted for their number, and the phases that only one side has.
pub fn rows(pairs: &[Pair<'_>], options: CompareOptions) -> (Vec<Row>, Vec<Unmatched>) {
    let (mut rows, mut unmatched) = (Vec::new(), Vec::new());
    for pair in pairs {
        let (base, new) = (phases(&pair.base), phases(&pair.new));
        for phase in &base {
            match new.contains(phase) {
                true => rows.extend(row(pair, phase, options)),
                false => unmatched.push(unmatched_phase(Side::Base, &pair.base, phase)),
            }
        }
        let only_new = new.iter().filter(|phase| !base.contains(phase));
        unmatched.extend(only_new.map(|phase| unmatched_phase(Side::New, &pair.new, phase)));
    }
    let mut table: Vec<Comparison> = rows.iter().filter_map(|row| row.comparison).collect();
    adjust(&mut table, &[]);
    let compared = rows.iter_mut().filter_map(|row| row.comparison.as_mut());
    compared.zip(table).for_each(|(old, adjusted)| *old = adjusted);
    rows.iter_mut().for_each(add_comparison_mark);
    (rows, unmatched)
}

fn unmatched_phase(side: Side, cell: &Cell<'_>, phase: &str) -> Unmatched {
    Unmatched { side, name: format!("{}, phase {}", cell.name, sanitize(phase)) }
}

/// The phases of a cell's successful trials, in the order of their first occurrence.
fn phases<'a>(cell: &Cell<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for phase in cell.successful().flat_map(|trial| &trial.measured.phases) {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    names
}

/// The trials that ran a phase. If the lab ran a seed twice, only one of the two identical trials is included.
fn runs<'a>(cell: &Cell<'a>, phase: &str) -> Vec<Run<'a>> {
    let mut known = BTreeSet::new();
    let run = |trial: &'a Trial| {
        let found = trial.measured.phases.iter().find(|found| found.name == phase)?;
        (!trial.is_bit_identical() || known.insert(trial.seed)).then_some((trial, found))
    };
    cell.successful().filter_map(run).collect()
}

fn row(pair: &Pair<'_>, phase: &str, options: CompareOptions) -> Option<Row> {
    let pairing = Pairing::of(&runs(&pair.base, phase), &runs(&pair.new, phase));
    let (base, new) = (&pairing.base, &pairing.new);
    let mut marks = Vec::new();
    match pairing.matching {
        Matching::Pairs(excluded) => {
            marks.extend((excluded > 0).then_some(Mark::Excluded(excluded)))
        }
        Matching::Unpaired => marks.push(Mark::Unpaired),
        Matching::Samples => {}
    }
    let all: Vec<Run<'_>> = base.iter().chain(new).copied().collect();
    let measure = measure_of(&all, options.metric);
    marks.extend(match (options.metric, measure) {
        (Metric::Durable, Measure::Returned) => Some(Mark::ByReturned),
        (Metric::Durable, Measure::Space) => Some(Mark::BySpace),
        (_, Measure::Operation | Measure::Cpu { each: true }) => Some(Mark::TimePerOperation),
        _ => None,
    });
    let values = |runs: &[Run<'_>]| -> Option<Vec<f64>> {
        runs.iter().map(|run| measure.value(run)).collect()
    };
    let (base_values, new_values) = (values(base), values(new));
    let comparison = pairing.compare_runs(|run| measure.value(run));
    let mut flags = [device::flags(base), device::flags(new)].concat();
    flags.sort();
    flags.dedup();
    let mut risks: Vec<String> = all.iter().flat_map(|(trial, _)| device::risks(trial)).collect();
    risks.sort();
    risks.dedup();
    // The mark "by returned" already shows that the time is not that to durable.
    flags.retain(|flag| *flag != Flag::NotDurable);
    marks.extend(flags.into_iter().map(Mark::Flag));
    Some(Row {
        cell: pair.base.name.clone(),
        place: pair.base.place.clone(),
        step: pair.step.clone(),
        phase: sanitize(phase),
        measure,
        base: (base.len(), base_values.as_deref().map(mean)),
        new: (new.len(), new_values.as_deref().map(mean)),
        comparison: comparison.map(|comparison| {
            let error = processor::error(base, new, measure);
            comparison.with_threshold(options.threshold).with_systematic(error)
        }),
        marks,
        risks,
        explained: None,
    })
}

/// The measure for a metric that the trials of both sides support.
fn measure_of(runs: &[Run<'_>], metric: Metric) -> Measure {
    let has_time_limit = runs.iter().any(|run| run.1.limit_ns.is_some());
    match metric {
        Metric::Durable => Measure::of(runs.iter()),
        Metric::Returned if has_time_limit => Measure::Operation,
        Metric::Returned => Measure::Returned,
        Metric::Cpu => Measure::Cpu { each: has_time_limit },
        Metric::P99 => {
            let frequent = most_frequent(runs, |kind| kind != OpKind::Close);
            Measure::P99(latency_op(runs, frequent.map(|(kind, _)| kind)))
        }
    }
}

/// The geometric mean, on which ratios are based, or the arithmetic mean if a value is zero.
fn mean(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    if values.iter().all(|value| *value > 0.0) && !values.is_empty() {
        (values.iter().map(|value| value.ln()).sum::<f64>() / n).exp()
    } else {
        values.iter().sum::<f64>() / n
    }
}

/// Adds the marks that follow from the comparison, before those of the flags.
fn add_comparison_mark(row: &mut Row) {
    let mut marks = Vec::new();
    match row.comparison {
        None => marks.push(Mark::NoRatio),
        Some(comparison) if comparison.withheld => marks.push(Mark::NoVerdict),
        Some(comparison) if comparison.interval.is_none() => marks.push(Mark::Single),
        Some(comparison) if comparison.exact => marks.push(Mark::Exact),
        Some(comparison) if comparison.verdict == Verdict::Undecided => {
            // The test is adjusted for the number of rows; the estimate is not.
            let more = comparison.n_that_would_decide().filter(|n| *n as usize > comparison.n);
            marks.extend(more.map(Mark::WouldDecide));
        }
        Some(_) => {}
    }
    marks.append(&mut row.marks);
    row.marks = marks;
}
