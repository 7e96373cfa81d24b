//! The pace of trials of one kind: their times on an idle machine, by their numbers of operations.

use std::time::Duration;

use fsdyno_record::trial::Trial;
use serde::{Deserialize, Serialize};

/// Maximum number of trials in a mean; the limit lets the mean follow changes in the machine's speed.
const MEMORY: u32 = 8;

/// The version of the stored numbers: since 2, they exclude waits for a processor.
const VERSION: u32 = 2;

/// Maximum ratio of the time of a lab guest to its processor time on an idle machine; any excess is waiting for a
/// processor. (A tenth of the trials stored in results/, on machines with and without other work, had a ratio of at
/// most 1.09.) [OWN]
const LAB_STRETCH: f64 = 1.2;

/// The times of one trial, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    /// The time that it took, including the creation of its disks and the check of its file system.
    pub took: f64,
    /// The part of it whose processor time is known.
    pub known: f64,
    /// The part of it before, between and after its phases: boot, preparation, verification, check.
    pub fixed: f64,
    /// The processor time of the known part.
    pub cpu: Option<f64>,
    /// True for a trial or a boot in the exact lab, which computes all the time.
    pub computes: bool,
    /// The factor by which other processes slowed down computations at that time.
    pub stretch: f64,
}

impl Times {
    /// Reads the times of a trial that ran while computations took `stretch` times as long.
    pub(crate) fn of(trial: &Trial, stretch: f64) -> Times {
        let took = took(trial).as_secs_f64();
        let is_phase = |(name, _): &(&String, _)| name.starts_with("phase ");
        let phases = trial.host.stages.iter().filter(is_phase).map(|(_, time)| time.seconds());
        let phases: f64 = phases.sum();
        // Without stages, all of the time is attributed to the phases.
        let phases = if phases > 0.0 { phases.min(took) } else { took };
        Times {
            took,
            known: trial.host.elapsed_ns.seconds(),
            fixed: took - phases,
            cpu: trial.host.cpu_ns.map(|cpu| cpu.seconds()).filter(|cpu| *cpu > 0.0),
            computes: trial.plan.lab().is_some_and(|lab| lab.accel.is_exact()),
            stretch,
        }
    }

    /// Reads the time of the boot of a trial in the exact lab; none if its guest resumed from a snapshot.
    pub(crate) fn of_boot(trial: &Trial, stretch: f64) -> Option<Times> {
        trial.plan.lab().filter(|lab| lab.accel.is_exact() && lab.boot.is_cold())?;
        let boot = trial.host.stages.get("boot").map(|time| time.seconds())?;
        let trial_times = Times::of(trial, stretch);
        let cpu = trial_times.cpu.map(|cpu| cpu * boot / trial_times.known);
        (boot > 0.0).then_some(Times { took: boot, known: boot, fixed: boot, cpu, ..trial_times })
    }

    /// Returns the times of a step that only computes, and whose processor time is not known.
    pub(crate) fn of_computation(took: Duration, stretch: f64) -> Times {
        let took = took.as_secs_f64();
        Times { took, known: took, fixed: took, cpu: None, computes: true, stretch }
    }
}

/// Returns the time that a trial took, including the creation of its disks before its guest began, and the copying and
/// the check of its file system on the host.
pub(crate) fn took(trial: &Trial) -> Duration {
    let host = &trial.host;
    let stage = |name: &str| host.stages.get(name).copied().unwrap_or_default().0;
    let check = host.check_ns.unwrap_or_default().0;
    Duration::from_nanos(host.elapsed_ns.0 + stage("make") + stage("image") + check)
}

/// The mean times of trials of one kind on an idle machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pace {
    /// Seconds of a trial without its phases: boot, preparation, verification, check.
    pub fixed: f64,
    /// Seconds per operation.
    pub per_op: f64,
    /// Number of trials.
    pub trials: u32,
    /// The same trials by their numbers of operations; without those that an earlier version stored.
    #[serde(default)]
    pub line: Line,
    /// The part of the time that is spent on computation, which other processes slow down.
    #[serde(default = "full_share")]
    pub computed: f64,
    /// The ratio of the time of lab guests to their processor time: the lowest recent one.
    #[serde(default)]
    ratio: f64,
    /// The version of these numbers.
    #[serde(default)]
    form: u32,
}

const fn full_share() -> f64 {
    1.0
}

impl Pace {
    /// Creates the pace of this many trials.
    pub(crate) fn new(fixed: f64, per_op: f64, trials: u32, line: Line) -> Pace {
        Pace { fixed, per_op, trials, line, computed: 1.0, ratio: 0.0, form: VERSION }
    }

    /// Returns true if it excludes waits for a processor, unlike numbers of an earlier version.
    pub(crate) fn is_current(&self) -> bool {
        self.form == VERSION
    }

    /// Adds a trial with this number of operations. Numbers of an earlier version are replaced.
    pub(crate) fn add(&mut self, times: &Times, ops: f64) {
        if self.form != VERSION {
            *self = Pace::new(0.0, 0.0, 0, Line::default());
        }
        let (idle, computed) = self.on_idle_machine(times);
        let fixed = idle * times.fixed / times.took.max(f64::MIN_POSITIVE);
        let before = f64::from(self.trials.min(MEMORY - 1));
        let mean = |old: f64, new: f64| (old * before + new) / (before + 1.0);
        self.fixed = mean(self.fixed, fixed);
        self.per_op = mean(self.per_op, (idle - fixed) / ops);
        self.computed = mean(self.computed, computed);
        self.trials = self.trials.saturating_add(1);
        self.line.add(ops, idle);
    }

    /// Returns the seconds that a trial would have taken on an idle machine, and the part that is computation. A guest
    /// of the lab waits only for processors, so its processor time determines the result whatever else ran; the rest of
    /// the trial is assumed to be slowed down by the same factor. For any other trial, the wait for a processor is
    /// estimated from the load, if its processor time is known or it computes all the time.
    fn on_idle_machine(&mut self, times: &Times) -> (f64, f64) {
        let Some(cpu) = times.cpu else {
            let stretch = if times.computes { times.stretch } else { 1.0 };
            return (times.took / stretch, 1.0);
        };
        if !times.computes {
            let waits = cpu * (times.stretch - 1.0);
            let idle = (times.took - waits).max(cpu).min(times.took);
            return (idle, (cpu / idle).min(1.0));
        }
        let ratio = (times.known / cpu).min(LAB_STRETCH);
        let limit = if self.ratio > 0.0 { self.ratio * 1.01 } else { LAB_STRETCH };
        self.ratio = ratio.min(limit);
        let slowdown = times.known / (cpu * self.ratio);
        (times.took / slowdown.max(1.0), 1.0)
    }

    /// Estimates the seconds of a trial with this number of operations, while a computation takes `stretch` times as
    /// long.
    pub(crate) fn seconds(&self, ops: f64, stretch: f64) -> f64 {
        let (fixed, per_op) = self.line.fit().unwrap_or((self.fixed, self.per_op));
        (fixed + per_op * ops) * (1.0 + self.computed * (stretch - 1.0))
    }
}

/// The sums that define a line through the times of trials over their numbers of operations, fitted by least squares
/// of the relative errors. A short trial spends most of its phases' time on work that each phase does once, so its time
/// per operation is far above that of a long one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
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
    /// The variance of the numbers of operations, relative to their mean square, below which the trials are too similar
    /// in size to determine a line. [OWN]
    const MIN_SPREAD: f64 = 0.2;

    /// The minimum number of trials that determine a line. [OWN]
    const MIN_TRIALS: u32 = 3;

    pub(crate) fn add(&mut self, ops: f64, seconds: f64) {
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
    pub(crate) fn and(self, other: &Line) -> Line {
        Line {
            trials: self.trials.saturating_add(other.trials),
            weights: self.weights + other.weights,
            ops: self.ops + other.ops,
            seconds: self.seconds + other.seconds,
            ops_squared: self.ops_squared + other.ops_squared,
            ops_by_seconds: self.ops_by_seconds + other.ops_by_seconds,
        }
    }

    /// Returns the seconds of a trial without operations and those per operation; `None` if the trials are too few or
    /// too similar in size.
    pub(crate) fn fit(&self) -> Option<(f64, f64)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial on an idle host without a known processor time.
    fn plain(fixed: f64, phases: f64) -> Times {
        let took = fixed + phases;
        Times { took, known: took, fixed, cpu: None, computes: false, stretch: 1.0 }
    }

    /// A trial in the lab that computes for 12 s, 10 of them in its guest, and takes `stretch` times as long.
    fn lab(stretch: f64) -> Times {
        let times = plain(4.0 * stretch, 8.0 * stretch);
        Times { known: 10.0 * stretch, cpu: Some(10.0), computes: true, ..times }
    }

    #[test]
    fn a_pace_is_a_mean_of_recent_trials() {
        let mut pace = Pace::default();
        pace.add(&plain(10.0, 0.1), 100.0);
        pace.add(&plain(20.0, 0.3), 100.0);
        assert_eq!((pace.fixed, pace.trials), (15.0, 2));
        assert!((pace.per_op - 0.002).abs() < 1e-12);
        for _ in 0..40 {
            pace.add(&plain(5.0, 0.1), 100.0);
        }
        assert!((pace.fixed - 5.0).abs() < 0.1 && pace.trials == 42);
        assert_eq!(pace.line.fit(), None, "trials of one size");
    }

    #[test]
    fn short_trials_do_not_make_the_estimates_of_long_ones_too_high() {
        let mut pace = Pace::default();
        // Half a second for work that is done once, mostly within the phases, and 20 us for each operation.
        let time = |ops: f64| 0.4 + 20e-6 * ops;
        for _ in 0..3 {
            for ops in [100.0, 400.0, 10_000.0] {
                pace.add(&plain(0.1, time(ops)), ops);
            }
        }
        for ops in [50.0, 100_000.0, 1e6] {
            let (estimate, real) = (pace.seconds(ops, 1.0), 0.1 + time(ops));
            assert!((estimate / real - 1.0).abs() < 0.01, "{ops}: {estimate} instead of {real}");
        }
    }

    #[test]
    fn trials_of_the_lab_under_load_do_not_raise_the_estimate_for_an_idle_machine() {
        for history in [[3.0; 6], [2.2, 3.5, 1.8, 2.6, 4.0, 2.4], [1.05, 3.0, 3.0, 2.5, 3.0, 3.0]] {
            let mut pace = Pace::default();
            history.iter().for_each(|stretch| pace.add(&lab(*stretch), 1000.0));
            let estimate = pace.seconds(1000.0, 1.0);
            // An idle machine takes 12.6 s; with half of a processor, 25.2 s.
            assert!((estimate / 12.6 - 1.0).abs() < 0.25, "{history:?}: {estimate}");
            assert!((pace.seconds(1000.0, 2.0) / 25.2 - 1.0).abs() < 0.25, "{history:?}");
        }
    }

    #[test]
    fn outside_the_lab_the_wait_for_a_processor_is_estimated_from_the_load() {
        // 2 s of computation and 8 s of waiting for a disk; at a load of three processes per processor, 4 s more.
        let mut pace = Pace::default();
        let times = Times { cpu: Some(2.0), stretch: 3.0, ..plain(2.0, 12.0) };
        pace.add(&times, 100.0);
        assert!((pace.seconds(100.0, 1.0) - 10.0).abs() < 1e-9, "{pace:?}");
        assert!((pace.seconds(100.0, 3.0) - 14.0).abs() < 1e-9, "{pace:?}");
        // A trial that the load did not delay would not have been faster on an idle machine.
        pace.add(&Times { cpu: Some(9.0), stretch: 3.0, ..plain(2.0, 8.0) }, 100.0);
        assert!(pace.seconds(100.0, 1.0) >= 9.5 - 1e-9, "{pace:?}");
        // If the processor time of a trial is not known, the load may not have delayed it, unless it only computes.
        let mut pace = Pace::default();
        pace.add(&Times { stretch: 3.0, ..plain(2.0, 8.0) }, 100.0);
        assert!((pace.seconds(100.0, 1.0) - 10.0).abs() < 1e-9, "{pace:?}");
        let mut pace = Pace::default();
        pace.add(&Times::of_computation(Duration::from_secs(30), 3.0), 1.0);
        assert!((pace.seconds(1.0, 1.0) - 10.0).abs() < 1e-9, "{pace:?}");
    }

    #[test]
    fn numbers_of_an_earlier_version_are_read_and_then_replaced() {
        let old = r#"{"fixed":30.0,"per_op":0.1,"trials":20}"#;
        let mut pace: Pace = serde_json::from_str(old).unwrap();
        assert_eq!(pace.seconds(100.0, 1.0), 40.0);
        pace.add(&lab(1.0), 100.0);
        assert!(pace.seconds(100.0, 1.0) < 12.1 && pace.trials == 1, "{pace:?}");
        let stored = serde_json::to_string(&pace).unwrap();
        assert_eq!(serde_json::from_str::<Pace>(&stored).unwrap(), pace);
    }
}
