//! The host venue: the agent runs as a child process in a new subdirectory of the user's directory, or on
//! devices that are created for it.

mod device;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use fsdyno_child::{Process, SharedMailbox};
use fsdyno_media::Directory;
use fsdyno_media::block::Claim;
use fsdyno_record::agent::{self, HOST_ARGUMENT, Handover};
use fsdyno_record::mailbox::Progress;
use fsdyno_record::plan::MediumPlan;
use fsdyno_record::{Job, Plan};

use crate::agent_report::{internal_error, wait_for_report};
use crate::commands::serialize_job;
use crate::error::VenueError;
use crate::input::{InputFile, Inputs};
use crate::venue::{FinishedTrial, Identity, Venue, Watch};
use crate::{clock, fingerprint};

/// The host venue.
#[derive(Clone, Debug)]
pub struct HostVenue {
    agent: PathBuf,
    inputs: Inputs,
    backing_folder: PathBuf,
    drive: Option<Arc<Claim>>,
}

impl HostVenue {
    /// Creates a venue whose trials are run by the executable `agent`, as unpacked by [`crate::Agent`].
    pub fn new(agent: impl Into<PathBuf>) -> HostVenue {
        let (inputs, backing_folder) = (Inputs::default(), std::env::temp_dir());
        HostVenue { agent: agent.into(), inputs, backing_folder, drive: None }
    }

    /// Sets the folder of the backing files of loop devices; the default is [`std::env::temp_dir`].
    pub fn with_backing_folder(self, folder: impl Into<PathBuf>) -> HostVenue {
        HostVenue { backing_folder: folder.into(), ..self }
    }

    /// Sets the input files of workloads.
    pub fn with_inputs(self, inputs: Inputs) -> HostVenue {
        HostVenue { inputs, ..self }
    }

    /// Sets the drive that trials format; it is released when the venue is dropped.
    pub fn with_drive(self, drive: Claim) -> HostVenue {
        HostVenue { drive: Some(Arc::new(drive)), ..self }
    }

    pub(crate) fn drive(&self) -> Option<&Claim> {
        self.drive.as_deref()
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    pub(crate) fn backing_folder(&self) -> &Path {
        &self.backing_folder
    }

    /// Starts an agent with the handover, the mailbox, and its input; the agent also inherits the descriptors
    /// `inherited`.
    pub(crate) fn start(
        &self,
        shared: &SharedMailbox,
        handover: Handover,
        inherited: &[BorrowedFd<'_>],
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
        command.arg0(agent::NAME).arg(HOST_ARGUMENT).arg(handover);
        let inherited: Vec<_> =
            [mailbox].into_iter().chain(input).chain(inherited.iter().copied()).collect();
        Process::start(command, &inherited).map_err(VenueError::io("start the agent", &self.agent))
    }

    fn run_in_directory(
        &self,
        job: &Job,
        path: &Path,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let input = self.inputs.for_workload(&job.plan.workload)?;
        let directory = Directory::create(path)?;
        let device = self.fingerprint(&job.plan)?.remove("device");
        let shared =
            SharedMailbox::new().map_err(VenueError::io_without_path("create the mailbox"))?;
        let mailbox = shared.mailbox().map_err(internal_error)?;
        let text = serialize_job(job.for_agent())?;
        mailbox.write_job(&text).map_err(internal_error)?;
        let started_at = clock::now();
        let start = Instant::now();
        let root = directory.root();
        let handover = Handover { root: Some(root.as_raw_fd()), ..Handover::default() };
        let mut process = self.start(&shared, handover, &[root], input)?;
        let result = wait_for_report(&mut process, &mailbox, job, start, watch);
        process.kill().map_err(VenueError::io_without_path("kill the agent"))?;
        let mut finished = result?;
        directory.remove()?;
        finished.report.conditions.device = device.unwrap_or_default();
        let host = finished.host(started_at, start);
        Ok(FinishedTrial { report: finished.report, host, identity: None })
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

fn wrong_venue() -> VenueError {
    VenueError::Failed("a trial for another venue was given to the host".into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use fsdyno_record::Nanos;
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
        let (plan, deadline) = (plan.with_hash(), Nanos(60_000_000_000));
        Job { trial_id: "t".into(), seed: 1, plan, deadline, task: Task::Whole }
    }

    /// Returns a venue whose agent is a shell script.
    fn venue_with_agent(folder: &Path, script: &str) -> HostVenue {
        let path = folder.join("agent");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        HostVenue::new(path)
    }

    fn is_empty(folder: &Path) -> bool {
        std::fs::read_dir(folder).unwrap().count() == 0
    }

    #[test]
    fn an_agent_that_dies_is_reported_with_its_signal_and_last_lines() {
        let (tools, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let venue = venue_with_agent(tools.path(), "echo out of luck >&2; kill -SEGV $$");
        let error = venue.run(&job(target.path()), &mut |_| Watch::GoOn).unwrap_err().to_string();
        assert!(error.contains("SIGSEGV") && error.contains("out of luck"), "{error}");
        assert!(is_empty(target.path()));
    }

    #[test]
    fn a_stopped_trial_is_killed_and_leaves_nothing() {
        let (tools, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let venue = venue_with_agent(tools.path(), "exec sleep 1000");
        let error = venue.run(&job(target.path()), &mut |_| Watch::Stop).unwrap_err();
        assert!(matches!(error, VenueError::Stopped));
        assert!(is_empty(target.path()));
    }

    #[test]
    fn an_agent_that_ends_without_a_report_has_failed() {
        let (tools, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let venue = venue_with_agent(tools.path(), "exit 3");
        let error = venue.run(&job(target.path()), &mut |_| Watch::GoOn).unwrap_err().to_string();
        assert!(error.contains("code 3"), "{error}");
    }
}
