//! Finds the trials of a cell, and its value in each.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;
use fsdyno_report::validity::Flag;
use fsdyno_report::{Run, distinct, flags};

use super::figure;
use crate::file::{Cell, Figure, StudyFile, Variant};

/// All trials of one variant of a study.
pub struct Trials<'a> {
    /// The study.
    pub file: &'a StudyFile,
    /// The variant that is judged.
    pub variant: Variant,
    /// Divisor of sizes; 1 at full scale.
    pub scale: u64,
    /// The trials of each run, by name.
    pub runs: Vec<(&'a str, Vec<&'a Trial>)>,
}

/// The trials of a cell that count.
pub struct CellTrials<'a> {
    /// The trials, each with the cell's first phase.
    pub runs: Vec<Run<'a>>,
    /// Number of the cell's other trials: failed or skipped.
    pub failed: usize,
    /// Their flags: those that weaken a verdict; from [`Trials::of_any_flags`], all of them.
    pub flags: Vec<Flag>,
}

impl<'a> Trials<'a> {
    /// Returns the reason if a run of these cells has no trials in this variant, or none of a row that belongs to it. A
    /// row that cannot run here has skipped trials.
    pub fn missing(&self, cells: &[&Cell]) -> Option<String> {
        cells.iter().find_map(|cell| {
            let run = self.file.run(&cell.run)?;
            let variant = run.serves(self.variant)?;
            let Some(trials) = self.trials_of(&cell.run) else {
                return Some(not_run_reason(&cell.run, self.variant));
            };
            let belongs = run.rows(variant).is_none_or(|rows| rows.contains(&cell.row));
            let has_trials = trials.iter().any(|trial| trial.plan.label == cell.row);
            (belongs && !has_trials).then(|| no_trial_reason(cell))
        })
    }

    fn trials_of(&self, run: &str) -> Option<&[&'a Trial]> {
        let (_, trials) = self.runs.iter().find(|(name, _)| *name == run)?;
        Some(trials)
    }

    /// Returns the trials of a cell, or with `points` the trials of every point of a curve.
    ///
    /// # Errors
    /// The reason why none count, as a sentence.
    pub fn of(&self, cell: &Cell, points: bool) -> Result<CellTrials<'a>, String> {
        let found = self.of_any_flags(cell, points)?;
        if let Some(flag) = found.flags.iter().find(|flag| flag.forbids_verdict()) {
            return Err(format!("'{}' is {flag}: {}", cell.row, flag.meaning()));
        }
        let flags = found.flags.into_iter().filter(|flag| flag.weakens_verdict()).collect();
        Ok(CellTrials { flags, ..found })
    }

    /// Returns the trials of a cell regardless of their flags, for tables that show them without a verdict.
    ///
    /// # Errors
    /// The reason why there are none, as a sentence.
    pub fn of_any_flags(&self, cell: &Cell, points: bool) -> Result<CellTrials<'a>, String> {
        let (run, row) = (&cell.run, &cell.row);
        let conditions = self.variant.words();
        let found = self.file.run(run).ok_or_else(|| format!("there is no run '{run}'"))?;
        let variant = found.serves(self.variant);
        let variant = variant.ok_or_else(|| format!("run '{run}' is not run {conditions}"))?;
        if found.rows(variant).is_some_and(|rows| !rows.contains(row)) {
            return Err(format!("run '{run}' has no row '{row}' {conditions}"));
        }
        let trials = self.trials_of(run).ok_or_else(|| not_run_reason(run, self.variant))?;
        let of_row = || trials.iter().copied().filter(|trial| trial.plan.label == *row);
        if of_row().next().is_none() {
            return Err(no_trial_reason(cell));
        }
        let is_at_point = |trial: &&Trial| {
            let is_set = |(key, value): (&String, &String)| {
                trial.plan.workload.params.get(key).is_some_and(|set| set == value)
            };
            cell.at.iter().all(is_set)
        };
        let at_point: Vec<&Trial> = of_row().filter(is_at_point).collect();
        if at_point.is_empty() {
            return Err(no_point_reason(cell, of_row()));
        }
        let ok = distinct(at_point.iter().copied());
        if ok.is_empty() {
            return Err(why_none(row, &at_point));
        }
        check_one_lab(cell, &ok)?;
        check_repetitions(cell, &ok, &at_point)?;
        let plans: BTreeSet<&str> = ok.iter().map(|trial| trial.plan.hash.as_str()).collect();
        if plans.len() > 1 && !points {
            return Err(format!(
                "'{row}' has trials of {} plans in run '{run}'; select one of them with at = {{ ... }}",
                plans.len()
            ));
        }
        if ok.iter().any(|trial| trial.conditions.userspace) {
            return Err(format!(
                "a process (FUSE), not the kernel, did the work of '{row}' here, so no claim is judged by it"
            ));
        }
        self.check_thread_name(cell, trials)?;
        let mut runs = Vec::new();
        for trial in ok {
            let phases = figure::phases(cell, trial)?;
            runs.extend(phases.first().map(|phase| (trial, *phase)));
        }
        // Points of a curve are not repeats of each other.
        let mut repeats: BTreeMap<(&str, &str), Vec<Run<'_>>> = BTreeMap::new();
        for (trial, phase) in runs.iter().flat_map(|(trial, _)| phases_of(cell, trial)) {
            repeats.entry((&trial.plan.hash, &phase.name)).or_default().push((trial, phase));
        }
        let found: BTreeSet<Flag> = repeats.values().flat_map(|runs| flags(runs)).collect();
        let failed = at_point.iter().filter(|trial| trial.outcome != Outcome::Ok).count();
        Ok(CellTrials { runs, failed, flags: found.into_iter().collect() })
    }

    /// Refuses a kernel thread that no trial of a run has: it is not idle, but misspelt or from a different kernel.
    fn check_thread_name(&self, cell: &Cell, trials: &[&Trial]) -> Result<(), String> {
        let Figure::KernelCpu(Some(thread)) = &cell.figure else { return Ok(()) };
        let names: BTreeSet<&str> = trials
            .iter()
            .flat_map(|trial| &trial.measured.phases)
            .flat_map(|phase| phase.kernel_cpu_ns.keys().map(String::as_str))
            .collect();
        if names.contains(thread.as_str()) {
            return Ok(());
        }
        let names: Vec<&str> = names.into_iter().collect();
        Err(format!(
            "no trial of run '{}' has a kernel thread '{thread}': there are {}",
            cell.run,
            names.join(", ")
        ))
    }
}

/// Returns the reason why a row of a run has no trial.
fn no_trial_reason(cell: &Cell) -> String {
    format!("run '{}' has no trial of '{}'", cell.run, cell.row)
}

/// Returns the reason why a run has no trial.
fn not_run_reason(run: &str, variant: Variant) -> String {
    format!("run '{run}' has not been run {}", variant.words())
}

/// Refuses trials of one plan in two labs (such as different fsdyno builds or tools): they do not repeat each other.
fn check_one_lab(cell: &Cell, trials: &[&Trial]) -> Result<(), String> {
    let mut labs: BTreeMap<&str, &str> = BTreeMap::new();
    for trial in trials {
        let Some(lab) = trial.lab_id.as_deref() else { continue };
        let first = *labs.entry(&trial.plan.hash).or_insert(lab);
        if first != lab {
            let [first, lab] = [first, lab].map(|id| id.get(..12).unwrap_or(id));
            return Err(format!(
                "'{}' has trials of two labs in run '{}' ({first} and {lab}, by their lab_id), which are never \
                 averaged; keep those of one",
                cell.row, cell.run
            ));
        }
    }
    Ok(())
}

/// Checks that two records of one trial in one lab are bit-identical. If they are not, neither can be trusted.
fn check_repetitions(cell: &Cell, distinct: &[&Trial], all: &[&Trial]) -> Result<(), String> {
    let is_reproducible =
        |trial: &&&Trial| trial.outcome == Outcome::Ok && trial.is_bit_identical();
    for trial in all.iter().filter(is_reproducible) {
        let first = distinct.iter().find(|first| first.identity() == trial.identity());
        if first.is_some_and(|first| first.measured != trial.measured) {
            return Err(format!(
                "'{}' has two records of seed {} in run '{}' and one lab, which must be equal but differ; trust \
                 neither",
                cell.row, trial.seed, cell.run
            ));
        }
    }
    Ok(())
}

/// Returns the phases of a cell in a trial, as runs.
pub fn phases_of<'a>(cell: &Cell, trial: &'a Trial) -> Vec<Run<'a>> {
    let phases = figure::phases(cell, trial).unwrap_or_default();
    phases.into_iter().map(|phase| (trial, phase)).collect()
}

impl CellTrials<'_> {
    /// Returns the cell's value in each trial, in its unit.
    ///
    /// # Errors
    /// The missing part of a trial.
    pub fn values(&self, cell: &Cell) -> Result<Vec<f64>, String> {
        self.runs.iter().map(|(trial, _)| in_unit(cell, trial)).collect()
    }
}

/// Returns the cell's value in a trial, in its unit.
pub fn in_unit(cell: &Cell, trial: &Trial) -> Result<f64, String> {
    Ok(figure::value(cell, trial)? / cell.unit.factor)
}

fn no_point_reason<'t>(cell: &Cell, trials: impl Iterator<Item = &'t Trial>) -> String {
    let format_params = |pairs: &mut dyn Iterator<Item = (&String, &String)>| {
        pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let requested = format_params(&mut cell.at.iter());
    let mut points: Vec<String> = Vec::new();
    for trial in trials {
        let params = &trial.plan.workload.params;
        let params_text =
            format_params(&mut params.iter().filter(|(key, _)| cell.at.contains_key(*key)));
        if !points.contains(&params_text) {
            points.push(params_text);
        }
    }
    format!("'{}' has no trial with {requested}: there are {}", cell.row, points.join(", "))
}

/// Returns why no trial counts, from the first failed trial, or else from the first skipped one.
fn why_none(row: &str, trials: &[&Trial]) -> String {
    let skipped = trials.iter().find(|trial| trial.outcome == Outcome::Skipped);
    let failed = trials.iter().find(|trial| trial.outcome == Outcome::Failed);
    let what = if failed.is_some() { "failed" } else { "was skipped" };
    let reason = failed.or(skipped).and_then(|trial| trial.reason.as_deref());
    let first = reason.unwrap_or("no reason was given").lines().next().unwrap_or_default();
    format!("'{row}' {what}: {first}")
}
