//! A group of processes as a venue: a trial runs in a new subdirectory of a directory that all their hosts share.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fsdyno_media::Directory;
use fsdyno_ranks::{Group, GroupError, Trial, TrialInput};
use fsdyno_record::mailbox::Progress;
use fsdyno_record::mount_table::{CLIENT_CACHE, MountLine};
use fsdyno_record::plan::MediumPlan;
use fsdyno_record::shell::quote;
use fsdyno_record::trial::{AgentReport, Host};
use fsdyno_record::units::counted;
use fsdyno_record::{Job, Nanos, Plan, mount_table};

use crate::agent_report::nanos;
use crate::error::VenueError;
use crate::input::{InputFile, Inputs};
use crate::venue::{FinishedTrial, Identity, Venue, Watch};
use crate::{clock, fingerprint};

/// The venue of a group of processes.
#[derive(Clone, Debug)]
pub struct RanksVenue {
    group: Arc<Group>,
    inputs: Inputs,
}

impl RanksVenue {
    /// Creates a venue for a group whose ranks have all connected.
    pub fn new(group: Arc<Group>) -> RanksVenue {
        RanksVenue { group, inputs: Inputs::default() }
    }

    /// Sets the input files of the workloads, which the ranks receive from this process.
    #[must_use]
    pub fn with_inputs(self, inputs: Inputs) -> RanksVenue {
        RanksVenue { inputs, ..self }
    }

    /// Removes the directory of a trial, unless its mount may hang.
    ///
    /// # Errors
    /// A sentence with the path that remains, and the reason.
    fn remove(&self, directory: Directory, plan: &Plan) -> Result<(), String> {
        let (path, target) = (directory.path().to_path_buf(), self::directory(plan).ok());
        let reason = match self.group.own_mount_hangs() {
            true => {
                directory.leave();
                "its mount may hang".to_string()
            }
            false => match directory.remove() {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            },
        };
        Err(format!(
            "'{}' remains ({reason}); when all ranks have ended, remove it with: fsdyno doctor --clean {}",
            path.display(),
            quote(&target.unwrap_or(&path).to_string_lossy())
        ))
    }

    fn describe(&self, report: &mut AgentReport, mount: Option<mount_table::MountLine>) {
        let conditions = &mut report.conditions;
        (conditions.mount, conditions.device) =
            mount.map(|line| (line.type_and_options(), line.source)).unwrap_or_default();
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        conditions.kernel = format!("{} {}", text(uname.release()), text(uname.version()));
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        conditions.cpu = model.map(|(_, name)| name.trim().to_string()).unwrap_or_default();
        let hosts: Vec<String> =
            self.group.hosts().iter().map(|(host, ranks)| format!("{host} ({ranks})")).collect();
        conditions.notes.push(format!(
            "{} on {}; kernel, CPU and mount are those of rank 0's host; times are from its clock",
            counted(self.group.ranks() as usize, "rank"),
            hosts.join(", ")
        ));
    }
}

impl Venue for RanksVenue {
    fn identity(&self, _: &Plan) -> Result<Option<Identity>, VenueError> {
        Ok(None)
    }

    fn fingerprint(&self, plan: &Plan) -> Result<BTreeMap<String, String>, VenueError> {
        fingerprint::of_directory(directory(plan)?)
    }

    fn run(
        &self,
        job: &Job,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let (started_at, start) = (clock::now(), Instant::now());
        let input = self.inputs.for_workload(&job.plan.workload)?;
        let directory = Directory::create(directory(&job.plan)?)?;
        let mount = mount_table::mount_of_file(directory.root().as_fd());
        let mount = mount.map_err(VenueError::io("read", Path::new("/proc/self/mountinfo")))?;
        let name = directory.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_network = mount.as_ref().is_some_and(MountLine::is_network);
        let trial = Trial {
            job,
            folder: format!("{name}/{}", fsdyno_media::TREE),
            root: directory.root(),
            input: input.map(trial_input),
            settle: if is_network { nanos(CLIENT_CACHE) } else { Nanos(0) },
        };
        let mut keep_running = |progress: &Progress| watch(progress) == Watch::GoOn;
        let result = self.group.run(&trial, &mut keep_running);
        let removed = self.remove(directory, &job.plan);
        let mut report = match result {
            Ok(report) => report,
            Err(GroupError::Stopped) => return Err(VenueError::Stopped),
            Err(error) => return Err(VenueError::Failed(error.to_string())),
        };
        // The reason for the failure of the trial comes first, then the path that could not be removed.
        match (&mut report.reason, removed) {
            (_, Ok(())) => {}
            (None, Err(remaining)) => return Err(VenueError::Failed(remaining)),
            (Some(reason), Err(remaining)) => *reason = format!("{reason}; {remaining}"),
        }
        self.describe(&mut report, mount);
        let host =
            Host { started: started_at, elapsed_ns: nanos(start.elapsed()), ..Host::default() };
        Ok(FinishedTrial { report, host, identity: None })
    }
}

fn trial_input(file: &InputFile) -> TrialInput<'_> {
    TrialInput { sha256: file.sha256(), input: file.input(), file: file.file() }
}

fn directory(plan: &Plan) -> Result<&Path, VenueError> {
    match &plan.medium {
        MediumPlan::Directory { path } => Ok(Path::new(path)),
        _ => Err(VenueError::Failed("a trial for another venue was given to the ranks".into())),
    }
}
