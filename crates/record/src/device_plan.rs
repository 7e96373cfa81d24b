//! What a trial on devices of this host is laid on.

use serde::{Deserialize, Serialize};

use crate::lab_plan::RaidPlan;
use crate::units::Bytes;

/// Devices of this host that are formatted anew for every trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePlan {
    /// As `--on` takes it: `loop:8G`, `ram:512M`, or the path of a disk.
    pub on: String,
    /// How several such devices are put together, where there are several; together they then have
    /// the size that `on` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidPlan>,
    /// Size of another such device for a journal or log (`{journal}` in a file system's spec), where
    /// there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_size: Option<Bytes>,
}

impl DevicePlan {
    /// How many devices the file system itself lies on.
    pub fn data_disks(&self) -> u32 {
        self.raid.map_or(1, |raid| raid.disks)
    }
}
