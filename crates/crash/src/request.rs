//! The recovery request, which a recovering guest receives in its job, and the location of the guest's results.

use fsdyno_record::Nanos;
use serde::{Deserialize, Serialize};

use crate::atomic_unit::AtomicUnit;
use crate::cut::{Cut, DiskFault};

/// Offset of the guest's results in the region of the request log: the share of the sixteenth disk, which no
/// guest has.
pub const RESULTS_OFFSET: u64 = 15 * (512 << 20);
/// Maximum size of the results in bytes.
pub const RESULTS_MAX: u64 = 512 << 20;
/// Offset of the records, after a page whose second word holds their length. Its first word stays zero, which marks
/// this share as an empty request log.
pub const RECORDS: u64 = 4096;

/// The images to recover, ordered by moment. Stored in the job under `order`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryRequest {
    /// The cuts.
    pub cuts: Vec<Cut>,
    /// Fault of the disk.
    pub disk: DiskFault,
    /// Atomic write unit of the disk.
    #[serde(default)]
    pub tear: AtomicUnit,
    /// Repair command for when the check reports errors or the mount fails, or empty if there is none.
    pub repair: Vec<String>,
    /// Command to try if the mount fails even after the repair, or empty if there is none.
    pub last_resort: Vec<String>,
    /// Virtual time after which a recovery counts as hung.
    pub deadline: Nanos,
}

/// The part of a job that only a recovering guest reads.
#[derive(Debug, Deserialize)]
pub struct RecoveryJob {
    /// The request.
    pub order: RecoveryRequest,
}
