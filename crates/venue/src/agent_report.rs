//! Waits for an agent, and reads its report.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use fsdyno_child::{Process, ProcessOutcome};
use fsdyno_record::mailbox::{Mailbox, Progress, Stage};
use fsdyno_record::stages::Stages;
use fsdyno_record::trial::{AgentReport, Host};
use fsdyno_record::{Job, Nanos};

use crate::error::VenueError;
use crate::venue::Watch;

/// The polling interval of the mailbox.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time beyond the job's deadline, for the start and end of the child, after which the child is killed.
const GRACE: Duration = Duration::from_secs(2);

/// An agent that has ended with a report.
pub(crate) struct FinishedAgent {
    /// The report.
    pub report: AgentReport,
    first_op: Option<Duration>,
    ended: Option<ProcessOutcome>,
    stages: Stages,
}

impl FinishedAgent {
    /// Returns the values that depend on this host. The agent counts ageing as preparation; here it is a
    /// separate stage.
    pub fn host(&self, started: String, begin: Instant) -> Host {
        let measured = &self.report.measured;
        let phases: Vec<&str> = measured.phases.iter().map(|phase| phase.name.as_str()).collect();
        let mut stages = self.stages.by_name(&phases);
        if let Some(age) = measured.setup.and_then(|setup| setup.age_ns) {
            let prepare = stages.entry(Stage::Preparing.host_time_key().to_string()).or_default();
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
        // Poll for the end first: if the child has ended, the mailbox is then complete.
        let ended = process.poll().map_err(VenueError::io_without_path("wait for the agent"))?;
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
            (None, Some(ended)) => return Err(death_error(process, ended, progress)),
            _ => {}
        }
        if watch(&progress) == Watch::Stop {
            return Err(VenueError::Stopped);
        }
        if begin.elapsed() > deadline {
            return Err(VenueError::Failed(format!(
                "the trial exceeded its deadline of {} during {}",
                job.deadline,
                position(&progress)
            )));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Reads the agent's report.
pub(crate) fn read_report(bytes: &[u8]) -> Result<AgentReport, VenueError> {
    serde_json::from_slice(bytes)
        .map_err(|error| VenueError::Failed(format!("failed to read the agent's report: {error}")))
}

fn death_error(process: &mut Process, outcome: ProcessOutcome, progress: Progress) -> VenueError {
    let ending = match (outcome.status.signal(), outcome.status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal} ({})", signal_name(signal)),
        (None, Some(code)) => format!("ended with code {code} and no report"),
        (None, None) => "ended without a report".to_string(),
    };
    let mut text = format!("the agent {ending} at {}", position(&progress));
    let lines = process.last_lines(5);
    if !lines.is_empty() {
        text.push_str("; its last lines: ");
        text.push_str(&lines.join(" | "));
    }
    VenueError::Failed(text)
}

/// Describes the progress of a trial as text.
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
    VenueError::Failed(error.to_string())
}
