//! The file system of a plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::age::AgePlan;

/// The name of NFS in the catalog.
pub const NFS: &str = "nfs";

/// The name of SMB in the catalog.
pub const SMB: &str = "smb";

/// The file systems by which clients share one of a server over a network.
pub const SHARED: &[&str] = &[NFS, SMB];

/// The commands and options to create, mount, inspect and check a file system.
///
/// In every argv the agent replaces `{device}`, `{journal}`, `{uuid}`, `{hash_seed}`, `{volume_id}` and
/// `{uuid:NAME}`; identifiers come from the seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilesystemPlan {
    /// Name in the catalog.
    pub kind: String,
    /// The file system as the user requested it, without the label.
    pub spec: String,
    /// The mkfs command, or empty if nothing is made.
    pub mkfs: Vec<String>,
    /// Environment of mkfs and check, in addition to `PATH`.
    pub env: BTreeMap<String, String>,
    /// Type argument of mount(2).
    pub mount_type: String,
    /// Options of mount(2), comma-separated, as mount(8) takes them after `-o`.
    pub mount_options: String,
    /// The read-only check, or empty if there is none.
    pub check: Vec<String>,
    /// Exit codes of the check that mean "clean".
    pub check_clean: Vec<i32>,
    /// A command that prints the features in effect, or empty if mkfs prints them.
    pub features: Vec<String>,
    /// Lines of that output to store: those with one of these keys before the colon or `=`.
    pub feature_keys: Vec<String>,
    /// Kernel modules to load, before their dependencies are resolved.
    pub modules: Vec<String>,
    /// The commands for a journal or log on a second disk, if the spec puts it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<OuterJournalPlan>,
    /// Ageing after the first mount, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<AgePlan>,
    /// Features that no tool prints, read from the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_words: Vec<FeatureWord>,
    /// Features whose product is the size in bytes of the journal in use, or empty without a journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journal_bytes: Vec<String>,
    /// The period whose settings apply unless the user overrides them (`--period`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// A command that mounts it instead of mount(2) and leaves a process that serves it
    /// (FUSE); `{mount}` is the mount point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_command: Vec<String>,
    /// The pool that is imported before mount(2) and is its source, if it is mounted from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolPlan>,
    /// The lower file system, if this one is stacked on another. All commands above then apply to the lower one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<BelowPlan>,
    /// True if mkfs is followed by an untimed mount and unmount, because the very first mount does work
    /// that no later one does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settles: bool,
}

impl FilesystemPlan {
    /// Returns the catalog name of the file system that is made: the lower one, if stacked.
    pub fn made_kind(&self) -> &str {
        self.below.as_ref().map_or(&self.kind, |below| &below.kind)
    }

    /// Returns true if a process serves it instead of the kernel.
    pub fn in_user_space(&self) -> bool {
        !self.mount_command.is_empty()
    }

    /// Returns true if clients mount it over a network from a server that made it.
    pub fn is_shared(&self) -> bool {
        SHARED.contains(&self.kind.as_str()) && self.below.is_some()
    }

    /// Returns true if there is no file system and the device itself is the workload's single file.
    pub fn is_raw(&self) -> bool {
        self.mount_type.is_empty() && self.kind == "raw"
    }
}

/// A pool on the device, from which a file system is mounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PoolPlan {
    /// Its name, the source argument of mount(2).
    pub name: String,
    /// The command that imports it, before each mount.
    pub import: Vec<String>,
    /// The command that exports it, after mkfs and each unmount.
    pub export: Vec<String>,
}

/// A lower file system, made and mounted below another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BelowPlan {
    /// Name in the catalog.
    pub kind: String,
    /// Type argument of mount(2).
    pub mount_type: String,
    /// Options of mount(2), comma-separated.
    pub mount_options: String,
}

/// A number at a fixed offset of a file system's device, little-endian.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FeatureWord {
    /// Name of the feature.
    pub key: String,
    /// Offset in bytes.
    pub at: u64,
    /// Number of bits, counted from the lowest; 32 at most.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 32)))]
    pub bits: u32,
}

/// The commands for a journal or log on a second disk; `{journal}` is that disk, here and
/// in the other commands of the file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OuterJournalPlan {
    /// The command that makes it, before mkfs, or empty if mkfs makes it.
    pub make: Vec<String>,
    /// A command that prints its features in effect, or empty if the file system's command does.
    pub features: Vec<String>,
    /// Lines of that output to store.
    pub feature_keys: Vec<String>,
}
