//! The medium of a plan, which holds its file system.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::raid::RaidPlan;
use crate::shared::Shared;
use crate::units::Bytes;

/// The medium that holds the file system of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum MediumPlan {
    /// An existing directory; only a fresh subdirectory of it is used.
    Directory {
        /// The directory.
        path: String,
    },
    /// Loop devices over files, created for each trial.
    Loop(EphemeralPlan),
    /// Loop devices over files in memory, created for each trial.
    Ram(EphemeralPlan),
    /// A whole drive of this host, formatted for each trial.
    Drive {
        /// The drive, as the user named it.
        path: String,
    },
    /// Modelled disks.
    Modelled(ModelledPlan),
    /// No disk: the file system is in memory.
    Memory {
        /// Size of the file system, if its options do not set another.
        size: Option<Bytes>,
    },
}

/// Devices that exist for one trial only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct EphemeralPlan {
    /// Size of the device, or of the array of several.
    pub size: Bytes,
    /// The array over several such devices, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidPlan>,
    /// Size of another such device for a journal or log (`{journal}` in a file system's spec), if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_size: Option<Bytes>,
}

/// Modelled disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct ModelledPlan {
    /// The disk; with a RAID, each of its disks.
    pub disk: DiskPlan,
    /// The array over several such disks, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidPlan>,
    /// The second disk, for an external journal or log (`{journal}` in a file system's spec).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<DiskPlan>,
    /// Size of the partition for the journal or log on the second disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_size: Option<Bytes>,
    /// Size of the file system, or null for the whole disk or array.
    pub size: Option<Bytes>,
}

impl From<DiskPlan> for ModelledPlan {
    /// Converts a single disk, used as a whole.
    fn from(disk: DiskPlan) -> ModelledPlan {
        ModelledPlan { disk, raid: None, journal: None, journal_size: None, size: None }
    }
}

/// A disk of the catalog or of a user's file, with the whole profile, so that the
/// plan records the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiskPlan {
    /// Name in the catalog, or name of the profile's file.
    pub name: String,
    /// The disk profile as JSON; the disk crate interprets it. Whole numbers and strings only.
    pub spec: Shared<Value>,
}

/// A kind of device that fsdyno creates for one trial, with the size given in `--on KIND:SIZE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EphemeralSize {
    /// The kind.
    pub kind: EphemeralKind,
    /// The size.
    pub size: Bytes,
}

/// A kind of device that fsdyno creates for one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EphemeralKind {
    /// A loop device over a file.
    Loop,
    /// A loop device over a file in memory.
    Ram,
}

impl EphemeralKind {
    /// All kinds.
    pub const ALL: [EphemeralKind; 2] = [EphemeralKind::Loop, EphemeralKind::Ram];

    /// Returns the name before the colon in `--on NAME:SIZE`.
    pub fn name(self) -> &'static str {
        match self {
            EphemeralKind::Loop => "loop",
            EphemeralKind::Ram => "ram",
        }
    }
}

/// The unit and minimum size of an ephemeral device.
const UNIT: Bytes = Bytes(1 << 20);

impl EphemeralSize {
    /// Parses `NAME:SIZE`; `None` if the name is not that of an ephemeral device.
    pub fn parse(text: &str) -> Option<Result<EphemeralSize, String>> {
        let (name, size) = text.split_once(':').unwrap_or((text, ""));
        let kind = EphemeralKind::ALL.into_iter().find(|kind| kind.name() == name)?;
        let size = size.parse().ok().filter(|Bytes(size)| size % UNIT.0 == 0 && *size > 0);
        Some(size.map(|size| EphemeralSize { kind, size }).ok_or_else(|| {
            format!("'{text}' is invalid; write {name}:SIZE with a size in whole mebibytes, such as {name}:4G")
        }))
    }
}

/// Formats the request in the largest whole unit.
impl fmt::Display for EphemeralSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.size.0 >> 20;
        match mebibytes % 1024 {
            0 => write!(f, "{}:{}G", self.kind.name(), mebibytes / 1024),
            _ => write!(f, "{}:{mebibytes}M", self.kind.name()),
        }
    }
}

impl From<EphemeralSize> for MediumPlan {
    /// Converts a single device, without an array or a journal device.
    fn from(EphemeralSize { kind, size }: EphemeralSize) -> MediumPlan {
        EphemeralPlan { size, raid: None, journal_size: None }.with_kind(kind)
    }
}

impl EphemeralPlan {
    /// Returns the medium with such devices.
    pub fn with_kind(self, kind: EphemeralKind) -> MediumPlan {
        match kind {
            EphemeralKind::Loop => MediumPlan::Loop(self),
            EphemeralKind::Ram => MediumPlan::Ram(self),
        }
    }
}

impl MediumPlan {
    /// Returns the modelled disks, if it has any.
    pub fn modelled(&self) -> Option<&ModelledPlan> {
        match self {
            MediumPlan::Modelled(modelled) => Some(modelled),
            _ => None,
        }
    }

    /// Returns the modelled disks mutably, if it has any.
    pub fn modelled_mut(&mut self) -> Option<&mut ModelledPlan> {
        match self {
            MediumPlan::Modelled(modelled) => Some(modelled),
            _ => None,
        }
    }

    /// Returns the modelled disk, if it has one.
    pub fn disk(&self) -> Option<&DiskPlan> {
        Some(&self.modelled()?.disk)
    }

    /// Returns the modelled disk of the external journal, if it has one.
    pub fn journal(&self) -> Option<&DiskPlan> {
        self.modelled()?.journal.as_ref()
    }

    /// Returns the devices that are created for each trial, if it has any.
    pub fn ephemeral(&self) -> Option<(EphemeralSize, &EphemeralPlan)> {
        let (kind, plan) = match self {
            MediumPlan::Loop(plan) => (EphemeralKind::Loop, plan),
            MediumPlan::Ram(plan) => (EphemeralKind::Ram, plan),
            _ => return None,
        };
        Some((EphemeralSize { kind, size: plan.size }, plan))
    }

    /// Returns the name of its kind, as in records.
    pub fn name(&self) -> &'static str {
        match self {
            MediumPlan::Directory { .. } => "directory",
            MediumPlan::Loop(_) => "loop",
            MediumPlan::Ram(_) => "ram",
            MediumPlan::Drive { .. } => "drive",
            MediumPlan::Modelled(_) => "modelled",
            MediumPlan::Memory { .. } => "memory",
        }
    }

    /// Returns the path, if it is an existing directory.
    pub fn directory(&self) -> Option<&str> {
        match self {
            MediumPlan::Directory { path } => Some(path),
            _ => None,
        }
    }

    /// Returns the path, if it is a drive.
    pub fn drive(&self) -> Option<&str> {
        match self {
            MediumPlan::Drive { path } => Some(path),
            _ => None,
        }
    }

    /// Returns true for devices of this host that are formatted for each trial.
    pub fn is_host_device(&self) -> bool {
        matches!(self, MediumPlan::Loop(_) | MediumPlan::Ram(_) | MediumPlan::Drive { .. })
    }

    /// Returns the array over several disks or devices, if any.
    pub fn raid(&self) -> Option<RaidPlan> {
        match self {
            MediumPlan::Loop(plan) | MediumPlan::Ram(plan) => plan.raid,
            MediumPlan::Modelled(modelled) => modelled.raid,
            MediumPlan::Directory { .. } | MediumPlan::Drive { .. } | MediumPlan::Memory { .. } => {
                None
            }
        }
    }

    /// Returns the size of the second disk or device, or of its partition, for a journal or log.
    pub fn journal_size(&self) -> Option<Bytes> {
        match self {
            MediumPlan::Loop(plan) | MediumPlan::Ram(plan) => plan.journal_size,
            MediumPlan::Modelled(modelled) => modelled.journal_size,
            MediumPlan::Directory { .. } | MediumPlan::Drive { .. } | MediumPlan::Memory { .. } => {
                None
            }
        }
    }

    /// Returns the value of `--size`, if it determines the size of the file system.
    pub fn size(&self) -> Option<Bytes> {
        match self {
            MediumPlan::Modelled(modelled) => modelled.size,
            MediumPlan::Memory { size } => *size,
            MediumPlan::Directory { .. }
            | MediumPlan::Loop(_)
            | MediumPlan::Ram(_)
            | MediumPlan::Drive { .. } => None,
        }
    }

    /// Returns the number of disks or devices that the file system itself is on; 0 if it is in memory.
    pub fn data_disks(&self) -> u32 {
        match self {
            MediumPlan::Memory { .. } => 0,
            _ => self.raid().map_or(1, |raid| raid.disks),
        }
    }

    /// Returns the number of modelled disks: those of the file system and that of its journal.
    pub fn disks(&self) -> u32 {
        self.data_disks() + u32::from(self.journal().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ephemeral_device_is_shown_as_it_is_given() {
        for text in ["loop:8G", "ram:512M", "loop:1536M"] {
            assert_eq!(EphemeralSize::parse(text).unwrap().unwrap().to_string(), text);
        }
        assert_eq!(EphemeralSize::parse("loop:2048M").unwrap().unwrap().to_string(), "loop:2G");
        for invalid in ["loop", "loop:", "ram:1000", "loop:-1G", "ram:0", "loop:x"] {
            assert!(
                EphemeralSize::parse(invalid).unwrap().unwrap_err().contains(":4G"),
                "{invalid}"
            );
        }
        for unknown in ["lab", "/tmp", "loops:1G"] {
            assert!(EphemeralSize::parse(unknown).is_none(), "{unknown}");
        }
    }
}
