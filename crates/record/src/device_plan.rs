//! Devices of this host that a trial formats.

use serde::{Deserialize, Serialize};

use crate::lab_plan::RaidPlan;
use crate::units::Bytes;

/// Devices of this host that are formatted anew for every trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePlan {
    /// The device in the syntax of `--on`: `loop:8G`, `ram:512M`, or the path of a disk.
    pub on: String,
    /// The array over several such devices, if any; the array then has the size given
    /// in `on`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidPlan>,
    /// Size of another such device for a journal or log (`{journal}` in a file system's spec), if
    /// any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_size: Option<Bytes>,
}

impl DevicePlan {
    /// Number of devices that the file system itself lies on.
    pub fn data_disks(&self) -> u32 {
        self.raid.map_or(1, |raid| raid.disks)
    }
}
