//! Runs a schedule in a venue: several trials in parallel, each stored when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fsdyno_record::job::Task;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::series::{PhaseSeries, Series};
use fsdyno_record::trial::{Host, Outcome, Trial, trial_id};
use fsdyno_record::{Build, Job, Plan, SCHEMA};
use fsdyno_venue::venue::Identity;
use fsdyno_venue::{FinishedTrial, Venue, VenueError, Watch, clock};
use fsdyno_workload::workloads;

use crate::compatibility::check_compatible;
use crate::labs::Mode;
use crate::matrix_request::{Cell, DEFAULT_DEADLINE};
use crate::refused::RefusedRows;
use crate::run_error::RunError;
use crate::schedule::Slot;
use crate::store::{Store, StoreError};

/// An observer of a run. Called from several threads.
pub trait Observer: Sync {
    /// Called when a trial starts on a worker.
    fn started(&self, worker: usize, plan: &Plan, slot: &Slot);
    /// Called about every 20 ms while a trial runs.
    fn progress(&self, worker: usize, progress: &Progress);
    /// Called when a trial has ended and is stored.
    fn ended(&self, worker: usize, trial: &Trial);
    /// Called when a trial is not run because an earlier one shows that it cannot run here.
    fn skipped(&self, _slot: &Slot) {}
    /// Called about every 20 ms after a signal stops the run, until the running trials have removed what they created.
    fn stopping(&self) {}
    /// Called when the run has ended.
    fn finished(&self) {}
}

/// An observer that does nothing.
impl Observer for () {
    fn started(&self, _: usize, _: &Plan, _: &Slot) {}
    fn progress(&self, _: usize, _: &Progress) {}
    fn ended(&self, _: usize, _: &Trial) {}
}

/// The settings of a run.
pub struct Runner<'a> {
    /// Number of parallel trials.
    pub jobs: usize,
    /// Build of this program, stored in each record.
    pub build: Option<&'a Build>,
    /// The flag that ends the run when set.
    pub stop: &'a AtomicBool,
    /// Observer of the run.
    pub observer: &'a dyn Observer,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Successful trials.
    pub ok: usize,
    /// Failed trials, stored with the reason.
    pub failed: usize,
    /// Trials that cannot run here, stored with the reason.
    pub skipped: usize,
    /// Trials stored by an earlier run.
    pub already_stored: usize,
    /// Trials not run, or killed, because the run was stopped.
    pub left: usize,
}

impl Summary {
    /// Adds the result of a second run.
    pub fn plus(self, next: Summary) -> Summary {
        Summary {
            ok: self.ok + next.ok,
            failed: self.failed + next.failed,
            skipped: self.skipped + next.skipped,
            already_stored: self.already_stored + next.already_stored,
            left: self.left + next.left,
        }
    }

    /// Returns the number of all requested trials.
    pub fn trials(&self) -> usize {
        self.ok + self.failed + self.skipped + self.already_stored + self.left
    }
}

/// Runs every slot whose trial is not stored yet; slots of cells that cannot run here are stored as skipped.
///
/// # Errors
/// The reason for ending early: the store fails, or a requirement of every trial is missing.
pub fn run(
    schedule: &[Slot],
    cells: &[Cell],
    venue: &dyn Venue,
    store: &mut Store,
    runner: &Runner<'_>,
) -> Result<Summary, RunError> {
    check_compatible(cells, venue, store.trials(), Mode::Run)?;
    let already_stored = schedule.iter().filter(|slot| is_stored(store, cells, slot)).count();
    let (items, skipped) = work_items(schedule, cells, store);
    let rows = rows(cells, store.trials());
    let pool = Pool {
        venue,
        runner,
        items: &items,
        rows: &rows,
        next: AtomicUsize::new(0),
        store: Mutex::new(store),
        refused: Mutex::default(),
        summary: Mutex::new(Summary { skipped, already_stored, ..Summary::default() }),
        error: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        for worker in 0..runner.jobs.clamp(1, items.len().max(1)) {
            let pool = &pool;
            // The thread lives until all its trials have ended, because their processes need it.
            scope.spawn(move || pool.work(worker));
        }
    });
    if let Some(error) = lock(&pool.error).take() {
        return Err(error);
    }
    let mut summary = *lock(&pool.summary);
    summary.left = schedule.len() - already_stored - summary.ok - summary.failed - summary.skipped;
    Ok(summary)
}

/// Returns whether the trial of a slot has succeeded already.
pub fn is_stored(store: &Store, cells: &[Cell], slot: &Slot) -> bool {
    let plan = cells.get(slot.cell).map(|cell| &cell.plan);
    plan.is_some_and(|plan| store.has(&trial_id(plan, slot.seed), &plan.label))
}

/// Returns the slots left to run.
pub fn todo(schedule: &[Slot], cells: &[Cell], store: &Store) -> Vec<(Job, Slot)> {
    let slots = schedule.iter().filter(|slot| !is_stored(store, cells, slot));
    let jobs = slots.filter_map(|slot| {
        let cell = cells.get(slot.cell).filter(|cell| cell.skip.is_none())?;
        Some((job(cell, slot.seed), *slot))
    });
    jobs.collect()
}

fn job(cell: &Cell, seed: u64) -> Job {
    let plan = cell.plan.clone();
    let (trial_id, deadline) = (trial_id(&plan, seed), cell.deadline);
    // The plan comes from a request, and a request from a file cannot have a command (see the matrix).
    let is_command = plan.workload.name == workloads::command::NAME;
    let task = if is_command { Task::Command } else { Task::Whole };
    Job { trial_id, seed, plan, deadline, task }
}

/// An item of work. Workers take items in the order of the schedule, so that a single worker stores trials in that
/// order.
enum WorkItem {
    /// A trial to run.
    Run(Box<Job>, Slot),
    /// A trial that cannot run here, to be stored with its reason.
    Skip(Box<Job>, String),
}

/// Returns the remaining work, and the number of trials already stored as skipped: the trials of a cell that cannot
/// run here are stored once, however often they are requested.
fn work_items(schedule: &[Slot], cells: &[Cell], store: &Store) -> (Vec<WorkItem>, usize) {
    let (mut items, mut skipped) = (Vec::new(), 0);
    for slot in schedule.iter().filter(|slot| !is_stored(store, cells, slot)) {
        let Some(cell) = cells.get(slot.cell) else { continue };
        let job = Box::new(job(cell, slot.seed));
        let Some(reason) = &cell.skip else {
            items.push(WorkItem::Run(job, *slot));
            continue;
        };
        match is_skip_stored(store.trials(), &job, reason) {
            true => skipped += 1,
            false => items.push(WorkItem::Skip(job, reason.clone())),
        }
    }
    (items, skipped)
}

/// Row numbers in the folder's table, by plan and label.
type Rows = BTreeMap<(String, String), u32>;

fn row_of(plan: &Plan) -> (String, String) {
    (plan.hash.clone(), plan.label.clone())
}

/// Returns the row of each cell: cells of earlier commands keep theirs; the others get their row in this experiment,
/// or the next free one if that is taken.
fn rows(cells: &[Cell], stored: &[Trial]) -> Rows {
    let stored_rows = stored.iter().filter_map(|trial| Some((row_of(&trial.plan), trial.row?)));
    let mut rows: Rows = stored_rows.collect();
    let mut taken: BTreeSet<u32> = rows.values().copied().collect();
    for cell in cells {
        rows.entry(row_of(&cell.plan)).or_insert_with(|| {
            let free = (cell.row..).find(|row| !taken.contains(row)).unwrap_or(cell.row);
            taken.insert(free);
            free
        });
    }
    rows
}

/// Returns whether a job is already stored as skipped for this reason.
fn is_skip_stored(stored: &[Trial], job: &Job, reason: &str) -> bool {
    stored.iter().any(|known| {
        known.outcome == Outcome::Skipped
            && (&known.trial_id, &known.plan.label) == (&job.trial_id, &job.plan.label)
            && known.reason.as_deref() == Some(reason)
    })
}

/// The state shared by the workers.
struct Pool<'a> {
    venue: &'a dyn Venue,
    runner: &'a Runner<'a>,
    items: &'a [WorkItem],
    rows: &'a Rows,
    next: AtomicUsize,
    store: Mutex<&'a mut Store>,
    refused: Mutex<RefusedRows>,
    summary: Mutex<Summary>,
    error: Mutex<Option<RunError>>,
}

impl Pool<'_> {
    fn is_stopped(&self) -> bool {
        self.runner.stop.load(Ordering::Relaxed) || lock(&self.error).is_some()
    }

    fn work(&self, worker: usize) {
        while !self.is_stopped() {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = self.items.get(index) else { return };
            let refused = match item {
                WorkItem::Run(job, _) => lock(&self.refused).reason(job).cloned(),
                WorkItem::Skip(_, reason) => Some(reason.clone()),
            };
            let (WorkItem::Run(job, slot), None) = (item, &refused) else {
                let (WorkItem::Run(job, _) | WorkItem::Skip(job, _)) = item;
                match self.skip(job, &refused.unwrap_or_default()) {
                    Ok(()) => {
                        if let WorkItem::Run(_, slot) = item {
                            self.runner.observer.skipped(slot);
                        }
                        continue;
                    }
                    Err(error) => return self.fail(error.into()),
                }
            };
            self.runner.observer.started(worker, &job.plan, slot);
            let started = clock::now();
            let result = self.venue.run(job, &mut |progress| {
                self.runner.observer.progress(worker, progress);
                if self.runner.stop.load(Ordering::Relaxed) {
                    self.runner.observer.stopping();
                }
                if self.is_stopped() { Watch::Stop } else { Watch::GoOn }
            });
            let mut phases = Vec::new();
            let mut trial = match result {
                Ok(mut finished) => {
                    phases = std::mem::take(&mut finished.report.series);
                    from_report(job, finished)
                }
                Err(VenueError::Stopped) => return,
                // Without the venue's tools, every other trial would fail too.
                Err(VenueError::Missing(what)) => return self.fail(RunError::Missing(what)),
                Err(error) => {
                    let host = Host { started, ..Host::default() };
                    let identity = self.venue.identity(&job.plan).ok().flatten();
                    with_identity(without_report(job, error.to_string(), host), identity)
                }
            };
            trial.repeats = slot.repeats;
            lock(&self.refused).note(&trial);
            if let Err(error) = self.keep(worker, trial, phases) {
                return self.fail(error.into());
            }
        }
    }

    fn skip(&self, job: &Job, reason: &str) -> Result<(), StoreError> {
        if is_skip_stored(lock(&self.store).trials(), job, reason) {
            lock(&self.summary).skipped += 1;
            return Ok(());
        }
        let host = Host { started: clock::now(), ..Host::default() };
        let mut trial = without_report(job, reason.to_string(), host);
        trial.outcome = Outcome::Skipped;
        self.store(trial, None)
    }

    fn keep(
        &self,
        worker: usize,
        trial: Trial,
        phases: Vec<PhaseSeries>,
    ) -> Result<(), StoreError> {
        let ok = trial.outcome == Outcome::Ok;
        let series = if ok { Series::new(&trial, phases) } else { None };
        self.store(trial.clone(), series)?;
        self.runner.observer.ended(worker, &trial);
        Ok(())
    }

    fn store(&self, mut trial: Trial, series: Option<Series>) -> Result<(), StoreError> {
        let outcome = trial.outcome;
        trial.host.build = self.runner.build.cloned();
        trial.host.processors = std::thread::available_parallelism().ok().map(|it| it.get() as u32);
        trial.row = self.rows.get(&row_of(&trial.plan)).copied();
        lock(&self.store).append(trial, series)?;
        let mut summary = lock(&self.summary);
        match outcome {
            Outcome::Ok => summary.ok += 1,
            Outcome::Failed => summary.failed += 1,
            Outcome::Skipped => summary.skipped += 1,
        }
        Ok(())
    }

    fn fail(&self, error: RunError) {
        // The first failure is the cause of later ones.
        lock(&self.error).get_or_insert(error);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn from_report(job: &Job, finished: FinishedTrial) -> Trial {
    let mut trial = without_report(job, String::new(), finished.host);
    trial.outcome = finished.report.outcome;
    trial.reason = finished.report.reason;
    trial.conditions = finished.report.conditions;
    trial.measured = finished.report.measured;
    with_identity(trial, finished.identity)
}

fn with_identity(mut trial: Trial, identity: Option<Identity>) -> Trial {
    if let Some(identity) = identity {
        trial.lab_id = Some(identity.lab_id);
        trial.lab = identity.components.into();
    }
    trial
}

/// Returns the record of a trial that left no report, with the reason.
fn without_report(job: &Job, reason: String, host: Host) -> Trial {
    Trial {
        schema: SCHEMA,
        trial_id: job.trial_id.clone(),
        lab_id: None,
        lab: Default::default(),
        seed: job.seed,
        row: None,
        repeats: None,
        version: env!("CARGO_PKG_VERSION").to_string(),
        deadline_ns: Some(job.deadline).filter(|deadline| *deadline != DEFAULT_DEADLINE),
        outcome: Outcome::Failed,
        reason: Some(reason),
        plan: job.plan.clone(),
        conditions: Default::default(),
        measured: Default::default(),
        host,
    }
}

#[cfg(test)]
mod tests;
