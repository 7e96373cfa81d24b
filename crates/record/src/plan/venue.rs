//! The venue of a plan: where its calls are issued.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Where the calls of a plan are issued.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum VenuePlan {
    /// On this host.
    #[default]
    Host,
    /// In the lab: in a guest.
    Lab(LabPlan),
    /// In a model of a file system, in this program, without a kernel.
    Model {
        /// Block size of that file system in bytes.
        block_size: u32,
    },
}

/// A guest: its kernel, its memory and its CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabPlan {
    /// The kernel.
    pub kernel: KernelPlan,
    /// RAM of the guest.
    pub ram: Bytes,
    /// Memory that can cache files at the start of the first phase, if requested; the
    /// agent then holds the rest of the guest's RAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacheable: Option<Bytes>,
    /// The block scheduler of each disk; none takes the disk profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
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
    /// A guest with `ram` of memory; the rest has defaults.
    pub fn new(kernel: impl Into<KernelPlan>, ram: Bytes) -> LabPlan {
        LabPlan {
            kernel: kernel.into(),
            ram,
            cacheable: None,
            scheduler: None,
            cpu: CpuPlan::default(),
            boot: BootPlan::default(),
            accel: AccelPlan::default(),
        }
    }
}

/// A kernel: its release, and for several builds of one release the request that tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelPlan {
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// The value of `--kernel`, if the command has several builds of one release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl KernelPlan {
    /// The value of `--kernel` that selects this kernel again.
    pub fn request(&self) -> &str {
        self.request.as_deref().unwrap_or(&self.release)
    }
}

impl From<&str> for KernelPlan {
    fn from(release: &str) -> KernelPlan {
        KernelPlan { release: release.into(), request: None }
    }
}

/// Writes the release, and the request behind `@`.
impl fmt::Display for KernelPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.request {
            Some(request) => write!(f, "{}@{request}", self.release),
            None => f.write_str(&self.release),
        }
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
