//! The conditions of a trial, as read back from the system.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::reports::ReplayReport;
use crate::age::Aged;
use crate::units::Bytes;

/// Conditions needed to repeat a trial, read back from the system, not taken from the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conditions {
    /// `lab`, `host`, `model` or `ranks`.
    pub venue: String,
    /// `uname -r` and `-v` where the ops ran.
    pub kernel: String,
    /// The CPU's name where the ops ran.
    pub cpu: String,
    /// The argv of mkfs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mkfs: Vec<String>,
    /// Last lines of the output of mkfs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mkfs_output: Vec<String>,
    /// Result of ageing, if the file system was aged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aged: Option<Aged>,
    /// Type and options of the mount in effect, from /proc/self/mountinfo.
    pub mount: String,
    /// Type and options of the lower file system's mount, if stacked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub below: String,
    /// The mounted device, as the kernel names it, or empty in the lab, whose disk is in the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// The argv of commands run before mkfs: those that assembled an array or made an external
    /// journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before_mkfs: Vec<Vec<String>>,
    /// The md array under the file system, as mdadm and the kernel describe it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub array: BTreeMap<String, String>,
    /// The modelled disks by the kernel's names for them, if there are several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disks: BTreeMap<String, DiskConditions>,
    /// Features in effect, read back from the file system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub features: BTreeMap<String, String>,
    /// Version line of each tool, by the tool's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// Block-queue settings in effect for the device of the file system (a disk or an
    /// array), as /sys/block names them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue: BTreeMap<String, String>,
    /// Sysctls for write-back and caches, as in effect.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Start of the partition on the modelled disk, if there is one disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_start: Option<Bytes>,
    /// Size of the device of the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_size: Option<Bytes>,
    /// Fidelity of a replay, or null for other workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayReport>,
    /// Memory that can cache files at the start of the first phase: free, plus page cache.
    pub cacheable_memory: Bytes,
    /// True if a process served the file system (FUSE), not the kernel: it is no evidence for a claim
    /// about a kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub userspace: bool,
    /// Notes for the reader, in sentences: requests that could not be fulfilled here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Settings whose value in effect differs from the plan's, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_in_effect: Vec<String>,
}

/// One of several modelled disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskConditions {
    /// Name in the catalog, or name of the profile's file.
    pub disk: String,
    /// Role of the disk.
    pub role: DiskRole,
    /// Start of the partition on it.
    pub partition_start: Bytes,
    /// Size of that partition.
    pub size: Bytes,
    /// Block-queue settings in effect.
    pub queue: BTreeMap<String, String>,
}

/// The role of a modelled disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiskRole {
    /// It holds the file system.
    Data,
    /// A member of the array that holds the file system.
    Member,
    /// It holds the file system's journal or log.
    Journal,
}
