//! The view of trials that every output shares: sections (a phase of a workload) of rows (a file
//! system), each row the summary of its seeds.

use std::collections::BTreeMap;

use crate::seconds::seconds;
use crate::validity::Flag;
use fsdyno_axes::naming::RowNames;
use fsdyno_record::trial::{OpStats, Outcome, Phase};
use fsdyno_record::{Histogram, OpKind, Repeats, Trial};
use fsdyno_stats::Summary;

use crate::baseline::{self, Basis};
use crate::machines::Machines;
use crate::measure::Measure;
use crate::model::{Row, Section};
use crate::number::sanitize;
use crate::run::{Run, replayed};
use crate::unfinished::unfinished;
use crate::{ages, device};

type Runs<'a> = Vec<Run<'a>>;

/// The workload parameter that holds the points of a trial's curve.
pub const CURVE: &str = "curve";

/// Returns true if a trial is a point of a curve.
pub fn is_point(trial: &Trial) -> bool {
    trial.plan.workload.params.get(CURVE).is_some_and(|curve| curve != "none")
}

/// The sections of all successful trials that are not points of a curve ([`crate::curve`]), in the
/// order of the trials: a caller that wants the user's order passes the trials in that order.
/// Ratios are relative to the row with the baseline's label, or to the best row of each section.
pub fn sections<'a, 'b>(trials: &'a [Trial], basis: impl Into<Basis<'b>>) -> Vec<Section<'a>> {
    sections_of(trials.iter().filter(|trial| !is_point(trial)), basis)
}

/// The sections of these trials, including points of curves.
pub fn sections_of<'a, 'b>(
    trials: impl Iterator<Item = &'a Trial>,
    basis: impl Into<Basis<'b>>,
) -> Vec<Section<'a>> {
    let trials = distinct(trials);
    sections_named(&trials, &RowNames::of(trials.iter().copied()), basis.into())
}

/// The sections of distinct trials, with their rows named as in a larger set of trials.
pub fn sections_named<'a>(
    trials: &[&'a Trial],
    rows: &RowNames,
    basis: Basis<'_>,
) -> Vec<Section<'a>> {
    let mut sections = unadjusted_sections(trials, rows, basis, None);
    baseline::adjust_all(&mut sections);
    sections
}

/// The sections, by this measure if one is given, without adjusted p-values, for a caller that has more comparisons to
/// adjust together with these.
pub fn unadjusted_sections<'a>(
    trials: &[&'a Trial],
    rows: &RowNames,
    basis: Basis<'_>,
    measure: Option<Measure>,
) -> Vec<Section<'a>> {
    let names = RowNames::of(trials.iter().copied());
    let machines = Machines::of(trials);
    let workload = |trial: &&Trial| match machines.name(trial) {
        Some(machine) => sanitize(&format!("{} on {machine}", names.workload(*trial))),
        None => sanitize(&names.workload(*trial)),
    };
    let workloads: Vec<String> = trials.iter().map(workload).collect();
    let mut groups: Vec<(String, &str, Runs<'_>)> = Vec::new();
    for (trial, workload) in trials.iter().copied().zip(&workloads) {
        for phase in &trial.measured.phases {
            let group = groups.iter().position(|g| g.0 == *workload && g.1 == phase.name);
            match group {
                Some(index) => groups[index].2.push((trial, phase)),
                None => groups.push((workload.clone(), &phase.name, vec![(trial, phase)])),
            }
        }
    }
    // Phases of one workload are adjacent, in the order of its first trial.
    let order = |name: &String| workloads.iter().position(|w| w == name);
    groups.sort_by_key(|group| order(&group.0));
    // A file system has the same position in every section, however the trials were interleaved.
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, trial) in trials.iter().enumerate() {
        positions.entry(&trial.plan.label).or_insert(index);
    }
    let position = |run: &Run<'_>| positions.get(run.0.plan.label.as_str()).copied();
    groups.iter_mut().for_each(|group| group.2.sort_by_key(position));
    let section = |(workload, phase, runs): (String, &str, Runs<'a>)| {
        let options = RatioOptions { basis, measure };
        let rows = machines.rows(&runs).unwrap_or(rows);
        section(workload, phase, by_name(runs, rows), &options)
    };
    groups.into_iter().filter_map(section).collect()
}

/// The base of a section's ratios, and the measure if it is not the default one.
struct RatioOptions<'b> {
    basis: Basis<'b>,
    measure: Option<Measure>,
}

/// The successful trials without duplicates: the same lab trial read from two folders is one trial, and
/// counting it twice would inflate n.
pub fn distinct<'a>(trials: impl Iterator<Item = &'a Trial>) -> Vec<&'a Trial> {
    let mut known = std::collections::HashSet::new();
    trials
        .filter(|trial| trial.outcome == Outcome::Ok)
        .filter(|trial| known.insert(trial.identity()))
        .collect()
}

fn section<'a>(
    workload: String,
    phase: &str,
    groups: Vec<Group<'a>>,
    options: &RatioOptions<'_>,
) -> Option<Section<'a>> {
    let basis = options.basis;
    let trials: Runs<'a> = groups.iter().flat_map(|group| group.trials.iter().copied()).collect();
    let main_op = main_op(&trials);
    let unit = trials.iter().find_map(|(_, phase)| phase.unit.clone());
    let latency_op = latency_op(&trials, main_op);
    let measure = options.measure.unwrap_or_else(|| Measure::of(trials.iter()));
    let shown = Shown { main_op, latency_op, unit: unit.as_deref(), measure };
    let mut rows: Vec<Row<'a>> =
        groups.into_iter().filter_map(|group| row(group, &shown)).collect();
    rows.sort_by_key(|row| !row.is_safe());
    let first = rows.first()?;
    let several = rows.len() > 1 && first.returned.n > 1;
    let best = baseline::best(&rows, measure);
    let best = best.and_then(|best| rows.iter().position(|row| std::ptr::eq(row, best)));
    let comparisons = baseline::ratios(&rows, basis, measure);
    for (index, (row, compared)) in rows.iter_mut().zip(comparisons).enumerate() {
        row.ratio = compared.as_ref().map(|compared| compared.ratio);
        row.base = compared.as_ref().map(|compared| compared.base);
        (row.comparison, row.matching) = compared.and_then(|compared| compared.comparison).unzip();
        row.best = several && row.returned.n > 1 && best == Some(index);
    }
    for (row, noisy) in baseline::noisy(&rows).into_iter().enumerate() {
        // Noisy is the last of all flags.
        rows[row].flags.extend(noisy.then_some(Flag::Noisy));
    }
    let aged = ages::pairs(&rows, measure, basis.least_difference);
    let bound = baseline::instrument_bound(&rows, &aged);
    for (row, is_bound) in rows.iter_mut().zip(bound) {
        row.flags.retain(|flag| is_bound || *flag != Flag::InstrumentBound);
    }
    let unshown = baseline::unshown_p_values(&rows, basis, &aged, measure);
    let versus = sanitize(basis.baseline.unwrap_or("best"));
    let phase = sanitize(phase);
    let unit = unit.map(|unit| sanitize(&unit));
    Some(Section {
        workload,
        phase,
        main_op,
        unit,
        latency_op,
        measure,
        versus,
        rows,
        aged,
        least_difference: basis.least_difference,
        unshown,
    })
}

/// A phase is metadata work if at least one in this number of its ops is on names.
const METADATA_RATIO: u64 = 1000;

/// The op that represents a phase: for metadata work, the most frequent op on names; for a phase that mostly moves
/// data, or only opens existing files, the most frequent call except close(2). A replay has none: its calls are those
/// of a program, and the most frequent call rarely takes most of the time.
pub fn main_op(trials: &[Run<'_>]) -> Option<OpKind> {
    use OpKind::*;
    let all = trials.iter().flat_map(|(_, phase)| phase.ops.values());
    let total: u64 = all.map(|stats| stats.count).sum();
    let on_names =
        |kind| matches!(kind, Create | Unlink | Stat | Mkdir | Rmdir | Rename | Link | Symlink);
    most_frequent(trials, on_names)
        .filter(|(_, count)| count.saturating_mul(METADATA_RATIO) >= total)
        .or_else(|| most_frequent(trials, |kind| kind != Close))
        .map(|(kind, _)| kind)
}

/// The most frequent op of some kinds, with its count. Of equally frequent ops it is the first in the table of kinds.
/// `None` for a replay ([`main_op`]).
pub(crate) fn most_frequent(
    trials: &[Run<'_>],
    matches: impl Fn(OpKind) -> bool,
) -> Option<(OpKind, u64)> {
    if replayed(trials) {
        return None;
    }
    let mut counts: BTreeMap<OpKind, u64> = BTreeMap::new();
    for (kind, stats) in trials.iter().flat_map(|(_, phase)| &phase.ops) {
        if matches(*kind) {
            *counts.entry(*kind).or_default() += stats.count;
        }
    }
    // `max_by_key` returns the last of several.
    counts.into_iter().rev().max_by_key(|(_, count)| *count)
}

/// The maximum ratio of the time of all calls to that of the main op at which the latencies of the main op are shown.
const MAX_TIME_RATIO: u64 = 10;

/// The main op if it took at least a tenth of the time of all calls, else the op that took the most time.
pub fn latency_op(trials: &[Run<'_>], main_op: Option<OpKind>) -> Option<OpKind> {
    let mut times: BTreeMap<OpKind, u64> = BTreeMap::new();
    for (kind, stats) in trials.iter().flat_map(|(_, phase)| &phase.ops) {
        *times.entry(*kind).or_default() += stats.total_ns.0;
    }
    let total: u64 = times.values().sum();
    let is_large_part =
        |kind: &OpKind| times.get(kind).is_some_and(|t| t.saturating_mul(MAX_TIME_RATIO) >= total);
    let longest = || times.iter().max_by_key(|(_, time)| **time).map(|(kind, _)| *kind);
    main_op.filter(is_large_part).or_else(longest)
}

/// The ops, the unit and the measure of a section's rows.
struct Shown<'u> {
    main_op: Option<OpKind>,
    latency_op: Option<OpKind>,
    unit: Option<&'u str>,
    measure: Measure,
}

/// The trials of one row, its name, and the part of the name after the label.
struct Group<'a> {
    name: String,
    variant: String,
    trials: Runs<'a>,
}

/// The trials of each row, grouped by name.
fn by_name<'a>(trials: Runs<'a>, names: &RowNames) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (trial, phase) in trials {
        let variant = sanitize(&names.variant(trial));
        let name = sanitize(&trial.plan.label) + &variant;
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.trials.push((trial, phase)),
            None => groups.push(Group { name, variant, trials: vec![(trial, phase)] }),
        }
    }
    groups
}

fn row<'a>(group: Group<'a>, shown: &Shown<'_>) -> Option<Row<'a>> {
    let Group { name, variant, mut trials } = group;
    trials.sort_by_key(|(trial, _)| trial.seed);
    let first = trials.first().and_then(|(trial, _)| trial.repeats);
    let one_rule = |rule: &Repeats| {
        trials.iter().all(|(trial, _)| trial.repeats.is_some_and(|other| other.is_same_rule(rule)))
    };
    // Stein's interval uses the pilot's spread: its values come first.
    let pilot = first.filter(one_rule).map(|rule| {
        trials.sort_by_key(|(trial, _)| !rule.is_pilot(trial.seed));
        trials.iter().filter(|(trial, _)| rule.is_pilot(trial.seed)).count()
    });
    let summary = |values: Vec<f64>| match pilot {
        Some(pilot) => Summary::of_two_stages(&values, pilot),
        None => Summary::of(&values),
    };
    let summarize = |value: &dyn Fn(&Phase) -> Option<f64>| {
        let values: Option<Vec<f64>> = trials.iter().map(|(_, phase)| value(phase)).collect();
        summary(values?)
    };
    let returned = summarize(&|phase| Some(phase.returned_ns.seconds()))?;
    let durable = summarize(&|phase| phase.durable_ns.map(|ns| ns.seconds()));
    let cpu = summarize(&|phase| Some(phase.cpu_ns.seconds()))?;
    let count = |phase: &Phase| match shown.unit {
        Some(unit) => phase.books.get(unit).copied().unwrap_or(0),
        None => main_count(phase, shown.main_op),
    };
    let rate = summarize(&|phase| Some(count(phase) as f64 / phase.returned_ns.seconds()));
    let per_operation = summarize(&|phase| phase.limit_ns.map(|_| seconds(phase, false)));
    let values: Option<Vec<f64>> = trials.iter().map(|run| shown.measure.value(run)).collect();
    let measured = values.and_then(summary).unwrap_or(returned);
    let first = trials.first()?.0;
    let kind = first.plan.filesystem.as_ref().map_or(&first.plan.label, |fs| &fs.kind);
    let (flags, risks) = (device::flags(&trials), risks(&trials));
    let kind = sanitize(kind);
    let latency = shown.latency_op.and_then(|kind| merge_latencies(&trials, kind));
    Some(Row {
        name,
        variant,
        kind,
        trials,
        returned,
        durable,
        measured,
        per_operation,
        cpu,
        rate,
        latency,
        comparison: None,
        matching: None,
        base: None,
        ratio: None,
        best: false,
        flags,
        risks,
    })
}

/// The reasons why acknowledged data may be lost, each once.
fn risks(trials: &[Run<'_>]) -> Vec<String> {
    let mut risks: Vec<String> =
        trials.iter().flat_map(|(trial, _)| device::risks(trial)).collect();
    risks.sort();
    risks.dedup();
    risks
}

fn main_count(phase: &Phase, main_op: Option<OpKind>) -> u64 {
    match main_op {
        Some(kind) => phase.ops.get(&kind).map_or(0, |stats| stats.count),
        None => phase.ops.values().map(|stats| stats.count).sum(),
    }
}

/// The latencies of one kind of op over all trials of a row.
pub fn merge_latencies(trials: &[Run<'_>], kind: OpKind) -> Option<Histogram> {
    let mut merged = Histogram::new();
    for stats in trials.iter().filter_map(|(_, phase)| phase.ops.get(&kind)) {
        merged.merge(&histogram(stats));
    }
    (merged.count() > 0).then_some(merged)
}

fn histogram(stats: &OpStats) -> Histogram {
    let buckets: Vec<(u64, u64)> = stats.histogram.iter().map(|(upper, n)| (upper.0, *n)).collect();
    Histogram::from_buckets(&buckets, stats.total_ns.0, stats.max_ns.0)
}

/// The flags of every row, and the failed trials, one line each, for formats that have no columns for them.
pub fn flags_and_failures(trials: &[Trial]) -> Vec<String> {
    let sections = sections_of(trials.iter(), None);
    let rows =
        sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row)));
    let flagged = rows.filter(|(_, row)| !row.flags.is_empty());
    let lines = flagged.map(|(section, row)| {
        let flags: Vec<&str> = row.flags.iter().map(|flag| flag.name()).collect();
        format!("{} on {}: {}", section.title(), row.name, flags.join(", "))
    });
    let failed = unfinished(trials).into_iter().map(|trial| {
        sanitize(&format!("{}: {}: {}", trial.outcome, trial.what, trial.reason.replace('\n', " ")))
    });
    lines.chain(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::labs::labs;

    #[test]
    fn rows_are_file_systems_in_the_order_of_the_trials_and_sections_are_phases() {
        let trials = fixture::trials();
        let sections = sections(&trials, None);
        let titles: Vec<String> = sections.iter().map(Section::title).collect();
        assert_eq!(titles, ["dirops create", "dirops delete", "tarball extract", "tarball remove"]);
        for section in &sections {
            let names: Vec<&str> = section.rows.iter().map(|row| row.name.as_str()).collect();
            assert_eq!(names, ["ext4", "xfs", "far"]);
            assert!(section.rows.iter().all(|row| row.returned.n == 3));
        }
        assert_eq!(sections[0].rate_head(), "create/s");
        assert_eq!(sections[3].rate_head(), "unlink/s");
    }

    #[test]
    fn a_replay_has_the_rate_of_all_calls_and_the_latencies_of_the_slowest_kind() {
        let mut trials = fixture::single();
        for trial in &mut trials {
            trial.conditions.replay = Some(Default::default());
            let ops = &mut trial.measured.phases[0].ops;
            let mut slow = ops[&OpKind::Create].clone();
            slow.count = 10;
            slow.total_ns.0 *= 19;
            ops.insert(OpKind::Fsync, slow);
        }
        let section = &sections(&trials, None)[0];
        assert_eq!(section.rate_head(), "op/s");
        assert_eq!(section.latency_note(), Some("fsync"));
        let (_, phase) = section.rows[0].trials[0];
        let calls: u64 = phase.ops.values().map(|op| op.count).sum();
        let rate = section.rows[0].rate.unwrap().mean;
        assert!((rate - calls as f64 / phase.returned_ns.seconds()).abs() < 1e-6 * rate);
    }

    #[test]
    fn the_least_mean_time_to_durable_is_the_base_of_all_ratios() {
        let trials = fixture::trials();
        for section in sections(&trials, None) {
            let ratios: Vec<f64> =
                section.rows.iter().map(|row| row.ratio.unwrap().value).collect();
            assert_eq!(ratios.iter().copied().min_by(f64::total_cmp), Some(1.0));
            assert_eq!(section.measure, Measure::Durable);
        }
    }

    #[test]
    fn a_file_system_keeps_its_position_however_the_trials_were_interleaved() {
        let mut trials = fixture::trials();
        trials[9..].reverse();
        let names = |s: &Section<'_>| s.rows.iter().map(|r| r.name.clone()).collect::<Vec<_>>();
        for section in sections(&trials, None) {
            assert_eq!(names(&section), ["ext4", "xfs", "far"]);
        }
    }

    #[test]
    fn the_same_lab_trial_read_twice_counts_once() {
        let twice = [fixture::trials(), fixture::trials()].concat();
        assert!(sections(&twice, None).iter().flat_map(|s| &s.rows).all(|row| row.returned.n == 3));
    }

    #[test]
    fn rows_on_different_disks_are_named_with_their_disk() {
        let mut trials = fixture::trials();
        let mut other = fixture::trials();
        for trial in &mut other {
            fixture::set_disk(trial, "instant");
        }
        trials.append(&mut other);
        let names: Vec<String> =
            sections(&trials, None)[0].rows.iter().map(|r| r.name.clone()).collect();
        assert_eq!(names.len(), 6);
        assert_eq!(names[0], "ext4, hdd-7200");
        assert_eq!(names[1], "ext4, instant");
    }

    #[test]
    fn trials_of_different_labs_are_never_averaged() {
        let mut trials = fixture::trials();
        let mut other = fixture::trials();
        other.iter_mut().for_each(|trial| trial.lab_id = Some("another".into()));
        trials.append(&mut other);
        let rows = &sections(&trials, None)[0].rows;
        assert_eq!(rows.len(), 6);
        assert!(rows.iter().all(|row| row.returned.n == 3));
        assert!(rows[3].name.contains("lab anothe"), "{}", rows[3].name);
    }

    #[test]
    fn a_row_in_two_labs_has_the_components_in_which_they_differ() {
        let mut trials = fixture::trials();
        let mut other = fixture::trials();
        for trial in &mut other {
            trial.lab_id = Some("another".into());
            trial.lab.insert("agent".into(), "sha256:77cd".into());
        }
        trials.append(&mut other);
        let labs = labs(&trials);
        assert_eq!(labs.len(), 2);
        assert!(labs[0].differs.is_empty());
        assert_eq!(labs[1].differs, ["agent"]);
        let text = crate::table(&trials, None, crate::Format::Text, Default::default()).unwrap();
        assert!(text.contains("differs from the lab above in: agent"), "{text}");
    }

    #[test]
    fn equal_names_with_different_parameters_are_different_workloads() {
        let mut trials = fixture::trials();
        trials[0].plan.workload.params.insert("files".into(), "7".into());
        assert!(sections(&trials, None).iter().any(|s| s.workload == "dirops files=7"));
    }

    #[test]
    fn flags_and_failures_are_available_to_formats_without_columns_for_them() {
        let mut trials = fixture::with_failures();
        trials[0].measured.phases[0].instrument.server_cpu_ns =
            trials[0].measured.phases[0].returned_ns;
        let lines = flags_and_failures(&trials);
        assert_eq!(lines[0], "dirops create on ext4: INSTRUMENT-BOUND");
        assert!(
            lines.iter().any(|line| line.starts_with("failed: dirops on ext4, seed 1: ")),
            "{lines:?}"
        );
        assert_eq!(flags_and_failures(&fixture::trials()), [""; 0]);
    }

    #[test]
    fn only_trials_that_succeeded_are_measured_and_the_rest_are_listed() {
        let trials = fixture::with_failures();
        assert!(sections(&trials, None).iter().all(|s| s.rows.len() == 3));
        let outcomes: Vec<&str> = unfinished(&trials).iter().map(|u| u.outcome).collect();
        assert_eq!(outcomes, ["failed", "skipped"]);
    }
}
