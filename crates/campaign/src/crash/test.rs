//! The crash test of one plan: its logged trial, its crash points, and a check of the recovered state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fsdyno_crash::{
    AtomicUnit, CutOutcome, DiskFault, Rate, RecoveryRequest, Replay, Row, acknowledged, cut, judge,
};
use fsdyno_filesystem::Guarantee;
use fsdyno_record::job::Task;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::trial_id;
use fsdyno_record::units::counted;
use fsdyno_record::{Build, Job, Nanos, Plan};
use fsdyno_venue::{Inputs, LabVenue, LoggedTrial, Venue, VenueError, Watch, logged};
use fsdyno_workload::{Contents, Setting, Workload, workloads};

use crate::failure::Failure;
use crate::notes::say;

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
        let label = &job.plan.label;
        let lab_id = self.venue.identity(&job.plan)?.map(|identity| identity.lab_id);
        say(&format!(
            "fsdyno: {label}: {} runs with a log of all its writes",
            job.plan.workload.name
        ));
        let logged = self.logged(job)?;
        let (bytes, acks) = (logged.bytes()?, logged.acks()?);
        let (work, guarantee) = (self.workload(job)?, guarantee_of(&job.plan)?);
        let acknowledged = acknowledged(work.as_ref(), job.plan.ranks(), guarantee, &acks);
        let cuts = cut::choose(bytes.events(), &acks, &acknowledged, job.seed, self.cuts);
        say(&format!(
            "fsdyno: {label}: {} among {} events on the disk; the trial took {:.0} s",
            counted(cuts.len(), "crash point"),
            bytes.events().len(),
            logged.elapsed.as_secs_f64()
        ));
        drop(bytes);
        let (disk, tear) = (self.disk, self.tear(&job.plan));
        let request = RecoveryRequest { cuts, disk, tear, ..RecoveryRequest::default() };
        let outcomes = self.recover(job, &logged, request)?;
        let rate = Rate::of(&logged.report);
        let build = self.build.cloned();
        let row = Row::new(&job.plan, job.seed, disk, rate, outcomes);
        Ok(Row { lab_id, build, atomic_unit: tear, ..row })
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
        let (label, all) = (&job.plan.label, request.cuts.len() as u64);
        let reported = AtomicU64::new(0);
        let watch = |done: u64| {
            // Reports progress once for each tenth of the crash points.
            let part = done * 10 / all.max(1);
            if part > reported.fetch_max(part, Ordering::Relaxed) && done < all {
                say(&format!("fsdyno: {label}: {done} of {all} crash points"));
            }
            self.watch()
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map_or(processors, usize::from);
        let found = self.venue.recover(job, logged, request, jobs, &watch)?;
        let work = self.workload(job)?;
        let (acks, contents) = (logged.acks()?, contents(work.as_ref(), job.seed));
        let guarantee = guarantee_of(&job.plan)?;
        let mut done = Replay::new(work.as_ref(), job.plan.ranks(), guarantee, &acks);
        let judged = found.into_iter().map(|(cut, found)| {
            let tree = done.tree_at(cut.at);
            let findings = judge(&tree, &found, &contents, cut.at);
            CutOutcome::new(cut, &found, findings)
        });
        Ok(judged.collect())
    }
}
