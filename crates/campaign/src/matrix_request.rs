//! The experiment as the user specified it, and the cells that result from it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

pub use fsdyno_axes::{DEFAULT_RAM, Size};
use fsdyno_filesystem::{Author, SpecError};
use fsdyno_record::plan::{
    AgePlan, EphemeralPlan, EphemeralSize, IssuerPlan, KernelPlan, LabPlan, MediumPlan,
    NetworkPlan, RaidPlan, RanksPlan, Target, VerifyMode,
};
use fsdyno_record::{Bytes, Nanos, OpKind, Plan};
use fsdyno_venue::Inputs;
use fsdyno_workload::{Needs, workloads};

use crate::settings::SettingError;

/// An experiment as the user specified it.
#[derive(Clone, Debug, Default)]
pub struct MatrixRequest {
    /// Names of workloads.
    pub workloads: Vec<String>,
    /// Specs of file systems, or empty on a directory.
    pub filesystems: Vec<String>,
    /// Parameters of workloads: `[WORKLOAD.]KEY=VALUE`.
    pub parameters: Vec<String>,
    /// Sysctls: `KEY=VALUE`.
    pub sysctls: Vec<String>,
    /// Number of threads that issue ops.
    pub threads: u32,
    /// Method of issuing ops.
    pub issuer: IssuerPlan,
    /// The first seed; op counts that depend on the seed are shown for it.
    pub seed: u64,
    /// Extent of verification.
    pub verify: VerifyMode,
    /// Version lines of the file systems' tools, if known, keyed by file system name: some options exist only in newer
    /// tools.
    pub tool_versions: BTreeMap<String, String>,
    /// Time limit of a trial, by its venue's clock.
    pub deadline: Nanos,
    /// Input files of workloads, from [`crate::read_inputs`].
    pub inputs: Inputs,
    /// Names of the periods whose settings apply if no option is given, each a separate row; `None` is the
    /// present. Empty means only the present.
    pub periods: Vec<Option<String>>,
    /// Author of the request: a file is not allowed to specify everything about a file system on this host.
    pub author: Author,
    /// Ages of the file systems, each a separate row. If empty, they are fresh.
    pub ages: Vec<Option<AgePlan>>,
    /// The processes that share each trial, if there are several.
    pub ranks: Option<RanksPlan>,
}

/// Default deadline: two days, which is more than the slowest file system of 2008 took for 725,000 files, so that only
/// endless trials reach it.
pub const DEFAULT_DEADLINE: Nanos = Nanos(2 * 86_400 * 1_000_000_000);

/// The target of an experiment, resolved.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "places are few")]
pub enum Place {
    /// A directory of this host.
    Directory {
        /// The directory, absolute.
        path: PathBuf,
        /// Label of the row in tables.
        label: String,
        /// Maximum length of a file name on its file system in bytes, if known.
        max_name_length: Option<usize>,
    },
    /// Devices of this host, formatted for each trial.
    Device(DevicePlace),
    /// The lab.
    Lab(LabPlace),
    /// A model of a file system, in this program.
    Model(ModelPlace),
}

/// The disks below a model of a file system.
#[derive(Clone, Debug)]
pub struct ModelPlace {
    /// Disks, by name or by file.
    pub disks: Vec<String>,
    /// Size of the file system.
    pub size: Size,
}

/// A device of this host to be formatted.
#[derive(Clone, Debug)]
pub struct DevicePlace {
    /// The device.
    pub device: HostDevice,
    /// Size of the device.
    pub size: Bytes,
    /// RAID array of several such devices, if any.
    pub raid: Option<RaidPlan>,
    /// Size of a second device for file systems whose spec names `{journal}`; [`DEFAULT_JOURNAL`] by default.
    pub journal_size: Option<Bytes>,
}

/// A device of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostDevice {
    /// A device that is created for each trial.
    Ephemeral(EphemeralSize),
    /// A whole drive, by its path.
    Drive(String),
}

impl fmt::Display for HostDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostDevice::Ephemeral(device) => device.fmt(f),
            HostDevice::Drive(path) => f.write_str(path),
        }
    }
}

impl DevicePlace {
    /// Returns the medium of a plan; `journal_size` is the size of a second such device for its journal, if any.
    pub fn medium(&self, journal_size: Option<Bytes>) -> MediumPlan {
        match &self.device {
            HostDevice::Ephemeral(EphemeralSize { kind, size }) => {
                EphemeralPlan { size: *size, raid: self.raid, journal_size }.with_kind(*kind)
            }
            HostDevice::Drive(path) => MediumPlan::Drive { path: path.clone() },
        }
    }
}

impl Place {
    /// Returns the value of `--on` that selects this target.
    pub fn target(&self) -> Target {
        match self {
            Place::Directory { path, .. } => Target::Path(path.to_string_lossy().into_owned()),
            Place::Device(DevicePlace { device: HostDevice::Ephemeral(device), .. }) => {
                Target::Ephemeral(*device)
            }
            Place::Device(DevicePlace { device: HostDevice::Drive(path), .. }) => {
                Target::Path(path.clone())
            }
            Place::Lab(_) => Target::Lab,
            Place::Model(_) => Target::Model,
        }
    }
}

/// The lab as a target: the parts of its machines, their kernels, and the guest.
#[derive(Clone, Debug)]
pub struct LabPlace {
    /// Disks, by name or by file.
    pub disks: Vec<String>,
    /// RAID array of several instances of each disk, if any.
    pub raid: Option<RaidPlan>,
    /// Second disk, for file systems whose spec names `{journal}`; by default the same as the first.
    pub journal_disk: Option<String>,
    /// Size of the journal's partition; [`DEFAULT_JOURNAL`] by default.
    pub journal_size: Option<Bytes>,
    /// Numbers of clients of a shared file system, or empty for one client.
    pub clients: Vec<u32>,
    /// Networks of a shared file system, or empty for the default one.
    pub networks: Vec<NetworkPlan>,
    /// Kernels: the requested names, or their releases once they are found.
    pub kernels: Vec<KernelPlan>,
    /// True if the kernels are found: only then are their features known.
    pub found: bool,
    /// The guest, except for its kernel.
    pub guest: LabPlan,
    /// Size of the file system.
    pub size: Size,
}

impl LabPlace {
    /// Creates a target with one disk, one kernel (which counts as found), and defaults for everything else.
    pub fn with_defaults(disk: &str, kernel: &str) -> LabPlace {
        LabPlace {
            disks: vec![disk.into()],
            raid: None,
            journal_disk: None,
            journal_size: None,
            clients: Vec::new(),
            networks: Vec::new(),
            kernels: vec![kernel.into()],
            found: true,
            guest: LabPlan::new("", DEFAULT_RAM),
            size: Size::default(),
        }
    }
}

/// Default size of a file system. A file system as large as a present-day disk takes longer to create, mount and
/// check than most trials run, and stores their files in the same locations.
pub const DEFAULT_SIZE: Bytes = Bytes(32 << 30);

/// Default size of a journal on a second disk: the one that mke2fs chooses for a journal within [`DEFAULT_SIZE`]
/// (ext2fs_default_journal_size: 65,536 blocks), so that moving the journal changes its location but not its size.
pub const DEFAULT_JOURNAL: Bytes = Bytes(256 << 20);

/// One plan, and the facts about it that are known without running it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Number of its row in the table of the whole experiment, from 0.
    pub row: u32,
    /// The plan.
    pub plan: Plan,
    /// The workload's requirements for its file system.
    pub needs: Needs,
    /// Exact op counts by phase.
    pub phases: Vec<(String, BTreeMap<OpKind, u64>)>,
    /// Reason why it cannot run here, if known.
    pub skip: Option<String>,
    /// Time limit of one of its trials, by its venue's clock.
    pub deadline: Nanos,
}

impl Cell {
    /// Returns the number of ops of the whole trial.
    pub fn ops(&self) -> u64 {
        self.phases.iter().flat_map(|(_, counts)| counts.values()).sum()
    }
}

/// An error in a request, as one line that states what would be valid.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// Nothing to run.
    #[error("no workload is named; {0}")]
    NoWorkload(String),
    /// No workload has the given name.
    #[error(transparent)]
    Workload(#[from] workloads::UnknownWorkload),
    /// A `--set` is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A parameter has an invalid value.
    #[error(transparent)]
    Param(#[from] fsdyno_workload::params::ParamError),
    /// A spec is invalid.
    #[error("--fs '{spec}': {error}")]
    Spec {
        /// The given spec.
        spec: String,
        /// The error in it.
        error: String,
    },
    /// No disk has the given name.
    #[error("{0}")]
    Disk(String),
    /// Two rows of the table would have the same name.
    #[error("two file systems are called '{0}'; give one another name: --fs 'NAME={0}'")]
    SameLabel(String),
    /// Another error.
    #[error("{0}")]
    Wrong(String),
}

impl MatrixError {
    pub(crate) fn spec(spec: &str) -> impl FnOnce(SpecError) -> MatrixError + '_ {
        move |error| MatrixError::Spec { spec: spec.to_string(), error: error.to_string() }
    }
}
