//! Measurements of a trial that is shared by several processes, its ranks, on one or several hosts.
//!
//! All times are measured by the clock of the coordinating process; those of another host are converted by the measured
//! offset between the two clocks, and share the uncertainty of that offset.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// The ranks of a trial and the work of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RanksMeasured {
    /// The launcher that started the ranks: `mpich`, `open-mpi`, `slurm`, `kubernetes`, `ssh` or `environment`.
    pub launcher: String,
    /// The ranks, in ascending order.
    pub members: Vec<Member>,
    /// The work of each rank in each phase, in the order of the phases.
    pub phases: Vec<RanksPhase>,
}

/// A rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Member {
    /// Number of the rank.
    pub rank: u32,
    /// Name of its host (uname(2)).
    pub host: String,
    /// Its client of the file system: ranks with the same number share a host and a mount.
    pub client: u32,
    /// Time from the creation of the trial's directory until this rank found it.
    pub found_ns: Nanos,
}

/// A phase over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RanksPhase {
    /// Name of the phase.
    pub name: String,
    /// Time between the first and the last rank's first op: the skew of the barrier.
    pub skew_ns: Nanos,
    /// Uncertainty of the skew, from the uncertainty of the two clocks.
    pub skew_uncertainty_ns: Nanos,
    /// Time from the first op until the first rank was done.
    pub first_done_ns: Nanos,
    /// Time from the first op until the last rank was done.
    pub last_done_ns: Nanos,
    /// The stonewall that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stonewall: Option<Stonewall>,
    /// The work of each rank, in the order of the ranks.
    pub ranks: Vec<RankPhase>,
    /// The tree as other clients saw it after the phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<View>,
}

/// A stonewall: each share of a phase stopped when the time limit had passed; then all continued to the largest number
/// of items of any share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stonewall {
    /// The requested time.
    pub limit_ns: Nanos,
    /// Time from the first op until the last share stopped, or had no more items.
    pub reached_ns: Nanos,
    /// Items of all shares until then.
    pub items: u64,
    /// Minimum number of items of a share.
    pub fewest: u64,
    /// Maximum number of items of a share; all continued to this number.
    pub most: u64,
    /// Items of all shares at the end of the phase.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub all: u64,
    /// The name of items, such as `files`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A phase of one rank. Times are relative to the earliest first op of any rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankPhase {
    /// Number of the rank.
    pub rank: u32,
    /// Its first op.
    pub started_ns: Nanos,
    /// Return of its last call.
    pub returned_ns: Nanos,
    /// Return of its syncfs(2), or null for a rank whose client another rank synced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synced_ns: Option<Nanos>,
    /// Number of its calls.
    pub ops: u64,
    /// Number of the phase's characteristic calls: those of the most frequent kind over all ranks, except close.
    pub items: u64,
    /// Number of these calls until the stonewall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stonewall_items: Option<u64>,
    /// Median latency of the characteristic calls.
    pub p50_ns: Nanos,
    /// 99th percentile.
    pub p99_ns: Nanos,
    /// 99.9th percentile.
    pub p999_ns: Nanos,
    /// Maximum latency.
    pub max_ns: Nanos,
    /// CPU time of its process.
    pub cpu_ns: Nanos,
    /// Offset of this rank's clock: its time is the coordinator's time plus this.
    pub clock_offset_ns: i64,
    /// Uncertainty of the clock offset: half of the shortest round trip, and the drift since.
    pub clock_uncertainty_ns: Nanos,
    /// True if its excess over the median rank is more than half of the median and more than three median absolute
    /// deviations.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub straggler: bool,
}

/// The tree that one rank saw after a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct View {
    /// The rank that read it.
    pub rank: u32,
    /// The rank whose directory it read, or null for the shared directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u32>,
    /// Files found.
    pub files: u64,
    /// Entries that it did not find.
    pub missing: u64,
    /// Entries that should not exist.
    pub extra: u64,
    /// Entries with other contents, size, kind or attributes.
    pub wrong: u64,
    /// Differences found by the first reading but no longer by a later one: the client showed an earlier state of the
    /// tree.
    pub stale: u64,
    /// Time until a reading found no stale entry; zero if the first one already found none.
    #[serde(default, skip_serializing_if = "Nanos::is_zero")]
    pub settled_ns: Nanos,
}

/// Reports whether a rank of this duration is a straggler: its excess over the median is more than half of the median,
/// and more than three times the median deviation.
pub fn is_straggler(duration: Nanos, all: &[Nanos]) -> bool {
    let median = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let median_duration = median(all.iter().map(|duration_of_rank| duration_of_rank.0).collect());
    let median_deviation = median(
        all.iter().map(|duration_of_rank| duration_of_rank.0.abs_diff(median_duration)).collect(),
    );
    let excess = duration.0.saturating_sub(median_duration);
    all.len() > 2 && excess > median_duration / 2 && excess > 3 * median_deviation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straggler_is_far_above_the_median_and_beyond_the_usual_spread() {
        let milliseconds =
            |values: &[u64]| values.iter().map(|ms| Nanos(ms * 1_000_000)).collect::<Vec<_>>();
        let steady = milliseconds(&[100, 101, 99, 102, 180]);
        assert!(is_straggler(steady[4], &steady) && !is_straggler(steady[3], &steady));
        let varied = milliseconds(&[100, 160, 50, 220, 230]);
        assert!(varied.iter().all(|one| !is_straggler(*one, &varied)));
        let two = milliseconds(&[1, 100]);
        assert!(!is_straggler(two[1], &two), "two ranks have no straggler");
    }
}
