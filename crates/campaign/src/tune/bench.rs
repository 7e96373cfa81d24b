//! Evaluates points of a space by running trials and storing them.

use std::time::{Duration, Instant};

use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_record::units::rough;
use fsdyno_report::seconds;
use fsdyno_tune::{Evaluator, Point, Sample, Space};

use super::objective::Objective;
use super::request::Budget;
use crate::notes::say;
use crate::speed::took;
use crate::{Failure, PointSettings, Points};

/// The evaluator of a search: each sample is the result of a trial.
pub struct Bench<'b, 'p> {
    /// The venue and the folder.
    pub points: &'b mut Points<'p>,
    /// The space.
    pub space: &'b Space,
    /// The minimised quantity.
    pub objective: &'b Objective,
    /// The budget of this file system.
    pub budget: Budget,
    /// The minimum number of trials of a search.
    pub least: usize,
    /// The start of the search.
    pub started: Instant,
    /// The number of trials, stored ones included.
    pub done: usize,
    /// The number of trials that ran, stored ones excluded.
    pub ran: usize,
    /// The time of the default in seconds, once known.
    pub base: Option<f64>,
    /// The host time of the first trial that ran, without the boot of a guest for a snapshot.
    pub first_took: Option<Duration>,
}

/// Returns the settings of a point.
pub fn settings(space: &Space, point: &Point) -> PointSettings {
    let configuration = space.configuration(point);
    PointSettings {
        spec: configuration.spec,
        sysctls: configuration.sysctls,
        scheduler: configuration.scheduler,
        work: None,
    }
}

/// Describes how many trials a budget of time allows, or how long a budget of trials takes, if a trial takes the time
/// `each`: `a trial takes about 3 s: about 600 trials in 30 min; the smallest search takes 2 min`.
pub fn outlook(budget: Budget, each: Duration, least: usize) -> String {
    let each = each.max(Duration::from_millis(1));
    let shown = rough(each);
    match budget {
        Budget::Time(time) => {
            let trials = (time.as_secs_f64() / each.as_secs_f64()) as u64;
            let over = if is_over(budget, each, least) { ", over the budget" } else { "" };
            let (time, least) = (rough(time), rough(times(each, least)));
            format!(
                "a trial takes about {shown}: about {trials} trials in {time}; the smallest search takes {least}{over}"
            )
        }
        Budget::Trials(trials) => {
            let total = rough(times(each, trials));
            format!("a trial takes about {shown}: at most {total} for {trials} trials")
        }
    }
}

/// Returns true if the smallest search takes longer than a budget.
fn is_over(budget: Budget, each: Duration, least: usize) -> bool {
    matches!(budget, Budget::Time(time) if times(each, least) > time)
}

/// Returns the time of this many trials.
fn times(each: Duration, trials: usize) -> Duration {
    each.saturating_mul(u32::try_from(trials).unwrap_or(u32::MAX))
}

/// Formats a budget: `30 min`, `200 trials`.
pub fn format_budget(budget: Budget) -> String {
    match budget {
        Budget::Time(time) => rough(time),
        Budget::Trials(trials) => format!("{trials} trials"),
    }
}

impl Bench<'_, '_> {
    /// Returns the mean host time of a trial; `None` before the first one.
    fn each(&self) -> Option<Duration> {
        (self.ran > 0).then(|| self.started.elapsed() / self.ran as u32)
    }

    /// Reports, after the first trial, how long the search will take, and refuses a budget that is too small. The
    /// first trial runs alone, the others with as many at a time as there are jobs.
    fn estimate(&self) -> Result<(), Failure> {
        let (Some(took), 1) = (self.first_took, self.ran) else { return Ok(()) };
        let each = took / u32::from(self.points.jobs().max(1));
        if is_over(self.budget, each, self.least) {
            return Err(Failure::invalid_use(format!(
                "the budget of {} is too small for one decision: a trial takes about {}, and the smallest search has {} \
                 trials (one per value, and the confirmation), which take {}; give at least that with --budget, fewer \
                 options with --only, or less work with --set",
                format_budget(self.budget),
                rough(each),
                self.least,
                rough(times(each, self.least))
            )));
        }
        say(&format!("fsdyno: {}", outlook(self.budget, each, self.least)));
        Ok(())
    }

    fn sample(&self, trial: &Trial) -> Sample {
        let value = self.objective.value(trial);
        match trial.outcome {
            Outcome::Ok if value > 0.0 => Sample::Time(value),
            Outcome::Ok => Sample::Refused("the phases of the objective took no time".into()),
            _ => Sample::Refused(trial.reason.clone().unwrap_or_default()),
        }
    }

    fn say(&mut self, point: &Point, sample: &Sample) {
        let options = self.space.describe(point);
        match sample {
            Sample::Time(time) => {
                let base = *self.base.get_or_insert(*time);
                let change = 100.0 * (time / base - 1.0);
                let time = fsdyno_record::Nanos((time * 1e9) as u64);
                say(&format!("fsdyno: {:4} {change:+7.1} %  {time}  {options}", self.done));
            }
            Sample::Refused(why) => {
                say(&format!(
                    "fsdyno: {:4} refused    {options}: {}",
                    self.done,
                    why.lines().next().unwrap_or_default()
                ));
            }
        }
    }
}

impl Evaluator for Bench<'_, '_> {
    type Error = Failure;

    fn measure(&mut self, requested: &[(Point, u64)]) -> Result<Vec<Sample>, Failure> {
        let mut samples = Vec::new();
        // The first trial is a batch by itself, for an estimate; later batches have one trial for each parallel job.
        let mut next = 0;
        while next < requested.len() {
            let count = if self.done == 0 { 1 } else { usize::from(self.points.jobs()).max(1) };
            let batch = &requested[next..requested.len().min(next + count)];
            next += batch.len();
            let before = self.points.stored().len();
            let mut runnable = Vec::new();
            let mut refused: Vec<Option<String>> = Vec::new();
            for (point, seed) in batch {
                let settings = settings(self.space, point);
                match self.points.cell(&settings) {
                    Ok(_) => {
                        runnable.push((settings, *seed));
                        refused.push(None);
                    }
                    Err(failure) => refused.push(Some(failure.message)),
                }
            }
            let trials = self.points.run(&runnable)?;
            self.ran += self.points.stored().len() - before;
            if self.ran == 1 {
                self.first_took = trials.first().map(took);
            }
            let mut trials = trials.into_iter();
            for ((point, _), refused) in batch.iter().zip(refused) {
                let sample = match refused {
                    Some(why) => Sample::Refused(why),
                    None => trials
                        .next()
                        .map_or(Sample::Refused(String::new()), |trial| self.sample(&trial)),
                };
                self.done += 1;
                self.say(point, &sample);
                samples.push(sample);
            }
            self.estimate()?;
        }
        Ok(samples)
    }

    fn budget(&self, trials: usize) -> usize {
        let (Budget::Time(time), Some(each)) = (self.budget, self.each()) else { return trials };
        let left = time.saturating_sub(self.started.elapsed()).as_secs_f64() / each.as_secs_f64();
        trials.min(self.done + left as usize)
    }
}

/// Returns the facts that explain a trial's time: CPU seconds, writes, flushes and bytes written.
pub fn account(trial: &Trial) -> (f64, u64, u64, u64) {
    let phases = &trial.measured.phases;
    let cpu: f64 = phases
        .iter()
        .map(|phase| {
            phase.cpu_ns.seconds()
                + phase.kernel_cpu_ns.values().map(|ns| ns.seconds()).sum::<f64>()
        })
        .sum();
    let sum = |field: fn(&fsdyno_record::trial::Device) -> u64| {
        phases.iter().filter_map(|phase| phase.device.as_ref()).map(field).sum()
    };
    (
        cpu,
        sum(|device| device.writes),
        sum(|device| device.flushes),
        sum(|device| device.bytes_written.0),
    )
}

/// Returns the total time of all phases of a trial in seconds, without weights.
pub fn total_seconds(trial: &Trial) -> f64 {
    let phases = &trial.measured.phases;
    let by_durable = phases.iter().all(|phase| phase.durable_ns.is_some());
    phases.iter().map(|phase| seconds::seconds(phase, by_durable)).sum()
}
