//! The atomic write unit of a disk: the unit that a power cut leaves written either completely or not at all.
//!
//! A drive writes a physical sector completely or not at all, because its checksum follows its last byte. If physical
//! sectors are larger than those that the host addresses (4096 and 512 bytes, "512e"), the drive rewrites the whole
//! sector even if the host writes only part of it, so that the medium has either its old or its new contents.

use std::fmt;
use std::str::FromStr;

use fsdyno_disk::{DiskSpec, SECTOR};
use fsdyno_record::Plan;
use serde::{Deserialize, Serialize};

/// An aligned unit of bytes that is written completely or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct AtomicUnit(u32);

/// The valid sizes, which are those of a disk profile.
const SIZES: [u32; 4] = [512, 1024, 2048, 4096];

/// A size that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAtomicUnit(String);

impl fmt::Display for InvalidAtomicUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a valid atomic write unit; it must be 512, 1024, 2048 or 4096 bytes",
            self.0
        )
    }
}

impl std::error::Error for InvalidAtomicUnit {}

impl AtomicUnit {
    /// 512 bytes: the smallest sector that a host can address, which no disk splits.
    pub const MIN: AtomicUnit = AtomicUnit(512);

    /// Returns the physical sector size of the disk of a lab plan, or the minimum for any other plan.
    pub fn of(plan: &Plan) -> AtomicUnit {
        let disk = plan.lab().and(plan.medium.disk());
        let spec = disk.and_then(|disk| DiskSpec::from_json(&disk.spec).ok());
        spec.and_then(|spec| AtomicUnit::try_from(spec.queue.physical_block_size).ok())
            .unwrap_or_default()
    }

    /// Returns the size in bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// Returns the size in sectors of 512 bytes.
    pub fn sectors(self) -> u64 {
        u64::from(self.0) / SECTOR
    }
}

impl Default for AtomicUnit {
    /// Returns the unit of results and findings that are older than this field.
    fn default() -> AtomicUnit {
        AtomicUnit::MIN
    }
}

impl fmt::Display for AtomicUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

impl TryFrom<u32> for AtomicUnit {
    type Error = InvalidAtomicUnit;

    fn try_from(bytes: u32) -> Result<AtomicUnit, InvalidAtomicUnit> {
        SIZES
            .contains(&bytes)
            .then_some(AtomicUnit(bytes))
            .ok_or_else(|| InvalidAtomicUnit(bytes.to_string()))
    }
}

impl From<AtomicUnit> for u32 {
    fn from(unit: AtomicUnit) -> u32 {
        unit.0
    }
}

impl FromStr for AtomicUnit {
    type Err = InvalidAtomicUnit;

    fn from_str(text: &str) -> Result<AtomicUnit, InvalidAtomicUnit> {
        let bytes: u32 = text.parse().map_err(|_| InvalidAtomicUnit(text.to_string()))?;
        AtomicUnit::try_from(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_sizes_round_trip_through_text_and_json_and_others_are_refused() {
        for bytes in SIZES {
            let unit: AtomicUnit = bytes.to_string().parse().unwrap();
            assert_eq!((unit.bytes(), unit.sectors()), (bytes, u64::from(bytes) / 512));
            assert_eq!(serde_json::to_string(&unit).unwrap(), bytes.to_string());
            assert_eq!(serde_json::from_str::<AtomicUnit>(&bytes.to_string()).unwrap(), unit);
        }
        for invalid in ["0", "4K", "513", "8192", "-512", ""] {
            assert!(invalid.parse::<AtomicUnit>().is_err(), "{invalid}");
        }
        assert!(
            serde_json::from_str::<AtomicUnit>("4097").unwrap_err().to_string().contains("4097")
        );
    }

    #[test]
    fn the_atomic_unit_of_a_catalog_disk_is_its_physical_sector() {
        let unit_of = |name: &str| {
            let spec = fsdyno_disk::catalog::get(name).unwrap();
            AtomicUnit::try_from(spec.queue.physical_block_size).unwrap().bytes()
        };
        assert_eq!(["hdd-7200", "hdd-7200-18tb"].map(unit_of), [4096, 4096]);
        let old = ["ide-2001", "scsi-10k-2004", "ata-2006", "ide-2008", "sata-2009"];
        assert_eq!(old.map(unit_of), [512; 5]);
    }
}
