//! How long a run still takes: by the trials that have ended, and before any has, by the ops that were done.

use std::collections::BTreeMap;
use std::time::Duration;

/// A time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// How long.
    pub time: Duration,
    /// Whether it takes longer than that: only ops are counted in it, for no trial has ended yet.
    pub more: bool,
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let over = if self.more { "over " } else { "" };
        match self.time.as_secs() {
            seconds @ 0..100 => write!(f, "{over}{seconds} s"),
            seconds @ 100..6000 => write!(f, "{over}{} min", seconds.div_ceil(60)),
            seconds => write!(f, "{over}{} h {} min", seconds / 3600, seconds / 60 % 60),
        }
    }
}

/// What is known of a run. Every `now` is the time since it began.
pub struct TimeLeft {
    cells: BTreeMap<usize, Pace>,
    running: BTreeMap<usize, Running>,
    jobs: u32,
    /// Ops that were done, and the time in which workers did them: neither starting nor verifying is in it.
    done: (u64, Duration),
}

/// How long the trials of a cell take.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Ops of a trial.
    ops: u64,
    /// Trials to come, those that run included.
    rest: u32,
    ended: u32,
    /// Of those that have ended.
    took: Duration,
}

/// A trial that a worker is at.
#[derive(Clone, Copy, Debug)]
struct Running {
    cell: usize,
    began: Duration,
    ops: u64,
    /// The time in which its ops were done.
    worked: Duration,
    /// When it was last seen.
    seen: Duration,
}

impl TimeLeft {
    /// For a run of a trial for each of `cells`, by number, with the ops of one; `jobs` of them side by side.
    pub fn new(cells: &[(usize, u64)], jobs: usize) -> TimeLeft {
        let mut paces: BTreeMap<usize, Pace> = BTreeMap::new();
        for (cell, ops) in cells {
            let pace = paces.entry(*cell).or_default();
            (pace.ops, pace.rest) = (*ops, pace.rest + 1);
        }
        let jobs = u32::try_from(jobs.max(1)).unwrap_or(1);
        TimeLeft { cells: paces, running: BTreeMap::new(), jobs, done: Default::default() }
    }

    /// A worker begins a trial of a cell.
    pub fn started(&mut self, worker: usize, cell: usize, now: Duration) {
        let worked = Duration::ZERO;
        self.running.insert(worker, Running { cell, began: now, ops: 0, worked, seen: now });
    }

    /// A worker's trial has done this number of ops; `working` while it does ops, and not what comes before or after.
    pub fn progress(&mut self, worker: usize, ops: u64, working: bool, now: Duration) {
        let Some(running) = self.running.get_mut(&worker) else { return };
        let passed = now.saturating_sub(running.seen);
        running.seen = now;
        if working {
            let more = ops.saturating_sub(running.ops);
            running.ops += more;
            running.worked += passed;
            self.done = (self.done.0 + more, self.done.1 + passed);
        }
    }

    /// A worker's trial has ended and took so long.
    pub fn ended(&mut self, worker: usize, took: Duration) {
        let Some(running) = self.running.remove(&worker) else { return };
        let pace = self.cells.entry(running.cell).or_default();
        pace.rest = pace.rest.saturating_sub(1);
        pace.ended += 1;
        pace.took += took;
    }

    /// How long the ops of a worker's trial still take; none before any was done.
    pub fn of_trial(&self, worker: usize, all: u64) -> Option<Left> {
        let running = self.running.get(&worker).filter(|running| running.ops > 0)?;
        let time = share(running.worked, all.saturating_sub(running.ops), running.ops);
        Some(Left { time, more: false })
    }

    /// How long all trials to come take; none where nothing is known yet, and where nothing is to come. A cell of which a
    /// trial has ended takes as long again, which tells more than ops do; the others as long for an op as those that
    /// have ended. A trial that runs may take longer than those before it, and never less than nothing.
    pub fn of_all(&self, now: Duration) -> Option<Left> {
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
        let mut more = false;
        for (cell, pace) in self.cells.iter().filter(|(_, pace)| pace.rest > 0) {
            let each = trial(pace)?;
            // Where no trial has ended only ops are known, and so only what is done of them is over.
            let by_ops = ops == 0 && pace.ended == 0;
            more |= by_ops;
            time += each * pace.rest;
            for running in self.running.values().filter(|running| running.cell == *cell) {
                let over = if by_ops { running.worked } else { now.saturating_sub(running.began) };
                time = time.saturating_sub(over.min(each));
            }
        }
        (time > Duration::ZERO).then(|| Left { time: time / self.jobs, more })
    }
}

/// A time times `part / whole`.
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
    fn a_time_left_is_said_in_the_unit_that_fits() {
        let said = |time| Left { time: seconds(time), more: false }.to_string();
        assert_eq!([42, 120, 7260].map(said), ["42 s", "2 min", "2 h 1 min"]);
        assert_eq!(Left { time: seconds(60), more: true }.to_string(), "over 60 s");
    }

    #[test]
    fn nothing_is_said_before_anything_is_known() {
        let mut run = TimeLeft::new(&[(0, 100), (1, 100)], 1);
        assert_eq!(left(&run, 0), None);
        run.started(0, 0, seconds(0));
        run.progress(0, 0, false, seconds(30));
        assert_eq!((left(&run, 30), run.of_trial(0, 100)), (None, None));
    }

    #[test]
    fn what_comes_after_the_ops_makes_a_time_left_no_longer() {
        let mut run = TimeLeft::new(&[(0, 100), (1, 100)], 1);
        run.started(0, 0, seconds(0));
        run.progress(0, 0, false, seconds(10));
        run.progress(0, 50, true, seconds(60));
        assert_eq!(left(&run, 60).unwrap(), "over 3 min");
        assert_eq!(run.of_trial(0, 100).unwrap().time, seconds(50));
        run.progress(0, 100, true, seconds(110));
        assert_eq!(run.of_all(seconds(110)).unwrap().time, seconds(100));
        // Verifying for an hour: no op is done, and the ops to come take no longer for it.
        for now in 111..3700 {
            run.progress(0, 100, false, seconds(now));
            let left = run.of_all(seconds(now)).unwrap();
            assert_eq!((left.time, left.more), (seconds(100), true), "{now}");
        }
        run.ended(0, seconds(3700));
        assert_eq!(run.of_all(seconds(3700)), Some(Left { time: seconds(3700), more: false }));
    }

    #[test]
    fn the_time_left_is_that_of_the_trials_to_come_by_those_of_their_own_cells() {
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
            // It takes longer than the one before it: the others are still to come.
            assert_eq!(run.of_all(seconds(900)).unwrap().time, seconds(20) / jobs as u32);
        }
    }

    #[test]
    fn a_cell_of_which_nothing_ended_takes_as_long_for_an_op_as_the_others() {
        let mut run = TimeLeft::new(&[(0, 10), (1, 40)], 1);
        run.started(0, 0, seconds(0));
        run.ended(0, seconds(20));
        assert_eq!(run.of_all(seconds(20)), Some(Left { time: seconds(80), more: false }));
        run.started(0, 1, seconds(20));
        assert_eq!(run.of_all(seconds(50)).unwrap().time, seconds(50));
        run.ended(0, seconds(70));
        assert_eq!(run.of_all(seconds(90)), None);
    }
}
