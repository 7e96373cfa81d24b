//! The lab of a trial: disks, memory, kernel, CPU and boot mode.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shared::Shared;
use crate::units::Bytes;

/// A guest on modelled disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabPlan {
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
    /// Size of the file system; none takes the whole disk or array.
    pub size: Option<Bytes>,
    /// RAM of the guest.
    pub ram: Bytes,
    /// Memory that can cache files at the start of the first phase, if requested; the
    /// agent then holds the rest of the guest's RAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacheable: Option<Bytes>,
    /// The block scheduler of each disk; none takes the disk profile's.
    pub scheduler: Option<String>,
    /// Kernel release, as `uname -r` prints it; for several builds of one release `RELEASE@REQUEST`, with
    /// the value of `--kernel`.
    pub kernel: String,
    /// Speed of the guest's CPU.
    #[serde(default, skip_serializing_if = "CpuPlan::is_default")]
    pub cpu: CpuPlan,
    /// Boot mode of the guest.
    #[serde(default, skip_serializing_if = "BootPlan::is_cold")]
    pub boot: BootPlan,
    /// Executor of the guest's instructions.
    #[serde(default, skip_serializing_if = "AccelPlan::is_exact")]
    pub accel: AccelPlan,
}

impl LabPlan {
    /// A guest with one disk, used whole, and `ram` of memory; the rest has defaults.
    pub fn new(disk: DiskPlan, ram: Bytes, kernel: &str) -> LabPlan {
        LabPlan {
            disk,
            raid: None,
            journal: None,
            journal_size: None,
            size: None,
            ram,
            cacheable: None,
            scheduler: None,
            kernel: kernel.into(),
            cpu: CpuPlan::default(),
            boot: BootPlan::default(),
            accel: AccelPlan::default(),
        }
    }

    /// The kernel's release alone.
    pub fn kernel_release(&self) -> &str {
        kernel_names(&self.kernel).0
    }

    /// The value of `--kernel` that selects this kernel again.
    pub fn kernel_request(&self) -> &str {
        kernel_names(&self.kernel).1
    }

    /// Number of modelled disks: those of the file system and that of its journal.
    pub fn disks(&self) -> u32 {
        self.data_disks() + u32::from(self.journal.is_some())
    }

    /// Number of disks that the file system itself lies on; 0 if it lies in memory.
    pub fn data_disks(&self) -> u32 {
        if self.in_memory() { 0 } else { self.raid.map_or(1, |raid| raid.disks) }
    }

    /// Returns true if the file system lies in the guest's memory, on no disk.
    pub fn in_memory(&self) -> bool {
        self.disk.name == DiskPlan::MEMORY
    }
}

/// Splits a kernel as plans name it into its release and the value of `--kernel`: `release@request` if several
/// builds have one release, else both are equal.
pub fn kernel_names(kernel: &str) -> (&str, &str) {
    kernel.split_once('@').unwrap_or((kernel, kernel))
}

/// A disk of the catalog or of a user's file, with the whole profile, so that the
/// plan records what was modelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskPlan {
    /// Name in the catalog, or name of the file.
    pub name: String,
    /// The disk profile as JSON; the disk crate interprets it. Whole numbers and strings only.
    pub spec: Shared<Value>,
}

impl DiskPlan {
    /// The name that stands for no disk: the file system lies in memory.
    pub const MEMORY: &str = "memory";

    /// No disk.
    pub fn memory() -> DiskPlan {
        DiskPlan { name: DiskPlan::MEMORY.into(), spec: Shared::default() }
    }
}

/// An md RAID over equal disks: `5x3` is level 5 over three, `5x3:64K` one with chunks of 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RaidPlan {
    /// The level: 0, 1, 5 or 10.
    pub level: u32,
    /// Number of disks.
    pub disks: u32,
    /// Consecutive bytes on one disk; none leaves it to mdadm.
    pub chunk: Option<Bytes>,
}

/// Maximum number of disks of an array: each is a PCI device and a server of the guest.
const MAX_DISKS: u32 = 8;

/// Offset of an array's data on each of its disks. mdadm's own choice grows with the disk (up
/// to 128 MiB, reserved for a reshape); a stated one makes sizes exact, and is a MiB after its superblock.
pub const MD_DATA_OFFSET: Bytes = Bytes(1 << 20);

/// Chunks are whole pages, and at most a MiB, in which partitions are aligned.
const MIN_CHUNK: u64 = 4 << 10;
const MAX_CHUNK: u64 = 1 << 20;

impl RaidPlan {
    /// The capacity of the array in half disks, so that an odd RAID 10 has a whole number.
    pub fn half_disks_of_data(self) -> u64 {
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
            "'{text}' is not a RAID; write LEVELxDISKS, such as 5x3, or with a chunk size: 5x3:64K"
        ))?;
        let least = match raid.level {
            0 | 1 | 10 => 2,
            5 => 3,
            other => return Err(format!("RAID {other} is not supported; use 0, 1, 5 or 10")),
        };
        if !(least..=MAX_DISKS).contains(&raid.disks) {
            return Err(format!(
                "RAID {} takes {least} to {MAX_DISKS} disks, not {}",
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

/// The speed of the guest's CPU in instructions per nanosecond, a power of two: `1/4`, `1`, `2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuPlan {
    /// Binary logarithm of the speed: 0 is one instruction per nanosecond.
    pub log2: i32,
}

/// Slowest and fastest CPU, as powers of two.
const CPU_RANGE: std::ops::RangeInclusive<i32> = -6..=3;

impl CpuPlan {
    /// Returns true for one instruction per nanosecond.
    pub fn is_default(&self) -> bool {
        self.log2 == 0
    }
}

impl fmt::Display for CpuPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = 1u64 << self.log2.unsigned_abs();
        if self.log2 < 0 { write!(f, "1/{power}") } else { write!(f, "{power}") }
    }
}

impl FromStr for CpuPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuPlan, String> {
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        let log2 = |text: &str| {
            let n: u32 = text.parse().ok().filter(|n: &u32| n.is_power_of_two())?;
            Some(n.trailing_zeros() as i32)
        };
        let log2 = log2(numerator).zip(log2(denominator)).map(|(up, down)| up - down);
        match log2.filter(|log2| CPU_RANGE.contains(log2)) {
            Some(log2) => Ok(CpuPlan { log2 }),
            None => Err(format!(
                "'{text}' is not a speed of the lab's CPU; it must be a power of two in \
                 instructions per nanosecond, from {} to {}",
                CpuPlan { log2: *CPU_RANGE.start() },
                CpuPlan { log2: *CPU_RANGE.end() }
            )),
        }
    }
}

impl TryFrom<String> for CpuPlan {
    type Error = String;

    fn try_from(text: String) -> Result<CpuPlan, String> {
        text.parse()
    }
}

impl From<CpuPlan> for String {
    fn from(cpu: CpuPlan) -> String {
        cpu.to_string()
    }
}

/// The boot mode of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BootPlan {
    /// A cold boot of the kernel.
    #[default]
    Cold,
    /// Resumes a snapshot of a booted guest; the snapshot is part of the lab's
    /// identity.
    Snapshot,
}

impl BootPlan {
    /// All modes, with the name that `--boot` takes and a description.
    pub const ALL: &[(&str, &str, BootPlan)] = &[
        ("cold", "Boot the kernel: bit-identical results on every machine", BootPlan::Cold),
        (
            "snapshot",
            "Resume a snapshot of a booted guest: faster; bit-identical with the same snapshot",
            BootPlan::Snapshot,
        ),
    ];

    /// The name that `--boot` takes.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, _, boot)| *boot == self).map_or("", |(name, _, _)| name)
    }

    /// Returns true for a cold boot, the default.
    pub fn is_cold(&self) -> bool {
        *self == BootPlan::Cold
    }
}

/// The executor of a guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccelPlan {
    /// QEMU, instruction by instruction in virtual time.
    #[default]
    Tcg,
    /// This host's own CPU, in real time: nothing is bit-identical, and there is no lab identity.
    Kvm,
}

impl AccelPlan {
    /// All executors, with the name that `--accel` takes and a description.
    pub const ALL: &[(&str, &str, AccelPlan)] = &[
        ("tcg", "QEMU, in virtual time: bit-identical results", AccelPlan::Tcg),
        ("kvm", "This host's CPU, in real time: faster, not bit-identical", AccelPlan::Kvm),
    ];

    /// The name that `--accel` takes.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, _, accel)| *accel == self).map_or("", |(name, _, _)| name)
    }

    /// Returns true if results are bit-identical, the default.
    pub fn is_exact(&self) -> bool {
        *self == AccelPlan::Tcg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_raid_is_its_recorded_form() {
        for text in ["0x2", "1x2", "5x3", "10x4", "10x3", "5x8", "5x3:64K", "0x2:1024K"] {
            assert_eq!(text.parse::<RaidPlan>().unwrap().to_string(), text);
        }
        for (wrong, hint) in [
            ("5", "5x3"),
            ("5x2", "3 to 8"),
            ("6x4", "0, 1, 5 or 10"),
            ("0x9", "2 to 8"),
            ("5x3:", "4 KiB to 1 MiB"),
            ("5x3:3K", "power of two"),
            ("5x3:2M", "power of two"),
            ("1x2:64K", "write 1x2"),
        ] {
            assert!(wrong.parse::<RaidPlan>().unwrap_err().contains(hint), "{wrong}");
        }
    }

    #[test]
    fn an_array_has_the_capacity_of_its_level() {
        let halves = |text: &str| text.parse::<RaidPlan>().unwrap().half_disks_of_data();
        assert_eq!(["0x3", "1x2", "5x3", "10x4", "10x3"].map(halves), [6, 2, 4, 4, 3]);
    }

    #[test]
    fn the_text_of_a_speed_is_its_recorded_form() {
        for (text, log2) in [("1/64", -6), ("1/2", -1), ("1", 0), ("8", 3)] {
            let cpu: CpuPlan = text.parse().unwrap();
            assert_eq!((cpu.log2, cpu.to_string().as_str()), (log2, text));
        }
        for wrong in ["0", "3", "1/3", "16", "1/128", "", "1/0", "x"] {
            assert!(wrong.parse::<CpuPlan>().unwrap_err().contains("1/64 to 8"), "{wrong}");
        }
    }

    #[test]
    fn the_name_of_a_boot_mode_is_its_recorded_form() {
        for (name, _, boot) in BootPlan::ALL {
            assert_eq!(serde_json::to_value(boot).unwrap(), *name);
            assert_eq!(boot.name(), *name);
        }
        for (name, _, accel) in AccelPlan::ALL {
            assert_eq!(serde_json::to_value(accel).unwrap(), *name);
            assert_eq!(accel.name(), *name);
        }
    }
}
