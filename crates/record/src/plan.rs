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
    /// The row's name in tables; the one field beside `hash` that the hash leaves out.
    pub label: String,
    /// What is run.
    pub workload: WorkloadPlan,
    /// What is made and mounted; none where the medium is a directory as it is.
    pub filesystem: Option<FilesystemPlan>,
    /// What the file system lies on.
    pub medium: MediumPlan,
    /// Number of threads that issue ops, where the workload leaves that open.
    pub threads: u32,
    /// How they issue them.
    #[serde(default)]
    pub issuer: IssuerPlan,
    /// How much of what is on disk is read back and compared.
    pub verify: VerifyMode,
    /// Sysctls set before the first phase, as `vm.dirty_ratio` → `10`.
    pub sysctls: BTreeMap<String, String>,
    /// SHA-256 of all the above but the label, in hex; see [`Plan::sealed`].
    pub hash: String,
}

/// A workload by name with every parameter spelled out, defaults too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// Its name in `fsdyno list workloads`.
    pub name: String,
    /// Parameter → value, as `--set` takes them.
    pub params: BTreeMap<String, String>,
    /// The file that the workload works on, where it works on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputPlan>,
}

/// A file of the user's that a workload works on (an archive, real mail), as the uncompressed tar
/// archive that the agent is handed; the parameter that named it keeps the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPlan {
    /// The parameter that names it. Its value, the path, is left out of the plan's hash: the same
    /// bytes are the same work, wherever they lie.
    pub parameter: String,
    /// SHA-256 of the archive, in hex.
    pub sha256: String,
    /// Its size.
    pub bytes: Bytes,
}

/// How ops are issued: `sync`, `io_uring:DEPTH` or `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum IssuerPlan {
    /// One system call after the other.
    #[default]
    Sync,
    /// Through io_uring(7), each thread with so many ops in flight.
    IoUring {
        /// How many.
        depth: u32,
    },
    /// Not at all: what is left is the cost of the instrument.
    Null,
}

impl IssuerPlan {
    /// How many ops each thread has in flight at most.
    pub fn depth(self) -> u32 {
        match self {
            IssuerPlan::IoUring { depth } => depth,
            IssuerPlan::Sync | IssuerPlan::Null => 1,
        }
    }
}

/// The most ops that a thread may have in flight.
const DEEPEST: u32 = 4096;

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

    fn from_str(typed: &str) -> Result<IssuerPlan, String> {
        let wrong = || {
            format!("'{typed}' is no issuer; it is sync, io_uring:DEPTH (1 to {DEEPEST}) or null")
        };
        match typed.split_once(':').unwrap_or((typed, "")) {
            ("sync", "") => Ok(IssuerPlan::Sync),
            ("null", "") => Ok(IssuerPlan::Null),
            ("io_uring", depth) => match depth.parse() {
                Ok(depth) if (1..=DEEPEST).contains(&depth) => Ok(IssuerPlan::IoUring { depth }),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for IssuerPlan {
    type Error = String;

    fn try_from(typed: String) -> Result<IssuerPlan, String> {
        typed.parse()
    }
}

impl From<IssuerPlan> for String {
    fn from(issuer: IssuerPlan) -> String {
        issuer.to_string()
    }
}

/// How a file system is made, mounted, looked at and checked.
///
/// In every argv `{device}`, `{journal}`, `{uuid}`, `{hash_seed}`, `{volume_id}` and `{uuid:NAME}` are filled
/// in by the agent from the seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilesystemPlan {
    /// Its name in the catalog.
    pub kind: String,
    /// What the user typed, without the label.
    pub spec: String,
    /// The mkfs command; empty where nothing is made.
    pub mkfs: Vec<String>,
    /// Environment of mkfs and check beside `PATH`.
    pub env: BTreeMap<String, String>,
    /// The type that mount(2) is given.
    pub mount_type: String,
    /// Options of mount(2), comma-separated, as mount(8) takes them after `-o`.
    pub mount_options: String,
    /// The read-only check; empty where there is none.
    pub check: Vec<String>,
    /// Exit codes of the check that mean "clean".
    pub check_clean: Vec<i32>,
    /// A command that prints the features in effect; empty where mkfs's own output says them.
    pub features: Vec<String>,
    /// Lines of that output to keep: those that begin with one of these, up to the colon or `=`.
    pub feature_keys: Vec<String>,
    /// Kernel modules to load, before their dependencies are resolved.
    pub modules: Vec<String>,
    /// How its journal or log on a second disk is made and looked at, where the spec puts it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<OuterJournalPlan>,
    /// What it goes through after its first mount, where the trial is not to find it fresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<AgePlan>,
    /// Features that no tool prints, read from where the format keeps them on the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_words: Vec<FeatureWord>,
    /// Features whose product is the size in bytes of the journal in use; none where it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journal_bytes: Vec<String>,
    /// The period whose settings stand under what the user typed (`--period`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// A command that mounts it in place of mount(2), of which a process stays that does its work
    /// (FUSE); `{mount}` is where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_command: Vec<String>,
    /// The file system that it lies over. All the commands above are then of that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<BelowPlan>,
    /// Whether making it takes a mount and an unmount too, untimed: the first mount of its life does work
    /// that no later one does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settles: bool,
}

impl FilesystemPlan {
    /// The name in the catalog of the file system that is made: the one below, where there is one.
    pub fn made_kind(&self) -> &str {
        self.below.as_ref().map_or(&self.kind, |below| &below.kind)
    }

    /// Whether a process does its work, and not the kernel.
    pub fn in_user_space(&self) -> bool {
        !self.mount_command.is_empty()
    }
}

/// A file system that is made and mounted so that another can lie over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BelowPlan {
    /// Its name in the catalog.
    pub kind: String,
    /// The type that mount(2) is given.
    pub mount_type: String,
    /// Options of mount(2), comma-separated.
    pub mount_options: String,
}

/// A number that a file system keeps at a fixed place of its device, little-endian.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureWord {
    /// What it is called among the features.
    pub key: String,
    /// Where it lies, in bytes from the device's beginning.
    pub at: u64,
    /// How many of its bits count, the lowest ones; 32 at most.
    pub bits: u32,
}

/// How a journal or log on a second disk is made and looked at; `{journal}` is that disk, here and
/// in the other commands of its file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OuterJournalPlan {
    /// The command that makes it, before mkfs; empty where mkfs does.
    pub make: Vec<String>,
    /// A command that prints its features in effect; empty where the file system's does.
    pub features: Vec<String>,
    /// Lines of that output to keep.
    pub feature_keys: Vec<String>,
}

/// What the file system lies on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "there is one for each plan, and plans are few")]
pub enum MediumPlan {
    /// A directory as it is; only a fresh subdirectory of it is used.
    Directory {
        /// The directory.
        path: String,
    },
    /// Devices of this host, formatted anew.
    Device(DevicePlan),
    /// Modelled disks in the lab.
    Lab(LabPlan),
    /// A modelled disk below a model of a file system, in this program: no kernel.
    Model(ModelPlan),
}

/// A modelled disk below a model of a file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelPlan {
    /// The disk.
    pub disk: DiskPlan,
    /// Size of the file system on it.
    pub size: Bytes,
    /// Bytes of one of its blocks.
    pub block_size: u32,
}

/// How much of what is on disk is verified.
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
    /// Every mode, with the name that `--verify` takes and what it means.
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

/// A plan with a seed, made ready for one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Identity of the trial.
    pub trial_id: String,
    /// The seed that everything arbitrary is drawn from.
    pub seed: u64,
    /// What to do.
    pub plan: Plan,
    /// The trial fails when the venue's clock has run this long.
    pub deadline: Nanos,
    /// Which part of the trial.
    #[serde(default, skip_serializing_if = "Task::is_whole")]
    pub task: Task,
}

/// Which part of a trial an agent does: a disk may be made by one guest, kept, and used by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// All of it.
    #[default]
    Whole,
    /// Only what comes before the phases and stays on the disk: mkfs, and ageing.
    Make,
    /// All but that: the disks are made already.
    Use,
    /// All of it, with a log of the bytes that were written and of when each op came back, in a
    /// region of its own after those of the disks ([`crate::acks`]).
    Logged,
    /// None of it: the file system of this plan is brought back, again and again, from what a
    /// logged trial left at moments at which its power was cut.
    Recover,
}

impl Task {
    /// Whether it is all of a trial, as usual.
    pub fn is_whole(&self) -> bool {
        *self == Task::Whole
    }

    /// Whether it begins with an empty disk and goes to its end.
    pub fn is_all(&self) -> bool {
        matches!(self, Task::Whole | Task::Logged)
    }
}

/// How long the making of a disk may take in the venue's clock: two days.
const MAKE_DEADLINE: Nanos = Nanos(2 * 86_400 * 1_000_000_000);

impl Job {
    /// The job that makes the disks of this one: nothing is left in it that does not decide what
    /// lies on them, so that equal texts of such jobs mean equal disks in one lab.
    pub fn to_make(&self) -> Job {
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

    /// The job as an agent gets it, without what the hash leaves out and what it need not know: in the
    /// lab a name that is a byte longer costs instructions, and would change digits that it must not
    /// decide.
    pub fn for_agent(&self) -> Job {
        let mut job = self.clone();
        job.plan.label.clear();
        // Nor does it matter to the agent how its guest came up.
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
    /// Whether there is no file system: the device itself stands for the workload's one file.
    pub fn is_raw(&self) -> bool {
        self.mount_type.is_empty() && self.kind == "raw"
    }
}

impl Plan {
    /// What `--fs` takes to make the file system again, with its label; none where it was there already.
    pub fn file_system_typed(&self) -> Option<String> {
        let spec = &self.filesystem.as_ref()?.spec;
        Some(if self.label == *spec { spec.clone() } else { format!("{}={spec}", self.label) })
    }

    /// This plan with its hash computed.
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

    /// Into how many shares a phase is split that any number of threads can share: one for each op
    /// that may be in flight.
    pub fn ranks(&self) -> u32 {
        self.threads.saturating_mul(self.issuer.depth())
    }

    /// Whether this plan runs in the lab.
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

    /// The devices of this host, if this plan formats them.
    pub fn device(&self) -> Option<&DevicePlan> {
        match &self.medium {
            MediumPlan::Device(device) => Some(device),
            _ => None,
        }
    }

    /// How its file system is aged before the phases, if it is.
    pub fn age(&self) -> Option<&AgePlan> {
        self.filesystem.as_ref()?.age.as_ref()
    }

    /// The disk's name, if there is a modelled disk.
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
    fn an_agent_is_told_nothing_that_the_hash_leaves_out() {
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
    fn what_does_not_lie_on_the_disk_is_left_out_of_the_job_that_makes_it() {
        let job = |plan: Plan| {
            let (trial_id, deadline) = (plan.hash.clone(), Nanos(u64::from(plan.threads)));
            Job { trial_id, seed: 1, plan: plan.sealed(), deadline, task: Task::Whole }
        };
        let base = job(plan());
        let mut other = plan();
        other.workload.name = "tarball".into();
        (other.threads, other.verify) = (4, VerifyMode::Names);
        assert_eq!(base.to_make(), job(other).to_make());
        assert_ne!(base.to_make(), Job { seed: 2, ..base.clone() }.to_make());
        let sysctls = [("vm.dirty_ratio".to_string(), "5".to_string())].into();
        assert_ne!(base.to_make(), job(Plan { sysctls, ..plan() }).to_make());
    }

    #[test]
    fn a_mode_of_verification_is_typed_as_it_is_recorded() {
        for (name, _, mode) in VerifyMode::ALL {
            assert_eq!(serde_json::to_value(mode).unwrap(), *name);
            assert_eq!(mode.name(), *name);
        }
    }

    #[test]
    fn an_issuer_is_typed_as_it_is_recorded() {
        for typed in ["sync", "io_uring:1", "io_uring:4096", "null"] {
            assert_eq!(typed.parse::<IssuerPlan>().unwrap().to_string(), typed);
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
