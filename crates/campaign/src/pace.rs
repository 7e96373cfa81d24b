//! The pace of trials of one kind: their times on an idle machine, by their numbers of operations.

use std::collections::BTreeMap;
use std::time::Duration;

use fsdyno_record::trial::Trial;
use serde::{Deserialize, Serialize};

/// Maximum number of remembered trials of about one size; the limit lets estimates follow the machine's speed. [OWN]
const MEMORY: usize = 8;

/// Maximum number of remembered trials of all sizes. [OWN]
const MAX_SAMPLES: usize = 24;

/// The weight of a trial relative to the next later one of its size. [OWN]
const AGEING: f64 = 0.8;

/// The quantile of the times that is the estimate. [OWN]
const QUANTILE: f64 = 0.25;

/// Minimum ratio of the sizes of two trials that determine a line. [OWN]
const MIN_SIZE_RATIO: f64 = 2.0;

/// The ratio of the sizes of a trial and of a remembered one up to which its time is estimated well. [OWN]
const REACH: f64 = 4.0;

/// The version of the stored numbers: since 2, they exclude waits for a processor; since 3, they are single trials.
const VERSION: u32 = 3;

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

/// The times of the latest trials of one kind on an idle machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pace {
    /// Seconds of a trial without its phases, as an earlier version stored them or as assumed.
    #[serde(default)]
    fixed: f64,
    /// Seconds per operation, likewise.
    #[serde(default)]
    per_op: f64,
    /// Number of trials.
    pub trials: u32,
    /// The latest trials, the oldest first.
    #[serde(default)]
    samples: Vec<Sample>,
    /// The ratio of the time of lab guests to their processor time: the lowest recent one.
    #[serde(default)]
    ratio: f64,
    /// The version of these numbers.
    #[serde(default)]
    form: u32,
}

/// A trial that ran, with its times on an idle machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    /// Number of its operations.
    ops: f64,
    /// Its time in seconds.
    seconds: f64,
    /// The part of it before, between and after its phases.
    fixed: f64,
    /// The part of the time, from 0 to 1, that is spent on computation, which other processes slow down.
    computed: f64,
    /// The factor by which other processes slowed down computations, if that cannot be deducted exactly; otherwise 1.
    load: f64,
}

impl Sample {
    /// The class of its size: trials of one class differ by less than a factor of 4.
    fn class(&self) -> i32 {
        (self.ops.max(1.0).log2() / 2.0).floor() as i32
    }

    /// Returns how much it counts for a trial with this number of operations, if it has this many later ones of its
    /// class.
    fn weight(&self, ops: f64, later: i32) -> f64 {
        let distance = (self.ops.max(1.0) / ops.max(1.0)).log2().abs() / 2.0;
        AGEING.powi(later) / self.load.max(1.0) / (1.0 + distance)
    }

    /// Its own split into a constant part and a part that grows with the operations.
    fn line(&self) -> (f64, f64) {
        (self.fixed, (self.seconds - self.fixed).max(0.0) / self.ops)
    }

    /// Returns the line through two trials; `None` if they are too similar in size or the larger one was not slower.
    fn line_to(&self, larger: &Sample) -> Option<(f64, f64)> {
        if larger.ops < MIN_SIZE_RATIO * self.ops || larger.seconds <= self.seconds {
            return None;
        }
        let per_op = (larger.seconds - self.seconds) / (larger.ops - self.ops);
        let fixed = self.seconds - per_op * self.ops;
        Some(if fixed < 0.0 { (0.0, larger.seconds / larger.ops) } else { (fixed, per_op) })
    }
}

impl Pace {
    /// Returns a pace with these seconds of a trial without operations and per operation, which were not measured.
    pub(crate) fn assumed(fixed: f64, per_op: f64) -> Pace {
        Pace { fixed, per_op, ..Pace::default() }
    }

    /// Returns true if it has no time.
    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.fixed <= 0.0 && self.per_op <= 0.0
    }

    /// Returns true if its estimates do not follow a single slow trial, unlike numbers of an earlier version.
    pub(crate) fn is_current(&self) -> bool {
        self.form == VERSION
    }

    /// Returns true if one of its trials had at least a quarter of this number of operations. The time of a much larger
    /// trial cannot be estimated well, because a short one mostly does work that each phase does once.
    pub(crate) fn reaches(&self, ops: f64) -> bool {
        self.samples.iter().any(|sample| sample.ops * REACH >= ops)
    }

    /// Adds a trial with this number of operations. Numbers of an earlier version are replaced.
    pub(crate) fn add(&mut self, times: &Times, ops: f64) {
        if self.form != VERSION {
            *self = Pace { form: VERSION, ..Pace::default() };
        }
        let (idle, computed) = self.on_idle_machine(times);
        let fixed = idle * times.fixed / times.took.max(f64::MIN_POSITIVE);
        let is_exact = times.computes && times.cpu.is_some();
        let load = if is_exact { 1.0 } else { times.stretch };
        self.trials = self.trials.saturating_add(1);
        self.samples.push(Sample { ops, seconds: idle, fixed, computed, load });
        self.forget();
    }

    /// Removes the oldest trials of each size, and of all.
    fn forget(&mut self) {
        let mut later: BTreeMap<i32, usize> = BTreeMap::new();
        let mut kept: Vec<Sample> = Vec::new();
        for sample in self.samples.iter().rev() {
            let of_class = later.entry(sample.class()).or_default();
            *of_class += 1;
            if *of_class <= MEMORY && kept.len() < MAX_SAMPLES {
                kept.push(*sample);
            }
        }
        kept.reverse();
        self.samples = kept;
    }

    /// Returns the pace of the trials of several kinds.
    pub(crate) fn of_all<'p>(paces: impl Iterator<Item = &'p Pace>) -> Pace {
        let mut all = Pace { form: VERSION, ..Pace::default() };
        for pace in paces.filter(|pace| pace.is_current()) {
            all.trials = all.trials.saturating_add(pace.trials);
            all.samples.extend(&pace.samples);
        }
        all
    }

    /// Returns the seconds that a trial would have taken on an idle machine, and the part that is computation. A guest
    /// of the lab waits only for processors, so its processor time determines the result whatever else ran; the rest of
    /// the trial is assumed to be slowed down by the same factor. For any other trial, the wait for a processor is
    /// estimated from the load, if its processor time is known or it computes all the time.
    fn on_idle_machine(&mut self, times: &Times) -> (f64, f64) {
        let Some(cpu) = times.cpu else {
            // Without its processor time, how much of a trial on this host computed is not known.
            let (stretch, computed) =
                if times.computes { (times.stretch, 1.0) } else { (1.0, 0.0) };
            return (times.took / stretch, computed);
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
        let weighted = self.weighted(ops);
        let all: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        let computed: f64 = weighted.iter().map(|(it, weight)| it.computed * weight).sum();
        let computed = if all > 0.0 { computed / all } else { 1.0 };
        let (fixed, per_op) = line(&weighted).unwrap_or((self.fixed, self.per_op));
        (fixed + per_op * ops) * (1.0 + computed * (stretch - 1.0))
    }

    /// Returns the part of the time of a trial with this number of operations that it spends on its phases, as a mean;
    /// `None` if that is not known.
    pub(crate) fn work(&self, ops: f64) -> Option<f64> {
        let weighted = self.weighted(ops);
        let all: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        let sum = weighted.iter().map(|(it, weight)| (1.0 - it.fixed / it.seconds) * weight);
        let work = sum.sum::<f64>() / all;
        (work > 0.0 && work <= 1.0).then_some(work)
    }

    /// Returns the trials, and how much each of them counts for a trial with this number of operations.
    fn weighted(&self, ops: f64) -> Vec<(Sample, f64)> {
        let mut later: BTreeMap<i32, i32> = BTreeMap::new();
        // The file may have been changed.
        let weighted = self.samples.iter().rev().take(MAX_SAMPLES).map(|sample| {
            let of_class = later.entry(sample.class()).or_default();
            *of_class += 1;
            (*sample, sample.weight(ops, *of_class - 1))
        });
        weighted.collect()
    }
}

/// Returns the seconds of a trial without operations and those per operation: a weighted regression of the quantile
/// [`QUANTILE`] of the logarithms of the times, among the lines through two trials and the trials' own splits. (Koenker
/// and Bassett, Regression quantiles, Econometrica 46, 1978: an optimal line goes through trials.) A delay can make a
/// trial only slower, and by any factor, so a low quantile is closer to the time without delays than a mean.
fn line(samples: &[(Sample, f64)]) -> Option<(f64, f64)> {
    let loss = |(fixed, per_op): (f64, f64)| {
        let of = |(sample, weight): &(Sample, f64)| {
            let estimate = (fixed + per_op * sample.ops).max(1e-6);
            let excess = (sample.seconds.max(1e-6) / estimate).ln();
            weight * if excess > 0.0 { QUANTILE * excess } else { (QUANTILE - 1.0) * excess }
        };
        samples.iter().map(of).sum::<f64>()
    };
    let own = samples.iter().map(|(sample, _)| sample.line());
    let pairs = samples
        .iter()
        .flat_map(|(sample, _)| samples.iter().filter_map(move |(other, _)| sample.line_to(other)));
    own.chain(pairs)
        .map(|line| (loss(line), line))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|it| it.1)
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

    /// The pace of trials that take these times, half of them in phases, with this number of operations.
    fn pace_of(times: &[f64], ops: f64) -> Pace {
        let mut pace = Pace::default();
        times.iter().for_each(|time| pace.add(&plain(time / 2.0, time / 2.0), ops));
        pace
    }

    #[test]
    fn a_pace_follows_recent_trials() {
        let mut pace = pace_of(&[20.2; 10], 100.0);
        assert_eq!((pace.trials, pace.samples.len()), (10, MEMORY));
        assert!((pace.seconds(100.0, 1.0) - 20.2).abs() < 1e-9);
        for _ in 0..40 {
            pace.add(&plain(25.0, 5.0), 100.0);
        }
        assert_eq!(pace.trials, 50);
        assert!((pace.seconds(100.0, 1.0) - 30.0).abs() < 1e-9);
        assert!((pace.seconds(200.0, 1.0) - 35.0).abs() < 1e-9, "the split of trials of one size");
    }

    #[test]
    fn one_trial_under_load_among_five_does_not_change_the_estimate() {
        for loaded in 0..5 {
            let mut times = [10.0, 10.3, 9.8, 10.1, 10.4];
            times[loaded] = 240.0;
            let estimate = pace_of(&times, 1e5).seconds(1e5, 1.0);
            assert!((9.8..10.5).contains(&estimate), "{loaded}: {estimate}");
            let larger = pace_of(&times, 1e5).seconds(2e5, 1.0);
            assert!((14.5..16.0).contains(&larger), "{loaded}: {larger}");
        }
    }

    #[test]
    fn after_trials_under_load_the_first_fast_one_corrects_the_estimate() {
        let mut times = vec![240.0, 200.0, 260.0, 230.0, 250.0];
        let estimate = pace_of(&times, 1e5).seconds(1e5, 1.0);
        assert!((200.0..240.1).contains(&estimate), "no others are known: {estimate}");
        for _ in 0..3 {
            times.push(10.0);
            let estimate = pace_of(&times, 1e5).seconds(1e5, 1.0);
            assert!((estimate - 10.0).abs() < 1e-9, "{times:?}: {estimate}");
        }
        // A machine that has become slower is believed in the end.
        let slower = pace_of(&[10.0, 10.0, 10.0, 30.0, 30.0, 30.0, 30.0, 30.0, 30.0, 30.0], 1e5);
        assert!((slower.seconds(1e5, 1.0) - 30.0).abs() < 1e-9);
    }

    #[test]
    fn trials_under_measured_load_count_less() {
        // The load is known, but not the part of the time that it took.
        let mut pace = Pace::default();
        let loaded = |time| Times { stretch: 8.0, ..plain(1.0, time) };
        [10.0, 60.0, 60.0, 60.0, 60.0, 60.0, 60.0].iter().for_each(|time| match *time {
            10.0 => pace.add(&plain(1.0, 9.0), 1e5),
            time => pace.add(&loaded(time), 1e5),
        });
        assert!((pace.seconds(1e5, 1.0) - 10.0).abs() < 1e-9, "{pace:?}");
    }

    #[test]
    fn a_trial_of_an_unknown_processor_time_is_expected_to_take_the_same_time_again_under_load() {
        let mut pace = Pace::default();
        pace.add(&Times { stretch: 4.0, ..plain(1.0, 9.0) }, 1e5);
        assert!((pace.seconds(1e5, 4.0) - 10.0).abs() < 1e-9, "{pace:?}");
    }

    #[test]
    fn a_trial_under_load_does_not_change_the_growth_with_the_work() {
        let mut pace = Pace::default();
        let time = |ops: f64| 0.4 + 20e-6 * ops;
        for (ops, stretch) in
            [(1e3, 1.0), (1e5, 1.0), (1e3, 20.0), (1e5, 1.0), (4e5, 9.0), (2e4, 1.0)]
        {
            pace.add(&plain(0.1 * stretch, time(ops) * stretch), ops);
        }
        for ops in [500.0, 5e4, 1e6] {
            let (estimate, real) = (pace.seconds(ops, 1.0), 0.1 + time(ops));
            assert!((estimate / real - 1.0).abs() < 0.05, "{ops}: {estimate} instead of {real}");
        }
    }

    #[test]
    fn many_short_trials_leave_the_long_ones_remembered() {
        let mut pace = pace_of(&[10.0; 3], 1e5);
        for _ in 0..100 {
            pace.add(&plain(0.1, 0.2), 100.0);
        }
        assert!(pace.reaches(4e5) && !pace.reaches(5e5));
        assert!((pace.seconds(1e5, 1.0) - 10.0).abs() < 0.1, "{pace:?}");
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
        assert!(pace.seconds(100.0, 1.0) >= 9.0 - 1e-9, "{pace:?}");
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
