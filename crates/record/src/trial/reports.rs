//! Reports of a trial other than its times: verification, check, replay, the resulting tree, capacity.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::plan::VerifyMode;
use crate::units::{Bytes, Nanos};

/// The comparison of the files read back with the workload's expectation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifyReport {
    /// The extent of verification.
    pub mode: VerifyMode,
    /// Files found, over all verified phases.
    pub files: u64,
    /// Directories found.
    pub directories: u64,
    /// Bytes compared.
    pub bytes: Bytes,
    /// Number of differences.
    pub problems: u64,
    /// Of these, entries that were not found.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing: u64,
    /// Of these, entries that should not exist.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extra: u64,
    /// The first differences, each in a sentence.
    pub examples: Vec<String>,
    /// Duration.
    pub elapsed_ns: Nanos,
}

/// Fidelity of a replay: how much of the recording it replays, and with what results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayReport {
    /// Recorded calls on files.
    pub calls: u64,
    /// Those that are replayed.
    pub replayed: u64,
    /// Those that are not, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// Recorded threads that ran at the same time.
    pub threads: u32,
    /// The order of the calls of different threads: `resource`, `total` or `none`.
    pub order: String,
    /// Calls that wait for calls of other threads.
    pub waiting: u64,
    /// Bytes of files that the program mapped into memory.
    pub mapped: Bytes,
    /// The part of `written` that represents stores to such mappings.
    pub stored: Bytes,
    /// Bytes that the calls write.
    pub written: Bytes,
    /// Replayed calls whose result differs from the recorded one.
    #[serde(default)]
    pub differing: u64,
}

/// Hashes of a tree, for comparison with those of other trials. Times and inode numbers are not part of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeReport {
    /// Entries that are not directories; each hard link counts.
    pub files: u64,
    /// Directories, without the root.
    pub directories: u64,
    /// Bytes of all files; each file counts once.
    pub bytes: Bytes,
    /// SHA-256 of names, types, permission bits, sizes, links and targets.
    pub shape: String,
    /// SHA-256 of that and of all contents.
    pub whole: String,
    /// The first digits of such a hash for each entry of the top level, and for each entry of the smallest directories
    /// there; at most 256 in total.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, String>,
}

/// The capacity of a file system when full. Free space is f_bfree of statfs(2), after
/// syncfs(2); blocks reserved for root count as free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capacity {
    /// Size of the device, or null if unknown.
    pub device: Option<Bytes>,
    /// Size of the file system, as the file system itself reports it.
    pub total: Bytes,
    /// Free space when it was empty.
    pub free_empty: Bytes,
    /// Free space when it was full.
    pub free_full: Bytes,
    /// Free inodes when it was empty, or null if they are not limited.
    pub inodes_empty: Option<u64>,
    /// Free inodes when it was full.
    pub inodes_full: Option<u64>,
    /// Complete files.
    pub files: u64,
    /// Directories of those files.
    pub directories: u64,
    /// Data of those files.
    pub data: Bytes,
}

/// The file system's own check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckReport {
    /// The argv.
    pub argv: Vec<String>,
    /// Exit code, or null if killed.
    pub exit: Option<i32>,
    /// True if that code means "clean".
    pub clean: bool,
    /// Last lines of its output, if not clean.
    pub output: Vec<String>,
}
