//! The parts that a plan for the lab must have.

use fsdyno_disk::DiskSpec;
use fsdyno_record::plan::DiskPlan;
use fsdyno_record::{Bytes, Plan};
use fsdyno_workload::workloads;

use crate::error::VenueError;
use crate::input::Inputs;

/// Parses a disk of a plan.
pub(crate) fn disk_of(disk: &DiskPlan) -> Result<DiskSpec, VenueError> {
    DiskSpec::from_json(&disk.spec).map_err(|error| {
        VenueError::Failed(format!("the disk '{}' is not valid: {error}", disk.name))
    })
}

pub(crate) fn not_a_lab() -> VenueError {
    VenueError::Failed("a plan for another medium was given to the lab".into())
}

/// The number of bytes of a modelled disk that can be stored, unless the workload needs more. The region in the guest's
/// address space is then 16 GiB, including its index, and its backing file is sparse.
const DEFAULT_STORED: Bytes = Bytes(14 << 30);

/// Returns the maximum stored size of each disk: twice the bytes that the workload writes, which leaves space for
/// journals and copy-on-write. A disk of an array gets its share.
pub(crate) fn stored_limit(plan: &Plan, inputs: &Inputs) -> Result<Bytes, VenueError> {
    let to_error = |error: String| VenueError::Failed(error);
    let kind = workloads::find(&plan.workload.name).map_err(|error| to_error(error.to_string()))?;
    let workload = kind
        .build(&plan.workload.params, &inputs.setting(plan, 0)?)
        .map_err(|error| to_error(error.to_string()))?;
    let half_disks = plan.medium.raid().map_or(2, |raid| raid.capacity_in_half_disks());
    let doubled = workload.stored().0.saturating_mul(2);
    let doubled = doubled.saturating_mul(2) / half_disks;
    let mut limit = DEFAULT_STORED.0;
    while limit < doubled {
        limit *= 2;
    }
    Ok(Bytes(limit))
}
