//! The host venue: the agent runs as a child process in a new subdirectory of the user's directory, or on
//! devices that are made for it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsdyno_child::{Ended, Process, SharedMailbox};
use fsdyno_media::Directory;
use fsdyno_media::block::Claim;
use fsdyno_record::agent::{HOST_ARGUMENT, Handover, NAME};
use fsdyno_record::mailbox::{Mailbox, Progress, Stage};
use fsdyno_record::plan::MediumPlan;
use fsdyno_record::stages::Stages;
use fsdyno_record::trial::{AgentReport, Host};
use fsdyno_record::{Job, Nanos, Plan};

use crate::commands::text_of;
use crate::error::VenueError;
use crate::input::{InputFile, Inputs};
use crate::venue::{FinishedTrial, Identity, Venue, Watch};
use crate::{clock, device, fingerprint};

/// The polling interval of the mailbox.
const PERIOD: Duration = Duration::from_millis(20);

/// The time beyond the job's deadline after which a child is killed, for its start and its end.
const GRACE: Duration = Duration::from_secs(2);

/// The host venue.
#[derive(Clone, Debug)]
pub struct HostVenue {
    agent: PathBuf,
    inputs: Inputs,
    folder: PathBuf,
    drive: Option<Arc<Claim>>,
}

impl HostVenue {
    /// Creates a venue whose trials are run by `agent`, the file of [`crate::Agent`].
    pub fn new(agent: impl Into<PathBuf>) -> HostVenue {
        let (inputs, folder) = (Inputs::default(), std::env::temp_dir());
        HostVenue { agent: agent.into(), inputs, folder, drive: None }
    }

    /// Sets the folder of the backing files of loop devices [`std::env::temp_dir`].
    pub fn with_folder(self, folder: impl Into<PathBuf>) -> HostVenue {
        HostVenue { folder: folder.into(), ..self }
    }

    /// Sets the input files of workloads.
    pub fn with_inputs(self, inputs: Inputs) -> HostVenue {
        HostVenue { inputs, ..self }
    }

    /// Sets a drive to format; it is released when the venue is dropped.
    pub fn with_drive(self, drive: Claim) -> HostVenue {
        HostVenue { drive: Some(Arc::new(drive)), ..self }
    }

    pub(crate) fn drive(&self) -> Option<&Claim> {
        self.drive.as_deref()
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts an agent with what is handed over, the mailbox, and its input; it inherits `open` too.
    pub(crate) fn start(
        &self,
        shared: &SharedMailbox,
        handover: Handover,
        open: &[BorrowedFd<'_>],
        input: Option<&InputFile>,
    ) -> Result<Process, VenueError> {
        let mailbox = shared.as_fd();
        let input = input.map(|input| input.file().as_fd());
        let handover = Handover {
            mailbox: mailbox.as_raw_fd(),
            input: input.map(|input| input.as_raw_fd()),
            ..handover
        };
        let handover = serde_json::to_string(&handover).map_err(internal_error)?;
        let mut command = Command::new(&self.agent);
        command.arg0(NAME).arg(HOST_ARGUMENT).arg(handover);
        let inherited: Vec<_> =
            [mailbox].into_iter().chain(input).chain(open.iter().copied()).collect();
        Process::start(command, &inherited).map_err(VenueError::io("start the agent"))
    }

    fn run_in_directory(
        &self,
        job: &Job,
        path: &Path,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let input = self.inputs.of(&job.plan.workload)?;
        let directory = Directory::create(path)?;
        let device = self.fingerprint(&job.plan)?.remove("device");
        let shared = SharedMailbox::new().map_err(VenueError::io("make the mailbox"))?;
        let mailbox = shared.mailbox().map_err(internal_error)?;
        let text = text_of(job.for_agent())?;
        mailbox.put_job(&text).map_err(internal_error)?;
        let started = clock::now();
        let begin = Instant::now();
        let root = directory.root();
        let handover = Handover { root: Some(root.as_raw_fd()), ..Handover::default() };
        let mut process = self.start(&shared, handover, &[root], input)?;
        let ended = wait_for_report(&mut process, &mailbox, job, begin, watch);
        process.kill().map_err(VenueError::io("end the agent"))?;
        let mut agent = ended?;
        directory.remove()?;
        agent.report.conditions.device = device.unwrap_or_default();
        let host = agent.host(started, begin);
        Ok(FinishedTrial { report: agent.report, host, identity: None })
    }
}

impl Venue for HostVenue {
    fn identity(&self, plan: &Plan) -> Result<Option<Identity>, VenueError> {
        if plan.medium.is_host_device() {
            device::can_run(self, plan)?;
        }
        Ok(None)
    }

    fn fingerprint(&self, plan: &Plan) -> Result<BTreeMap<String, String>, VenueError> {
        match &plan.medium {
            MediumPlan::Directory { path } => fingerprint::of_directory(Path::new(path)),
            MediumPlan::Loop(_) | MediumPlan::Ram(_) | MediumPlan::Drive { .. } => {
                device::fingerprint(self, &plan.medium)
            }
            MediumPlan::Modelled(_) | MediumPlan::Memory { .. } => Err(wrong_venue()),
        }
    }

    fn run(
        &self,
        job: &Job,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        match &job.plan.medium {
            MediumPlan::Directory { path } => self.run_in_directory(job, Path::new(path), watch),
            MediumPlan::Loop(_) | MediumPlan::Ram(_) | MediumPlan::Drive { .. } => {
                device::run(self, job, watch)
            }
            MediumPlan::Modelled(_) | MediumPlan::Memory { .. } => Err(wrong_venue()),
        }
    }
}

/// An agent that has ended with a report.
pub(crate) struct FinishedAgent {
    /// The report.
    pub report: AgentReport,
    first_op: Option<Duration>,
    ended: Option<Ended>,
    stages: Stages,
}

impl FinishedAgent {
    /// Returns the figures that depend on this host. The agent counts ageing as preparation; here it has its
    /// own account.
    pub fn host(&self, started: String, begin: Instant) -> Host {
        let measured = &self.report.measured;
        let phases: Vec<&str> = measured.phases.iter().map(|it| it.name.as_str()).collect();
        let mut stages = self.stages.by_name(&phases);
        if let Some(age) = measured.setup.and_then(|setup| setup.age_ns) {
            let prepare = stages.entry(Stage::Preparing.account().to_string()).or_default();
            *prepare = Nanos(prepare.0.saturating_sub(age.0));
            stages.insert("age".to_string(), age);
        }
        Host {
            started,
            elapsed_ns: nanos(begin.elapsed()),
            first_op_ns: self.first_op.map(nanos),
            cpu_ns: self.ended.map(|ended| nanos(ended.cpu)),
            stages,
            ..Host::default()
        }
    }
}

/// Waits until an agent has reported and ended.
pub(crate) fn wait_for_report(
    process: &mut Process,
    mailbox: &Mailbox<'_>,
    job: &Job,
    begin: Instant,
    watch: &mut dyn FnMut(&Progress) -> Watch,
) -> Result<FinishedAgent, VenueError> {
    let deadline = Duration::from_nanos(job.deadline.0) + GRACE;
    let mut first_op = None;
    let mut stages = Stages::default();
    loop {
        // Poll for the end first: the mailbox is then complete if the child has ended.
        let ended = process.poll().map_err(VenueError::io("wait for the agent"))?;
        let progress = mailbox.progress();
        stages.observe(&progress, begin.elapsed());
        if progress.stage >= Stage::Running && first_op.is_none() {
            first_op = Some(begin.elapsed());
        }
        match (mailbox.report(), ended) {
            (Some(report), Some(_)) => {
                return Ok(FinishedAgent {
                    report: read_report(&report)?,
                    first_op,
                    ended,
                    stages,
                });
            }
            (None, Some(ended)) => return Err(died(process, ended, progress)),
            _ => {}
        }
        if watch(&progress) == Watch::Stop {
            return Err(VenueError::Stopped);
        }
        if begin.elapsed() > deadline {
            return Err(VenueError::Died(format!(
                "the trial exceeded its deadline of {} at {}",
                job.deadline,
                position(&progress)
            )));
        }
        std::thread::sleep(PERIOD);
    }
}

fn wrong_venue() -> VenueError {
    VenueError::Died("a trial for another venue was given to the host".into())
}

/// Reads the agent's report.
pub(crate) fn read_report(bytes: &[u8]) -> Result<AgentReport, VenueError> {
    serde_json::from_slice(bytes)
        .map_err(|error| VenueError::Died(format!("the agent's report cannot be read: {error}")))
}

fn died(process: &mut Process, ended: Ended, progress: Progress) -> VenueError {
    let how = match (ended.status.signal(), ended.status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal} ({})", signal_name(signal)),
        (None, Some(code)) => format!("ended with code {code} and no report"),
        (None, None) => "ended without a report".to_string(),
    };
    let mut text = format!("the agent {how} at {}", position(&progress));
    let lines = process.last_lines(5);
    if !lines.is_empty() {
        text.push_str("; its last lines: ");
        text.push_str(&lines.join(" | "));
    }
    VenueError::Died(text)
}

/// Describes the progress of a trial in words.
pub(crate) fn position(progress: &Progress) -> String {
    let stage = match progress.stage {
        Stage::Starting => "its start",
        Stage::Ready | Stage::Preparing => "its preparation",
        Stage::Running => {
            return format!(
                "phase {} of {}, after {} of {} ops",
                progress.phase + 1,
                progress.phases,
                progress.ops_done,
                progress.ops_total
            );
        }
        Stage::Gap => "the gap before a phase",
        Stage::Verifying => "verification",
        Stage::Checking => "the file system's check",
        Stage::Done => "its end",
    };
    stage.to_string()
}

/// Returns the name of a signal that may kill a trial.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGKILL => "SIGKILL: killed, possibly out of memory",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGILL => "SIGILL",
        _ => "see signal(7)",
    }
}

pub(crate) fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

pub(crate) fn internal_error(error: impl std::error::Error) -> VenueError {
    VenueError::Died(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use fsdyno_record::job::Task;
    use fsdyno_record::plan::{VenuePlan, VerifyMode, WorkloadPlan};

    use super::*;

    fn job(path: &Path) -> Job {
        let plan = Plan {
            label: "here".into(),
            workload: WorkloadPlan {
                name: "dirops".into(),
                params: Default::default(),
                input: None,
            },
            filesystem: None,
            medium: MediumPlan::Directory { path: path.display().to_string() },
            venue: VenuePlan::Host,
            threads: 1,
            issuer: fsdyno_record::plan::IssuerPlan::Sync,
            verify: VerifyMode::Full,
            sysctls: Default::default(),
            hash: String::new(),
        };
        let (plan, deadline) = (plan.sealed(), Nanos(60_000_000_000));
        Job { trial_id: "t".into(), seed: 1, plan, deadline, task: Task::Whole }
    }

    /// Creates an executable that replaces the agent.
    fn agent(folder: &Path, script: &str) -> HostVenue {
        let path = folder.join("agent");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        HostVenue::new(path)
    }

    fn nothing_left(folder: &Path) -> bool {
        std::fs::read_dir(folder).unwrap().count() == 0
    }

    #[test]
    fn an_agent_that_dies_is_reported_with_its_signal_and_last_lines() {
        let (tools, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let venue = agent(tools.path(), "echo out of luck >&2; kill -SEGV $$");
        let error = venue.run(&job(target.path()), &mut |_| Watch::GoOn).unwrap_err().to_string();
        assert!(error.contains("SIGSEGV") && error.contains("out of luck"), "{error}");
        assert!(nothing_left(target.path()));
    }

    #[test]
    fn a_stopped_trial_is_killed_and_leaves_nothing() {
        let (tools, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let venue = agent(tools.path(), "exec sleep 1000");
        let error = venue.run(&job(target.path()), &mut |_| Watch::Stop).unwrap_err();
        assert!(matches!(error, VenueError::Stopped));
        assert!(nothing_left(target.path()));
    }

    #[test]
    fn an_agent_that_ends_without_a_report_has_failed() {
        let (tools, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let venue = agent(tools.path(), "exit 3");
        let error = venue.run(&job(target.path()), &mut |_| Watch::GoOn).unwrap_err().to_string();
        assert!(error.contains("code 3"), "{error}");
    }
}
