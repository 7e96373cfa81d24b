//! The venue of a plan, at which its calls are issued.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::NetworkPlan;
use crate::processor::CpuPlan;
use crate::units::{Bytes, Nanos, counted};

/// The venue at which the calls of a plan are issued.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        #[cfg_attr(feature = "schema", schemars(extend("enum" = [1024, 2048, 4096])))]
        block_size: u32,
    },
    /// In several processes, on one or several hosts, that share a directory.
    Ranks(RanksPlan),
}

impl VenuePlan {
    /// Returns the number of ranks or of the lab's clients that share a trial; `None` if one process does all of it.
    pub fn shared_by(&self) -> Option<u32> {
        match self {
            VenuePlan::Ranks(plan) => Some(plan.ranks),
            VenuePlan::Lab(lab) => lab.clients,
            VenuePlan::Host | VenuePlan::Model { .. } => None,
        }
    }
}

/// Processes on one or several hosts that share a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct RanksPlan {
    /// Number of ranks; each has the plan's threads.
    pub ranks: u32,
    /// True if each rank does the whole workload in its own directory, instead of a share of one workload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// Shift between phases: a rank works on the share that rank `rank + shift` (modulo the number of ranks) had in
    /// the previous phase.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shift: u32,
    /// Time limit of a phase, after which each rank does as many items as the fastest rank has done, and stops. None:
    /// no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stonewall: Option<Nanos>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl RanksPlan {
    /// Returns the share of a rank in a phase; if each rank has its own directory, this is the directory's number.
    pub fn share_of(&self, rank: u32, phase: usize) -> u32 {
        let ranks = u64::from(self.ranks.max(1));
        let shifted = u64::from(self.shift) * (phase as u64 % ranks);
        ((u64::from(rank) + shifted) % ranks) as u32
    }

    /// Returns the rank that has a share in a phase: the inverse of [`RanksPlan::share_of`].
    pub fn rank_of(&self, share: u32, phase: usize) -> u32 {
        let ranks = u64::from(self.ranks.max(1));
        let shifted = u64::from(self.shift) * (phase as u64 % ranks) % ranks;
        ((u64::from(share) + ranks - shifted) % ranks) as u32
    }

    /// Returns the suffix of a row's label: `, 8 ranks, own`.
    pub fn label_suffix(&self) -> String {
        let RanksPlan { ranks, own, shift, stonewall } = self;
        let own = if *own { ", own" } else { "" };
        let shift = if *shift > 0 { format!(", shift {shift}") } else { String::new() };
        let stonewall_text =
            stonewall.map(|limit| format!(", stonewall {limit}")).unwrap_or_default();
        format!(", {}{own}{shift}{stonewall_text}", counted(*ranks as usize, "rank"))
    }
}

/// A guest: its kernel, its memory and its CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct LabPlan {
    /// The kernel.
    pub kernel: KernelPlan,
    /// RAM of the guest.
    pub ram: Bytes,
    /// Memory that can cache files at the start of the first phase, if requested; the
    /// agent then occupies the remaining RAM of the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacheable: Option<Bytes>,
    /// The block scheduler of each disk, or null for the disk profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The guest's CPU.
    #[serde(default, skip_serializing_if = "CpuPlan::is_default")]
    pub cpu: CpuPlan,
    /// Boot mode of the guest.
    #[serde(default, skip_serializing_if = "BootPlan::is_cold")]
    pub boot: BootPlan,
    /// Executor of the guest's instructions.
    #[serde(default, skip_serializing_if = "AccelPlan::is_exact")]
    pub accel: AccelPlan,
    /// Name of the machine that determines disk, CPU and RAM unless the user gave them; for tables. It is
    /// not part of the plan's hash, which covers disk, CPU and RAM themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Number of clients that mount the file system, if it is shared over a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The network between the clients and the server, if the file system is shared over one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPlan>,
}

impl LabPlan {
    /// Creates a guest with `ram` of memory and defaults for everything else.
    pub fn new(kernel: impl Into<KernelPlan>, ram: Bytes) -> LabPlan {
        LabPlan {
            kernel: kernel.into(),
            ram,
            cacheable: None,
            scheduler: None,
            cpu: CpuPlan::default(),
            boot: BootPlan::default(),
            accel: AccelPlan::default(),
            machine: None,
            clients: None,
            network: None,
        }
    }
}

/// A kernel: its release, and for several builds of one release the request that distinguishes them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KernelPlan {
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// The value of `--kernel`, if the command uses several builds of one release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl KernelPlan {
    /// Returns the value of `--kernel` that selects this kernel again.
    pub fn request(&self) -> &str {
        self.request.as_deref().unwrap_or(&self.release)
    }
}

impl From<&str> for KernelPlan {
    fn from(release: &str) -> KernelPlan {
        KernelPlan { release: release.into(), request: None }
    }
}

/// Formats the release, followed by `@` and the request, if any.
impl fmt::Display for KernelPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.request {
            Some(request) => write!(f, "{}@{request}", self.release),
            None => f.write_str(&self.release),
        }
    }
}

/// The boot mode of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// All modes, each with its name for `--boot` and a description.
    pub const ALL: &[(&str, &str, BootPlan)] = &[
        ("cold", "Boot the kernel: bit-identical results on every machine", BootPlan::Cold),
        (
            "snapshot",
            "Resume a snapshot of a booted guest: faster; bit-identical with the same snapshot",
            BootPlan::Snapshot,
        ),
    ];

    /// Returns its name for `--boot`.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AccelPlan {
    /// QEMU, instruction by instruction in virtual time.
    #[default]
    Tcg,
    /// This host's own CPU, in real time: nothing is bit-identical, and there is no lab identity.
    Kvm,
}

impl AccelPlan {
    /// All executors, each with its name for `--accel` and a description.
    pub const ALL: &[(&str, &str, AccelPlan)] = &[
        ("tcg", "emulation by QEMU, in virtual time, with bit-identical results", AccelPlan::Tcg),
        ("kvm", "This host's CPU, in real time: faster, not bit-identical", AccelPlan::Kvm),
    ];

    /// Returns its name for `--accel`.
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
    fn a_shift_moves_every_share_to_one_other_rank() {
        let plan = RanksPlan { ranks: 5, shift: 3, ..RanksPlan::default() };
        for phase in 0..12 {
            let mut shares: Vec<u32> = (0..5).map(|rank| plan.share_of(rank, phase)).collect();
            assert!((0..5).all(|rank| plan.rank_of(shares[rank as usize], phase) == rank));
            shares.sort_unstable();
            assert_eq!(shares, [0, 1, 2, 3, 4]);
        }
        assert_eq!((plan.share_of(4, 0), plan.share_of(4, 1), plan.share_of(4, 2)), (4, 2, 0));
        let none = RanksPlan { ranks: 5, ..RanksPlan::default() };
        assert!((0..9).all(|phase| none.share_of(2, phase) == 2));
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
