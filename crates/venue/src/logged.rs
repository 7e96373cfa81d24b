//! A logged trial in the lab: a log of the bytes written and of the return time of each op.
//!
//! It is a separate run: logging uses CPU time in the guest, so the times of this run differ slightly
//! from those of the measured trial.

use std::fs::File;
use std::sync::Arc;

use fsdyno_disk::log::data::{self, DataLog};
use fsdyno_disk::store::Memory;
use fsdyno_lab::{Attach, DiskRegion};
use fsdyno_record::acks::{self, Acks};
use fsdyno_record::job::Task;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::plan::IssuerPlan;
use fsdyno_record::trial::{AgentReport, Outcome};
use fsdyno_record::{Bytes, Job, Plan};

use crate::agent_report::read_report;
use crate::commands::serialize_job;
use crate::error::{VenueError, from_run};
use crate::guest_time::GuestTime;
use crate::lab::LabVenue;
use crate::lab_plan::{disk_of, not_a_lab};
use crate::region::Region;
use crate::venue::Watch;

/// A logged trial that has ended.
#[derive(Debug)]
pub struct LoggedTrial {
    /// The agent's report, without a check of the file system.
    pub report: AgentReport,
    /// The log of bytes, followed by the log of ops, in a PCI region.
    pub region: Arc<File>,
    /// The request log.
    pub requests: Option<File>,
    /// The disk's contents at the end.
    pub disk: File,
    /// The host time of the trial.
    pub time: GuestTime,
}

/// Returns the reason why a plan cannot be logged; `None` if it can.
pub fn refusal(plan: &Plan) -> Option<String> {
    let Some(lab) = plan.lab() else {
        return Some("bytes are logged only in the lab".into());
    };
    let Some(disk) = plan.medium.disk() else {
        return Some("it is in memory, which a power cut erases".into());
    };
    if plan.medium.disks() > 1 {
        return Some("bytes are logged for one disk only (not with --raid or {journal})".into());
    }
    if !lab.accel.is_exact() {
        return Some("bytes are logged only in virtual time (--accel tcg)".into());
    }
    if disk_of(disk).is_ok_and(|disk| disk.attach == fsdyno_disk::Attach::Pmem) {
        return Some(format!(
            "the disk '{}' is persistent memory, which has no write cache and no server that could log its bytes; \
             use another --disk",
            disk.name
        ));
    }
    (plan.issuer != IssuerPlan::Sync).then(|| "ops are logged with --issuer sync only".into())
}

impl LabVenue {
    /// Runs a trial and logs its bytes and ops. A failed trial is an error.
    ///
    /// # Errors
    /// Those of [`crate::Venue::run`]; the reason given by [`refusal`]; a log that is too small.
    pub fn run_logged(
        &self,
        job: &Job,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<LoggedTrial, VenueError> {
        if let Some(refusal) = refusal(&job.plan) {
            return Err(VenueError::Failed(refusal));
        }
        let guest = self.guest(&job.plan)?;
        let mut machine = self.machine(&job.plan)?;
        machine.disks.push(DiskRegion { region: Bytes(data::REGION), attach: Attach::Nbd });
        let job_text = serialize_job(Job { task: Task::Logged, ..job.for_agent() })?;
        let mut finished = guest.run(&machine, &job_text, watch).map_err(from_run)?;
        let report = read_report(&finished.report)?;
        if report.outcome != Outcome::Ok {
            let reason = report.reason.unwrap_or_default();
            return Err(VenueError::Failed(format!("the trial failed: {reason}")));
        }
        let time = GuestTime::from(&finished);
        let (region, disk) = (finished.disks.pop(), finished.disks.pop());
        let (Some(region), Some(disk)) = (region, disk) else { return Err(not_a_lab()) };
        let logged =
            LoggedTrial { report, region: Arc::new(region), requests: finished.log, disk, time };
        let lost = logged.bytes()?.lost_events();
        if lost > 0 {
            return Err(VenueError::Failed(format!(
                "the trial wrote more than the {} that the log of bytes holds ({lost} events \
                 were lost); use fewer or smaller files",
                Bytes(data::SIZE)
            )));
        }
        Ok(logged)
    }
}

impl LoggedTrial {
    /// Opens the log of bytes.
    ///
    /// # Errors
    /// The log is damaged.
    pub fn bytes(&self) -> Result<DataLog<Region>, VenueError> {
        DataLog::open(self.open()?).map_err(damaged)
    }

    /// Reads the return time of each op.
    ///
    /// # Errors
    /// The log is damaged.
    pub fn acks(&self) -> Result<Acks, VenueError> {
        let mut region = self.open()?;
        let mut read_words = |from: usize, count: usize| {
            let bytes = region.slice(acks::OFFSET + from as u64 * 8, count * 8);
            let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
            bytes.chunks_exact(8).map(word).collect()
        };
        acks::parse(&mut read_words).map_err(damaged)
    }

    fn open(&self) -> Result<Region, VenueError> {
        Region::open(&self.region).map_err(VenueError::io_without_path("open the log of bytes"))
    }
}

fn damaged(reason: &str) -> VenueError {
    VenueError::Failed(format!("failed to read the log of a logged trial: {reason}"))
}
