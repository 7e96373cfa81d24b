//! The record of one trial: one line of `trials.ndjson`.
//!
//! Only [`Trial::host`] depends on the speed of the host; under one lab identity, [`Trial::measured`] is bit-identical
//! on every machine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer};

use crate::SCHEMA;
use crate::build::{self, Build};
use crate::op::OpKind;
use crate::plan::Plan;
use crate::processor::ProcessorCounts;
use crate::ranks::RanksMeasured;
use crate::repeats::Repeats;
use crate::series::PhaseSeries;
use crate::shared::Shared;
use crate::units::{Bytes, Nanos};

mod conditions;
mod reports;

pub use conditions::{Conditions, DiskConditions, DiskRole};
pub use reports::{Capacity, CheckReport, ReplayReport, TreeReport, VerifyReport};

/// One run of one workload on one fresh file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::venue_since_schema_2))]
pub struct Trial {
    /// Version of the schema in which it was read; a record is always written in the latest.
    #[serde(serialize_with = "latest")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = SCHEMA)))]
    pub schema: u32,
    /// Identity of the trial: the first 16 digits of the plan's hash, a dash, and the seed.
    pub trial_id: String,
    /// Identity of the lab, or null on a host.
    pub lab_id: Option<String>,
    /// The inputs of the lab identity, so that a comparison can name what differs.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub lab: Shared<BTreeMap<String, String>>,
    /// The seed.
    pub seed: u64,
    /// Row of the table, counted from 0 in the order in which the commands of the folder named the rows, or null in
    /// records older than this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u32>,
    /// The rule that set the number of repeats, if it was not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Version of fsdyno.
    pub version: String,
    /// Deadline, if not the default; in the lab it is in virtual time. It is part of what the guest reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("minimum" = 1)))]
    pub deadline_ns: Option<Nanos>,
    /// Outcome of the trial.
    pub outcome: Outcome,
    /// Reason for a failure or skip.
    pub reason: Option<String>,
    /// The plan.
    pub plan: Plan,
    /// Conditions needed to repeat it.
    pub conditions: Conditions,
    /// Measured values; without phases if it failed early.
    pub measured: Measured,
    /// Values that depend on the host's speed.
    pub host: Host,
}

fn latest<S: Serializer>(_: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    SCHEMA.serialize(serializer)
}

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Completed, verified, and its file system checked clean.
    Ok,
    /// Failed; `reason` states why.
    #[default]
    Failed,
    /// Skipped because it cannot run here; `reason` states why.
    Skipped,
}

/// The agent's report; the venue adds identity and host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Outcome of the trial.
    pub outcome: Outcome,
    /// Reason for a failure.
    pub reason: Option<String>,
    /// Conditions needed to repeat it.
    pub conditions: Conditions,
    /// Measured values.
    pub measured: Measured,
    /// Time series of its phases, if known; they are stored in a sidecar.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<PhaseSeries>,
}

/// All measured values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Times of the setup before the first gap, or null on an existing directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// The timed phases, in order.
    pub phases: Vec<Phase>,
    /// The gaps between them.
    pub gaps: Vec<Gap>,
    /// Instrument overhead of the whole trial.
    pub instrument: Instrument,
    /// Capacity of the file system when full, or null if the workload does not fill it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// The tree after a command of the user's, or null for other workloads, whose trees are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeReport>,
    /// Result of verification.
    pub verify: VerifyReport,
    /// The file system's own check, or null on an existing directory, or if there is none.
    pub check: Option<CheckReport>,
    /// The work of each rank, if several processes shared the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<RanksMeasured>,
}

/// Times of the setup, by the clock of the system where the ops ran. In the lab, the CPU is rarely idle during the
/// setup, so these times also count the instructions that it executes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setup {
    /// Time from the start of the guest's clock, which follows its firmware, to the start of its agent.
    pub boot_ns: Nanos,
    /// Loading modules and starting the disk and its server.
    pub device_ns: Nanos,
    /// Setting the block queue, mkfs, reading back the features.
    pub mkfs_ns: Nanos,
    /// The first mount.
    pub mount_ns: Nanos,
    /// Aging, by the clock of the agent that ran it; not part of any phase's times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<Nanos>,
}

/// A timed phase. All times start at its first op.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phase {
    /// Name in the workload.
    pub name: String,
    /// Time until the last call returned.
    pub returned_ns: Nanos,
    /// Time limit of the phase, if it ends by time and not by its work, or works on the result of such a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<Nanos>,
    /// The operation count whose rate represents the phase, by its name among the counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Time until syncfs(2) returned, or null if it could not be called.
    pub synced_ns: Option<Nanos>,
    /// Time until the device's own cache was empty, or null if that is unknown.
    pub durable_ns: Option<Nanos>,
    /// CPU time of the threads that issue ops, up to the durable time or, if that is unknown, up to the latest known
    /// time.
    pub cpu_ns: Nanos,
    /// User part of `cpu_ns`.
    pub user_ns: Nanos,
    /// Kernel part of `cpu_ns`.
    pub system_ns: Nanos,
    /// Accuracy of the split into user and kernel time.
    pub split: Split,
    /// CPU time of kernel threads by work, until durable, or the latest time known; `fuse` is the
    /// process that serves a FUSE file system.
    pub kernel_cpu_ns: BTreeMap<String, Nanos>,
    /// Events that the processor model counted and charged, until durable, in all tasks, or null without such a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorCounts>,
    /// Think time: time that the workload slept or computed between ops, part
    /// of `returned_ns`, summed over threads.
    #[serde(default, skip_serializing_if = "Nanos::is_zero")]
    pub think_ns: Nanos,
    /// Counts and latencies by kind of op.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = crate::schema::op_names())))]
    pub ops: BTreeMap<OpKind, OpStats>,
    /// Counts in the workload's own units.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub books: BTreeMap<String, u64>,
    /// Bytes passed to write calls.
    pub bytes_written: Bytes,
    /// Bytes that read calls returned.
    pub bytes_read: Bytes,
    /// Requests of the device, up to the durable time, or null if unknown. With several modelled disks, the sum over
    /// all of them, including a journal's disk.
    pub device: Option<Device>,
    /// Requests of each of several modelled disks, by the kernel's names for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, Device>,
    /// Bytes in dirty and write-back pages when the last call returned, or null if unknown.
    pub dirty_bytes: Option<Bytes>,
    /// Space in use on the file system at the end of the phase, by statfs.
    pub space_used: Bytes,
    /// Instrument overhead of this phase.
    pub instrument: Instrument,
}

/// The accuracy of the split of CPU time into user and system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Accounted at each mode switch.
    Exact,
    /// Estimated by timer ticks.
    #[default]
    Sampled,
}

/// Count and latencies of one kind of op.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpStats {
    /// Number of ops.
    pub count: u64,
    /// Sum of their latencies.
    pub total_ns: Nanos,
    /// Median latency (upper bound of its histogram bucket, as are the next three).
    pub p50_ns: Nanos,
    /// 90th percentile.
    pub p90_ns: Nanos,
    /// 99th percentile.
    pub p99_ns: Nanos,
    /// 99.9th percentile.
    pub p999_ns: Nanos,
    /// Maximum latency, exact.
    pub max_ns: Nanos,
    /// Upper bound and count of each bucket that is not empty.
    pub histogram: Vec<(Nanos, u64)>,
}

/// The step between two phases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    /// The phase that follows; empty after the last one.
    pub before: String,
    /// The step that the workload requested: `none`, `back-to-back`, `sync`, `drop`, `remount` or `verify`.
    pub wanted: String,
    /// The step that was executed; differs from `wanted` if the venue could not execute it.
    pub done: String,
    /// Duration.
    pub elapsed_ns: Nanos,
}

/// Requests and bytes of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Discard requests.
    pub discards: u64,
    /// Bytes read.
    pub bytes_read: Bytes,
    /// Bytes written.
    pub bytes_written: Bytes,
    /// Seeks of the arm, or null if unknown.
    pub seeks: Option<u64>,
    /// Time in which the device was busy (summed over several devices, which may exceed the elapsed time), or null if
    /// unknown.
    pub busy_ns: Option<Nanos>,
    /// Maximum number of requests in flight (with several devices, at one of them), or null if unknown.
    pub peak_in_flight: Option<u64>,
}

/// Instrument overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Instrument {
    /// CPU time of the modelled disks' servers (excluded from every other figure).
    pub server_cpu_ns: Nanos,
    /// CPU time of the block driver's kernel threads that serve them.
    pub driver_cpu_ns: Nanos,
    /// Delay of the disk's replies, summed over its requests: waking the server
    /// and copying the bytes takes the guest's CPU.
    pub late_ns: Nanos,
    /// Time for clock reads, names and histograms: the number of ops times the cost of one, calibrated with the null
    /// issuer.
    pub engine_ns: Nanos,
    /// CPU time of the process that samples dirty bytes (excluded from every other figure).
    #[serde(default, skip_serializing_if = "Nanos::is_zero")]
    pub sampler_cpu_ns: Nanos,
}

/// Values that depend on the speed of the host, and the build of fsdyno that ran there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// Start of the trial, RFC 3339, UTC.
    pub started: String,
    /// The build of fsdyno, if its commit is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Wall-clock time of the whole trial.
    pub elapsed_ns: Nanos,
    /// Wall-clock time from the start to the first op.
    pub first_op_ns: Option<Nanos>,
    /// CPU time used on the host.
    pub cpu_ns: Option<Nanos>,
    /// Number of processors of the host that fsdyno could use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<u32>,
    /// Maximum memory of the guest on the host, including the pages of its disks, which the host
    /// can write out and reclaim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Wall-clock time of the file system's own check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_ns: Option<Nanos>,
    /// Wall-clock time by stage, as the venue observes it every 10 or 20 ms: `boot`, `prepare`, `gap`, `verify`,
    /// `check` (the last unmount), `end`, and each phase by its name, such as `phase create`. After the guest has
    /// ended, `image` is the time in which its disk is copied for the file system's own check. `make` is a separate
    /// guest that prepared the disks for this trial; `age` is aging on a device of this host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, Nanos>,
    /// Space that the modelled disks take on the host.
    pub stored: Option<Bytes>,
    /// The log of the disk's requests, within the result folder (--keep-log).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// A sentence that describes the missing part of that log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_note: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_empty(map: &Shared<BTreeMap<String, String>>) -> bool {
    map.is_empty()
}

/// The identity of a trial. Under one lab identity, a plan and a seed have a single result, however often they are run;
/// on a host, and in a guest under KVM, each run is a separate trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity<'a> {
    /// Identity of plan and seed: [`Trial::trial_id`].
    pub trial_id: &'a str,
    /// Label of its row, which `trial_id` excludes.
    pub label: &'a str,
    /// Identity of the lab.
    pub lab_id: Option<&'a str>,
    /// Start of the trial ([`Host::started`]), if that makes it a separate one; otherwise empty.
    pub started: &'a str,
}

/// Returns the names of the components in which two lab identities differ.
pub fn differing_components(
    one: &BTreeMap<String, String>,
    other: &BTreeMap<String, String>,
) -> Vec<String> {
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    names.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect()
}

impl Trial {
    /// Returns the identity of the trial.
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            trial_id: &self.trial_id,
            label: &self.plan.label,
            lab_id: self.lab_id.as_deref(),
            started: if self.is_bit_identical() { "" } else { &self.host.started },
        }
    }

    /// Returns the version and the commit of the fsdyno that ran it.
    pub fn program(&self) -> String {
        build::program(&self.version, self.host.build.as_ref())
    }

    /// Returns true if another run of it would be bit-identical; a trial timed by a host's clock has no lab identity
    /// and is not.
    pub fn is_bit_identical(&self) -> bool {
        self.lab_id.is_some()
    }
}

/// Returns the id of the trial of a plan with a seed.
pub fn trial_id(plan: &Plan, seed: u64) -> String {
    format!("{}-{seed}", plan.hash.get(..16).unwrap_or(&plan.hash))
}
