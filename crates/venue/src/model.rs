//! The model of ext2 directories of 2001: trials run in this process, in virtual time, without a
//! kernel.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use fsdyno_disk::{DiskSpec, partition};
use fsdyno_ext2dir::trial::{self, REVISION, Setting};
use fsdyno_record::canonical::sha256_hex;
use fsdyno_record::mailbox::{Progress, Stage};
use fsdyno_record::plan::VenuePlan;
use fsdyno_record::trial::Host;
use fsdyno_record::{Job, Nanos, Plan};
use fsdyno_workload::{Workload, workloads};

use crate::agent_report::nanos;
use crate::clock;
use crate::error::VenueError;
use crate::venue::{FinishedTrial, Identity, Venue, Watch};

/// The model venue. It has no state: each trial creates its own volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelVenue;

fn to_error(error: impl std::fmt::Display) -> VenueError {
    VenueError::Failed(error.to_string())
}

impl Venue for ModelVenue {
    /// Returns the hash of the program only: the plan already identifies the disk, and the trial its seed.
    fn identity(&self, _plan: &Plan) -> Result<Option<Identity>, VenueError> {
        let model = format!("ext2 directories, revision {REVISION}");
        let components = BTreeMap::from([
            ("model".to_string(), model),
            ("program".to_string(), program_hash()?.to_string()),
        ]);
        let text = serde_json::to_vec(&components).map_err(to_error)?;
        Ok(Some(Identity { lab_id: sha256_hex(&text), components }))
    }

    fn run(
        &self,
        job: &Job,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError> {
        let plan = &job.plan;
        let (VenuePlan::Model { block_size }, Some(modelled)) =
            (&plan.venue, plan.medium.modelled())
        else {
            return Err(to_error("a plan for another medium was given to the model"));
        };
        let kind = plan.filesystem.as_ref().map_or("", |filesystem| filesystem.kind.as_str());
        let variant = trial::variant(kind).ok_or_else(|| to_error(format!("no model '{kind}'")))?;
        let disk = DiskSpec::from_json(&modelled.disk.spec).map_err(to_error)?;
        let partition = partition::place(&disk, modelled.size, job.seed).map_err(to_error)?;
        let workload = workloads::find(&plan.workload.name)
            .map_err(to_error)?
            .build(&plan.workload.params, &fsdyno_workload::Setting::seed(job.seed))
            .map_err(to_error)?;
        let (phases, ops_total) = phase_and_op_counts(workload.as_ref());
        let (started_at, start) = (clock::now(), Instant::now());
        let progress = |phase, ops_done| Progress {
            stage: Stage::Running,
            phase,
            phases,
            ops_done,
            ops_total,
            now: Nanos(0),
            requests: 0,
        };
        let block_size = u64::from(*block_size);
        let setting = Setting { variant, disk: &disk, partition, block_size };
        let report = trial::run(job, workload.as_ref(), setting, &mut |phase, ops| {
            watch(&progress(phase, ops)) == Watch::GoOn
        });
        let report = report.ok_or(VenueError::Stopped)?;
        let elapsed_ns = nanos(start.elapsed());
        let host = Host { started: started_at, elapsed_ns, ..Host::default() };
        Ok(FinishedTrial { report, host, identity: self.identity(plan)? })
    }
}

/// Returns the hash of this program, which contains the disk model, the workload generator and the draws from the seed.
fn program_hash() -> Result<&'static str, VenueError> {
    static HASH: OnceLock<String> = OnceLock::new();
    if let Some(hash) = HASH.get() {
        return Ok(hash);
    }
    let bytes = fsdyno_lab::program_bytes(Path::new("/proc/self/exe")).map_err(to_error)?;
    Ok(HASH.get_or_init(|| sha256_hex(&bytes)))
}

/// Returns the numbers of phases and ops.
fn phase_and_op_counts(workload: &dyn Workload) -> (u64, u64) {
    let phases = workload.phases().len();
    let ops = (0..phases).flat_map(|phase| workload.counts(phase, 1).into_values()).sum();
    (phases as u64, ops)
}
