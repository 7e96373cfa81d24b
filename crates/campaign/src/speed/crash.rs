//! The speed of crash tests: the times of logged trials and of the guests that recover file systems after power cuts.

use std::time::Duration;

use fsdyno_record::Plan;
use fsdyno_record::units::rough;
use fsdyno_venue::guest_time::GuestTime;
use fsdyno_venue::recover::{CUTS_PER_GUEST, TimedCuts};

use super::{BOOTS, FIRST_BOOT, MAX_KINDS, Speeds, duration, keys};
use crate::load::Load;
use crate::matrix_request::Cell;
use crate::pace::{Pace, Times};

/// The prefixes of the keys in [`Speeds`] for logged trials, by their operations, and for guests that recover file
/// systems, by their power cuts.
const LOGGED: &str = "logged, ";
const RECOVERY: &str = "power cuts, ";

/// The assumed seconds of an operation of a logged trial until a trial of its kind has run: the mean of the lab's
/// workloads on a machine of 2024 is 0.2 to 4 ms. [RUN]
const ROUGH_OPERATION: f64 = 1e-3;

/// The assumed seconds of a power cut until a file system has been recovered on this machine: 1.7 to 2.3 s of processor
/// time for 1,000 cuts of ext4, xfs and btrfs (docs/crash.md). [RUN]
const ROUGH_CUT: f64 = 2.0;

/// An estimate of the time of some crash tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashEstimate {
    /// The time.
    pub time: Duration,
    /// The basis.
    pub basis: CrashBasis,
}

/// The basis of an estimate of crash tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashBasis {
    /// This number of earlier crash tests of the same workload.
    Same(u32),
    /// This number of earlier crash tests of other workloads.
    Others(u32),
    /// Assumed times, because no crash test has run on this machine.
    Assumed,
}

impl CrashEstimate {
    /// Returns true if earlier crash tests of the same workload are its basis.
    pub fn is_measured(&self) -> bool {
        matches!(self.basis, CrashBasis::Same(_))
    }
}

impl std::fmt::Display for CrashEstimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tests = |number: u32| fsdyno_report::counted(number as usize, "earlier crash test");
        let time = rough(self.time);
        match self.basis {
            CrashBasis::Same(number) => {
                write!(f, "about {time} (estimated from {} on this machine)", tests(number))
            }
            CrashBasis::Others(number) => write!(
                f,
                "about {time} (a rough estimate from {} of other workloads on this machine)",
                tests(number)
            ),
            CrashBasis::Assumed => write!(
                f,
                "about {time} (a rough estimate: no crash test has ended on this machine yet)"
            ),
        }
    }
}

/// A crash test whose time is estimated: its cell, and the number of its crash points.
pub type PlannedCuts<'c> = (&'c Cell, usize);

impl Speeds {
    /// Adds a crash test that has just ended, with up to `jobs` guests at the same time, and stores the paces; ignores
    /// a failure to store them.
    pub fn learn_crash(
        plan: &Plan,
        ops: u64,
        logged: &GuestTime,
        guests: &[TimedCuts],
        jobs: usize,
    ) {
        let load = Load::measured();
        Speeds::update(|speeds| speeds.add_crash(plan, (ops, logged), (guests, jobs), &load));
    }

    fn add_crash(
        &mut self,
        plan: &Plan,
        (ops, logged): (u64, &GuestTime),
        (guests, jobs): (&[TimedCuts], usize),
        load: &Load,
    ) {
        let mut keys = keys(plan);
        if self.0.len() >= MAX_KINDS {
            // The broader kinds are few.
            keys.truncate(3);
        }
        let jobs = jobs.min(guests.len()).max(1);
        for key in keys {
            if ops > 0 {
                let times = times(logged, load.stretch(1));
                self.0.entry(format!("{LOGGED}{key}")).or_default().add(&times, ops as f64);
            }
            for (cuts, time) in guests {
                let times = times(time, load.stretch(jobs));
                let pace = self.0.entry(format!("{RECOVERY}{key}")).or_default();
                pace.add(&times, (*cuts).max(1) as f64);
            }
        }
    }

    /// Estimates the time of crash tests, one after the other, with up to `jobs` guests at the same time, under the
    /// current load of this host; `None` if there is none.
    pub fn estimate_crash<'c>(
        &self,
        tests: impl Iterator<Item = PlannedCuts<'c>>,
        jobs: usize,
    ) -> Option<CrashEstimate> {
        self.estimate_crash_under(tests, jobs, &Load::now())
    }

    fn estimate_crash_under<'c>(
        &self,
        tests: impl Iterator<Item = PlannedCuts<'c>>,
        jobs: usize,
        load: &Load,
    ) -> Option<CrashEstimate> {
        let (mut seconds, mut number, mut is_same) = (0.0, None, true);
        for (cell, cuts) in tests.filter(|(cell, _)| cell.skip.is_none()) {
            let ops = cell.ops() as f64;
            let logged = self.pace_of(LOGGED, &cell.plan, ops);
            let in_guest = cuts.min(CUTS_PER_GUEST) as f64;
            let recovery = self.pace_of(RECOVERY, &cell.plan, in_guest);
            let known = logged.as_ref().zip(recovery.as_ref());
            is_same &= known.is_some_and(|(logged, recovery)| logged.1 && recovery.1);
            let trials = logged.as_ref().filter(|_| recovery.is_some()).map_or(0, |it| it.0.trials);
            number = Some(number.map_or(trials, |least: u32| least.min(trials)));
            let logged = logged.or_else(|| self.pace_of("", &cell.plan, ops));
            let logged = logged.map_or(self.assumed(ROUGH_OPERATION), |(pace, _)| pace);
            let recovery = recovery.map_or(self.assumed(ROUGH_CUT), |(pace, _)| pace);
            seconds += logged.seconds(ops, load.stretch(1));
            let guests = cuts.div_ceil(CUTS_PER_GUEST);
            let stretch = load.stretch(jobs.min(guests));
            seconds += of_guests(cuts, jobs, |cuts| recovery.seconds(cuts as f64, stretch));
        }
        let time = duration(seconds)?;
        let basis = match number? {
            0 => CrashBasis::Assumed,
            number if is_same => CrashBasis::Same(number),
            number => CrashBasis::Others(number),
        };
        Some(CrashEstimate { time, basis })
    }

    /// Returns the pace of a guest that boots and takes this time for each item of its work.
    fn assumed(&self, each: f64) -> Pace {
        let boot = self.0.get(BOOTS).map_or(FIRST_BOOT, |pace| pace.seconds(1.0, 1.0));
        Pace::assumed(boot, each)
    }
}

/// Converts the time of a guest, which computes all the time.
fn times(time: &GuestTime, stretch: f64) -> Times {
    let took = time.elapsed.as_secs_f64();
    let cpu = time.cpu.map(|cpu| cpu.as_secs_f64()).filter(|cpu| *cpu > 0.0);
    let fixed = time.before_work.as_secs_f64().min(took);
    Times { took, known: took, fixed, cpu, computes: true, stretch }
}

/// Returns the time until guests of [`CUTS_PER_GUEST`] cuts each, `jobs` at the same time, have recovered all cuts.
fn of_guests(cuts: usize, jobs: usize, of_guest: impl Fn(usize) -> f64) -> f64 {
    let mut ends = vec![0.0_f64; jobs.clamp(1, cuts.max(1))];
    let mut left = cuts;
    while left > 0 {
        let batch = left.min(CUTS_PER_GUEST);
        left -= batch;
        // The guest begins when the first of the others has ended.
        if let Some(first) = ends.iter_mut().min_by(|one, other| one.total_cmp(other)) {
            *first += of_guest(batch);
        }
    }
    ends.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabPlace, MatrixRequest, Place, matrix};

    const IDLE: Load = Load { others: 0.0, processors: 2.0 };

    fn cells(workload: &str, filesystems: &[&str]) -> Vec<Cell> {
        let request = MatrixRequest {
            deadline: crate::DEFAULT_DEADLINE,
            workloads: vec![workload.into()],
            filesystems: filesystems.iter().map(ToString::to_string).collect(),
            threads: 1,
            ..MatrixRequest::default()
        };
        matrix(&request, &Place::Lab(LabPlace::with_defaults("hdd-7200", "6.1.0"))).unwrap()
    }

    fn guest(before_work: u64, work: u64) -> GuestTime {
        let (before_work, work) = (Duration::from_secs(before_work), Duration::from_secs(work));
        GuestTime { elapsed: before_work + work, before_work, cpu: Some(before_work + work) }
    }

    fn estimate(speeds: &Speeds, cells: &[Cell], cuts: usize, jobs: usize) -> CrashEstimate {
        let tests = cells.iter().map(|cell| (cell, cuts));
        speeds.estimate_crash_under(tests, jobs, &IDLE).unwrap()
    }

    #[test]
    fn a_crash_test_is_estimated_from_earlier_ones_of_other_sizes() {
        let dirops = cells("dirops", &["ext4"]);
        let mut speeds = Speeds::default();
        let before = estimate(&speeds, &dirops, 100, 1);
        assert_eq!(before.basis, CrashBasis::Assumed);
        assert!(
            before
                .to_string()
                .ends_with("(a rough estimate: no crash test has ended on this machine yet)")
        );
        // A guest boots for 10 s, and a cut takes 2 s; the trial itself takes 10 s and 20 s.
        let logged = guest(10, 20);
        speeds.add_crash(
            &dirops[0].plan,
            (dirops[0].ops(), &logged),
            (&[(10, guest(10, 20))], 1),
            &IDLE,
        );
        for (cuts, jobs, seconds) in [
            (10, 1, 60.0),
            (50, 1, 140.0),
            (100, 1, 250.0),
            // Two guests at the same time.
            (100, 2, 140.0),
            // The third guest has few cuts, and begins when one of the others has ended.
            (120, 2, 190.0),
        ] {
            let found = estimate(&speeds, &dirops, cuts, jobs);
            let error = found.time.as_secs_f64() / seconds - 1.0;
            assert!(error.abs() < 0.01, "{cuts}, {jobs}: {found}");
            assert_eq!(found.basis, CrashBasis::Same(1));
        }
        let text = estimate(&speeds, &dirops, 100, 2).to_string();
        assert_eq!(text, "about 3 min (estimated from 1 earlier crash test on this machine)");
        // Crash tests say nothing about the time of other trials.
        assert_eq!(speeds.estimate(dirops.iter(), 1), None);
    }

    #[test]
    fn other_workloads_give_a_rough_estimate_and_all_rows_count() {
        let (dirops, tarball) = (cells("dirops", &["ext4"]), cells("postmark", &["ext4", "xfs"]));
        let mut speeds = Speeds::default();
        let times = [(50, guest(10, 100))];
        speeds.add_crash(&dirops[0].plan, (1000, &guest(10, 0)), (&times, 2), &IDLE);
        let found = estimate(&speeds, &tarball, 50, 2);
        assert_eq!(found.basis, CrashBasis::Others(1));
        assert_eq!(found.time.as_secs_f64().round(), 2.0 * (10.0 + 110.0));
        let text = found.to_string();
        assert!(
            text.contains("(a rough estimate from 1 earlier crash test of other workloads on"),
            "{text}"
        );
        assert_eq!(speeds.estimate_crash(std::iter::empty(), 2), None);
    }
}
