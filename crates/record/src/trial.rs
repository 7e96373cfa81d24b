//! The record of one trial: one line of `trials.ndjson`.
//!
//! Whatever depends on the speed of the host is in [`Trial::host`] alone; under one lab identity
//! [`Trial::measured`] is byte for byte the same on every machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::age::Aged;
use crate::build::{self, Build};
use crate::op::OpKind;
use crate::plan::{Plan, VerifyMode};
use crate::repeats::Repeats;
use crate::series::PhaseSeries;
use crate::shared::Shared;
use crate::units::{Bytes, Nanos};

/// One run of one workload on one fresh file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Version of this schema.
    pub schema: u32,
    /// Identity of the trial: the first 16 digits of the plan's hash, a dash, the seed.
    pub trial_id: String,
    /// Identity of the lab; none on a host.
    pub lab_id: Option<String>,
    /// What the lab identity was computed from, so that a comparison can name what differs.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub lab: Shared<BTreeMap<String, String>>,
    /// The seed.
    pub seed: u64,
    /// Which row of the table it belongs to, counted from 0 in the order in which the commands of its folder named
    /// them; none in records that are older than this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u32>,
    /// The rule that set the number of repeats, where it was not typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// Version of fsdyno.
    pub version: String,
    /// What it might take, in virtual time in the lab, where that is not the usual: part of what its guest reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<Nanos>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed or was skipped.
    pub reason: Option<String>,
    /// What was asked.
    pub plan: Plan,
    /// What is needed to repeat it.
    pub conditions: Conditions,
    /// What was measured; empty phases where it failed early.
    pub measured: Measured,
    /// What depends on the host's speed.
    pub host: Host,
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done, verified, and its file system checked clean.
    Ok,
    /// Something went wrong; `reason` says what.
    #[default]
    Failed,
    /// It cannot run here; `reason` says why.
    Skipped,
}

/// What the agent hands back; the venue adds identity and host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed.
    pub reason: Option<String>,
    /// What is needed to repeat it.
    pub conditions: Conditions,
    /// What was measured.
    pub measured: Measured,
    /// Its phases over time, where they can be told; they go into a file beside the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<PhaseSeries>,
}

/// What is needed to repeat a trial, read back from what is in effect, not from what was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// `lab`, `host` or `model`.
    pub venue: String,
    /// `uname -r` and `-v` where the ops ran.
    pub kernel: String,
    /// The CPU's name where the ops ran.
    pub cpu: String,
    /// Exact argv of mkfs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mkfs: Vec<String>,
    /// What mkfs printed (its last lines).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mkfs_output: Vec<String>,
    /// What came of ageing, where the file system was aged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aged: Option<Aged>,
    /// Type and options of the mount in effect, from /proc/self/mountinfo.
    pub mount: String,
    /// The same of the file system below, where one lies over another.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub below: String,
    /// What is mounted there, as the kernel names it; empty in the lab, whose disk is in the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Exact argv of what was run before mkfs: what put an array together, what made an outer
    /// journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before_mkfs: Vec<Vec<String>>,
    /// The md array under the file system, as mdadm and the kernel describe it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub array: BTreeMap<String, String>,
    /// The modelled disks by the kernel's names for them, where there are several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disks: BTreeMap<String, DiskConditions>,
    /// Features in effect, read back from the file system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub features: BTreeMap<String, String>,
    /// Tool → version line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// Block-queue settings in effect of the device that the file system lies on (a disk, or an
    /// array of them), as /sys/block names them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue: BTreeMap<String, String>,
    /// Sysctls in effect that bear on write-back and caches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Start of the partition on the modelled disk, where there is one disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_start: Option<Bytes>,
    /// Size of the device the file system lies on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_size: Option<Bytes>,
    /// Memory that can cache files at the start of the first phase: free, plus page cache.
    pub cacheable_memory: Bytes,
    /// Whether a process did the file system's work (FUSE), and not the kernel: no claim about a kernel
    /// is judged by it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub userspace: bool,
    /// What a reader must know: something asked for that could not be done here, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Settings of the plan that have another value here, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_in_effect: Vec<String>,
}

/// One of several modelled disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskConditions {
    /// Its name in the catalog, or the name of its file.
    pub disk: String,
    /// What it is for.
    pub role: DiskRole,
    /// Start of the partition on it.
    pub partition_start: Bytes,
    /// Size of that partition.
    pub size: Bytes,
    /// Block-queue settings in effect.
    pub queue: BTreeMap<String, String>,
}

/// What a modelled disk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskRole {
    /// The file system lies on it.
    Data,
    /// It is part of the array that the file system lies on.
    Member,
    /// The file system's journal or log lies on it.
    Journal,
}

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What came before the first gap; none on a directory as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// The timed phases, in order.
    pub phases: Vec<Phase>,
    /// What lay between them.
    pub gaps: Vec<Gap>,
    /// What the instrument cost over the whole trial.
    pub instrument: Instrument,
    /// What the file system held when it was full; none where it was not to be filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// What was read back and compared.
    pub verify: VerifyReport,
    /// The file system's own check; none on a directory as it is, and where there is none.
    pub check: Option<CheckReport>,
}

/// How long it took to get ready, by the clock of where the ops ran. In the lab the CPU is hardly idle
/// meanwhile, so that these are also its instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// From the start of the guest's clock, which its firmware is before, to that of its agent.
    pub boot_ns: Nanos,
    /// Loading modules and bringing up the disk and its server.
    pub device_ns: Nanos,
    /// Setting the block queue, making the file system, reading back its features.
    pub mkfs_ns: Nanos,
    /// The first mount.
    pub mount_ns: Nanos,
    /// Ageing, by the clock of the agent that did it; no phase has it among its times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<Nanos>,
}

/// One timed phase. All times count from its first op.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name in the workload.
    pub name: String,
    /// Until the last call came back.
    pub returned_ns: Nanos,
    /// The time after which the phase was asked to end, where it ends by time and not by its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<Nanos>,
    /// The unit of `books` whose rate stands for the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Until syncfs(2) came back; none where it could not be called.
    pub synced_ns: Option<Nanos>,
    /// Until the device's own cache was empty; none where that could not be shown.
    pub durable_ns: Option<Nanos>,
    /// CPU time of the threads that issue ops, to the durable (else the last) stamp.
    pub cpu_ns: Nanos,
    /// The part of it in user mode.
    pub user_ns: Nanos,
    /// The part of it in the kernel.
    pub system_ns: Nanos,
    /// How exact that split is.
    pub split: Split,
    /// CPU time of kernel threads by work, to the durable (else the last) stamp; as `fuse` that of the
    /// process that does a FUSE file system's work.
    pub kernel_cpu_ns: BTreeMap<String, Nanos>,
    /// Time that the callers slept or computed between their ops, by the workload's own doing: part
    /// of `returned_ns`, summed over threads.
    #[serde(default, skip_serializing_if = "Nanos::is_zero")]
    pub think_ns: Nanos,
    /// What the ops were and took.
    pub ops: BTreeMap<OpKind, OpStats>,
    /// What was done in the workload's own units.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub books: BTreeMap<String, u64>,
    /// Bytes handed to write calls.
    pub bytes_written: Bytes,
    /// Bytes that read calls gave.
    pub bytes_read: Bytes,
    /// What the device did, to the durable stamp; none where it cannot be told. Of several modelled
    /// disks it is the sum, a journal's disk included.
    pub device: Option<Device>,
    /// What each of several modelled disks did, by the kernel's names for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, Device>,
    /// Dirty and write-back pages when the last call came back; none where it cannot be told.
    pub dirty_bytes: Option<Bytes>,
    /// Space in use on the file system at the end of the phase, by statfs.
    pub space_used: Bytes,
    /// What the instrument took of this phase.
    pub instrument: Instrument,
}

/// How the split of CPU time into user and system was come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Accounted at each switch of mode.
    Exact,
    /// Estimated by timer ticks.
    #[default]
    Sampled,
}

/// Count and latencies of one kind of op.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpStats {
    /// How many.
    pub count: u64,
    /// The sum of their latencies.
    pub total_ns: Nanos,
    /// Median latency (upper bound of its histogram bucket, as are the next three).
    pub p50_ns: Nanos,
    /// 90th percentile.
    pub p90_ns: Nanos,
    /// 99th percentile.
    pub p99_ns: Nanos,
    /// 99.9th percentile.
    pub p999_ns: Nanos,
    /// The longest, exact.
    pub max_ns: Nanos,
    /// Upper bound of a bucket and how many fell into it; empty buckets are left out.
    pub histogram: Vec<(Nanos, u64)>,
}

/// What lay between two phases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// The phase that follows; empty after the last one.
    pub before: String,
    /// What the workload wanted: `none`, `sync`, `drop`, `remount` or `verify`.
    pub wanted: String,
    /// What was done; differs from `wanted` where the venue could not.
    pub done: String,
    /// How long it took.
    pub elapsed_ns: Nanos,
}

/// Requests and bytes of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Movements of the arm; none where the device does not say.
    pub seeks: Option<u64>,
    /// Time in which the device was at work (summed over several, which may be more time than
    /// passed); none where it does not say.
    pub busy_ns: Option<Nanos>,
    /// The most requests that were in flight at once (of several devices, at one of them); none
    /// where it does not say.
    pub peak_in_flight: Option<u64>,
}

/// What the instrument itself cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instrument {
    /// CPU time of the modelled disks' servers (kept out of every other figure).
    pub server_cpu_ns: Nanos,
    /// CPU time of the block driver's kernel threads that feed it.
    pub driver_cpu_ns: Nanos,
    /// How much later than due the disk's answers were, summed over its requests: waking the server
    /// and handing over the bytes takes the guest's CPU.
    pub late_ns: Nanos,
    /// Clock reads, names and histograms: ops times their calibrated cost with the null issuer.
    pub engine_ns: Nanos,
    /// CPU time of the process that looks at what is dirty (kept out of every other figure).
    #[serde(default, skip_serializing_if = "Nanos::is_zero")]
    pub sampler_cpu_ns: Nanos,
}

/// What was read back and compared with what the workload says must be there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// How much was compared.
    pub mode: VerifyMode,
    /// Files seen, over all verified phases.
    pub files: u64,
    /// Directories seen.
    pub directories: u64,
    /// Bytes compared.
    pub bytes: Bytes,
    /// How many differences there were.
    pub problems: u64,
    /// The first of them, each in a sentence.
    pub examples: Vec<String>,
    /// How long it took.
    pub elapsed_ns: Nanos,
}

/// What a file system held when it was full. Space is what statfs(2) calls free (f_bfree), after
/// syncfs(2); what is reserved for root counts as free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// Size of the device; none where that is not known.
    pub device: Option<Bytes>,
    /// Size of the file system, as it says itself.
    pub total: Bytes,
    /// Free space when it was empty.
    pub free_empty: Bytes,
    /// Free space when it was full.
    pub free_full: Bytes,
    /// Inodes that could still be made when it was empty; none where they are not limited.
    pub inodes_empty: Option<u64>,
    /// Inodes that could still be made when it was full.
    pub inodes_full: Option<u64>,
    /// Files that are whole.
    pub files: u64,
    /// Their directories.
    pub directories: u64,
    /// Their data.
    pub data: Bytes,
}

/// The file system's own check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Exact argv.
    pub argv: Vec<String>,
    /// Exit code; none if it was killed.
    pub exit: Option<i32>,
    /// Whether that code means "clean".
    pub clean: bool,
    /// Its last lines, where it was not clean.
    pub output: Vec<String>,
}

/// What depends on the speed of the host, and which build of fsdyno ran there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// When it started, RFC 3339, UTC.
    pub started: String,
    /// The build of fsdyno, where its commit is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Wall-clock time of the whole trial.
    pub elapsed_ns: Nanos,
    /// Wall-clock time from its start to the first op.
    pub first_op_ns: Option<Nanos>,
    /// CPU time it took on the host.
    pub cpu_ns: Option<Nanos>,
    /// The most memory that the guest held on the host, the pages of its disks among it, which the host
    /// can write out and take back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Wall-clock time of the file system's own check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_ns: Option<Nanos>,
    /// Wall-clock time by stage, as the venue saw it from outside, every 10 or 20 ms: `boot`, `prepare`, `gap`,
    /// `verify`, `check` (the last unmount), `end`, the phases by their name as `phase create`; after
    /// the guest's end `image` (its disk laid out for the file system's own check). `make` is the guest that
    /// made the disks, where it was another and ran for this trial; `age` is ageing on a device of this host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, Nanos>,
    /// Bytes of the modelled disk that were stored.
    pub stored: Option<Bytes>,
    /// The log of the disk's requests, within the result folder (--keep-log).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// What is missing of that log, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_note: Option<String>,
}

fn is_empty(map: &Shared<BTreeMap<String, String>>) -> bool {
    map.is_empty()
}

/// What tells a trial from every other. Under one lab identity a plan and a seed have one result, however often
/// they are run; on a host, and in a guest under KVM, each run is a trial of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity<'a> {
    /// Of the plan and the seed: [`Trial::trial_id`].
    pub trial_id: &'a str,
    /// Its row, which that leaves out.
    pub label: &'a str,
    /// Of the lab.
    pub lab_id: Option<&'a str>,
    /// When it started ([`Host::started`]), where that makes it another; else empty.
    pub started: &'a str,
}

impl Trial {
    /// What tells it from every other.
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            trial_id: &self.trial_id,
            label: &self.plan.label,
            lab_id: self.lab_id.as_deref(),
            started: if self.repeats_exactly() { "" } else { &self.host.started },
        }
    }

    /// The fsdyno that ran it: version and commit.
    pub fn program(&self) -> String {
        build::program(&self.version, self.host.build.as_ref())
    }

    /// Whether another run of it gives the same digits: what runs by the clock of a host has no lab identity.
    pub fn repeats_exactly(&self) -> bool {
        self.lab_id.is_some()
    }
}

/// The identity of the trial of a plan with a seed.
pub fn trial_id(plan: &Plan, seed: u64) -> String {
    format!("{}-{seed}", plan.hash.get(..16).unwrap_or(&plan.hash))
}
