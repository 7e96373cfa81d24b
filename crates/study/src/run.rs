//! Runs a schedule through a venue: some trials side by side, each stored as it ends.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::{Host, Outcome, Trial, trial_id};
use fsdyno_record::{Job, Nanos, Plan, SCHEMA};
use fsdyno_venue::venue::Identity;
use fsdyno_venue::{Ran, Venue, VenueError, Watch, clock};

use crate::schedule::Slot;
use crate::store::{Store, StoreError};

/// The longest that a trial may take in its venue's clock: two days, more than the slowest file
/// system of 2008 took for its 725,000 files, so that only what will never end is cut off.
const DEADLINE: Nanos = Nanos(2 * 86_400 * 1_000_000_000);

/// Who wants to know how it goes. Called from several threads.
pub trait Observer: Sync {
    /// A trial starts on worker `worker`.
    fn started(&self, worker: usize, plan: &Plan, slot: &Slot);
    /// A trial goes on; called about every 20 ms.
    fn progress(&self, worker: usize, progress: &Progress);
    /// A trial has ended and is stored.
    fn ended(&self, worker: usize, trial: &Trial);
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
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Ended well.
    pub ok: usize,
    /// Ended badly, and stored with the reason.
    pub failed: usize,
    /// Were there already from an earlier run.
    pub skipped: usize,
    /// Never ran, or were killed, because the run was stopped.
    pub left: usize,
}

/// Runs every slot whose trial is not in the store already.
///
/// # Errors
/// Why the run ended early: the store fails, or something is missing that every trial needs.
pub fn run(
    schedule: &[Slot],
    plans: &[Plan],
    venue: &dyn Venue,
    store: &mut Store,
    jobs: usize,
    stop: &AtomicBool,
    observer: &dyn Observer,
) -> Result<Summary, RunError> {
    let finished = store.finished();
    let todo = todo(schedule, plans, &finished);
    let skipped = schedule.len() - todo.len();
    same_lab(venue, &todo, store.trials())?;
    let floor = Floor {
        venue,
        stop,
        observer,
        todo: &todo,
        next: AtomicUsize::new(0),
        store: Mutex::new(store),
        summary: Mutex::new(Summary { skipped, ..Summary::default() }),
        error: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        for worker in 0..jobs.clamp(1, todo.len().max(1)) {
            let floor = &floor;
            // The thread lives until all its trials have ended, as their processes need it to.
            scope.spawn(move || floor.work(worker));
        }
    });
    if let Some(error) = lock(&floor.error).take() {
        return Err(error);
    }
    let mut summary = *lock(&floor.summary);
    summary.left = todo.len() - summary.ok - summary.failed;
    Ok(summary)
}

fn todo(schedule: &[Slot], plans: &[Plan], finished: &BTreeSet<String>) -> Vec<(Job, Slot)> {
    let jobs = schedule.iter().filter_map(|slot| {
        let plan = plans.get(slot.cell)?.clone();
        let trial_id = trial_id(&plan, slot.seed);
        Some((Job { trial_id, seed: slot.seed, plan, deadline: DEADLINE }, *slot))
    });
    jobs.filter(|(job, _)| !finished.contains(&job.trial_id)).collect()
}

/// Results of two labs in one folder would be taken for repeats of one.
fn same_lab(venue: &dyn Venue, todo: &[(Job, Slot)], stored: &[Trial]) -> Result<(), RunError> {
    let mut seen = BTreeSet::new();
    for (job, _) in todo.iter().filter(|(job, _)| seen.insert(&job.plan.hash)) {
        let here = venue.identity(&job.plan);
        let Some(here) = here.map_err(|error| RunError::Missing(error.to_string()))? else {
            continue;
        };
        let alike = |trial: &&Trial| same_machine(&trial.plan, &job.plan);
        for trial in stored.iter().filter(alike) {
            let differs = differs(trial, &here);
            if let (Some(lab_id), false) = (&trial.lab_id, differs.is_empty()) {
                let (stored, current) = (short(lab_id), short(&here.lab_id));
                return Err(RunError::OtherLab { stored, current, differs });
            }
        }
    }
    Ok(())
}

/// Whether two plans are for one machine with one kernel: then what their guests share is alike.
fn same_machine(a: &Plan, b: &Plan) -> bool {
    use fsdyno_record::plan::MediumPlan::Lab;
    matches!((&a.medium, &b.medium), (Lab { kernel: one, .. }, Lab { kernel: other, .. }) if one == other)
        && a.disk_name() == b.disk_name()
}

/// Components that two guests share and that differ. The initramfs and its list of modules differ
/// between file systems by nature; what is in them is compared piece by piece.
fn differs(trial: &Trial, here: &Identity) -> String {
    let sums = ["initramfs", "modules"];
    let shared = trial.lab.iter().filter(|(name, _)| !sums.contains(&name.as_str()));
    let differ = shared.filter(|(name, value)| {
        here.components.get(*name).is_some_and(|current| current != *value)
    });
    differ.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

fn short(id: &str) -> String {
    id.chars().take(12).collect()
}

/// What the workers share.
struct Floor<'a> {
    venue: &'a dyn Venue,
    stop: &'a AtomicBool,
    observer: &'a dyn Observer,
    todo: &'a [(Job, Slot)],
    next: AtomicUsize,
    store: Mutex<&'a mut Store>,
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
            let Some((job, slot)) = self.todo.get(at) else { return };
            self.observer.started(worker, &job.plan, slot);
            let started = clock::now();
            let ran = self.venue.run(job, &mut |progress| {
                self.observer.progress(worker, progress);
                if self.stopped() { Watch::Stop } else { Watch::GoOn }
            });
            let trial = match ran {
                Ok(ran) => from_report(job, ran),
                Err(VenueError::Stopped) => return,
                // Without its tools no other trial of the run would fare better.
                Err(VenueError::Missing(what)) => return self.fail(RunError::Missing(what)),
                Err(error) => {
                    let host = Host { started, ..Host::default() };
                    without_report(job, error.to_string(), host)
                }
            };
            if let Err(error) = self.keep(worker, trial) {
                return self.fail(error.into());
            }
        }
    }

    fn keep(&self, worker: usize, trial: Trial) -> Result<(), StoreError> {
        let ok = trial.outcome == Outcome::Ok;
        lock(&self.store).append(trial.clone())?;
        {
            let mut summary = lock(&self.summary);
            if ok { summary.ok += 1 } else { summary.failed += 1 }
        }
        self.observer.ended(worker, &trial);
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
    let (lab_id, lab) = match ran.identity {
        Some(identity) => (Some(identity.lab_id), identity.components),
        None => (None, Default::default()),
    };
    let mut trial = without_report(job, String::new(), ran.host);
    trial.lab_id = lab_id;
    trial.lab = lab;
    trial.outcome = ran.report.outcome;
    trial.reason = ran.report.reason;
    trial.conditions = ran.report.conditions;
    trial.measured = ran.report.measured;
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
    use fsdyno_record::Bytes;
    use fsdyno_record::plan::{DiskPlan, MediumPlan, VerifyMode, WorkloadPlan};
    use fsdyno_record::trial::AgentReport;

    use super::*;
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

    struct Silent;

    impl Observer for Silent {
        fn started(&self, _: usize, _: &Plan, _: &Slot) {}
        fn progress(&self, _: usize, _: &Progress) {}
        fn ended(&self, _: usize, _: &Trial) {}
    }

    fn plans() -> Vec<Plan> {
        ["a", "b"]
            .map(|path| {
                Plan {
                    label: path.into(),
                    workload: WorkloadPlan { name: "dirops".into(), params: Default::default() },
                    filesystem: None,
                    medium: MediumPlan::Lab {
                        disk: DiskPlan { name: "d".into(), spec: path.into() },
                        size: None,
                        ram: Bytes(1 << 30),
                        scheduler: None,
                        kernel: "6.1".into(),
                    },
                    threads: 1,
                    verify: VerifyMode::Full,
                    sysctls: Default::default(),
                    hash: String::new(),
                }
                .sealed()
            })
            .into()
    }

    fn good(_: &Job) -> Result<AgentReport, VenueError> {
        Ok(AgentReport { outcome: Outcome::Ok, ..AgentReport::default() })
    }

    fn go(venue: &dyn Venue, store: &mut Store, stop: bool) -> Result<Summary, RunError> {
        let stop = AtomicBool::new(stop);
        run(&schedule(2, 3, 1), &plans(), venue, store, 2, &stop, &Silent)
    }

    #[test]
    fn every_trial_is_stored_and_a_second_run_has_nothing_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let summary = go(&Fake(good), &mut store, false).unwrap();
        assert_eq!(summary, Summary { ok: 6, ..Summary::default() });
        let summary = go(&Fake(good), &mut store, false).unwrap();
        assert_eq!(summary, Summary { skipped: 6, ..Summary::default() });
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
        let path = folder.path().join(crate::store::FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"here\"", "\"there\"")).unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let error = go(&Fake(good), &mut store, false).unwrap_err();
        assert!(error.to_string().contains("what differs: agent"), "{error}");
    }
}
