//! Estimates the time left in a run from the trials that have ended or, until one has, from the operations done.

use std::collections::BTreeMap;
use std::time::Duration;

use fsdyno_record::units::rough;

/// An estimate of the time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// The estimate.
    pub time: Duration,
    /// True for a lower bound: no trial has ended yet, so only operations are counted.
    pub is_lower_bound: bool,
}

impl std::fmt::Display for Remaining {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let over = if self.is_lower_bound { "over " } else { "" };
        write!(f, "{over}{}", rough(self.time))
    }
}

/// The state of a run that the estimate is made from. Every `now` is the time since the run began.
pub struct TimeLeft {
    cells: BTreeMap<usize, Pace>,
    running: BTreeMap<usize, Running>,
    jobs: u32,
    /// Operations done, and the time that workers spent on them, excluding startup and verification.
    done: (u64, Duration),
}

/// The progress of the trials of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Operations of a trial.
    ops: u64,
    /// Trials that have not ended, including running ones.
    rest: u32,
    ended: u32,
    /// Total time of the trials that have ended.
    took: Duration,
}

/// A running trial.
#[derive(Clone, Copy, Debug)]
struct Running {
    cell: usize,
    began: Duration,
    ops: u64,
    /// The time spent on its operations.
    worked: Duration,
    /// The time of the last report.
    reported: Duration,
}

impl TimeLeft {
    /// Creates the estimate of a run. Each item of `cells` is one trial: the cell's number and its number of
    /// operations; `jobs` of them run at the same time.
    pub fn new(cells: &[(usize, u64)], jobs: usize) -> TimeLeft {
        let mut paces: BTreeMap<usize, Pace> = BTreeMap::new();
        for (cell, ops) in cells {
            let pace = paces.entry(*cell).or_default();
            (pace.ops, pace.rest) = (*ops, pace.rest + 1);
        }
        let jobs = u32::try_from(jobs.max(1)).unwrap_or(1);
        TimeLeft { cells: paces, running: BTreeMap::new(), jobs, done: Default::default() }
    }

    /// Records that a worker begins a trial of a cell.
    pub fn started(&mut self, worker: usize, cell: usize, now: Duration) {
        let worked = Duration::ZERO;
        self.running.insert(worker, Running { cell, began: now, ops: 0, worked, reported: now });
    }

    /// Records a worker's number of operations done; `working` is true between its first and last operation.
    pub fn progress(&mut self, worker: usize, ops: u64, working: bool, now: Duration) {
        let Some(running) = self.running.get_mut(&worker) else { return };
        let passed = now.saturating_sub(running.reported);
        running.reported = now;
        if working {
            let more = ops.saturating_sub(running.ops);
            running.ops += more;
            running.worked += passed;
            self.done = (self.done.0 + more, self.done.1 + passed);
        }
    }

    /// Records that a worker's trial has ended, and the time that it took.
    pub fn ended(&mut self, worker: usize, took: Duration) {
        let Some(running) = self.running.remove(&worker) else { return };
        let pace = self.cells.entry(running.cell).or_default();
        pace.rest = pace.rest.saturating_sub(1);
        pace.ended += 1;
        pace.took += took;
    }

    /// Estimates the time left for the operations of a worker's trial; `None` before the first operation.
    pub fn of_trial(&self, worker: usize, all: u64) -> Option<Remaining> {
        let running = self.running.get(&worker).filter(|running| running.ops > 0)?;
        let time = share(running.worked, all.saturating_sub(running.ops), running.ops);
        Some(Remaining { time, is_lower_bound: false })
    }

    /// Estimates the time left for all trials; `None` if nothing is known yet, or if nothing is left. A trial of a cell
    /// with ended trials takes their mean time; a trial of any other cell takes the mean time per operation of all
    /// ended trials. The time left for a running trial is never negative.
    pub fn of_all(&self, now: Duration) -> Option<Remaining> {
        let ended = self.cells.values().filter(|pace| pace.ended > 0);
        let (ops, took) = ended.fold((0, Duration::ZERO), |(ops, took), pace| {
            (ops + pace.ops * u64::from(pace.ended), took + pace.took)
        });
        let known = if ops > 0 { (ops, took) } else { self.done };
        let trial = |pace: &Pace| match pace.ended {
            0 => (known.0 > 0).then(|| share(known.1, pace.ops, known.0)),
            ended => Some(pace.took / ended),
        };
        let mut time = Duration::ZERO;
        let mut is_lower_bound = false;
        for (cell, pace) in self.cells.iter().filter(|(_, pace)| pace.rest > 0) {
            let each = trial(pace)?;
            // Before the first trial ends, only the time spent on operations counts as elapsed.
            let by_ops = ops == 0 && pace.ended == 0;
            is_lower_bound |= by_ops;
            time += each * pace.rest;
            for running in self.running.values().filter(|running| running.cell == *cell) {
                let over = if by_ops { running.worked } else { now.saturating_sub(running.began) };
                time = time.saturating_sub(over.min(each));
            }
        }
        (time > Duration::ZERO).then(|| Remaining { time: time / self.jobs, is_lower_bound })
    }
}

/// Multiplies a time by `part / whole`.
fn share(time: Duration, part: u64, whole: u64) -> Duration {
    time.mul_f64(part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn left(run: &TimeLeft, now: u64) -> Option<String> {
        run.of_all(seconds(now)).map(|left| left.to_string())
    }

    #[test]
    fn a_lower_bound_is_marked_as_one() {
        let text = |is_lower_bound| Remaining { time: seconds(60), is_lower_bound }.to_string();
        assert_eq!([false, true].map(text), ["60 s", "over 60 s"]);
    }

    #[test]
    fn there_is_no_estimate_before_the_first_operation() {
        let mut run = TimeLeft::new(&[(0, 100), (1, 100)], 1);
        assert_eq!(left(&run, 0), None);
        run.started(0, 0, seconds(0));
        run.progress(0, 0, false, seconds(30));
        assert_eq!((left(&run, 30), run.of_trial(0, 100)), (None, None));
    }

    #[test]
    fn verification_does_not_lengthen_the_estimate() {
        let mut run = TimeLeft::new(&[(0, 100), (1, 100)], 1);
        run.started(0, 0, seconds(0));
        run.progress(0, 0, false, seconds(10));
        run.progress(0, 50, true, seconds(60));
        assert_eq!(left(&run, 60).unwrap(), "over 3 min");
        assert_eq!(run.of_trial(0, 100).unwrap().time, seconds(50));
        run.progress(0, 100, true, seconds(110));
        assert_eq!(run.of_all(seconds(110)).unwrap().time, seconds(100));
        // Verifying for an hour does not lengthen the operations left.
        for now in 111..3700 {
            run.progress(0, 100, false, seconds(now));
            let left = run.of_all(seconds(now)).unwrap();
            assert_eq!((left.time, left.is_lower_bound), (seconds(100), true), "{now}");
        }
        run.ended(0, seconds(3700));
        assert_eq!(
            run.of_all(seconds(3700)),
            Some(Remaining { time: seconds(3700), is_lower_bound: false })
        );
    }

    #[test]
    fn the_trials_left_take_as_long_as_the_ended_ones_of_their_cells() {
        let cells = [(0, 10), (0, 10), (0, 10), (1, 10), (1, 10)];
        for jobs in [1, 2] {
            let mut run = TimeLeft::new(&cells, jobs);
            for (cell, took) in [(0, 10), (1, 100)] {
                run.started(0, cell, seconds(0));
                run.ended(0, seconds(took));
            }
            assert_eq!(run.of_all(seconds(110)).unwrap().time, seconds(120) / jobs as u32);
            run.started(0, 1, seconds(110));
            assert_eq!(run.of_all(seconds(140)).unwrap().time, seconds(90) / jobs as u32);
            // The running trial takes longer than the one before it; the others are still left.
            assert_eq!(run.of_all(seconds(900)).unwrap().time, seconds(20) / jobs as u32);
        }
    }

    #[test]
    fn a_cell_without_ended_trials_takes_the_time_per_operation_of_the_others() {
        let mut run = TimeLeft::new(&[(0, 10), (1, 40)], 1);
        run.started(0, 0, seconds(0));
        run.ended(0, seconds(20));
        assert_eq!(
            run.of_all(seconds(20)),
            Some(Remaining { time: seconds(80), is_lower_bound: false })
        );
        run.started(0, 1, seconds(20));
        assert_eq!(run.of_all(seconds(50)).unwrap().time, seconds(50));
        run.ended(0, seconds(70));
        assert_eq!(run.of_all(seconds(90)), None);
    }
}
