//! One row for each phase of each pair of cells: its values, their ratio, and the verdict.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::{OpKind, Trial};
use fsdyno_stats::compare::{Comparison, Verdict, adjust};
use fsdyno_stats::validity::Flag;

use super::cells::{Cell, Pair};
use super::{Alone, Side, Wanted};
use crate::device;
use crate::measure::Measure;
use crate::number::clean;
use crate::pairing::{How, Pairing};
use crate::view::{Run, latency_op};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Seconds until the device's own cache was empty.
    Durable,
    /// Seconds until the last call came back.
    Returned,
    /// CPU seconds of the threads that issue ops.
    Cpu,
    /// The 99th percentile of the latency of the phase's main op, in seconds.
    P99,
}

impl Metric {
    /// Every metric, with the name that `--metric` takes and what it is.
    pub const ALL: &[(&str, &str, Metric)] = &[
        (
            "durable",
            "Time until the device's own cache was empty; to returned where that is unknown; of full file \
             systems what a file takes of the device",
            Metric::Durable,
        ),
        ("returned", "Time until the last call came back", Metric::Returned),
        ("cpu", "CPU time of the threads that issue the calls", Metric::Cpu),
        ("p99", "99th percentile of the latency of the phase's main op", Metric::P99),
    ];

    /// The name that `--metric` takes.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, _, metric)| *metric == self).map_or("", |(name, _, _)| name)
    }
}

/// What a reader must know of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The time to durable is unknown, so it is the time to returned.
    ByReturned,
    /// The phase ended by time, so it is the time for one operation.
    EachOp,
    /// The file systems were filled, so it is what a file takes of the device.
    ByRoom,
    /// There is but one value on a side, or one pair.
    Single,
    /// A value is zero or unknown, and has no ratio.
    NoRatio,
    /// What was compared is not what was asked for, by a flag of its trials.
    Withheld,
    /// No two repeats differed.
    Exact,
    /// Trials of the lab without common seeds, compared as if on a host.
    Unpaired,
    /// So many trials have no partner of their seed.
    LeftOut(usize),
    /// So many repeats would decide.
    Decides(u32),
    /// A flag of some trial.
    Flag(Flag),
}

/// One phase of one pair of cells.
#[derive(Clone, Debug)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The phase.
    pub phase: String,
    /// What was compared in the end.
    pub measure: Measure,
    /// Values of the base: how many, and their geometric mean (the arithmetic one if one
    /// is zero); none where it was not measured in all of them.
    pub base: (usize, Option<f64>),
    /// The same of the new result.
    pub new: (usize, Option<f64>),
    /// Their ratio; none where a value is zero.
    pub comparison: Option<Comparison>,
    /// What a reader must know.
    pub marks: Vec<Mark>,
    /// Why what either side acknowledged may be lost at a power cut.
    pub risks: Vec<String>,
}

impl Row {
    /// What follows; unknown where there is no ratio.
    pub fn verdict(&self) -> Verdict {
        self.comparison.map_or(Verdict::Unknown, |comparison| comparison.verdict)
    }

    /// Whether it takes longer by more than the threshold; none where that cannot be told.
    pub fn regressed(&self) -> Option<bool> {
        self.comparison?.regressed()
    }

    /// The flags of its trials.
    pub fn flags(&self) -> impl Iterator<Item = Flag> + '_ {
        self.marks.iter().filter_map(|mark| match mark {
            Mark::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    /// `dirops on ext4, create`.
    pub fn title(&self) -> String {
        format!("{}, {}", self.cell, self.phase)
    }
}

/// The rows of all pairs, corrected for their number, and the phases that only one side has.
pub fn rows(pairs: &[Pair<'_>], wanted: Wanted) -> (Vec<Row>, Vec<Alone>) {
    let (mut rows, mut alone) = (Vec::new(), Vec::new());
    for pair in pairs {
        let (base, new) = (phases(&pair.base), phases(&pair.new));
        for phase in &base {
            match new.contains(phase) {
                true => rows.extend(row(pair, phase, wanted)),
                false => alone.push(without(Side::Base, &pair.base, phase)),
            }
        }
        let only_new = new.iter().filter(|phase| !base.contains(phase));
        alone.extend(only_new.map(|phase| without(Side::New, &pair.new, phase)));
    }
    let mut table: Vec<Comparison> = rows.iter().filter_map(|row| row.comparison).collect();
    adjust(&mut table, &[]);
    let compared = rows.iter_mut().filter_map(|row| row.comparison.as_mut());
    compared.zip(table).for_each(|(old, adjusted)| *old = adjusted);
    rows.iter_mut().for_each(mark);
    (rows, alone)
}

fn without(side: Side, cell: &Cell<'_>, phase: &str) -> Alone {
    Alone { side, what: format!("{}, phase {}", cell.name, clean(phase)) }
}

/// The phases of a cell's good trials, in the order of the first that has them.
fn phases<'a>(cell: &Cell<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for phase in cell.good().flat_map(|trial| &trial.measured.phases) {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    names
}

/// The trials that ran a phase; of a seed that the lab ran twice one, for both are the same trial.
fn runs<'a>(cell: &Cell<'a>, phase: &str) -> Vec<Run<'a>> {
    let mut seen = BTreeSet::new();
    let run = |trial: &'a Trial| {
        let found = trial.measured.phases.iter().find(|found| found.name == phase)?;
        (!trial.repeats_exactly() || seen.insert(trial.seed)).then_some((trial, found))
    };
    cell.good().filter_map(run).collect()
}

fn row(pair: &Pair<'_>, phase: &str, wanted: Wanted) -> Option<Row> {
    let pairing = Pairing::of(&runs(&pair.base, phase), &runs(&pair.new, phase));
    let (base, new) = (&pairing.base, &pairing.new);
    let mut marks = Vec::new();
    match pairing.how {
        How::Pairs(left_out) => marks.extend((left_out > 0).then_some(Mark::LeftOut(left_out))),
        How::Unpaired => marks.push(Mark::Unpaired),
        How::Samples => {}
    }
    let all: Vec<Run<'_>> = base.iter().chain(new).copied().collect();
    let measure = measure_of(&all, wanted.metric);
    marks.extend(match (wanted.metric, measure) {
        (Metric::Durable, Measure::Returned) => Some(Mark::ByReturned),
        (Metric::Durable, Measure::Room) => Some(Mark::ByRoom),
        (_, Measure::Operation | Measure::Cpu { each: true }) => Some(Mark::EachOp),
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
    // That it is not durable is what "by returned" says.
    flags.retain(|flag| *flag != Flag::NotDurable);
    marks.extend(flags.into_iter().map(Mark::Flag));
    Some(Row {
        cell: pair.base.name.clone(),
        phase: clean(phase),
        measure,
        base: (base.len(), base_values.as_deref().map(mean)),
        new: (new.len(), new_values.as_deref().map(mean)),
        comparison: comparison.map(|comparison| comparison.within(wanted.threshold)),
        marks,
        risks,
    })
}

/// By what the trials of both sides are measured, where this was asked for.
fn measure_of(runs: &[Run<'_>], wanted: Metric) -> Measure {
    let each = runs.iter().any(|run| run.1.limit_ns.is_some());
    match wanted {
        Metric::Durable => Measure::of(runs.iter()),
        Metric::Returned if each => Measure::Operation,
        Metric::Returned => Measure::Returned,
        Metric::Cpu => Measure::Cpu { each },
        Metric::P99 => Measure::P99(latency_op(runs, main_op(runs))),
    }
}

/// The most frequent op, close(2) left out.
fn main_op(runs: &[Run<'_>]) -> Option<OpKind> {
    let mut counts: BTreeMap<OpKind, u64> = BTreeMap::new();
    for (kind, stats) in runs.iter().flat_map(|run| &run.1.ops) {
        if *kind != OpKind::Close {
            *counts.entry(*kind).or_default() += stats.count;
        }
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(kind, _)| kind)
}

/// The geometric mean, which ratios are about; where a value is zero, the arithmetic one.
fn mean(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    if values.iter().all(|value| *value > 0.0) && !values.is_empty() {
        (values.iter().map(|value| value.ln()).sum::<f64>() / n).exp()
    } else {
        values.iter().sum::<f64>() / n
    }
}

/// What follows from the comparison, before what the trials are flagged with.
fn mark(row: &mut Row) {
    let mut marks = Vec::new();
    match row.comparison {
        None => marks.push(Mark::NoRatio),
        Some(comparison) if comparison.withheld => marks.push(Mark::Withheld),
        Some(comparison) if comparison.interval.is_none() => marks.push(Mark::Single),
        Some(comparison) if comparison.exact => marks.push(Mark::Exact),
        Some(comparison) if comparison.verdict == Verdict::Unknown => {
            marks.extend(comparison.n_that_would_decide().map(Mark::Decides));
        }
        Some(_) => {}
    }
    marks.append(&mut row.marks);
    row.marks = marks;
}
