//! The crash test of one plan: its logged trial, its crash points, and a check of the recovered state.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fsdyno_crash::{
    AtomicUnit, Cut, CutOutcome, DiskFault, Rate, RecoveryRequest, Replay, Row, acknowledged, cut,
    judge,
};
use fsdyno_filesystem::Guarantee;
use fsdyno_record::job::Task;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::trial_id;
use fsdyno_record::units::counted;
use fsdyno_record::{Build, Job, Nanos, Plan};
use fsdyno_venue::recover::Found;
use fsdyno_venue::{Inputs, LabVenue, LoggedTrial, Venue, VenueError, Watch, logged};
use fsdyno_workload::{Contents, Setting, Workload, workloads};

use super::clock::Clock;
use super::observed::{Done, Observed, StoreRow};
use super::part::divide;
use crate::failure::Failure;
use crate::notes::say;
use crate::speed::Speeds;

/// The settings of crash tests.
pub struct CrashTest<'a> {
    /// The lab.
    pub venue: &'a LabVenue,
    /// Flag that ends a test when set.
    pub stop: &'a Arc<AtomicBool>,
    /// The build of the program, if its commit is known.
    pub build: Option<&'a Build>,
    /// Number of crash points.
    pub cuts: u32,
    /// The fault of the disk.
    pub disk: DiskFault,
    /// The atomic write unit; `None` means the disk's physical sector.
    pub tear: Option<AtomicUnit>,
    /// Number of guests that recover at the same time; `None` means one per processor.
    pub jobs: Option<u16>,
    /// The time left in the command, if it is shown.
    pub clock: Option<&'a Clock>,
}

/// Refuses a plan that cannot be crash-tested, before any work.
///
/// # Errors
/// The reason why it cannot be tested.
pub fn check(plan: &Plan, inputs: &Inputs) -> Result<(), Failure> {
    let cannot =
        |why: String| Failure::invalid_use(format!("{} cannot be crash-tested: {why}", plan.label));
    guarantee_of(plan).map_err(|failure| cannot(failure.message))?;
    if let Some(why) = logged::refusal(plan) {
        return Err(cannot(why));
    }
    let work = workload(plan, &inputs.setting(plan, 1)?)?;
    if plan.workload.input.is_some() && work.recording().is_none() {
        return Err(cannot("its workload reads an input file".into()));
    }
    match fsdyno_crash::refusal(work.as_ref(), plan.ranks()) {
        Some(why) => Err(cannot(format!("workload {}: {why}", plan.workload.name))),
        None => Ok(()),
    }
}

/// Returns the durability guarantees of a plan's file system.
fn guarantee_of(plan: &Plan) -> Result<&'static Guarantee, Failure> {
    let kind = plan.filesystem.as_ref().map_or("", |filesystem| filesystem.kind.as_str());
    Guarantee::of(kind).ok_or_else(|| {
        let known = Guarantee::kinds().collect::<Vec<_>>().join(", ");
        Failure::invalid_use(format!(
            "the durability guarantees of '{kind}' are not known; they are for {known}"
        ))
    })
}

fn workload(plan: &Plan, setting: &Setting) -> Result<Box<dyn Workload>, Failure> {
    let kind = workloads::find(&plan.workload.name)?;
    Ok(kind.build(&plan.workload.params, setting)?)
}

/// Returns the bytes that a workload writes.
fn contents(work: &dyn Workload, seed: u64) -> Contents {
    let mut contents = Contents::new(seed);
    contents.zero_share(work.zeros());
    if work.recording().is_some() { contents.with_classes() } else { contents }
}

/// Returns the number of guests that recover at the same time: as requested, or else one per processor.
pub(super) fn jobs(requested: Option<u16>) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    requested.map_or_else(processors, usize::from)
}

/// Returns the job of a logged trial.
pub fn job(plan: &Plan, seed: u64, deadline: Nanos) -> Job {
    let (trial_id, plan) = (trial_id(plan, seed), plan.clone());
    Job { trial_id, seed, plan, deadline, task: Task::Logged }
}

impl CrashTest<'_> {
    fn watch(&self) -> Watch {
        if self.stop.load(Ordering::Relaxed) { Watch::Stop } else { Watch::GoOn }
    }

    /// Builds the workload of a job.
    fn workload(&self, job: &Job) -> Result<Box<dyn Workload>, Failure> {
        workload(&job.plan, &self.venue.setting(&job.plan, job.seed)?)
    }

    /// Returns the atomic write unit: as requested, else the disk's physical sector.
    pub fn tear(&self, plan: &Plan) -> AtomicUnit {
        self.tear.unwrap_or_else(|| AtomicUnit::of(plan))
    }

    /// Tests one file system: runs the trial, and recovers each crash point.
    ///
    /// # Errors
    /// The reason that the test ended early.
    pub fn row(&self, job: &Job) -> Result<Row, Failure> {
        self.rest_of_row(job, Vec::new(), &|_| Ok(()))
    }

    /// Tests one file system as [`CrashTest::row`] does, except for the crash points of whole batches among the stored
    /// outcomes. Passes the row so far to `store`, from several threads, but one at a time.
    ///
    /// # Errors
    /// The reason that the test ended early; an error of `store`.
    pub fn rest_of_row(
        &self,
        job: &Job,
        stored: Vec<CutOutcome>,
        store: &StoreRow<'_>,
    ) -> Result<Row, Failure> {
        let label = &job.plan.label;
        let lab_id = self.venue.identity(&job.plan)?.map(|identity| identity.lab_id);
        say(&format!(
            "fsdyno: {label}: {} runs with a log of all its writes",
            job.plan.workload.name
        ));
        let logged = self.logged(job)?;
        let cuts = self.cuts_of(job, &logged)?;
        let (kept, left) = divide(&cuts, stored);
        if !kept.is_empty() {
            let (kept, all) = (kept.len(), counted(cuts.len(), "crash point"));
            say(&format!("fsdyno: {label}: {kept} of {all} are stored"));
        }
        let (disk, tear) = (self.disk, self.tear(&job.plan));
        let (rate, build) = (Rate::of(&logged.report), self.build.cloned());
        let row = Row::new(&job.plan, job.seed, disk, rate, Vec::new());
        let row = Row { lab_id, build, atomic_unit: tear, ..row };
        let request = RecoveryRequest { cuts: left, disk, tear, ..RecoveryRequest::default() };
        let outcomes = self.recover_rest(job, &logged, request, (kept, &row, store))?;
        Ok(Row { outcomes, ..row })
    }

    /// Chooses the crash points of a logged trial.
    fn cuts_of(&self, job: &Job, logged: &LoggedTrial) -> Result<Vec<Cut>, Failure> {
        let (bytes, acks) = (logged.bytes()?, logged.acks()?);
        let (work, guarantee) = (self.workload(job)?, guarantee_of(&job.plan)?);
        let acknowledged = acknowledged(work.as_ref(), job.plan.ranks(), guarantee, &acks);
        let cuts = cut::choose(bytes.events(), &acks, &acknowledged, job.seed, self.cuts);
        say(&format!(
            "fsdyno: {}: {} among {} events on the disk; the trial took {:.0} s{}",
            job.plan.label,
            counted(cuts.len(), "crash point"),
            bytes.events().len(),
            logged.time.elapsed.as_secs_f64(),
            self.clock.map(Clock::text).unwrap_or_default()
        ));
        Ok(cuts)
    }

    /// Runs the logged trial.
    ///
    /// # Errors
    /// The reason that it ended early.
    pub fn logged(&self, job: &Job) -> Result<LoggedTrial, VenueError> {
        self.venue.run_logged(job, &mut |_: &Progress| self.watch())
    }

    /// Recovers each crash point's image and judges it.
    ///
    /// # Errors
    /// The reason that it ended early.
    pub fn recover(
        &self,
        job: &Job,
        logged: &LoggedTrial,
        request: RecoveryRequest,
    ) -> Result<Vec<CutOutcome>, Failure> {
        let row = Row::new(&job.plan, job.seed, request.disk, Rate::default(), Vec::new());
        self.recover_rest(job, logged, request, (Vec::new(), &row, &|_| Ok(())))
    }

    /// Recovers and judges the crash points of a request, and adds their outcomes to those of a row.
    fn recover_rest(
        &self,
        job: &Job,
        logged: &LoggedTrial,
        request: RecoveryRequest,
        (outcomes, row, store): (Vec<CutOutcome>, &Row, &StoreRow<'_>),
    ) -> Result<Vec<CutOutcome>, Failure> {
        let (work, acks, kept) = (self.workload(job)?, logged.acks()?, outcomes.len());
        let (contents, guarantee) = (contents(work.as_ref(), job.seed), guarantee_of(&job.plan)?);
        let judge_all = |found: Found| {
            let mut done = Replay::new(work.as_ref(), job.plan.ranks(), guarantee, &acks);
            let judged = found.into_iter().map(|(cut, found)| {
                let tree = done.tree_at(cut.at);
                let findings = judge(&tree, &found, &contents, cut.at);
                CutOutcome::new(cut, &found, findings)
            });
            judged.collect::<Vec<CutOutcome>>()
        };
        let all = kept + request.cuts.len();
        let done = Mutex::new(Done { written: kept, outcomes, failure: None });
        let (stop, clock) = (self.stop.as_ref(), self.clock);
        let (judge, reported) = (&judge_all, AtomicU64::new(0));
        let observer = Observed { stop, clock, row, store, judge, done, kept, all, reported };
        let recovered = match request.cuts.is_empty() {
            true => Ok(Vec::new()),
            false => self.venue.recover(job, logged, request, jobs(self.jobs), &observer),
        };
        let outcomes = observer.end(recovered.is_err())?;
        let ops = logged.report.measured.phases.iter().flat_map(|phase| phase.ops.values());
        let ops = ops.map(|op| op.count).sum();
        Speeds::learn_crash(&job.plan, ops, &logged.time, &recovered?, jobs(self.jobs));
        Ok(outcomes)
    }
}
