//! The speed of this machine: keeps the times of trials in the user's cache, and estimates the times of others.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fsdyno_axes::venue::{PACE_OF_LAB as LAB, pace};
use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::plan::Plan;
use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_record::units::rough;
use serde::{Deserialize, Serialize};

use crate::files::write_file;
use crate::matrix_request::Cell;

/// File name in the user's cache.
const FILE: &str = "speed.json";

/// Maximum number of trials in a mean, so that it follows changes of the machine.
const MEMORY: u32 = 8;

/// The mean times of trials of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Pace {
    /// Seconds of a trial without its phases: boot, preparation, verification, check.
    fixed: f64,
    /// Seconds per operation.
    per_op: f64,
    /// Number of trials.
    trials: u32,
    /// The same trials by their numbers of operations; without those that an earlier version stored.
    #[serde(default)]
    line: Line,
}

impl Pace {
    /// Adds a trial: its seconds without its phases, those of its phases, and its number of operations.
    fn add(&mut self, fixed: f64, phases: f64, ops: f64) {
        let before = f64::from(self.trials.min(MEMORY - 1));
        let mean = |old: f64, new: f64| (old * before + new) / (before + 1.0);
        (self.fixed, self.per_op) = (mean(self.fixed, fixed), mean(self.per_op, phases / ops));
        self.trials = self.trials.saturating_add(1);
        self.line.add(ops, fixed + phases);
    }

    /// Estimates the seconds of a trial with this number of operations.
    fn seconds(&self, ops: f64) -> f64 {
        let (fixed, per_op) = self.line.fit().unwrap_or((self.fixed, self.per_op));
        fixed + per_op * ops
    }
}

/// The sums of a line through the times of trials over their numbers of operations, fitted by least squares of the relative
/// errors. A short trial spends most of its phases' time on what each phase does once, so that its time per operation
/// is far above that of a long one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Line {
    /// Number of trials.
    trials: u32,
    /// Sum of the weights, which are the inverse squares of the times.
    weights: f64,
    ops: f64,
    seconds: f64,
    ops_squared: f64,
    ops_by_seconds: f64,
}

impl Line {
    /// The variance of the numbers of operations, relative to their mean square, below which trials of about one size do
    /// not decide a line. [OWN]
    const MIN_SPREAD: f64 = 0.2;

    /// The number of trials below which they do not decide a line. [OWN]
    const MIN_TRIALS: u32 = 3;

    fn add(&mut self, ops: f64, seconds: f64) {
        let weight = seconds.max(1e-3).powi(-2);
        let keep = 1.0 - 1.0 / f64::from(MEMORY * 4);
        let sum = |old: f64, new: f64| old * keep + weight * new;
        self.trials = self.trials.saturating_add(1);
        self.weights = sum(self.weights, 1.0);
        self.ops = sum(self.ops, ops);
        self.seconds = sum(self.seconds, seconds);
        self.ops_squared = sum(self.ops_squared, ops * ops);
        self.ops_by_seconds = sum(self.ops_by_seconds, ops * seconds);
    }

    /// Returns the line through the trials of two lines.
    fn and(self, other: &Line) -> Line {
        Line {
            trials: self.trials.saturating_add(other.trials),
            weights: self.weights + other.weights,
            ops: self.ops + other.ops,
            seconds: self.seconds + other.seconds,
            ops_squared: self.ops_squared + other.ops_squared,
            ops_by_seconds: self.ops_by_seconds + other.ops_by_seconds,
        }
    }

    /// Returns the seconds of a trial without operations and those per operation; `None` if the trials are too few or of
    /// about one size.
    fn fit(&self) -> Option<(f64, f64)> {
        let spread = self.weights * self.ops_squared - self.ops * self.ops;
        let is_flat = spread <= Self::MIN_SPREAD * self.weights * self.ops_squared;
        if self.trials < Self::MIN_TRIALS || is_flat {
            return None;
        }
        let per_op = (self.weights * self.ops_by_seconds - self.ops * self.seconds) / spread;
        let fixed = (self.seconds - per_op * self.ops) / self.weights;
        match (fixed < 0.0, per_op < 0.0) {
            (_, true) => None,
            (true, _) => Some((0.0, self.ops_by_seconds / self.ops_squared)),
            _ => Some((fixed, per_op)),
        }
    }
}

/// The paces of this machine by kind of trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Speeds(BTreeMap<String, Pace>);

/// An estimate of the time of some trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The time.
    pub time: Duration,
    /// The number of earlier trials that it is based on.
    pub trials: u32,
}

impl Estimate {
    /// Returns the basis of the estimate: `estimated from 3 earlier trials on this machine`.
    pub fn basis(&self) -> String {
        let trials = fsdyno_report::counted(self.trials as usize, "earlier trial");
        format!("estimated from {trials} on this machine")
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "about {} ({})", rough(self.time), self.basis())
    }
}

impl Speeds {
    /// Loads the paces from the cache; empty if there are none yet or the file is unreadable, which does no harm.
    pub fn load() -> Speeds {
        let text = path().and_then(|path| bounded::read_to_string(&path, &WRITTEN).ok());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Adds trials and stores the paces; ignores a failure to store them.
    pub fn learn<'t>(trials: impl Iterator<Item = &'t Trial>) {
        let mut speeds = Speeds::load();
        let before = speeds.clone();
        trials.for_each(|trial| speeds.add(trial));
        if speeds == before {
            return;
        }
        if let (Some(path), Ok(text)) = (path(), serde_json::to_string(&speeds)) {
            let _ = write_file(&path, text + "\n");
        }
    }

    fn add(&mut self, trial: &Trial) {
        let ops = trial.measured.phases.iter().flat_map(|phase| phase.ops.values());
        let ops: u64 = ops.map(|op| op.count).sum();
        if trial.outcome != Outcome::Ok || ops == 0 {
            return;
        }
        let of_phases = |(name, _): &(&String, _)| name.starts_with("phase ");
        let phases = trial.host.stages.iter().filter(of_phases).map(|(_, time)| time.seconds());
        let (whole, phases) = (trial.host.elapsed_ns.seconds(), phases.sum::<f64>());
        // Without stages, all of the time is attributed to the phases.
        let phases = if phases > 0.0 { phases.min(whole) } else { whole };
        for key in keys(&trial.plan) {
            self.0.entry(key).or_default().add(whole - phases, phases, ops as f64);
        }
    }

    /// Estimates the time of one trial of each of these cells, `jobs` at the same time; `None` if there is no cell, or
    /// if no trial of some cell's kind has run here.
    pub fn estimate<'c>(
        &self,
        cells: impl Iterator<Item = &'c Cell>,
        jobs: usize,
    ) -> Option<Estimate> {
        let (mut seconds, mut trials, mut number) = (0.0, u32::MAX, 0_usize);
        for cell in cells.filter(|cell| cell.skip.is_none()) {
            let pace = self.pace(&cell.plan)?;
            seconds += pace.seconds(cell.ops() as f64);
            trials = trials.min(pace.trials);
            number += 1;
        }
        let jobs = jobs.clamp(1, number.max(1)) as f64;
        let time = Duration::try_from_secs_f64(seconds / jobs).ok()?;
        (number > 0).then_some(Estimate { time, trials })
    }
}

impl Speeds {
    /// Returns the pace of the narrowest kind that has run here. In the lab, falls back to that of other processors:
    /// the host's time for a guest's instructions does not depend on the modelled processor.
    fn pace(&self, plan: &Plan) -> Option<Pace> {
        let keys = keys(plan);
        let own = keys.iter().find_map(|key| self.0.get(key).copied());
        let cpu = plan.lab().filter(|lab| lab.accel.is_exact()).map(|lab| lab.cpu.to_string());
        own.or_else(|| {
            let prefix = format!("{LAB}{}", cpu?);
            keys.iter().find_map(|key| self.of_any_cpu(key.strip_prefix(&prefix)?))
        })
    }

    /// Returns the mean pace of the lab's kinds whose keys end with this suffix.
    fn of_any_cpu(&self, suffix: &str) -> Option<Pace> {
        let alike = self.0.iter().filter(|(key, _)| key.starts_with(LAB) && key.ends_with(suffix));
        let alike = alike.map(|(_, pace)| pace);
        let trials: u32 = alike.clone().map(|pace| pace.trials).sum();
        let mean = |of: fn(&Pace) -> f64| {
            alike.clone().map(|pace| of(pace) * f64::from(pace.trials)).sum::<f64>()
                / f64::from(trials)
        };
        let line = alike.clone().fold(Line::default(), |sum, it| sum.and(&it.line));
        let (fixed, per_op) = (mean(|it| it.fixed), mean(|it| it.per_op));
        let pace = || Pace { fixed, per_op, trials, line };
        (trials > 0).then(pace)
    }
}

fn path() -> Option<PathBuf> {
    Some(fsdyno_lab::Cache::of_user().ok()?.path().join(FILE))
}

/// Returns the kinds of a trial, narrowest first. A call over a modelled network takes the host many times as long as
/// one without, so trials with a network are of separate kinds.
fn keys(plan: &Plan) -> [String; 3] {
    let venue = pace(&plan.venue);
    let workload = format!("{venue}/{}", plan.workload.name);
    let kind = plan.filesystem.as_ref().map_or("directory", |it| it.mount_type.as_str());
    [format!("{workload}/{kind}"), workload, venue]
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::plan::VenuePlan;

    #[test]
    fn a_pace_is_a_mean_that_forgets() {
        let mut pace = Pace::default();
        pace.add(10.0, 0.1, 100.0);
        pace.add(20.0, 0.3, 100.0);
        assert_eq!((pace.fixed, pace.trials), (15.0, 2));
        assert!((pace.per_op - 0.002).abs() < 1e-12);
        for _ in 0..40 {
            pace.add(5.0, 0.1, 100.0);
        }
        assert!((pace.fixed - 5.0).abs() < 0.1 && pace.trials == 42);
        assert_eq!(pace.line.fit(), None, "trials of one size");
    }

    #[test]
    fn short_trials_do_not_make_the_estimates_of_long_ones_too_high() {
        let mut pace = Pace::default();
        // Half a second for what is done once, mostly within the phases, and 20 us for each operation.
        let time = |ops: f64| 0.4 + 20e-6 * ops;
        for _ in 0..3 {
            for ops in [100.0, 400.0, 10_000.0] {
                pace.add(0.1, time(ops), ops);
            }
        }
        for ops in [50.0, 100_000.0, 1e6] {
            let (estimate, real) = (pace.seconds(ops), 0.1 + time(ops));
            assert!((estimate / real - 1.0).abs() < 0.01, "{ops}: {estimate} instead of {real}");
        }
    }

    #[test]
    fn trials_of_a_kind_are_estimated_from_stored_ones_of_the_nearest_kind() {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let kept = std::path::Path::new(kept).join("2026-11-22-phillips-2001/then/forward");
        let trials = fsdyno_report::load(&[kept]).unwrap().trials;
        let mut speeds = Speeds::default();
        speeds.add(&trials[0]);
        let keys = keys(&trials[0].plan);
        assert!(keys.iter().all(|key| speeds.0.contains_key(key)), "{speeds:?}");
        let whole = trials[0].host.elapsed_ns.seconds();
        let ops: u64 = trials[0]
            .measured
            .phases
            .iter()
            .flat_map(|it| it.ops.values())
            .map(|op| op.count)
            .sum();
        let pace = speeds.0[&keys[0]];
        assert!((pace.fixed + pace.per_op * ops as f64 - whole).abs() < 1e-6 * whole, "{pace:?}");
        let estimate = Estimate { time: Duration::from_secs(150), trials: 1 };
        assert_eq!(
            estimate.to_string(),
            "about 3 min (estimated from 1 earlier trial on this machine)"
        );
        assert_eq!(Speeds::default().estimate(std::iter::empty(), 1), None);
    }

    #[test]
    fn a_trial_on_another_modelled_processor_has_the_pace_of_those_that_ran() {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let kept = std::path::Path::new(kept).join("2026-11-22-guenter-2008/then/tarball");
        let trials = fsdyno_report::load(&[kept]).unwrap().trials;
        let mut speeds = Speeds::default();
        speeds.add(&trials[0]);
        let mut plan = trials[0].plan.clone();
        let own = speeds.pace(&plan);
        plan.lab_mut().unwrap().cpu = "8".parse().unwrap();
        assert!(own.is_some() && speeds.pace(&plan) == own, "{speeds:?}");
        plan.workload.name = "other".into();
        assert_eq!(speeds.pace(&plan), own, "the pace of the lab");
        plan.venue = VenuePlan::Host;
        assert_eq!(speeds.pace(&plan), None);
    }
}
