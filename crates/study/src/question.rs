//! What is asked and where, as it was typed, and the cells that come of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsdyno_filesystem::{Author, SpecError};
use fsdyno_record::plan::{
    AccelPlan, AgePlan, BootPlan, CpuPlan, IssuerPlan, RaidPlan, VerifyMode,
};
use fsdyno_record::{Bytes, Nanos, OpKind, Plan};
use fsdyno_venue::Inputs;
use fsdyno_workload::{Needs, workloads};

use crate::settings::SettingError;

/// What is asked, as it was typed.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Names of workloads.
    pub workloads: Vec<String>,
    /// Specs of file systems; none on a directory.
    pub filesystems: Vec<String>,
    /// `[WORKLOAD.]KEY=VALUE`.
    pub sets: Vec<String>,
    /// `KEY=VALUE`.
    pub sysctls: Vec<String>,
    /// Threads that issue ops.
    pub threads: u32,
    /// How they issue them.
    pub issuer: IssuerPlan,
    /// The first seed; where op counts depend on the seed, those shown are of this one.
    pub seed: u64,
    /// How much is verified.
    pub verify: VerifyMode,
    /// Version line of a file system's tool by the file system's name, where it is known: some
    /// options exist only in newer tools.
    pub tool_versions: BTreeMap<String, String>,
    /// The longest that a trial may take in its venue's clock.
    pub deadline: Nanos,
    /// The files that workloads work on, by [`crate::read_inputs`].
    pub inputs: Inputs,
    /// The periods whose settings stand under what is typed, each a row of its own, by name; none is
    /// today. Empty is today alone.
    pub periods: Vec<Option<String>>,
    /// Who wrote it: what stands in a file cannot say everything of a file system on this host.
    pub author: Author,
    /// How the fresh file systems are aged, each a row of its own; empty leaves them fresh.
    pub ages: Vec<Option<AgePlan>>,
}

/// The usual deadline: two days, more than the slowest file system of 2008 took for its 725,000
/// files, so that only what will never end is cut off.
pub const USUAL_DEADLINE: Nanos = Nanos(2 * 86_400 * 1_000_000_000);

/// Where it is to run.
#[derive(Clone, Debug)]
pub enum Place {
    /// On a directory of this host.
    Directory {
        /// The directory, absolute.
        path: PathBuf,
        /// The row's name in tables.
        label: String,
        /// The longest name that its file system takes, in bytes, where it says so.
        longest_name: Option<usize>,
    },
    /// On devices of this host that are formatted anew.
    Device(DevicePlace),
    /// In the lab.
    Lab(LabPlace),
    /// In a model of a file system, in this program.
    Model(ModelPlace),
}

/// What lies below a model of a file system.
#[derive(Clone, Debug)]
pub struct ModelPlace {
    /// Disks, by name or by file.
    pub disks: Vec<String>,
    /// Size of the file system.
    pub size: Size,
}

/// What is formatted on this host.
#[derive(Clone, Debug)]
pub struct DevicePlace {
    /// As `--on` takes it.
    pub on: String,
    /// Its size.
    pub size: Bytes,
    /// How several of it are put together.
    pub raid: Option<RaidPlan>,
    /// Size of another one, for file systems whose spec names `{journal}`; none takes
    /// [`USUAL_JOURNAL`].
    pub journal_size: Option<Bytes>,
}

/// What the lab is to be.
#[derive(Clone, Debug)]
pub struct LabPlace {
    /// Disks, by name or by file.
    pub disks: Vec<String>,
    /// How several of each are put together.
    pub raid: Option<RaidPlan>,
    /// The second disk, for file systems whose spec names `{journal}`; none takes the first again.
    pub journal_disk: Option<String>,
    /// Size of its partition; none takes [`USUAL_JOURNAL`].
    pub journal_size: Option<Bytes>,
    /// Kernels: their releases once they are found, before that what was typed.
    pub kernels: Vec<String>,
    /// Whether the kernels are found: only then is it known what they can have.
    pub found: bool,
    /// RAM of the guest.
    pub ram: Bytes,
    /// Memory that can cache files at the first phase; none leaves all that the guest has.
    pub cacheable: Option<Bytes>,
    /// How fast the guest's CPU is.
    pub cpu: CpuPlan,
    /// How the guest comes up.
    pub boot: BootPlan,
    /// What executes the guest's instructions.
    pub accel: AccelPlan,
    /// Block scheduler; none takes the disk file's.
    pub scheduler: Option<String>,
    /// Size of the file system.
    pub size: Size,
}

impl LabPlace {
    /// One disk and one kernel, which is found; all else as where nothing is said.
    pub fn usual(disk: &str, kernel: &str) -> LabPlace {
        LabPlace {
            disks: vec![disk.into()],
            raid: None,
            journal_disk: None,
            journal_size: None,
            kernels: vec![kernel.into()],
            found: true,
            ram: USUAL_RAM,
            cacheable: None,
            cpu: CpuPlan::default(),
            boot: BootPlan::default(),
            accel: AccelPlan::default(),
            scheduler: None,
            size: Size::default(),
        }
    }
}

/// RAM of the guest where nothing is said.
pub const USUAL_RAM: Bytes = Bytes(1 << 30);

/// How large the file system on a modelled disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// [`USUAL_SIZE`], or the whole disk where that is smaller.
    #[default]
    Usual,
    /// The whole disk.
    Whole,
    /// As said.
    Exactly(Bytes),
}

/// A file system as large as a disk of today takes longer to make, mount and check than most
/// trials run, and holds none of their files elsewhere than a smaller one would.
pub const USUAL_SIZE: Bytes = Bytes(32 << 30);

/// What mke2fs gives a journal inside [`USUAL_SIZE`] (ext2fs_default_journal_size: 65,536 blocks), so
/// that moving one to a disk of its own changes where it lies, and not how large it is.
pub const USUAL_JOURNAL: Bytes = Bytes(256 << 20);

/// One plan, and what can be said of it without running it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The plan.
    pub plan: Plan,
    /// What the work needs of its file system.
    pub needs: Needs,
    /// Exact op counts by phase.
    pub phases: Vec<(String, BTreeMap<OpKind, u64>)>,
    /// Why it cannot run here, where that is known.
    pub skip: Option<String>,
    /// The longest that one of its trials may take in its venue's clock.
    pub deadline: Nanos,
}

impl Cell {
    /// Ops of the whole trial.
    pub fn ops(&self) -> u64 {
        self.phases.iter().flat_map(|(_, counts)| counts.values()).sum()
    }
}

/// What is wrong with a question, in one line that says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// Nothing to run.
    #[error("no workload is named; {0}")]
    NoWorkload(String),
    /// No workload has the name.
    #[error(transparent)]
    Workload(#[from] workloads::UnknownWorkload),
    /// A `--set` cannot be meant.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A parameter has a wrong value.
    #[error(transparent)]
    Param(#[from] fsdyno_workload::params::ParamError),
    /// A spec cannot be meant.
    #[error("--fs '{spec}': {error}")]
    Spec {
        /// As typed.
        spec: String,
        /// What is wrong with it.
        error: String,
    },
    /// No disk has the name.
    #[error("{0}")]
    Disk(String),
    /// Two rows of the table would have one name.
    #[error("two file systems are called '{0}'; give one a name of its own: --fs 'NAME={0}'")]
    SameLabel(String),
    /// Something else that was typed is wrong.
    #[error("{0}")]
    Wrong(String),
}

impl MatrixError {
    pub(crate) fn spec(spec: &str) -> impl FnOnce(SpecError) -> MatrixError + '_ {
        move |error| MatrixError::Spec { spec: spec.to_string(), error: error.to_string() }
    }
}
