//! The flat form of a plan, in which medium and venue are one field. The plan's hash covers this form, an agent
//! receives it, and records of schema 1 contain it.
//!
//! The form is frozen: the identity of an experiment (`hash` and trial ids, and hence resumption, archives and merging)
//! and the bytes that a guest parses depend on it. A plan's own form may change with the schema of records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AccelPlan, BootPlan, CpuPlan, DiskPlan, EphemeralKind, EphemeralPlan, EphemeralSize,
    FilesystemPlan, IssuerPlan, KernelPlan, LabPlan, MediumPlan, ModelledPlan, NetworkPlan, Plan,
    RaidPlan, VenuePlan, VerifyMode, WorkloadPlan,
};
use crate::age::AgePlan;
use crate::canonical;
use crate::shared::Shared;
use crate::units::Bytes;

/// A plan in its flat form; the fields are those of [`Plan`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are those of Plan")]
pub struct FlatPlan {
    pub label: String,
    pub workload: WorkloadPlan,
    pub filesystem: Option<FilesystemPlan>,
    pub medium: FlatMedium,
    pub threads: u32,
    #[serde(default)]
    pub issuer: IssuerPlan,
    pub verify: VerifyMode,
    pub sysctls: BTreeMap<String, String>,
    pub hash: String,
}

/// Medium and venue of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "plans are few")]
pub enum FlatMedium {
    /// An existing directory of this host.
    Directory {
        /// The directory.
        path: String,
    },
    /// Devices of this host, formatted for each trial.
    Device(FlatDevice),
    /// Modelled disks in the lab, or memory.
    Lab(FlatLab),
    /// A modelled disk below a model of a file system.
    Model(FlatModel),
}

/// Devices of this host that are formatted anew for every trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct FlatDevice {
    /// The device in the syntax of `--on`: `loop:8G`, `ram:512M`, or the path of a disk.
    pub on: String,
    /// The array over several such devices, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidPlan>,
    /// Size of another such device for a journal or log, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_size: Option<Bytes>,
}

/// A guest on modelled disks; the fields are those of `ModelledPlan` and `LabPlan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct FlatLab {
    /// The disk; named `memory` if the file system is in memory.
    pub disk: DiskPlan,
    /// The array over several such disks, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidPlan>,
    /// The second disk, for an external journal or log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<DiskPlan>,
    /// Size of the partition for the journal or log on the second disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_size: Option<Bytes>,
    /// Size of the file system, or null for the whole disk or array.
    pub size: Option<Bytes>,
    /// RAM of the guest.
    pub ram: Bytes,
    /// Memory that can cache files at the start of the first phase, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacheable: Option<Bytes>,
    /// The block scheduler of each disk, or null for the disk profile's.
    pub scheduler: Option<String>,
    /// The release, as `uname -r` prints it; for several builds of one release `RELEASE@REQUEST`.
    pub kernel: String,
    /// The guest's CPU.
    #[serde(default, skip_serializing_if = "CpuPlan::is_default")]
    pub cpu: CpuPlan,
    /// Boot mode of the guest.
    #[serde(default, skip_serializing_if = "BootPlan::is_cold")]
    pub boot: BootPlan,
    /// Executor of the guest's instructions.
    #[serde(default, skip_serializing_if = "AccelPlan::is_exact")]
    pub accel: AccelPlan,
    /// Number of clients that mount the file system, if it is shared over a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The network between the clients and the server, if the file system is shared over one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPlan>,
}

/// A modelled disk below a model of a file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct FlatModel {
    /// The disk.
    pub disk: DiskPlan,
    /// Size of the file system on it.
    pub size: Bytes,
    /// Block size in bytes.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = [1024, 2048, 4096])))]
    pub block_size: u32,
}

/// The disk name that stands for no disk: the file system is in memory.
const MEMORY: &str = "memory";

impl FlatDevice {
    /// Returns the number of devices that the file system itself is on.
    pub fn data_disks(&self) -> u32 {
        self.raid.map_or(1, |raid| raid.disks)
    }
}

impl FlatLab {
    /// Returns the number of modelled disks: those of the file system and that of its journal.
    pub fn disks(&self) -> u32 {
        self.data_disks() + u32::from(self.journal.is_some())
    }

    /// Returns the number of disks that the file system itself is on; 0 if it is in memory.
    pub fn data_disks(&self) -> u32 {
        if self.in_memory() { 0 } else { self.raid.map_or(1, |raid| raid.disks) }
    }

    /// Returns true if the file system is in the guest's memory and not on a disk.
    pub fn in_memory(&self) -> bool {
        self.disk.name == MEMORY
    }
}

impl FlatPlan {
    /// Computes the hash of a plan, over all fields except the label, the hash and the path of an input.
    pub(super) fn compute_hash(&self) -> String {
        hash_of(self, &self.workload)
    }

    /// Returns the number of threads that issue operations: those of all clients.
    pub fn all_threads(&self) -> u32 {
        let clients = self.lab().and_then(|lab| lab.clients).unwrap_or(1);
        self.threads.saturating_mul(clients)
    }

    /// Returns the number of shares into which a phase with a variable number of threads is split.
    pub fn ranks(&self) -> u32 {
        self.all_threads().saturating_mul(self.issuer.depth())
    }

    /// Returns true if this plan runs in the lab.
    pub fn in_lab(&self) -> bool {
        self.lab().is_some()
    }

    /// Returns the lab part, if this plan runs in the lab.
    pub fn lab(&self) -> Option<&FlatLab> {
        match &self.medium {
            FlatMedium::Lab(lab) => Some(lab),
            _ => None,
        }
    }

    /// Returns the devices of this host that this plan formats, if any.
    pub fn device(&self) -> Option<&FlatDevice> {
        match &self.medium {
            FlatMedium::Device(device) => Some(device),
            _ => None,
        }
    }

    /// Returns the ageing of its file system before the phases, if any.
    pub fn age(&self) -> Option<&AgePlan> {
        self.filesystem.as_ref()?.age.as_ref()
    }
}

/// Computes the hash of a plan in any form.
pub(super) fn hash_of(plan: &impl Serialize, workload: &WorkloadPlan) -> String {
    let mut value = serde_json::to_value(plan).unwrap_or(Value::Null);
    if let Value::Object(fields) = &mut value {
        fields.remove("label");
        fields.remove("hash");
        if let Some(input) = &workload.input
            && let Some(Value::Object(params)) = value.pointer_mut("/workload/params")
        {
            params.remove(&input.parameter);
        }
    }
    canonical::sha256_hex(value.to_string().as_bytes())
}

impl TryFrom<Plan> for FlatPlan {
    type Error = String;

    /// Fails for a combination of medium and venue that schema 1 cannot express.
    fn try_from(plan: Plan) -> Result<FlatPlan, String> {
        let Plan { label, workload, filesystem, medium, venue, .. } = plan;
        let Plan { threads, issuer, verify, sysctls, hash, .. } = plan;
        let medium = flat_medium(medium, venue)?;
        Ok(FlatPlan { label, workload, filesystem, medium, threads, issuer, verify, sysctls, hash })
    }
}

fn flat_medium(medium: MediumPlan, venue: VenuePlan) -> Result<FlatMedium, String> {
    Ok(match (medium, venue) {
        (MediumPlan::Directory { path }, VenuePlan::Host) => FlatMedium::Directory { path },
        (MediumPlan::Loop(plan), VenuePlan::Host) => ephemeral_device(EphemeralKind::Loop, &plan),
        (MediumPlan::Ram(plan), VenuePlan::Host) => ephemeral_device(EphemeralKind::Ram, &plan),
        (MediumPlan::Drive { path }, VenuePlan::Host) => {
            FlatMedium::Device(FlatDevice { on: path, raid: None, journal_size: None })
        }
        (MediumPlan::Modelled(modelled), VenuePlan::Lab(venue)) => {
            FlatMedium::Lab(flat_lab(modelled, venue))
        }
        (MediumPlan::Memory { size }, VenuePlan::Lab(venue)) => {
            let disk = DiskPlan { name: MEMORY.into(), spec: Shared::default() };
            FlatMedium::Lab(flat_lab(ModelledPlan { size, ..disk.into() }, venue))
        }
        (
            MediumPlan::Modelled(ModelledPlan {
                disk,
                raid: None,
                journal: None,
                journal_size: None,
                size: Some(size),
            }),
            VenuePlan::Model { block_size },
        ) => FlatMedium::Model(FlatModel { disk, size, block_size }),
        (medium, _) => {
            return Err(format!("its venue cannot use a medium such as {}", medium.name()));
        }
    })
}

fn ephemeral_device(kind: EphemeralKind, plan: &EphemeralPlan) -> FlatMedium {
    let EphemeralPlan { size, raid, journal_size } = *plan;
    let on = EphemeralSize { kind, size }.to_string();
    FlatMedium::Device(FlatDevice { on, raid, journal_size })
}

fn flat_lab(modelled: ModelledPlan, lab: LabPlan) -> FlatLab {
    let ModelledPlan { disk, raid, journal, journal_size, size } = modelled;
    // The machine is only a name for values that the form already contains.
    let LabPlan { kernel, ram, cacheable, scheduler, cpu, boot, accel, machine: _, .. } = lab;
    let LabPlan { clients, network, .. } = lab;
    let kernel = kernel.to_string();
    FlatLab {
        disk,
        raid,
        journal,
        journal_size,
        size,
        ram,
        cacheable,
        scheduler,
        kernel,
        cpu,
        boot,
        accel,
        clients,
        network,
    }
}

impl TryFrom<FlatMedium> for (MediumPlan, VenuePlan) {
    type Error = String;

    fn try_from(flat: FlatMedium) -> Result<(MediumPlan, VenuePlan), String> {
        Ok(match flat {
            FlatMedium::Directory { path } => (MediumPlan::Directory { path }, VenuePlan::Host),
            FlatMedium::Device(device) => (device_medium(device)?, VenuePlan::Host),
            FlatMedium::Lab(lab) => {
                let (medium, lab) = medium_and_lab(lab)?;
                (medium, VenuePlan::Lab(lab))
            }
            FlatMedium::Model(FlatModel { disk, size, block_size }) => {
                let modelled = ModelledPlan { size: Some(size), ..disk.into() };
                (MediumPlan::Modelled(modelled), VenuePlan::Model { block_size })
            }
        })
    }
}

fn device_medium(device: FlatDevice) -> Result<MediumPlan, String> {
    let FlatDevice { on, raid, journal_size } = device;
    let Some(ephemeral) = EphemeralSize::parse(&on) else {
        return match (raid, journal_size) {
            (None, None) => Ok(MediumPlan::Drive { path: on }),
            _ => Err(format!("the drive {on} cannot have an array or a journal device")),
        };
    };
    let EphemeralSize { kind, size } = ephemeral?;
    Ok(EphemeralPlan { size, raid, journal_size }.with_kind(kind))
}

fn medium_and_lab(lab: FlatLab) -> Result<(MediumPlan, LabPlan), String> {
    let in_memory = lab.in_memory();
    let FlatLab { disk, raid, journal, journal_size, size, ram, cacheable, .. } = lab;
    let FlatLab { scheduler, kernel, cpu, boot, accel, clients, network, .. } = lab;
    let medium = match (in_memory, raid, &journal, journal_size) {
        (false, ..) => {
            MediumPlan::Modelled(ModelledPlan { disk, raid, journal, journal_size, size })
        }
        (true, None, None, None) => MediumPlan::Memory { size },
        _ => return Err("a file system in memory cannot have an array or a journal disk".into()),
    };
    let kernel = match kernel.split_once('@') {
        Some((release, request)) => {
            KernelPlan { release: release.into(), request: Some(request.into()) }
        }
        None => kernel.as_str().into(),
    };
    let guest = LabPlan { cacheable, scheduler, cpu, boot, accel, ..LabPlan::new(kernel, ram) };
    Ok((medium, LabPlan { clients, network, ..guest }))
}
