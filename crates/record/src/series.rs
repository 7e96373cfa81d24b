//! A phase over time: how many ops came back in each interval, and what was dirty at its end.
//!
//! Series lie in a side file of the result folder, `series.ndjson`, one line a trial; the trial's own
//! record has figures of whole phases only. In the lab the clock is virtual, and a line is byte for
//! byte the same on every machine, as [`crate::trial::Trial::measured`] is.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// The name of the side file in a result folder.
pub const FILE: &str = "series.ndjson";

/// The series of one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Whose they are: [`crate::trial::Trial::trial_id`].
    pub trial_id: String,
    /// In which lab; none on a host. Two labs may run trials of one identity.
    pub lab_id: Option<String>,
    /// The timed phases, in order; those too short for two intervals are left out.
    pub phases: Vec<PhaseSeries>,
}

/// One phase, from its first op to its durable stamp (else its last), in intervals of one length.
/// All lists that are not empty have one entry for each interval; the last interval may be cut short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSeries {
    /// The phase's name in the workload.
    pub name: String,
    /// Length of an interval.
    pub interval_ns: Nanos,
    /// Ops that came back in each interval, of all threads.
    pub ops: Vec<u64>,
    /// Dirty page cache at the end of each interval, bytes; empty where it cannot be told.
    pub dirty_bytes: Vec<u64>,
    /// Pages under write-back at the end of each interval, bytes; empty where it cannot be told.
    pub writeback_bytes: Vec<u64>,
    /// Bytes the device was asked to write in each interval; empty where it cannot be told.
    pub device_written_bytes: Vec<u64>,
}
