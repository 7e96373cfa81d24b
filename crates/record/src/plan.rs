//! The plan of a trial: everything that decides what is measured, except the seed and the lab.
//!
//! Two trials with one plan hash, one seed and one lab identity have the same `measured`, byte for
//! byte. The agent needs nothing but a [`Job`]; it reads no catalog and no option.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::age::AgePlan;
use crate::canonical;
pub use crate::device_plan::DevicePlan;
pub use crate::lab_plan::{
    AccelPlan, BootPlan, CpuPlan, DiskPlan, LabPlan, MD_DATA_OFFSET, RaidPlan, kernel_names,
};
use crate::units::{Bytes, Nanos};

/// One cell of a study: a workload on a file system on a medium.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The row's label in tables; the only field besides `hash` that the hash leaves out.
    pub label: String,
    /// The workload.
    pub workload: WorkloadPlan,
    /// The file system to make and mount; none if the medium is an existing directory.
    pub filesystem: Option<FilesystemPlan>,
    /// The medium that the file system lies on.
    pub medium: MediumPlan,
    /// Number of threads that issue ops, if the workload does not fix it.
    pub threads: u32,
    /// The way to issue ops.
    #[serde(default)]
    pub issuer: IssuerPlan,
    /// The extent of verification.
    pub verify: VerifyMode,
    /// Sysctls set before the first phase, as `vm.dirty_ratio` → `10`.
    pub sysctls: BTreeMap<String, String>,
    /// SHA-256 of all fields above but the label, in hex; see [`Plan::sealed`].
    pub hash: String,
}

/// A workload by name with every parameter, defaults included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// Its name in `fsdyno list workloads`.
    pub name: String,
    /// Parameter → value, as `--set` takes them.
    pub params: BTreeMap<String, String>,
    /// The input file of the workload, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputPlan>,
}

/// A user's file that a workload works on (an archive, real mail), as the uncompressed tar
/// archive that the agent receives; the parameter that names it keeps the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPlan {
    /// The parameter that names it. The plan's hash omits its value, the path: equal
    /// bytes are equal work at any path.
    pub parameter: String,
    /// SHA-256 of the archive, in hex.
    pub sha256: String,
    /// Its size.
    pub bytes: Bytes,
}

/// The way to issue ops: `sync`, `io_uring:DEPTH` or `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum IssuerPlan {
    /// Blocking system calls, one after the other.
    #[default]
    Sync,
    /// Through io_uring(7), with up to `depth` ops in flight per thread.
    IoUring {
        /// Maximum number of ops in flight per thread.
        depth: u32,
    },
    /// No calls: what remains is the instrument overhead.
    Null,
}

impl IssuerPlan {
    /// Maximum number of ops in flight per thread.
    pub fn depth(self) -> u32 {
        match self {
            IssuerPlan::IoUring { depth } => depth,
            IssuerPlan::Sync | IssuerPlan::Null => 1,
        }
    }
}

/// Maximum of `io_uring:DEPTH`.
const MAX_DEPTH: u32 = 4096;

impl fmt::Display for IssuerPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IssuerPlan::Sync => f.write_str("sync"),
            IssuerPlan::IoUring { depth } => write!(f, "io_uring:{depth}"),
            IssuerPlan::Null => f.write_str("null"),
        }
    }
}

impl FromStr for IssuerPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<IssuerPlan, String> {
        let wrong = || {
            format!(
                "'{text}' is not an issuer; use sync, io_uring:DEPTH (1 to {MAX_DEPTH}) or null"
            )
        };
        match text.split_once(':').unwrap_or((text, "")) {
            ("sync", "") => Ok(IssuerPlan::Sync),
            ("null", "") => Ok(IssuerPlan::Null),
            ("io_uring", depth) => match depth.parse() {
                Ok(depth) if (1..=MAX_DEPTH).contains(&depth) => Ok(IssuerPlan::IoUring { depth }),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for IssuerPlan {
    type Error = String;

    fn try_from(text: String) -> Result<IssuerPlan, String> {
        text.parse()
    }
}

impl From<IssuerPlan> for String {
    fn from(issuer: IssuerPlan) -> String {
        issuer.to_string()
    }
}

/// The commands and options to make, mount, inspect and check a file system.
///
/// In every argv the agent replaces `{device}`, `{journal}`, `{uuid}`, `{hash_seed}`, `{volume_id}` and
/// `{uuid:NAME}`; identifiers come from the seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilesystemPlan {
    /// Name in the catalog.
    pub kind: String,
    /// The file system as the user requested it, without the label.
    pub spec: String,
    /// The mkfs command; empty if nothing is made.
    pub mkfs: Vec<String>,
    /// Environment of mkfs and check, in addition to `PATH`.
    pub env: BTreeMap<String, String>,
    /// Type argument of mount(2).
    pub mount_type: String,
    /// Options of mount(2), comma-separated, as mount(8) takes them after `-o`.
    pub mount_options: String,
    /// The read-only check; empty if there is none.
    pub check: Vec<String>,
    /// Exit codes of the check that mean "clean".
    pub check_clean: Vec<i32>,
    /// A command that prints the features in effect; empty if mkfs prints them.
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
    /// Features whose product is the size in bytes of the journal in use; empty without a journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journal_bytes: Vec<String>,
    /// The period whose settings apply unless the user overrides them (`--period`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// A command that mounts it instead of mount(2) and leaves a process that serves it
    /// (FUSE); `{mount}` is the mount point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_command: Vec<String>,
    /// The lower file system, if this one is stacked on another. All commands above then apply to the lower one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<BelowPlan>,
    /// True if mkfs is followed by an untimed mount and unmount, because the first mount ever does work
    /// that no later one does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settles: bool,
}

impl FilesystemPlan {
    /// Name in the catalog of the file system that is made: the lower one, if stacked.
    pub fn made_kind(&self) -> &str {
        self.below.as_ref().map_or(&self.kind, |below| &below.kind)
    }

    /// Returns true if a process serves it, not the kernel.
    pub fn in_user_space(&self) -> bool {
        !self.mount_command.is_empty()
    }
}

/// A lower file system, made and mounted below another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[serde(deny_unknown_fields)]
pub struct FeatureWord {
    /// Name of the feature.
    pub key: String,
    /// Offset in bytes.
    pub at: u64,
    /// Number of bits, counted from the lowest; 32 at most.
    pub bits: u32,
}

/// The commands for a journal or log on a second disk; `{journal}` is that disk, here and
/// in the other commands of the file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OuterJournalPlan {
    /// The command that makes it, before mkfs; empty if mkfs makes it.
    pub make: Vec<String>,
    /// A command that prints its features in effect; empty if the file system's command does.
    pub features: Vec<String>,
    /// Lines of that output to store.
    pub feature_keys: Vec<String>,
}

/// The medium that the file system lies on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "plans are few")]
pub enum MediumPlan {
    /// An existing directory; only a fresh subdirectory of it is used.
    Directory {
        /// The directory.
        path: String,
    },
    /// Devices of this host, formatted for each trial.
    Device(DevicePlan),
    /// Modelled disks in the lab.
    Lab(LabPlan),
    /// A modelled disk below a model of a file system, in this program, without a kernel.
    Model(ModelPlan),
}

/// A modelled disk below a model of a file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelPlan {
    /// The disk.
    pub disk: DiskPlan,
    /// Size of the file system on it.
    pub size: Bytes,
    /// Block size in bytes.
    pub block_size: u32,
}

/// The extent of verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyMode {
    /// Every name, size and byte.
    #[default]
    Full,
    /// Every name and size.
    Names,
    /// Every name and size, and the bytes of one file in 64.
    Sampled,
}

impl VerifyMode {
    /// All modes, with the name that `--verify` takes and a description.
    pub const ALL: &[(&str, &str, VerifyMode)] = &[
        ("full", "Every name, size and byte", VerifyMode::Full),
        ("names", "Every name and size", VerifyMode::Names),
        ("sampled", "Every name and size, and the bytes of one file in 64", VerifyMode::Sampled),
    ];

    /// The name that `--verify` takes.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, _, mode)| *mode == self).map_or("", |(name, _, _)| name)
    }
}

/// A plan with a seed, ready for one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Identity of the trial.
    pub trial_id: String,
    /// The seed that everything arbitrary is drawn from.
    pub seed: u64,
    /// The plan.
    pub plan: Plan,
    /// Deadline of the trial, on the venue's clock.
    pub deadline: Nanos,
    /// The part of the trial to run.
    #[serde(default, skip_serializing_if = "Task::is_whole")]
    pub task: Task,
}

/// The part of a trial that an agent runs: one guest may prepare a disk image that others use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// The whole trial.
    #[default]
    Whole,
    /// Only the preparation that persists on the disk: mkfs and ageing.
    Make,
    /// The trial on prepared disks, without that part.
    Use,
    /// The whole trial, with a log of the bytes written and of the time at which each op returned, in a
    /// memory region after those of the disks ([`crate::acks`]).
    Logged,
    /// No phases: the file system of this plan is recovered repeatedly from the states that a
    /// logged trial left at its crash points.
    Recover,
}

impl Task {
    /// Returns true for [`Task::Whole`], the default.
    pub fn is_whole(&self) -> bool {
        *self == Task::Whole
    }

    /// Returns true if it begins with an empty disk and runs to the end.
    pub fn is_all(&self) -> bool {
        matches!(self, Task::Whole | Task::Logged)
    }
}

/// Deadline of preparing a disk, on the venue's clock: two days.
const MAKE_DEADLINE: Nanos = Nanos(2 * 86_400 * 1_000_000_000);

impl Job {
    /// The job that prepares the disks of this one. It holds only what decides their
    /// contents, so that equal texts of such jobs mean equal disks in one lab.
    pub fn preparation(&self) -> Job {
        let mut job = self.for_agent();
        job.trial_id = "make".into();
        job.task = Task::Make;
        job.deadline = MAKE_DEADLINE;
        let plan = &mut job.plan;
        plan.workload = WorkloadPlan { name: String::new(), params: BTreeMap::new(), input: None };
        (plan.threads, plan.issuer, plan.verify) = (1, IssuerPlan::Sync, VerifyMode::Full);
        plan.hash.clear();
        if let MediumPlan::Lab(lab) = &mut plan.medium {
            lab.cacheable = None;
        }
        job
    }

    /// The job as sent to an agent, without what the hash leaves out and the agent does not need: in the
    /// lab a name that is a byte longer costs instructions, and must not change the
    /// result.
    pub fn for_agent(&self) -> Job {
        let mut job = self.clone();
        job.plan.label.clear();
        // The agent does not need the boot mode.
        if let MediumPlan::Lab(lab) = &mut job.plan.medium {
            lab.boot = BootPlan::Cold;
            lab.kernel = lab.kernel_release().to_string();
        }
        let workload = &mut job.plan.workload;
        if let Some(input) = &workload.input {
            workload.params.insert(input.parameter.clone(), input.sha256.clone());
        }
        job
    }
}

impl FilesystemPlan {
    /// Returns true if there is no file system and the device itself is the workload's one file.
    pub fn is_raw(&self) -> bool {
        self.mount_type.is_empty() && self.kind == "raw"
    }
}

impl Plan {
    /// The value of `--fs` that makes this file system again, with its label; none for an existing directory.
    pub fn filesystem_request(&self) -> Option<String> {
        let spec = &self.filesystem.as_ref()?.spec;
        Some(if self.label == *spec { spec.clone() } else { format!("{}={spec}", self.label) })
    }

    /// Returns the plan with its hash computed.
    pub fn sealed(mut self) -> Plan {
        self.hash = self.compute_hash();
        self
    }

    fn compute_hash(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or(Value::Null);
        if let Value::Object(fields) = &mut value {
            fields.remove("label");
            fields.remove("hash");
            if let Some(input) = &self.workload.input
                && let Some(Value::Object(params)) = value.pointer_mut("/workload/params")
            {
                params.remove(&input.parameter);
            }
        }
        canonical::sha256_hex(value.to_string().as_bytes())
    }

    /// Number of shares into which a phase of variable threads is split: one for each op
    /// that may be in flight.
    pub fn ranks(&self) -> u32 {
        self.threads.saturating_mul(self.issuer.depth())
    }

    /// Returns true if this plan runs in the lab.
    pub fn in_lab(&self) -> bool {
        self.lab().is_some()
    }

    /// The lab, if this plan runs there.
    pub fn lab(&self) -> Option<&LabPlan> {
        match &self.medium {
            MediumPlan::Lab(lab) => Some(lab),
            _ => None,
        }
    }

    /// The model, if this plan runs in one.
    pub fn model(&self) -> Option<&ModelPlan> {
        match &self.medium {
            MediumPlan::Model(model) => Some(model),
            _ => None,
        }
    }

    /// The devices of this host that this plan formats, if any.
    pub fn device(&self) -> Option<&DevicePlan> {
        match &self.medium {
            MediumPlan::Device(device) => Some(device),
            _ => None,
        }
    }

    /// Ageing of its file system before the phases, if any.
    pub fn age(&self) -> Option<&AgePlan> {
        self.filesystem.as_ref()?.age.as_ref()
    }

    /// The modelled disk's name, if any.
    pub fn disk_name(&self) -> Option<&str> {
        let disk =
            self.lab().map(|lab| &lab.disk).or_else(|| self.model().map(|model| &model.disk));
        disk.map(|disk| disk.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn plan() -> Plan {
        Plan {
            label: "ext4".into(),
            workload: WorkloadPlan {
                name: "dirops".into(),
                params: [("files".to_string(), "10000".to_string())].into(),
                input: None,
            },
            filesystem: None,
            medium: MediumPlan::Directory { path: "/tmp".into() },
            threads: 1,
            issuer: IssuerPlan::Sync,
            verify: VerifyMode::Full,
            sysctls: BTreeMap::new(),
            hash: String::new(),
        }
        .sealed()
    }

    #[test]
    fn the_hash_leaves_out_the_label_and_nothing_else() {
        let base = plan();
        let renamed = Plan { label: "other".into(), ..base.clone() }.sealed();
        let threaded = Plan { threads: 2, ..base.clone() }.sealed();
        assert_eq!(base.hash, renamed.hash);
        assert_ne!(base.hash, threaded.hash);
    }

    #[test]
    fn the_hash_of_an_input_is_of_its_bytes_and_not_of_its_path() {
        let with = |path: &str, sha256: &str| {
            let mut plan = plan();
            plan.workload.params.insert("archive".into(), path.into());
            let (parameter, bytes) = ("archive".to_string(), Bytes(1));
            plan.workload.input = Some(InputPlan { parameter, sha256: sha256.into(), bytes });
            plan.sealed().hash
        };
        assert_eq!(with("/a/x.tar", "1"), with("/b/y.tar.gz", "1"));
        assert_ne!(with("/a/x.tar", "1"), with("/a/x.tar", "2"));
        assert_ne!(with("/a/x.tar", "1"), plan().hash);
    }

    #[test]
    fn an_agent_receives_nothing_that_the_hash_leaves_out() {
        let job = |label: &str, path: &str| {
            let mut plan = Plan { label: label.into(), ..plan() };
            plan.workload.params.insert("archive".into(), path.into());
            let (parameter, sha256) = ("archive".to_string(), "5".repeat(64));
            plan.workload.input = Some(InputPlan { parameter, sha256, bytes: Bytes(1) });
            Job {
                trial_id: "t".into(),
                seed: 1,
                plan: plan.sealed(),
                deadline: Nanos(1),
                task: Task::Whole,
            }
        };
        let (one, other) = (job("a", "/x.tar"), job("longer", "/home/me/y.tar.gz"));
        assert_eq!(one.for_agent(), other.for_agent());
        assert_eq!(one.for_agent().plan.compute_hash(), one.plan.hash);
    }

    #[test]
    fn the_preparation_of_a_disk_holds_only_what_decides_its_contents() {
        let job = |plan: Plan| {
            let (trial_id, deadline) = (plan.hash.clone(), Nanos(u64::from(plan.threads)));
            Job { trial_id, seed: 1, plan: plan.sealed(), deadline, task: Task::Whole }
        };
        let base = job(plan());
        let mut other = plan();
        other.workload.name = "tarball".into();
        (other.threads, other.verify) = (4, VerifyMode::Names);
        assert_eq!(base.preparation(), job(other).preparation());
        assert_ne!(base.preparation(), Job { seed: 2, ..base.clone() }.preparation());
        let sysctls = [("vm.dirty_ratio".to_string(), "5".to_string())].into();
        assert_ne!(base.preparation(), job(Plan { sysctls, ..plan() }).preparation());
    }

    #[test]
    fn the_name_of_a_mode_of_verification_is_its_recorded_form() {
        for (name, _, mode) in VerifyMode::ALL {
            assert_eq!(serde_json::to_value(mode).unwrap(), *name);
            assert_eq!(mode.name(), *name);
        }
    }

    #[test]
    fn the_text_of_an_issuer_is_its_recorded_form() {
        for text in ["sync", "io_uring:1", "io_uring:4096", "null"] {
            assert_eq!(text.parse::<IssuerPlan>().unwrap().to_string(), text);
        }
        for wrong in ["", "sync:1", "io_uring", "io_uring:0", "io_uring:4097", "uring:2", "nul"] {
            assert!(wrong.parse::<IssuerPlan>().unwrap_err().contains("io_uring:DEPTH"), "{wrong}");
        }
    }

    #[test]
    fn a_plan_survives_its_own_json() {
        let text = serde_json::to_string(&plan()).unwrap();
        let back: Plan = serde_json::from_str(&text).unwrap();
        assert_eq!(back, plan());
        assert_eq!(back.compute_hash(), back.hash);
    }
}
