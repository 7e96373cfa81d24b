//! Runs a schedule through a venue: some trials side by side, each stored as it ends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fsdyno_record::mailbox::Progress;
use fsdyno_record::plan::Task;
use fsdyno_record::series::{PhaseSeries, Series};
use fsdyno_record::trial::{Host, Outcome, Trial, trial_id};
use fsdyno_record::{Job, Plan, SCHEMA};
use fsdyno_venue::venue::Identity;
use fsdyno_venue::{Ran, Venue, VenueError, Watch, clock};

use crate::question::Cell;
use crate::refused::Refused;
use crate::same::may_join;
use crate::schedule::Slot;
use crate::store::{Store, StoreError};

/// Who wants to know how it goes. Called from several threads.
pub trait Observer: Sync {
    /// A trial starts on worker `worker`.
    fn started(&self, worker: usize, plan: &Plan, slot: &Slot);
    /// A trial goes on; called about every 20 ms.
    fn progress(&self, worker: usize, progress: &Progress);
    /// A trial has ended and is stored.
    fn ended(&self, worker: usize, trial: &Trial);
}

/// Nobody.
impl Observer for () {
    fn started(&self, _: usize, _: &Plan, _: &Slot) {}
    fn progress(&self, _: usize, _: &Progress) {}
    fn ended(&self, _: usize, _: &Trial) {}
}

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Results can no longer be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something that every trial needs is missing.
    #[error("{0}")]
    Missing(String),
    /// The folder's trials come from another lab.
    #[error(
        "the trials in this folder have the lab identity {stored}, and this lab is {current} \
         (what differs: {differs}); give --out a new folder"
    )]
    OtherLab {
        /// First digits of what is stored.
        stored: String,
        /// First digits of what is here.
        current: String,
        /// Names of the components that differ.
        differs: String,
    },
    /// The folder's trials ran elsewhere, by another clock.
    #[error(
        "the trials in this folder ran {stored}, and these would run {current}: their times do not \
         belong in one table; give --out a new folder"
    )]
    OtherClock {
        /// Where stored trials ran.
        stored: &'static str,
        /// Where these would.
        current: &'static str,
    },
    /// The folder's trials ran in the same directory, and it is not what it was.
    #[error(
        "the trials in this folder ran with the {what} '{stored}', and it is '{current}' now; \
         give --out a new folder"
    )]
    OtherGround {
        /// Which condition differs.
        what: String,
        /// Its value in a stored trial.
        stored: String,
        /// Its value here.
        current: String,
    },
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Ended well.
    pub ok: usize,
    /// Ended badly, and stored with the reason.
    pub failed: usize,
    /// Cannot run here, and stored with the reason.
    pub skipped: usize,
    /// Were there already from an earlier run.
    pub there: usize,
    /// Never ran, or were killed, because the run was stopped.
    pub left: usize,
}

impl Summary {
    /// What came of two runs, one after the other.
    pub fn and(self, next: Summary) -> Summary {
        Summary {
            ok: self.ok + next.ok,
            failed: self.failed + next.failed,
            skipped: self.skipped + next.skipped,
            there: self.there + next.there,
            left: self.left + next.left,
        }
    }

    /// All trials that were to run.
    pub fn trials(&self) -> usize {
        self.ok + self.failed + self.skipped + self.there + self.left
    }
}

/// Runs every slot whose trial is not in the store already; those of cells that cannot run here
/// are stored as skipped.
///
/// # Errors
/// Why the run ended early: the store fails, or something is missing that every trial needs.
pub fn run(
    schedule: &[Slot],
    cells: &[Cell],
    venue: &dyn Venue,
    store: &mut Store,
    jobs: usize,
    stop: &AtomicBool,
    observer: &dyn Observer,
) -> Result<Summary, RunError> {
    may_join(cells, venue, store.trials())?;
    let there = schedule.iter().filter(|slot| is_there(store, cells, slot)).count();
    let (steps, skipped) = steps(schedule, cells, store);
    let floor = Floor {
        venue,
        stop,
        observer,
        steps: &steps,
        next: AtomicUsize::new(0),
        store: Mutex::new(store),
        refused: Mutex::default(),
        summary: Mutex::new(Summary { skipped, there, ..Summary::default() }),
        error: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        for worker in 0..jobs.clamp(1, steps.len().max(1)) {
            let floor = &floor;
            // The thread lives until all its trials have ended, as their processes need it to.
            scope.spawn(move || floor.work(worker));
        }
    });
    if let Some(error) = lock(&floor.error).take() {
        return Err(error);
    }
    let mut summary = *lock(&floor.summary);
    summary.left = schedule.len() - there - summary.ok - summary.failed - summary.skipped;
    Ok(summary)
}

/// Whether the trial of a slot has ended well already.
pub fn is_there(store: &Store, cells: &[Cell], slot: &Slot) -> bool {
    let plan = cells.get(slot.cell).map(|cell| &cell.plan);
    plan.is_some_and(|plan| store.has(&trial_id(plan, slot.seed), &plan.label))
}

/// The slots that are left to run.
pub fn todo(schedule: &[Slot], cells: &[Cell], store: &Store) -> Vec<(Job, Slot)> {
    let slots = schedule.iter().filter(|slot| !is_there(store, cells, slot));
    let jobs = slots.filter_map(|slot| {
        let cell = cells.get(slot.cell).filter(|cell| cell.skip.is_none())?;
        Some((job(cell, slot.seed), *slot))
    });
    jobs.collect()
}

fn job(cell: &Cell, seed: u64) -> Job {
    let plan = cell.plan.clone();
    let (trial_id, deadline) = (trial_id(&plan, seed), cell.deadline);
    Job { trial_id, seed, plan, deadline, task: Task::Whole }
}

/// What a worker takes next, in the order of the schedule, so that one worker alone stores the
/// trials in that order.
enum Step {
    /// A trial to run.
    Run(Box<Job>, Slot),
    /// A trial that cannot run here, to be stored with its reason.
    Skip(Box<Job>, String),
}

/// The steps that are left, and how many trials are stored as skipped already: what cannot run here
/// is stored once however often it is tried.
fn steps(schedule: &[Slot], cells: &[Cell], store: &Store) -> (Vec<Step>, usize) {
    let (mut steps, mut skipped) = (Vec::new(), 0);
    for slot in schedule.iter().filter(|slot| !is_there(store, cells, slot)) {
        let Some(cell) = cells.get(slot.cell) else { continue };
        let job = Box::new(job(cell, slot.seed));
        let Some(reason) = &cell.skip else {
            steps.push(Step::Run(job, *slot));
            continue;
        };
        match said(store.trials(), &job, reason) {
            true => skipped += 1,
            false => steps.push(Step::Skip(job, reason.clone())),
        }
    }
    (steps, skipped)
}

/// Whether it is stored already that a job is skipped for this reason.
fn said(stored: &[Trial], job: &Job, reason: &str) -> bool {
    stored.iter().any(|known| {
        known.outcome == Outcome::Skipped
            && (&known.trial_id, &known.plan.label) == (&job.trial_id, &job.plan.label)
            && known.reason.as_deref() == Some(reason)
    })
}

/// What the workers share.
struct Floor<'a> {
    venue: &'a dyn Venue,
    stop: &'a AtomicBool,
    observer: &'a dyn Observer,
    steps: &'a [Step],
    next: AtomicUsize,
    store: Mutex<&'a mut Store>,
    refused: Mutex<Refused>,
    summary: Mutex<Summary>,
    error: Mutex<Option<RunError>>,
}

impl Floor<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || lock(&self.error).is_some()
    }

    fn work(&self, worker: usize) {
        while !self.stopped() {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(step) = self.steps.get(at) else { return };
            let refused = match step {
                Step::Run(job, _) => lock(&self.refused).reason(job).cloned(),
                Step::Skip(_, reason) => Some(reason.clone()),
            };
            let (Step::Run(job, slot), None) = (step, &refused) else {
                let (Step::Run(job, _) | Step::Skip(job, _)) = step;
                match self.skip(job, &refused.unwrap_or_default()) {
                    Ok(()) => continue,
                    Err(error) => return self.fail(error.into()),
                }
            };
            self.observer.started(worker, &job.plan, slot);
            let started = clock::now();
            let ran = self.venue.run(job, &mut |progress| {
                self.observer.progress(worker, progress);
                if self.stopped() { Watch::Stop } else { Watch::GoOn }
            });
            let mut phases = Vec::new();
            let mut trial = match ran {
                Ok(mut ran) => {
                    phases = std::mem::take(&mut ran.report.series);
                    from_report(job, ran)
                }
                Err(VenueError::Stopped) => return,
                // Without its tools no other trial of the run would fare better.
                Err(VenueError::Missing(what)) => return self.fail(RunError::Missing(what)),
                Err(error) => {
                    let host = Host { started, ..Host::default() };
                    let identity = self.venue.identity(&job.plan).ok().flatten();
                    identified(without_report(job, error.to_string(), host), identity)
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
        if said(lock(&self.store).trials(), job, reason) {
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
        let series = if ok { Series::of(&trial, phases) } else { None };
        self.store(trial.clone(), series)?;
        self.observer.ended(worker, &trial);
        Ok(())
    }

    fn store(&self, trial: Trial, series: Option<Series>) -> Result<(), StoreError> {
        let outcome = trial.outcome;
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
        // The first failure is the cause; later ones follow from it.
        lock(&self.error).get_or_insert(error);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn from_report(job: &Job, ran: Ran) -> Trial {
    let mut trial = without_report(job, String::new(), ran.host);
    trial.outcome = ran.report.outcome;
    trial.reason = ran.report.reason;
    trial.conditions = ran.report.conditions;
    trial.measured = ran.report.measured;
    identified(trial, ran.identity)
}

fn identified(mut trial: Trial, identity: Option<Identity>) -> Trial {
    if let Some(identity) = identity {
        trial.lab_id = Some(identity.lab_id);
        trial.lab = identity.components;
    }
    trial
}

/// A trial that left no report is still a line, with the reason.
fn without_report(job: &Job, reason: String, host: Host) -> Trial {
    Trial {
        schema: SCHEMA,
        trial_id: job.trial_id.clone(),
        lab_id: None,
        lab: Default::default(),
        seed: job.seed,
        repeats: None,
        version: env!("CARGO_PKG_VERSION").to_string(),
        outcome: Outcome::Failed,
        reason: Some(reason),
        plan: job.plan.clone(),
        conditions: Default::default(),
        measured: Default::default(),
        host,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fsdyno_record::Bytes;
    use fsdyno_record::plan::{DiskPlan, LabPlan, MediumPlan, VerifyMode, WorkloadPlan};
    use fsdyno_record::trial::AgentReport;

    use fsdyno_record::Nanos;

    use super::*;
    use crate::USUAL_DEADLINE;
    use crate::schedule::schedule;

    /// A venue that answers at once, as its function says.
    struct Fake<F>(F);

    impl<F: Fn(&Job) -> Result<AgentReport, VenueError> + Sync> Venue for Fake<F> {
        fn identity(&self, _plan: &Plan) -> Result<Option<Identity>, VenueError> {
            let components = [("agent".to_string(), "here".to_string())].into();
            Ok(Some(Identity { lab_id: "here".into(), components }))
        }

        fn run(
            &self,
            job: &Job,
            watch: &mut dyn FnMut(&Progress) -> Watch,
        ) -> Result<Ran, VenueError> {
            let progress = fsdyno_record::mailbox::Progress {
                stage: fsdyno_record::mailbox::Stage::Running,
                phase: 0,
                phases: 1,
                ops_done: 1,
                ops_total: 1,
                now: Nanos(1),
                requests: 0,
            };
            if watch(&progress) == Watch::Stop {
                return Err(VenueError::Stopped);
            }
            let report = (self.0)(job)?;
            Ok(Ran { report, host: Host::default(), identity: self.identity(&job.plan)? })
        }
    }

    fn cells() -> Vec<Cell> {
        ["a", "b"]
            .map(|path| {
                let plan = Plan {
                    label: path.into(),
                    workload: WorkloadPlan {
                        name: "dirops".into(),
                        params: Default::default(),
                        input: None,
                    },
                    filesystem: None,
                    medium: MediumPlan::Lab(LabPlan::new(
                        DiskPlan { name: "d".into(), spec: path.into() },
                        Bytes(1 << 30),
                        "6.1",
                    )),
                    threads: 1,
                    issuer: fsdyno_record::plan::IssuerPlan::Sync,
                    verify: VerifyMode::Full,
                    sysctls: Default::default(),
                    hash: String::new(),
                };
                let (needs, phases) = (Default::default(), Vec::new());
                Cell { plan: plan.sealed(), needs, phases, skip: None, deadline: USUAL_DEADLINE }
            })
            .into()
    }

    fn good(_: &Job) -> Result<AgentReport, VenueError> {
        Ok(AgentReport { outcome: Outcome::Ok, ..AgentReport::default() })
    }

    fn go(venue: &dyn Venue, store: &mut Store, stop: bool) -> Result<Summary, RunError> {
        go_with(&cells(), venue, store, stop)
    }

    fn go_with(
        cells: &[Cell],
        venue: &dyn Venue,
        store: &mut Store,
        stop: bool,
    ) -> Result<Summary, RunError> {
        let stop = AtomicBool::new(stop);
        run(&schedule(2, 3, 1), cells, venue, store, 2, &stop, &())
    }

    #[test]
    fn every_trial_is_stored_and_a_second_run_has_nothing_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let summary = go(&Fake(good), &mut store, false).unwrap();
        assert_eq!(summary, Summary { ok: 6, ..Summary::default() });
        let summary = go(&Fake(good), &mut store, false).unwrap();
        assert_eq!(summary, Summary { there: 6, ..Summary::default() });
        assert_eq!(store.trials().len(), 6);
    }

    #[test]
    fn a_venue_that_fails_leaves_a_line_with_the_reason_and_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let bad = |_: &Job| Err(VenueError::Died("killed by signal 9".into()));
        assert_eq!(go(&Fake(bad), &mut store, false).unwrap().failed, 6);
        assert_eq!(store.trials()[0].reason.as_deref(), Some("killed by signal 9"));
        assert_eq!(go(&Fake(good), &mut store, false).unwrap().ok, 6);
        let kept = crate::without_superseded(store.trials());
        assert!(kept.iter().all(|trial| trial.outcome == Outcome::Ok), "a failure stayed");
    }

    #[test]
    fn a_failure_bears_the_identity_of_the_lab_it_happened_in() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let bad = |_: &Job| Err(VenueError::Died("x".into()));
        go(&Fake(bad), &mut store, false).unwrap();
        assert!(store.trials().iter().all(|trial| trial.lab_id.as_deref() == Some("here")));
    }

    #[test]
    fn the_same_plan_under_another_label_is_another_row_and_runs() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        go(&Fake(good), &mut store, false).unwrap();
        let mut cells = cells();
        cells[1] = cells[0].clone();
        cells[1].plan.label = "twin".into();
        let summary = go_with(&cells, &Fake(good), &mut store, false).unwrap();
        assert_eq!(summary, Summary { ok: 3, there: 3, ..Summary::default() });
    }

    #[test]
    fn what_cannot_run_here_is_stored_once_with_its_reason_and_the_rest_runs() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let mut cells = cells();
        cells[1].skip = Some("Linux 6.13 no longer has it".into());
        let summary = go_with(&cells, &Fake(good), &mut store, false).unwrap();
        assert_eq!(summary, Summary { ok: 3, skipped: 3, ..Summary::default() });
        let summary = go_with(&cells, &Fake(good), &mut store, false).unwrap();
        assert_eq!(summary, Summary { there: 3, skipped: 3, ..Summary::default() });
        let skipped: Vec<&Trial> =
            store.trials().iter().filter(|trial| trial.outcome == Outcome::Skipped).collect();
        assert_eq!(skipped.len(), 3);
        assert_eq!(skipped[0].reason.as_deref(), Some("Linux 6.13 no longer has it"));
    }

    #[test]
    fn one_worker_stores_the_trials_in_the_order_of_the_schedule_those_that_are_skipped_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let mut cells = cells();
        cells[1].skip = Some("Linux 6.13 no longer has it".into());
        let (order, stop) = (schedule(2, 4, 1), AtomicBool::new(false));
        run(&order, &cells, &Fake(good), &mut store, 1, &stop, &()).unwrap();
        let stored: Vec<(&str, u64)> =
            store.trials().iter().map(|trial| (trial.plan.label.as_str(), trial.seed)).collect();
        let planned: Vec<(&str, u64)> =
            order.iter().map(|slot| (cells[slot.cell].plan.label.as_str(), slot.seed)).collect();
        assert_eq!(stored, planned);
    }

    /// A directory on which something else may be mounted.
    struct Place(&'static str);

    impl Venue for Place {
        fn identity(&self, _plan: &Plan) -> Result<Option<Identity>, VenueError> {
            Ok(None)
        }

        fn ground(&self, _plan: &Plan) -> Result<BTreeMap<String, String>, VenueError> {
            Ok([("mount".to_string(), self.0.to_string())].into())
        }

        fn run(&self, _: &Job, _: &mut dyn FnMut(&Progress) -> Watch) -> Result<Ran, VenueError> {
            let mut report = AgentReport { outcome: Outcome::Ok, ..AgentReport::default() };
            report.conditions.mount = self.0.to_string();
            Ok(Ran { report, host: Host::default(), identity: None })
        }
    }

    #[test]
    fn another_file_system_on_the_same_directory_is_refused_even_with_nothing_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        assert_eq!(go(&Place("ext4 rw"), &mut store, false).unwrap().ok, 6);
        assert_eq!(go(&Place("ext4 rw"), &mut store, false).unwrap().there, 6);
        let error = go(&Place("tmpfs rw"), &mut store, false).unwrap_err().to_string();
        assert!(error.contains("mount 'ext4 rw'") && error.contains("'tmpfs rw' now"), "{error}");
    }

    #[test]
    fn a_host_never_joins_a_lab_and_other_questions_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        go(&Fake(good), &mut store, false).unwrap();
        let mut cells = cells();
        for cell in &mut cells {
            cell.plan.medium = MediumPlan::Directory { path: "/srv".into() };
            cell.plan = cell.plan.clone().sealed();
        }
        let error = go_with(&cells, &Place("ext4 rw"), &mut store, false).unwrap_err().to_string();
        assert!(error.contains("ran in the lab, and these would run on a host"), "{error}");
        let (count, rows) = crate::same::others(&cells, store.trials());
        assert_eq!((count, rows.len()), (6, 2), "{rows:?}");
        assert!(rows[0].contains(", lab"), "{rows:?}");
        assert_eq!(crate::same::others(&self::cells(), store.trials()).0, 0);
    }

    #[test]
    fn a_stopped_run_stores_nothing_of_what_was_running() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let summary = go(&Fake(good), &mut store, true).unwrap();
        assert_eq!(summary, Summary { left: 6, ..Summary::default() });
        assert!(store.trials().is_empty());
    }

    #[test]
    fn what_is_missing_for_all_ends_the_run_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let bad = |_: &Job| Err(VenueError::Missing("no QEMU".into()));
        assert!(matches!(go(&Fake(bad), &mut store, false), Err(RunError::Missing(_))));
        assert!(store.trials().is_empty());
    }

    #[test]
    fn two_labs_never_mix_in_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let one_fails = |job: &Job| {
            if job.seed == 3 { Err(VenueError::Died("x".into())) } else { good(job) }
        };
        go(&Fake(one_fails), &mut store, false).unwrap();
        drop(store);
        let path = folder.path().join(fsdyno_record::lines::FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"here\"", "\"there\"")).unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let error = go(&Fake(good), &mut store, false).unwrap_err();
        assert!(error.to_string().contains("what differs: agent"), "{error}");
    }
}
