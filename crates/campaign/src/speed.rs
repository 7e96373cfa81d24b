//! The speed of this machine: keeps the times of trials in the user's cache, and estimates the times of others.

mod crash;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_axes::venue::{PACE_OF_LAB as LAB, pace};
use fsdyno_record::bounded::{self, WRITTEN};
use fsdyno_record::plan::{MediumPlan, Plan};
use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_record::units::rough;
use fsdyno_workload::workloads;
use serde::{Deserialize, Serialize};

use crate::files::write_file;
use crate::load::Load;
use crate::matrix_request::Cell;
use crate::pace::{Pace, Times};

pub use crash::{CrashBasis, CrashEstimate};

/// File name in the user's cache.
const FILE: &str = "speed.json";

/// The key in [`Speeds`] for the time to make a snapshot.
const SNAPSHOTS: &str = "snapshot";

/// The key in [`Speeds`] for the time to boot the guest of a trial.
const BOOTS: &str = "boot";

/// The number of kinds of trials in the cache from which on configurations have none of their own, because
/// `fsdyno tune` runs thousands of them. [OWN]
const MAX_KINDS: usize = 2000;

/// The assumed time to make a snapshot, in seconds, until a guest has booted on this machine. [OWN]
const FIRST_BOOT: f64 = 10.0;

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
    /// True if these trials ran the same workload.
    pub same_work: bool,
    /// The part of the time for which guests boot, before the first trial, to save snapshots.
    pub boots: Duration,
}

impl Estimate {
    /// Adds the time of boots for snapshots before the first trial.
    pub fn with_boots(self, boots: Duration) -> Estimate {
        Estimate { time: self.time + boots, boots: self.boots + boots, ..self }
    }

    /// Returns the basis of the estimate: `estimated from 3 earlier trials on this machine`, or, if no trial of the
    /// workload ran, `a rough estimate from 3 earlier trials of other workloads on this machine`.
    pub fn basis(&self) -> String {
        let trials = fsdyno_report::counted(self.trials as usize, "earlier trial");
        match self.same_work {
            true => format!("estimated from {trials} on this machine"),
            false => format!("a rough estimate from {trials} of other workloads on this machine"),
        }
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let boots = match self.boots {
            Duration::ZERO => String::new(),
            boots => format!("{} of it to boot guests for snapshots; ", rough(boots)),
        };
        write!(f, "about {} ({boots}{})", rough(self.time), self.basis())
    }
}

/// Returns the time that a trial took, including the creation of its disks and the check of its file system.
pub fn took(trial: &Trial) -> Duration {
    crate::pace::took(trial)
}

impl Speeds {
    /// Loads the paces from the cache; there are none if the file is missing or unreadable, which does no harm.
    pub fn load() -> Speeds {
        let text = path().and_then(|path| bounded::read_to_string(&path, &WRITTEN).ok());
        text.map_or(Speeds::default(), |text| Speeds::read(&text))
    }

    /// Reads the stored paces, without those that have no time.
    fn read(text: &str) -> Speeds {
        let mut speeds: Speeds = serde_json::from_str(text).unwrap_or_default();
        speeds.0.retain(|_, pace| !pace.is_empty());
        speeds
    }

    /// Adds trials that have just ended, `jobs` of which ran at the same time, and stores the paces; ignores a failure
    /// to store them.
    pub fn learn<'t>(trials: impl Iterator<Item = &'t Trial>, jobs: usize) {
        let stretch = Load::measured().stretch(jobs);
        Speeds::update(|speeds| trials.for_each(|trial| speeds.add(trial, stretch)));
    }

    /// Adds the time that it took to make a snapshot, just now, and stores it; ignores a failure to store it.
    pub fn learn_boot(took: Duration) {
        let times = Times::of_computation(took, Load::measured().stretch(1));
        Speeds::update(|speeds| speeds.0.entry(SNAPSHOTS.into()).or_default().add(&times, 1.0));
    }

    fn update(change: impl FnOnce(&mut Speeds)) {
        let mut speeds = Speeds::load();
        let before = speeds.clone();
        change(&mut speeds);
        if speeds == before {
            return;
        }
        if let (Some(path), Ok(text)) = (path(), serde_json::to_string(&speeds)) {
            let _ = write_file(&path, text + "\n");
        }
    }

    /// Adds a trial that ran while computations took `stretch` times as long as on an idle host.
    fn add(&mut self, trial: &Trial, stretch: f64) {
        let ops = trial.measured.phases.iter().flat_map(|phase| phase.ops.values());
        let ops: u64 = ops.map(|op| op.count).sum();
        if trial.outcome != Outcome::Ok || ops == 0 {
            return;
        }
        let times = Times::of(trial, stretch);
        let mut keys = keys(&trial.plan);
        if self.0.len() >= MAX_KINDS {
            // The broader kinds are few.
            keys.truncate(3);
        }
        for key in keys {
            self.0.entry(key).or_default().add(&times, ops as f64);
        }
        if let Some(boot) = Times::of_boot(trial, stretch) {
            self.0.entry(BOOTS.into()).or_default().add(&boot, 1.0);
        }
    }

    /// Estimates the time to boot this many guests, one after the other, to save snapshots.
    pub fn boots(&self, guests: usize) -> Duration {
        duration(self.boot(&Load::now()) * guests as f64).unwrap_or_default()
    }

    /// Estimates the seconds to make a snapshot: as long as those made here took, or else a trial's boot.
    fn boot(&self, load: &Load) -> f64 {
        let stretch = load.stretch(1);
        let known = [SNAPSHOTS, BOOTS].into_iter().find_map(|kind| self.0.get(kind));
        known.map_or(FIRST_BOOT * stretch, |pace| pace.seconds(1.0, stretch))
    }

    /// Estimates the time of one trial of each of these cells, `jobs` at the same time, under the current load
    /// of this host; `None` if there is no cell, or if for some cell no trial of its kind has run here.
    pub fn estimate<'c>(
        &self,
        cells: impl Iterator<Item = &'c Cell>,
        jobs: usize,
    ) -> Option<Estimate> {
        self.estimate_under(cells, jobs, &Load::now())
    }

    fn estimate_under<'c>(
        &self,
        cells: impl Iterator<Item = &'c Cell>,
        jobs: usize,
        load: &Load,
    ) -> Option<Estimate> {
        let cells: Vec<&Cell> = cells.filter(|cell| cell.skip.is_none()).collect();
        let jobs = jobs.clamp(1, cells.len().max(1));
        let (mut total, mut longest, mut trials, mut same_work) = (0.0, 0.0_f64, u32::MAX, true);
        for cell in &cells {
            let ops = cell.ops() as f64;
            let (pace, is_same_work) = self.pace(&cell.plan, ops)?;
            same_work &= is_same_work;
            let seconds = pace.seconds(ops, load.stretch(jobs));
            total += seconds;
            longest = longest.max(seconds);
            trials = trials.min(pace.trials);
        }
        let time = duration((total / jobs as f64).max(longest))?;
        let boots = Duration::ZERO;
        (!cells.is_empty()).then_some(Estimate { time, trials, same_work, boots })
    }

    /// Estimates the time of one trial of a cell while `jobs` run, if trials of its kind have run here.
    pub fn expected(&self, cell: &Cell, jobs: usize) -> Option<Duration> {
        let ops = cell.ops() as f64;
        let (pace, _) = self.pace(&cell.plan, ops)?;
        duration(pace.seconds(ops, Load::now().stretch(jobs)))
    }

    /// Estimates the part of the time of a trial of a cell that it spends on its operations, from 0 to 1.
    pub fn work(&self, cell: &Cell) -> Option<f64> {
        let ops = cell.ops() as f64;
        self.pace(&cell.plan, ops)?.0.work(ops)
    }
}

impl Speeds {
    /// Returns the pace of a kind for a trial with this number of operations, and whether its trials ran the same
    /// workload: of the kinds of the workload, the narrowest with a trial of about this size or larger, or else the
    /// narrowest that has run here. A pace stored by an earlier version of fsdyno, which may overestimate times
    /// severalfold, counts only if there is no other. In the lab, the fallback is the pace on other modelled processors:
    /// the host's time for a guest's instructions does not depend on the modelled processor.
    fn pace(&self, plan: &Plan, ops: f64) -> Option<(Pace, bool)> {
        self.pace_of("", plan, ops)
    }

    /// Returns the same pace of the kinds with this prefix.
    fn pace_of(&self, prefix: &str, plan: &Plan, ops: f64) -> Option<(Pace, bool)> {
        let keys: Vec<String> =
            keys(plan).into_iter().map(|key| format!("{prefix}{key}")).collect();
        // The narrowest kind first; the first one is that of all workloads.
        let keys = keys.iter().enumerate().map(|(index, key)| (key, index > 0)).rev();
        let mut paces = keys.clone().filter_map(|(key, same)| Some((self.0.get(key)?, same)));
        let mut current = paces.clone().filter(|(pace, _)| pace.is_current());
        let of_size = current.clone().find(|(pace, same)| *same && pace.reaches(ops));
        let found = of_size.or_else(|| current.next()).or_else(|| paces.next());
        let cpu = plan.lab().filter(|lab| lab.accel.is_exact()).map(|lab| lab.cpu.to_string());
        found.map(|(pace, same)| (pace.clone(), same)).or_else(|| {
            let lab = format!("{prefix}{LAB}");
            let this_cpu = format!("{lab}{}", cpu?);
            let mut keys = keys;
            keys.find_map(|(key, same)| {
                Some((self.pace_on_any_cpu(&lab, key.strip_prefix(&this_cpu)?)?, same))
            })
        })
    }

    /// Returns the pace of all kinds whose keys begin with that of the lab and end with this suffix.
    fn pace_on_any_cpu(&self, lab: &str, suffix: &str) -> Option<Pace> {
        let paces = self.0.iter().filter(|(key, _)| key.starts_with(lab) && key.ends_with(suffix));
        let all = Pace::of_all(paces.map(|(_, pace)| pace));
        (all.trials > 0).then_some(all)
    }
}

/// The longest estimate, in seconds: a million years. The file may have been changed, and sums of longer times could
/// overflow.
const MAX_SECONDS: f64 = 3.2e13;

/// Converts an estimate; `None` for a number that is not a time.
fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds <= MAX_SECONDS)
}

fn path() -> Option<PathBuf> {
    Some(fsdyno_lab::Cache::of_user().ok()?.path().join(FILE))
}

/// Returns the kinds of a trial, broadest first: its venue, its workload there, the type of its file system (for a
/// directory, also of the one that the directory is on), its configuration, because a single option, such as an
/// unindexed directory, can multiply the time, and the workload's parameters other than the amount of work, such as the
/// recording of a replay. A call over a modelled network takes the host many times as long as one without, so trials
/// with a network are of separate kinds.
fn keys(plan: &Plan) -> Vec<String> {
    let venue = pace(&plan.venue);
    let workload = format!("{venue}/{}", plan.workload.name);
    let mut keys = vec![venue, workload.clone()];
    match (&plan.filesystem, &plan.medium) {
        (Some(filesystem), _) => {
            let kind = format!("{workload}/{}", filesystem.mount_type);
            keys.extend([kind.clone(), format!("{kind}/{}", filesystem.spec)]);
        }
        (None, medium) => {
            let kind = format!("{workload}/directory");
            keys.push(kind.clone());
            if let MediumPlan::Directory { path } = medium
                && let Ok(on) = fsdyno_media::directory::kind(Path::new(path))
            {
                keys.push(format!("{kind}/{on}"));
            }
        }
    }
    let parameters = parameters(plan);
    if let Some(last) = keys.last().filter(|_| !parameters.is_empty()) {
        keys.push(format!("{last}/{parameters}"));
    }
    keys
}

/// Returns the parameters of a plan's workload that differ from the defaults and do not set the amount of work.
fn parameters(plan: &Plan) -> String {
    // A plan may name a workload of another version.
    let Ok(kind) = workloads::find(&plan.workload.name) else { return String::new() };
    let is_default = |name: &str, value: &str| {
        kind.params.iter().any(|param| param.name == name && param.default == value)
    };
    let set = plan.workload.params.iter().filter(|(name, value)| {
        !kind.more_work.contains(&name.as_str()) && !is_default(name, value)
    });
    set.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::plan::VenuePlan;

    #[test]
    fn trials_of_a_kind_are_estimated_from_stored_ones_of_the_nearest_kind() {
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let results = std::path::Path::new(results).join("2026-11-22-phillips-2001/then/forward");
        let trials = fsdyno_report::load(&[results]).unwrap().trials;
        let mut speeds = Speeds::default();
        speeds.add(&trials[0], 1.0);
        let keys = keys(&trials[0].plan);
        assert!(keys.iter().all(|key| speeds.0.contains_key(key)), "{speeds:?}");
        let cpu_seconds = trials[0].host.cpu_ns.unwrap().seconds();
        let ops: u64 = trials[0]
            .measured
            .phases
            .iter()
            .flat_map(|it| it.ops.values())
            .map(|op| op.count)
            .sum();
        let pace = &speeds.0[keys.last().unwrap()];
        // On an idle machine, the trial takes hardly more than its processor time.
        let time = pace.seconds(ops as f64, 1.0);
        assert!(
            (cpu_seconds..1.3 * cpu_seconds).contains(&time),
            "{pace:?}: {time}, {cpu_seconds}"
        );
        let (time, boots) = (Duration::from_secs(150), Duration::ZERO);
        let estimate = Estimate { time, trials: 1, same_work: true, boots };
        assert_eq!(
            estimate.to_string(),
            "about 3 min (estimated from 1 earlier trial on this machine)"
        );
        assert_eq!(
            estimate.with_boots(Duration::from_secs(40)).to_string(),
            "about 4 min (40 s of it to boot guests for snapshots; estimated from 1 earlier trial on this machine)"
        );
        let rough = Estimate { same_work: false, ..estimate };
        assert_eq!(
            rough.basis(),
            "a rough estimate from 1 earlier trial of other workloads on this machine"
        );
        assert_eq!(Speeds::default().estimate(std::iter::empty(), 1), None);
    }

    #[test]
    fn a_changed_file_has_no_impossible_estimates() {
        assert_eq!(duration(1.5), Some(Duration::from_millis(1500)));
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e15] {
            assert_eq!(duration(seconds), None, "{seconds}");
        }
        let boot: Pace =
            serde_json::from_str(r#"{"fixed":1e300,"per_op":0.0,"trials":1}"#).unwrap();
        let speeds = Speeds([(SNAPSHOTS.to_string(), boot)].into());
        assert_eq!(speeds.boots(3), Duration::ZERO);
    }

    #[test]
    fn a_pace_of_an_earlier_version_counts_only_if_there_is_no_other() {
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let results = std::path::Path::new(results).join("2026-11-22-phillips-2001/then/forward");
        let trial = fsdyno_report::load(&[results]).unwrap().trials.remove(0);
        let mut keys = keys(&trial.plan);
        let (venue, narrow) = (keys.remove(0), keys.remove(0));
        let old: Pace = serde_json::from_str(r#"{"fixed":900.0,"per_op":0.1,"trials":1}"#).unwrap();
        let mut speeds = Speeds([(narrow, old.clone())].into());
        assert_eq!(speeds.pace(&trial.plan, 1e3), Some((old, true)));
        let mut new = Pace::default();
        new.add(&Times::of_computation(Duration::from_secs(5), 1.0), 1e3);
        speeds.0.insert(venue, new.clone());
        assert_eq!(speeds.pace(&trial.plan, 1e3), Some((new, false)));
    }

    #[test]
    fn a_configuration_has_a_pace_of_its_own_once_it_has_run() {
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let results = std::path::Path::new(results).join("2026-11-22-phillips-2001/then/forward");
        let trial = fsdyno_report::load(&[results]).unwrap().trials.remove(0);
        let mut speeds = Speeds::default();
        speeds.add(&trial, 1.0);
        let mut slow = trial.clone();
        slow.plan.filesystem.as_mut().unwrap().spec.push_str(" -O ^dir_index");
        let pace = |speeds: &Speeds, plan: &Plan| speeds.pace(plan, 1e3).unwrap().0;
        let plain = pace(&speeds, &trial.plan);
        assert_eq!(pace(&speeds, &slow.plan), plain, "that of its file system");
        let times = Times::of_computation(Duration::from_secs(1000), 1.0);
        for key in keys(&slow.plan) {
            speeds.0.entry(key).or_default().add(&times, 1000.0);
        }
        assert_eq!(pace(&speeds, &trial.plan), plain);
        assert_eq!(pace(&speeds, &slow.plan).trials, 1);
        // In a full cache, a new configuration has only the kinds that it shares with others.
        let others = (0..MAX_KINDS).map(|number| (number.to_string(), plain.clone()));
        let mut full = Speeds(others.collect());
        full.add(&trial, 1.0);
        let known =
            keys(&trial.plan).iter().map(|key| full.0.contains_key(key)).collect::<Vec<_>>();
        assert_eq!(known[..4], [true, true, true, false]);
        assert!(!known[4..].contains(&true));
    }

    #[test]
    fn a_stored_pace_without_any_time_is_unknown() {
        let none = r#"{"a":{"fixed":0.0,"per_op":0.0,"trials":17,"samples":[],"form":3}}"#;
        assert_eq!(Speeds::read(none), Speeds::default());
        let some = r#"{"a":{"fixed":0.0,"per_op":0.1,"trials":1}}"#;
        assert_eq!(Speeds::read(some).0.len(), 1);
        assert_eq!(Speeds::read("damaged"), Speeds::default());
    }

    #[test]
    fn a_snapshot_takes_as_long_as_those_made_here_or_else_as_the_boots_of_trials() {
        let idle = Load { others: 0.0, processors: 2.0 };
        let busy = Load { others: 3.0, processors: 2.0 };
        let mut speeds = Speeds::default();
        assert_eq!([idle, busy].map(|load| speeds.boot(&load)), [FIRST_BOOT, 2.0 * FIRST_BOOT]);
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let results = std::path::Path::new(results).join("2026-11-22-phillips-2001/then/forward");
        let mut trial = fsdyno_report::load(&[results]).unwrap().trials.remove(0);
        let stage = trial.host.stages["boot"].seconds();
        speeds.add(&trial, 1.0);
        let boot = speeds.boot(&idle);
        assert!((0.5 * stage..1.01 * stage).contains(&boot), "{boot} of {stage}");
        let plain = boot;
        trial.plan.lab_mut().unwrap().boot = fsdyno_record::plan::BootPlan::Snapshot;
        speeds.add(&trial, 1.0);
        assert_eq!(speeds.boot(&idle), plain, "a trial from a snapshot does not boot");
        let made = Times::of_computation(Duration::from_secs(30), 1.5);
        speeds.0.entry(SNAPSHOTS.into()).or_default().add(&made, 1.0);
        assert_eq!([idle, busy].map(|load| speeds.boot(&load).round()), [20.0, 40.0]);
    }

    #[test]
    fn a_trial_on_another_modelled_processor_has_the_pace_of_those_that_ran() {
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let results = std::path::Path::new(results).join("2026-11-22-guenter-2008/then/tarball");
        let trials = fsdyno_report::load(&[results]).unwrap().trials;
        let mut speeds = Speeds::default();
        speeds.add(&trials[0], 1.0);
        let mut plan = trials[0].plan.clone();
        let estimate = |plan: &Plan| {
            let (pace, same_work) = speeds.pace(plan, 1e5)?;
            Some((pace.seconds(1e5, 1.0), pace.trials, same_work))
        };
        let expected = estimate(&plan);
        plan.lab_mut().unwrap().cpu = "8".parse().unwrap();
        assert!(expected.is_some() && estimate(&plan) == expected, "{speeds:?}");
        plan.workload.name = "other".into();
        let rough = expected.map(|(seconds, trials, _)| (seconds, trials, false));
        assert_eq!(estimate(&plan), rough, "the pace of the lab");
        plan.venue = VenuePlan::Host;
        assert_eq!(speeds.pace(&plan, 1e5), None);
    }

    #[test]
    fn a_directory_has_a_pace_for_its_file_system_its_parameters_and_its_amount_of_work() {
        let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
        let results = std::path::Path::new(results).join("2026-11-22-phillips-2001/then/forward");
        let mut plan = fsdyno_report::load(&[results]).unwrap().trials.remove(0).plan;
        let folder = tempfile::tempdir().unwrap();
        (plan.venue, plan.filesystem) = (VenuePlan::Host, None);
        plan.medium = MediumPlan::Directory { path: folder.path().display().to_string() };
        plan.workload.name = "replay".into();
        plan.workload.params = [("trace", "a.trace"), ("copies", "3"), ("think", "cpu")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let on = fsdyno_media::directory::kind(folder.path()).unwrap();
        let narrow = keys(&plan);
        let expected = format!("host/replay/directory/{on}/trace=a.trace");
        assert_eq!(narrow.last().unwrap(), &expected, "{narrow:?}");
        let mut speeds = Speeds::default();
        let mut add = |key: &str, seconds, ops| {
            let times = Times::of_computation(Duration::from_secs(seconds), 1.0);
            speeds.0.entry(key.into()).or_default().add(&times, ops);
        };
        // A short trial of the same kind, and a long one on another file system.
        add(&narrow[4], 1, 100.0);
        add(&narrow[2], 10, 1e5);
        let seconds = |ops| speeds.pace(&plan, ops).unwrap().0.seconds(ops, 1.0);
        assert_eq!([seconds(100.0), seconds(1e5)].map(f64::round), [1.0, 10.0]);
    }
}
