//! What a trial's lab is made of: disks, memory, kernel, CPU, and how the guest comes up.

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
    /// How several such disks are put together, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidPlan>,
    /// The second disk, for an external journal or log (`{journal}` in a file system's spec).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<DiskPlan>,
    /// Size of the partition on the second disk that the journal or log gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_size: Option<Bytes>,
    /// Size of the file system; none takes the whole disk or array.
    pub size: Option<Bytes>,
    /// RAM of the guest.
    pub ram: Bytes,
    /// Memory that can cache files at the start of the first phase, where it was asked for; the
    /// rest of the guest's RAM is then held by the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacheable: Option<Bytes>,
    /// The block scheduler of each disk; none takes the disk file's.
    pub scheduler: Option<String>,
    /// Kernel release, as `uname -r` prints it; of several builds of one release `RELEASE@FILE`, with
    /// what was typed for each.
    pub kernel: String,
    /// How fast the guest's CPU is.
    #[serde(default, skip_serializing_if = "CpuPlan::is_usual")]
    pub cpu: CpuPlan,
    /// How the guest comes up.
    #[serde(default, skip_serializing_if = "BootPlan::is_cold")]
    pub boot: BootPlan,
    /// What executes its instructions.
    #[serde(default, skip_serializing_if = "AccelPlan::is_exact")]
    pub accel: AccelPlan,
}

impl LabPlan {
    /// One such disk, used whole, in a guest of so much RAM; all else as usual.
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

    /// What `--kernel` takes to bring this kernel again.
    pub fn kernel_typed(&self) -> &str {
        kernel_names(&self.kernel).1
    }

    /// How many modelled disks the guest has: those of the file system, and that of its journal.
    pub fn disks(&self) -> u32 {
        self.data_disks() + u32::from(self.journal.is_some())
    }

    /// How many disks the file system itself lies on; none, if it lies in memory.
    pub fn data_disks(&self) -> u32 {
        if self.in_memory() { 0 } else { self.raid.map_or(1, |raid| raid.disks) }
    }

    /// Whether the file system lies in the guest's memory, and on no disk.
    pub fn in_memory(&self) -> bool {
        self.disk.name == DiskPlan::MEMORY
    }
}

/// The release of a kernel as plans name it, and what `--kernel` took for it: `release@typed` where several
/// builds have one release, else the same twice.
pub fn kernel_names(kernel: &str) -> (&str, &str) {
    kernel.split_once('@').unwrap_or((kernel, kernel))
}

/// A disk of the catalog, or of a file of the user's, with its file's whole content, so that the
/// plan says what was modelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskPlan {
    /// Its name in the catalog, or the name of its file.
    pub name: String,
    /// The disk's file as JSON; the disk crate gives it meaning. Whole numbers and strings only.
    pub spec: Shared<Value>,
}

impl DiskPlan {
    /// The name of no disk at all: the file system lies in memory.
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
    /// How many disks.
    pub disks: u32,
    /// Bytes that lie on one disk before the next one's turn; none leaves it to mdadm.
    pub chunk: Option<Bytes>,
}

/// The most disks of an array: each is a PCI device and a server of the guest.
const MOST_DISKS: u32 = 8;

/// Where the bytes of an array begin on each of its disks. mdadm's own choice grows with the disk (up
/// to 128 MiB, room for a reshape); a stated one makes sizes exact, and is a MiB after its superblock.
pub const MD_DATA_OFFSET: Bytes = Bytes(1 << 20);

/// Chunks are whole pages, and at most a MiB, in which partitions are aligned.
const LEAST_CHUNK: u64 = 4 << 10;
const MOST_CHUNK: u64 = 1 << 20;

impl RaidPlan {
    /// Disks whose bytes the user gets: the capacity of the array in units of one disk, times two
    /// so that an odd RAID 10 has a whole number.
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

    fn from_str(typed: &str) -> Result<RaidPlan, String> {
        let (shape, chunk) = typed.split_once(':').map_or((typed, None), |(a, b)| (a, Some(b)));
        let parts = shape.split_once('x').and_then(|(level, disks)| {
            Some(RaidPlan { level: level.parse().ok()?, disks: disks.parse().ok()?, chunk: None })
        });
        let mut raid = parts.ok_or(format!(
            "'{typed}' is no RAID; it is LEVELxDISKS, such as 5x3, or with a chunk size: 5x3:64K"
        ))?;
        let least = match raid.level {
            0 | 1 | 10 => 2,
            5 => 3,
            other => return Err(format!("there is no RAID {other} here; it is 0, 1, 5 or 10")),
        };
        if !(least..=MOST_DISKS).contains(&raid.disks) {
            return Err(format!(
                "RAID {} takes {least} to {MOST_DISKS} disks here, not {}",
                raid.level, raid.disks
            ));
        }
        if let Some(chunk) = chunk {
            let size = chunk.parse().ok().filter(|Bytes(size)| {
                size.is_power_of_two() && (LEAST_CHUNK..=MOST_CHUNK).contains(size)
            });
            raid.chunk = Some(size.ok_or(format!(
                "'{chunk}' is no chunk size; it is a power of two from {} to {}",
                Bytes(LEAST_CHUNK),
                Bytes(MOST_CHUNK)
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

    fn try_from(typed: String) -> Result<RaidPlan, String> {
        typed.parse()
    }
}

impl From<RaidPlan> for String {
    fn from(raid: RaidPlan) -> String {
        raid.to_string()
    }
}

/// The speed of the guest's CPU in instructions a nanosecond, a power of two: `1/4`, `1`, `2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuPlan {
    /// Its logarithm to the base of two: 0 is one instruction a nanosecond.
    pub log2: i32,
}

/// Slowest and fastest CPU, as powers of two.
const CPU_RANGE: std::ops::RangeInclusive<i32> = -6..=3;

impl CpuPlan {
    /// Whether it is one instruction a nanosecond, as usual.
    pub fn is_usual(&self) -> bool {
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

    fn from_str(typed: &str) -> Result<CpuPlan, String> {
        let (numerator, denominator) = typed.split_once('/').unwrap_or((typed, "1"));
        let log2 = |text: &str| {
            let n: u32 = text.parse().ok().filter(|n: &u32| n.is_power_of_two())?;
            Some(n.trailing_zeros() as i32)
        };
        let log2 = log2(numerator).zip(log2(denominator)).map(|(up, down)| up - down);
        match log2.filter(|log2| CPU_RANGE.contains(log2)) {
            Some(log2) => Ok(CpuPlan { log2 }),
            None => Err(format!(
                "'{typed}' is no speed of the lab's CPU; it is a power of two in instructions a \
                 nanosecond, from {} to {}",
                CpuPlan { log2: *CPU_RANGE.start() },
                CpuPlan { log2: *CPU_RANGE.end() }
            )),
        }
    }
}

impl TryFrom<String> for CpuPlan {
    type Error = String;

    fn try_from(typed: String) -> Result<CpuPlan, String> {
        typed.parse()
    }
}

impl From<CpuPlan> for String {
    fn from(cpu: CpuPlan) -> String {
        cpu.to_string()
    }
}

/// How a guest comes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BootPlan {
    /// The kernel boots anew.
    #[default]
    Cold,
    /// It goes on from a snapshot of a guest that had booted; the snapshot is part of the lab's
    /// identity.
    Snapshot,
}

impl BootPlan {
    /// Every way, with the name that `--boot` takes and what it means.
    pub const ALL: &[(&str, &str, BootPlan)] = &[
        ("cold", "The kernel boots anew: the same digits on every machine", BootPlan::Cold),
        (
            "snapshot",
            "From a snapshot of a booted guest: faster, the same digits with the same snapshot",
            BootPlan::Snapshot,
        ),
    ];

    /// The name that `--boot` takes.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, _, boot)| *boot == self).map_or("", |(name, _, _)| name)
    }

    /// Whether the kernel boots anew, as usual.
    pub fn is_cold(&self) -> bool {
        *self == BootPlan::Cold
    }
}

/// What executes a guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccelPlan {
    /// QEMU, instruction by instruction in virtual time.
    #[default]
    Tcg,
    /// This host's own CPU, in its time: no digit repeats, and there is no lab identity.
    Kvm,
}

impl AccelPlan {
    /// Every one, with the name that `--accel` takes and what it means.
    pub const ALL: &[(&str, &str, AccelPlan)] = &[
        ("tcg", "QEMU, in virtual time: digits repeat", AccelPlan::Tcg),
        ("kvm", "This host's CPU, in its own time: faster, and no digit repeats", AccelPlan::Kvm),
    ];

    /// The name that `--accel` takes.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, _, accel)| *accel == self).map_or("", |(name, _, _)| name)
    }

    /// Whether digits repeat, as usual.
    pub fn is_exact(&self) -> bool {
        *self == AccelPlan::Tcg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raid_is_typed_as_it_is_recorded() {
        for typed in ["0x2", "1x2", "5x3", "10x4", "10x3", "5x8", "5x3:64K", "0x2:1024K"] {
            assert_eq!(typed.parse::<RaidPlan>().unwrap().to_string(), typed);
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
    fn an_array_holds_what_its_level_leaves() {
        let halves = |typed: &str| typed.parse::<RaidPlan>().unwrap().half_disks_of_data();
        assert_eq!(["0x3", "1x2", "5x3", "10x4", "10x3"].map(halves), [6, 2, 4, 4, 3]);
    }

    #[test]
    fn a_speed_is_typed_as_it_is_recorded() {
        for (typed, log2) in [("1/64", -6), ("1/2", -1), ("1", 0), ("8", 3)] {
            let cpu: CpuPlan = typed.parse().unwrap();
            assert_eq!((cpu.log2, cpu.to_string().as_str()), (log2, typed));
        }
        for wrong in ["0", "3", "1/3", "16", "1/128", "", "1/0", "x"] {
            assert!(wrong.parse::<CpuPlan>().unwrap_err().contains("1/64 to 8"), "{wrong}");
        }
    }

    #[test]
    fn a_boot_is_typed_as_it_is_recorded() {
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
