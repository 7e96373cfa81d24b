//! Estimates the time left in a run from earlier trials on this machine, from the trials that have ended and, until
//! one has ended, from the operations done.

use std::collections::BTreeMap;
use std::time::Duration;

use fsdyno_record::units::rough;

use self::curve::Curve;

mod curve;

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
    /// The time curve of the latest trial that has ended.
    curve: Option<Curve>,
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
    /// The time spent on its operations up to each part of them.
    curve: Curve,
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
        let (worked, curve) = (Duration::ZERO, Curve::default());
        let running = Running { cell, began: now, ops: 0, worked, reported: now, curve };
        self.running.insert(worker, running);
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
            let total = self.cells.get(&running.cell).map_or(0, |cell| cell.ops);
            running.curve.reach(running.ops, total, running.worked);
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
            cell.curve = running.curve.ended(running.worked);
            cell.work = Some((running.worked.as_secs_f64() / seconds).min(1.0));
        }
        if let Some(expected) = cell.expected.filter(|expected| !expected.is_zero()) {
            self.ratios.add(seconds / expected.as_secs_f64());
        }
    }

    /// Estimates the time left for the operations of a worker's trial; `None` before the first operation.
    pub fn of_trial(&self, worker: usize, total_ops: u64) -> Option<Remaining> {
        let running = self.running.get(&worker).filter(|running| running.ops > 0)?;
        let curve = self.cells.get(&running.cell).and_then(|cell| self.curve_of(cell));
        let time = running.left(total_ops, curve);
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
                let curve = self.curve_of(cell);
                let corrected = running.corrected(cell, curve, each, now).filter(|_| !by_ops);
                let remaining = match running.left_by_pace(cell.ops, curve) {
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
            let curve = self.curve_of(cell);
            running.left_by_pace(cell.ops, curve)?;
            let (each, by_ops) = self.trial(cell, (0, Duration::ZERO, false))?;
            let corrected = running.corrected(cell, curve, each, now).filter(|_| !by_ops);
            Some(corrected.unwrap_or(each).as_secs_f64() / each.as_secs_f64())
        });
        let logs: Vec<f64> = factors.map(f64::ln).filter(|log| log.is_finite()).collect();
        (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp().clamp(1e-3, 1e3)
    }

    /// Returns the time curve of a cell, or else of another one with as many operations, which has the same phases.
    fn curve_of(&self, cell: &Cell) -> Option<Curve> {
        let others = || self.cells.values().filter(|other| other.ops == cell.ops);
        cell.curve.or_else(|| others().find_map(|other| other.curve))
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
    /// Estimates the time left for its operations from the time spent on those done.
    fn left(&self, total_ops: u64, curve: Option<Curve>) -> Duration {
        match curve.and_then(|curve| curve.left_over_spent(self.ops, total_ops)) {
            Some(ratio) => self.worked.mul_f64(ratio),
            None => share(self.worked, total_ops.saturating_sub(self.ops), self.ops),
        }
    }

    /// Estimates the time left for its operations from the pace of those done; `None` if too few are done.
    fn left_by_pace(&self, total_ops: u64, curve: Option<Curve>) -> Option<Duration> {
        let is_enough = self.ops as f64 >= MIN_DONE * total_ops as f64 && self.ops > 0;
        is_enough.then(|| self.left(total_ops, curve))
    }

    /// Estimates its whole time from the pace of its operations, if that differs too much from the time `each` to be
    /// due to phases of different speeds: by a factor of almost 3 at the beginning, and of 1.25 towards the end; with
    /// the curve of an earlier trial, by 1.25 all the time.
    fn corrected(
        &self,
        cell: &Cell,
        curve: Option<Curve>,
        each: Duration,
        now: Duration,
    ) -> Option<Duration> {
        let left = self.left_by_pace(cell.ops, curve)?;
        let work = cell.work.filter(|work| *work > 0.0).unwrap_or(WORK);
        let whole = (self.worked + left).as_secs_f64() / work;
        let whole = whole.max((now.saturating_sub(self.began) + left).as_secs_f64());
        let ratio = whole / each.as_secs_f64();
        let done = (self.ops as f64 / cell.ops.max(1) as f64).min(1.0);
        let expected = if curve.is_some() { 1.0 } else { 3.0 - 2.0 * done };
        let is_different = ratio.max(1.0 / ratio) > expected.max(1.25);
        let whole = Duration::try_from_secs_f64(whole).ok()?;
        is_different.then_some(whole)
    }
}

/// Multiplies a time by `part / whole`.
fn share(time: Duration, part: u64, whole: u64) -> Duration {
    time.mul_f64(part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests;
