//! Estimates the time left in a run from earlier trials on this machine, from the trials that have ended and, until
//! one has ended, from the operations done.

use std::collections::BTreeMap;
use std::time::Duration;

use fsdyno_record::units::rough;

/// Number of the latest trials of which the median counts, so that a slow trial is ignored, and a change of the host's
/// load is followed after two. [OWN]
const LATEST: usize = 3;

/// The fraction of a trial's operations after which their pace is used for the estimate. [OWN]
const MIN_DONE: f64 = 0.1;

/// The part of the time of a trial that it spends on its operations, if that is not known. [OWN]
const WORK: f64 = 0.7;

/// An estimate of the time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// The estimate.
    pub time: Duration,
    /// True for a lower bound: no trial of its kind has ended yet, so only operations are counted.
    pub is_lower_bound: bool,
}

impl std::fmt::Display for Remaining {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let over = if self.is_lower_bound { "over " } else { "" };
        write!(f, "{over}{}", rough(self.time))
    }
}

/// A trial of a run.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Index of its cell.
    pub cell: usize,
    /// Number of its operations.
    pub ops: u64,
    /// Its time as estimated from earlier trials on this machine, if any of its kind ran.
    pub expected: Option<Duration>,
    /// The part of that time, from 0 to 1, that it spends on its operations.
    pub work: Option<f64>,
}

/// The state of a run from which the time left is estimated. Every `now` is the time since the run began.
pub struct TimeLeft {
    cells: BTreeMap<usize, Cell>,
    running: BTreeMap<usize, Running>,
    jobs: u32,
    /// Operations done, and the time that workers spent on them, excluding startup and verification.
    done: (u64, Duration),
    /// Ratio of actual to expected time of the latest trials that have ended.
    ratios: Latest,
    /// True if a trial ends with its last operation.
    ends_with_ops: bool,
}

/// The progress of the trials of a cell.
#[derive(Clone, Debug, Default)]
struct Cell {
    /// Operations of a trial.
    ops: u64,
    expected: Option<Duration>,
    /// The part of the time of a trial that it spends on its operations.
    work: Option<f64>,
    /// Trials that have not ended, including running ones.
    rest: u32,
    ended: u32,
    /// Times of the latest trials that have ended, in seconds.
    took: Latest,
}

/// The latest values of a quantity, the newest last.
#[derive(Clone, Debug, Default)]
struct Latest(Vec<f64>);

impl Latest {
    fn add(&mut self, value: f64) {
        self.0.push(value);
        let excess = self.0.len().saturating_sub(LATEST);
        self.0.drain(..excess);
    }

    /// Returns their median, the lower one of two; `None` without any.
    fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len().checked_sub(1)? / 2).copied()
    }
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
    /// Creates the estimate of a run, `jobs` trials of which run at the same time.
    pub fn new(trials: &[Planned], jobs: usize) -> TimeLeft {
        let mut cells: BTreeMap<usize, Cell> = BTreeMap::new();
        for trial in trials {
            let cell = cells.entry(trial.cell).or_default();
            (cell.ops, cell.expected, cell.rest) = (trial.ops, trial.expected, cell.rest + 1);
            cell.work = trial.work;
        }
        TimeLeft {
            cells,
            running: BTreeMap::new(),
            jobs: u32::try_from(jobs.max(1)).unwrap_or(1),
            done: Default::default(),
            ratios: Latest::default(),
            ends_with_ops: false,
        }
    }

    /// Returns the estimate of a run whose trials end with their last operation: the pace of a running trial then
    /// determines its time left, whatever time was expected.
    pub fn ending_with_ops(self) -> TimeLeft {
        TimeLeft { ends_with_ops: true, ..self }
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
            let new_ops = ops.saturating_sub(running.ops);
            running.ops += new_ops;
            running.worked += passed;
            self.done = (self.done.0 + new_ops, self.done.1 + passed);
        }
    }

    /// Records that a trial of a cell is not run after all.
    pub fn skipped(&mut self, cell: usize) {
        let cell = self.cells.entry(cell).or_default();
        cell.rest = cell.rest.saturating_sub(1);
    }

    /// Records that a worker's trial has ended, and the time that it took; `None` for one that failed, whose time
    /// indicates nothing about others.
    pub fn ended(&mut self, worker: usize, took: Option<Duration>) {
        let Some(running) = self.running.remove(&worker) else { return };
        let cell = self.cells.entry(running.cell).or_default();
        cell.rest = cell.rest.saturating_sub(1);
        let Some(took) = took else { return };
        let seconds = took.as_secs_f64();
        cell.took.add(seconds);
        cell.ended += 1;
        if !running.worked.is_zero() && !took.is_zero() {
            cell.work = Some((running.worked.as_secs_f64() / seconds).min(1.0));
        }
        if let Some(expected) = cell.expected.filter(|expected| !expected.is_zero()) {
            self.ratios.add(seconds / expected.as_secs_f64());
        }
    }

    /// Estimates the time left for the operations of a worker's trial; `None` before the first operation.
    pub fn of_trial(&self, worker: usize, total_ops: u64) -> Option<Remaining> {
        let running = self.running.get(&worker).filter(|running| running.ops > 0)?;
        let time = share(running.worked, total_ops.saturating_sub(running.ops), running.ops);
        Some(Remaining { time, is_lower_bound: false })
    }

    /// Estimates the time left for all trials; `None` if nothing is known yet, or if nothing is left. A trial of a cell
    /// with ended trials takes their median time; a trial of any other cell takes its expected time, corrected by the
    /// ratio of actual and expected times in this run, or, without one, the mean time per operation of all ended
    /// trials. The operations of the running trials correct all of these. The time left for a running trial is never
    /// negative.
    pub fn of_all(&self, now: Duration) -> Option<Remaining> {
        let (per_op, corrections) =
            (self.per_op(), [false, true].map(|it| self.correction(it, now)));
        let (mut time, mut longest, mut rest) = (Duration::ZERO, Duration::ZERO, 0);
        let mut is_lower_bound = false;
        for (index, cell) in self.cells.iter().filter(|(_, cell)| cell.rest > 0) {
            let (each, by_ops) = self.trial(cell, per_op)?;
            is_lower_bound |= by_ops;
            let running = self.running.values().filter(|running| running.cell == *index);
            let mut waiting = cell.rest;
            for running in running {
                // Before the first trial ends, only the time spent on operations counts as elapsed.
                let elapsed =
                    if by_ops { running.worked } else { now.saturating_sub(running.began) };
                let corrected = running.corrected(cell, each, now).filter(|_| !by_ops);
                let remaining = match running.left_by_pace(cell.ops) {
                    Some(by_pace) if self.ends_with_ops => by_pace,
                    by_pace => {
                        let left = corrected.unwrap_or(each).saturating_sub(elapsed);
                        left.max(by_pace.unwrap_or_default())
                    }
                };
                (time, longest) = (time + remaining, longest.max(remaining));
                waiting = waiting.saturating_sub(1);
            }
            let correction = corrections[usize::from(cell.ended > 0)];
            let each = if by_ops { each } else { each.mul_f64(correction) };
            time += each * waiting;
            longest = longest.max(if waiting > 0 { each } else { Duration::ZERO });
            rest += cell.rest;
        }
        let time = (time / self.jobs.min(rest.max(1))).max(longest);
        (time > Duration::ZERO).then_some(Remaining { time, is_lower_bound })
    }

    /// Returns the mean factor by which the running trials will differ from their estimates, as far as their operations
    /// show it: of cells with ended trials, where the reason is the load, or of the others.
    fn correction(&self, have_ended: bool, now: Duration) -> f64 {
        let factors = self.running.values().filter_map(|running| {
            let cell = self.cells.get(&running.cell).filter(|it| (it.ended > 0) == have_ended)?;
            running.left_by_pace(cell.ops)?;
            let (each, by_ops) = self.trial(cell, (0, Duration::ZERO, false))?;
            let corrected = running.corrected(cell, each, now).filter(|_| !by_ops);
            Some(corrected.unwrap_or(each).as_secs_f64() / each.as_secs_f64())
        });
        let logs: Vec<f64> = factors.map(f64::ln).filter(|log| log.is_finite()).collect();
        (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp().clamp(1e-3, 1e3)
    }

    /// Estimates the time of a trial that has not begun; the flag is true if only its operations are counted.
    fn trial(&self, cell: &Cell, per_op: (u64, Duration, bool)) -> Option<(Duration, bool)> {
        match (cell.took.median(), cell.expected) {
            (Some(took), _) => Some((Duration::from_secs_f64(took), false)),
            (None, Some(expected)) => {
                Some((expected.mul_f64(self.ratios.median().unwrap_or(1.0)), false))
            }
            (None, None) => {
                let (ops, took, is_whole) = per_op;
                (ops > 0).then(|| (share(took, cell.ops, ops), !is_whole))
            }
        }
    }

    /// Returns a number of operations and the time that they took: those of the ended trials, including startup and
    /// verification (`true`), or, before the first trial ends, those done so far (`false`).
    fn per_op(&self) -> (u64, Duration, bool) {
        let ended = self.cells.values().filter(|cell| cell.ended > 0);
        let (ops, took) = ended.fold((0, Duration::ZERO), |(ops, took), cell| {
            let each = Duration::from_secs_f64(cell.took.median().unwrap_or_default());
            (ops + cell.ops * u64::from(cell.ended), took + each * cell.ended)
        });
        if ops > 0 { (ops, took, true) } else { (self.done.0, self.done.1, false) }
    }
}

impl Running {
    /// Estimates the time left for its operations from the pace of those done; `None` if too few are done.
    fn left_by_pace(&self, total_ops: u64) -> Option<Duration> {
        let is_enough = self.ops as f64 >= MIN_DONE * total_ops as f64 && self.ops > 0;
        is_enough.then(|| share(self.worked, total_ops.saturating_sub(self.ops), self.ops))
    }

    /// Estimates its whole time from the pace of its operations, if that differs from the time `each` by too much to be
    /// due to phases of different speeds: by a factor of almost 2 at the beginning, and of 1.25 towards the end.
    fn corrected(&self, cell: &Cell, each: Duration, now: Duration) -> Option<Duration> {
        let left = self.left_by_pace(cell.ops)?;
        let work = cell.work.filter(|work| *work > 0.0).unwrap_or(WORK);
        let whole = (self.worked + left).as_secs_f64() / work;
        let whole = whole.max((now.saturating_sub(self.began) + left).as_secs_f64());
        let ratio = whole / each.as_secs_f64();
        let done = (self.ops as f64 / cell.ops.max(1) as f64).min(1.0);
        let is_different = ratio.max(1.0 / ratio) > (2.0 - done).max(1.25);
        let whole = Duration::try_from_secs_f64(whole).ok()?;
        is_different.then_some(whole)
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

    /// Trials without an expected time.
    fn planned(trials: &[(usize, u64)]) -> Vec<Planned> {
        trials
            .iter()
            .map(|(cell, ops)| Planned { cell: *cell, ops: *ops, expected: None, work: None })
            .collect()
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
        let mut run = TimeLeft::new(&planned(&[(0, 100), (1, 100)]), 1);
        assert_eq!(left(&run, 0), None);
        run.started(0, 0, seconds(0));
        run.progress(0, 0, false, seconds(30));
        assert_eq!((left(&run, 30), run.of_trial(0, 100)), (None, None));
    }

    #[test]
    fn verification_does_not_lengthen_the_estimate() {
        let mut run = TimeLeft::new(&planned(&[(0, 100), (1, 100)]), 1);
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
        run.ended(0, Some(seconds(3700)));
        assert_eq!(
            run.of_all(seconds(3700)),
            Some(Remaining { time: seconds(3700), is_lower_bound: false })
        );
    }

    #[test]
    fn the_trials_left_take_as_long_as_the_ended_ones_of_their_cells() {
        let cells = [(0, 10), (0, 10), (0, 10), (1, 10), (1, 10)];
        for jobs in [1, 2] {
            let mut run = TimeLeft::new(&planned(&cells), jobs);
            for (cell, time) in [(0, 10), (1, 100)] {
                run.started(0, cell, seconds(0));
                run.ended(0, Some(seconds(time)));
            }
            let time = |run: &TimeLeft, now| run.of_all(seconds(now)).unwrap().time;
            // Two trials of 10 s, and one of 100 s, which no second job shortens.
            assert_eq!(time(&run, 110), seconds([120, 100][jobs - 1]));
            run.started(0, 1, seconds(110));
            assert_eq!(time(&run, 140), seconds([90, 70][jobs - 1]));
            // The running trial takes longer than the one before it; the others are still left.
            assert_eq!(time(&run, 900), seconds([20, 10][jobs - 1]));
        }
    }

    #[test]
    fn a_cell_without_ended_trials_takes_the_time_per_operation_of_the_others() {
        let mut run = TimeLeft::new(&planned(&[(0, 10), (1, 40)]), 1);
        run.started(0, 0, seconds(0));
        run.ended(0, Some(seconds(20)));
        assert_eq!(
            run.of_all(seconds(20)),
            Some(Remaining { time: seconds(80), is_lower_bound: false })
        );
        run.started(0, 1, seconds(20));
        assert_eq!(run.of_all(seconds(50)).unwrap().time, seconds(50));
        run.ended(0, Some(seconds(70)));
        assert_eq!(run.of_all(seconds(90)), None);
    }

    #[test]
    fn a_failed_or_skipped_trial_changes_only_the_number_of_trials_left() {
        let expected = Some(seconds(100));
        let trials = [0, 0, 1, 1].map(|cell| Planned { cell, ops: 10, expected, work: None });
        let mut run = TimeLeft::new(&trials, 1);
        run.started(0, 0, seconds(0));
        run.ended(0, None);
        assert_eq!(run.of_all(seconds(1)).unwrap().time, seconds(300));
        run.skipped(1);
        assert_eq!(run.of_all(seconds(1)).unwrap().time, seconds(200));
        run.started(0, 0, seconds(1));
        run.ended(0, Some(seconds(50)));
        assert_eq!(run.of_all(seconds(51)).unwrap().time, seconds(50));
    }

    /// Runs trials one after the other; those of cell `c` take `actual[c]` seconds and are expected to take
    /// `expected[c]`. Returns the largest relative error of the time left after the first third of the run and before
    /// its last tenth.
    fn error(expected: [u64; 2], actual: [u64; 2], each: usize) -> f64 {
        let order: Vec<usize> = (0..each * 2).map(|trial| trial % 2).collect();
        let trial = |cell: &usize| Planned {
            cell: *cell,
            ops: 100,
            expected: Some(seconds(expected[*cell])),
            work: None,
        };
        let mut run = TimeLeft::new(&order.iter().map(trial).collect::<Vec<_>>(), 1);
        let total: u64 = order.iter().map(|cell| actual[*cell]).sum();
        let (mut now, mut worst) = (0, 0.0_f64);
        for cell in order {
            run.started(0, cell, seconds(now));
            for second in 1..=actual[cell] {
                // The first fifth of a trial boots, the last fifth verifies.
                let done = (second * 100 / actual[cell]).clamp(20, 80) - 20;
                let ops = done * 100 / 60;
                run.progress(0, ops, ops > 0 && ops < 100, seconds(now + second));
                let (elapsed, left) = (now + second, total - now - second);
                if elapsed * 3 >= total && left * 10 > total {
                    let estimate = run.of_all(seconds(elapsed)).unwrap().time.as_secs_f64();
                    worst = worst.max((estimate / left as f64 - 1.0).abs());
                }
            }
            now += actual[cell];
            run.ended(0, Some(seconds(actual[cell])));
        }
        worst
    }

    #[test]
    fn after_a_third_of_a_run_the_time_left_is_within_a_quarter_though_earlier_trials_ran_under_load()
     {
        for (expected, actual, each) in [
            ([40, 40], [20, 23], 3),
            ([60, 30], [20, 12], 2),
            ([120, 120], [40, 30], 5),
            ([20, 20], [50, 60], 3),
            ([20, 23], [20, 23], 2),
        ] {
            let error = error(expected, actual, each);
            assert!(error < 0.25, "{expected:?} {actual:?} {each}: {error}");
        }
    }

    #[test]
    fn before_the_first_trial_ends_the_time_left_is_the_expected_one() {
        let expected = Some(seconds(30));
        let trials: Vec<Planned> =
            (0..4).map(|cell| Planned { cell, ops: 10, expected, work: None }).collect();
        let mut run = TimeLeft::new(&trials, 2);
        assert_eq!(
            run.of_all(seconds(0)),
            Some(Remaining { time: seconds(60), is_lower_bound: false })
        );
        run.started(0, 0, seconds(0));
        run.started(1, 1, seconds(0));
        assert_eq!(run.of_all(seconds(10)).unwrap().time, seconds(50));
        // The trials left take half as long as expected, as those that have ended did.
        (0..2).for_each(|worker| run.ended(worker, Some(seconds(15))));
        assert_eq!(run.of_all(seconds(20)).unwrap().time, seconds(15));
    }

    #[test]
    fn the_pace_of_a_trial_that_ends_with_its_operations_replaces_the_expected_time() {
        let expected = Some(seconds(400));
        let left = |mut run: TimeLeft| {
            run.started(0, 0, seconds(0));
            run.progress(0, 1, true, seconds(20));
            run.progress(0, 20, true, seconds(40));
            run.of_all(seconds(40)).unwrap().time
        };
        let new = || TimeLeft::new(&[Planned { cell: 0, ops: 100, expected }], 1);
        assert_eq!(left(new()), seconds(360));
        assert_eq!(left(new().ending_with_ops()), seconds(160));
    }

    #[test]
    fn the_time_left_follows_a_change_of_the_load() {
        let mut run = TimeLeft::new(&planned(&[(0, 10); 10]), 1);
        for time in [30, 30, 30, 10, 10, 10] {
            run.started(0, 0, seconds(0));
            run.ended(0, Some(seconds(time)));
        }
        let left = run.of_all(seconds(0)).unwrap().time.as_secs_f64();
        assert!((left / 40.0 - 1.0).abs() < 0.26, "{left}");
    }

    #[test]
    fn within_a_trial_its_operations_correct_an_estimate_from_trials_under_load() {
        // Four trials of 10 s, 6 s of them for operations, which were expected to take 4 minutes, or 1 s.
        for (expected, work) in [(240, Some(0.6)), (240, None), (1, Some(0.6)), (1, None)] {
            let expected = Some(seconds(expected));
            let trials: Vec<Planned> =
                (0..4).map(|cell| Planned { cell, ops: 100, expected, work }).collect();
            let mut run = TimeLeft::new(&trials, 1);
            run.started(0, 0, seconds(0));
            run.progress(0, 0, false, seconds(2));
            for second in 3..=8 {
                run.progress(0, (second - 2) * 100 / 6, true, seconds(second));
                let left = run.of_all(seconds(second)).unwrap().time.as_secs_f64();
                let error = left / (40 - second) as f64 - 1.0;
                assert!(error.abs() < 0.25, "{expected:?} {work:?} at {second} s: {left}");
            }
        }
    }

    #[test]
    fn a_single_slow_trial_does_not_change_the_time_left() {
        let mut run = TimeLeft::new(&planned(&[(0, 10); 8]), 1);
        for (time, left) in [(10, 70), (10, 60), (240, 50), (10, 40)] {
            run.started(0, 0, seconds(0));
            run.ended(0, Some(seconds(time)));
            assert_eq!(run.of_all(seconds(0)).unwrap().time, seconds(left));
        }
    }

    #[test]
    fn operations_at_about_the_expected_pace_do_not_change_the_estimate() {
        let trial = Planned { cell: 0, ops: 100, expected: Some(seconds(100)), work: Some(0.8) };
        let mut run = TimeLeft::new(&[trial], 1);
        run.started(0, 0, seconds(0));
        // The first phase is faster than the others.
        run.progress(0, 1, true, seconds(1));
        run.progress(0, 25, true, seconds(15));
        assert_eq!(run.of_all(seconds(15)).unwrap().time, seconds(85));
    }
}
