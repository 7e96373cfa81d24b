//! What a recovering guest is told, beside its job, and where it tells what it found.

use fsdyno_record::Nanos;
use serde::{Deserialize, Serialize};

use crate::cut::{Cut, Disk};
use crate::tear::Tear;

/// Where in the region of the log of requests the guest tells what it found: the part of the last
/// disk, of which there is none.
pub const FOUND_AT: u64 = 15 * (512 << 20);
/// How many bytes that may take.
pub const MOST_FOUND: u64 = 512 << 20;
/// Where the records begin, behind a page whose second word says how long they are. Its first stays
/// zero: as a log of requests this part is empty.
pub const RECORDS: u64 = 4096;

/// The images to bring back, in the order of their moments. It stands in the job's text, under
/// `order`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The cuts.
    pub cuts: Vec<Cut>,
    /// What kind of disk it was.
    pub disk: Disk,
    /// Between what its writes are torn.
    #[serde(default)]
    pub tear: Tear,
    /// How the file system is repaired where its check is not clean or it cannot be mounted; empty
    /// where nothing does that.
    pub repair: Vec<String>,
    /// What is tried where it cannot be mounted after that either; empty where there is nothing.
    pub last_resort: Vec<String>,
    /// Virtual nanoseconds after which what a cut left hangs.
    pub deadline: Nanos,
}

/// The part of a job's text that only a recovering guest reads.
#[derive(Debug, Deserialize)]
pub struct Told {
    /// The order.
    pub order: Order,
}
