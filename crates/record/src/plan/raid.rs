//! The RAID array of a plan's medium.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// An md RAID over equal disks: `5x3` is level 5 over three, `5x3:64K` one with chunks of 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(extend("pattern" = "^(0|1|5|10)x[2-8](:[1-9][0-9]*K)?$")))]
pub struct RaidPlan {
    /// The level: 0, 1, 5 or 10.
    pub level: u32,
    /// Number of disks.
    pub disks: u32,
    /// Chunk size: the number of consecutive bytes on one disk, or `None` for mdadm's default.
    pub chunk: Option<Bytes>,
}

/// Maximum number of disks of an array: each takes a PCI device and an NBD server in the guest.
const MAX_DISKS: u32 = 8;

/// Offset of an array's data on each of its disks. mdadm's own choice grows with the disk (up
/// to 128 MiB, reserved for a reshape); a fixed one makes sizes exact. The superblock is before it.
pub const MD_DATA_OFFSET: Bytes = Bytes(1 << 20);

/// Limits of a chunk: a page, and the MiB to which partitions are aligned.
const MIN_CHUNK: u64 = 4 << 10;
const MAX_CHUNK: u64 = 1 << 20;

impl RaidPlan {
    /// Returns the capacity of the array in half disks, which is a whole number even for RAID 10 over an odd number of
    /// disks.
    pub fn capacity_in_half_disks(self) -> u64 {
        let disks = u64::from(self.disks);
        match self.level {
            0 => 2 * disks,
            1 => 2,
            5 => 2 * (disks - 1),
            _ => disks,
        }
    }
}

impl fmt::Display for RaidPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.level, self.disks)?;
        match self.chunk {
            Some(chunk) => write!(f, ":{}K", chunk.0 / 1024),
            None => Ok(()),
        }
    }
}

impl FromStr for RaidPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<RaidPlan, String> {
        let (shape, chunk) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        let parts = shape.split_once('x').and_then(|(level, disks)| {
            Some(RaidPlan { level: level.parse().ok()?, disks: disks.parse().ok()?, chunk: None })
        });
        let mut raid = parts.ok_or(format!(
            "'{text}' is not a RAID layout; write LEVELxDISKS, such as 5x3, or with a chunk size: 5x3:64K"
        ))?;
        let min = match raid.level {
            0 | 1 | 10 => 2,
            5 => 3,
            level => return Err(format!("RAID {level} is not supported; use 0, 1, 5 or 10")),
        };
        if !(min..=MAX_DISKS).contains(&raid.disks) {
            return Err(format!(
                "RAID {} takes {min} to {MAX_DISKS} disks, not {}",
                raid.level, raid.disks
            ));
        }
        if let Some(chunk) = chunk {
            let size = chunk.parse().ok().filter(|Bytes(size)| {
                size.is_power_of_two() && (MIN_CHUNK..=MAX_CHUNK).contains(size)
            });
            raid.chunk = Some(size.ok_or(format!(
                "'{chunk}' is not a chunk size; it must be a power of two from {} to {}",
                Bytes(MIN_CHUNK),
                Bytes(MAX_CHUNK)
            ))?);
            if raid.level == 1 {
                return Err(format!("RAID 1 has no chunks; write {shape}"));
            }
        }
        Ok(raid)
    }
}

impl TryFrom<String> for RaidPlan {
    type Error = String;

    fn try_from(text: String) -> Result<RaidPlan, String> {
        text.parse()
    }
}

impl From<RaidPlan> for String {
    fn from(raid: RaidPlan) -> String {
        raid.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raid_plans_round_trip_as_text_and_errors_give_the_correction() {
        for text in ["0x2", "1x2", "5x3", "10x4", "10x3", "5x8", "5x3:64K", "0x2:1024K"] {
            assert_eq!(text.parse::<RaidPlan>().unwrap().to_string(), text);
        }
        for (invalid, hint) in [
            ("5", "5x3"),
            ("5x2", "3 to 8"),
            ("6x4", "0, 1, 5 or 10"),
            ("0x9", "2 to 8"),
            ("5x3:", "4 KiB to 1 MiB"),
            ("5x3:3K", "power of two"),
            ("5x3:2M", "power of two"),
            ("1x2:64K", "write 1x2"),
        ] {
            assert!(invalid.parse::<RaidPlan>().unwrap_err().contains(hint), "{invalid}");
        }
    }

    #[test]
    fn an_array_has_the_capacity_of_its_level() {
        let halves = |text: &str| text.parse::<RaidPlan>().unwrap().capacity_in_half_disks();
        assert_eq!(["0x3", "1x2", "5x3", "10x4", "10x3"].map(halves), [6, 2, 4, 4, 3]);
    }
}
