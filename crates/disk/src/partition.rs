//! The part of a disk that holds a trial's file system.
//!
//! Where a partition begins is arbitrary in life, so its start is drawn from the seed; its size is
//! the same for all seeds, for it is not.

use fsdyno_record::plan::RaidPlan;
use fsdyno_record::{Bytes, seed};

use crate::spec::DiskSpec;

const MIB: u64 = 1 << 20;

/// A part of a disk, in whole MiB as partitioning tools align it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// First byte.
    pub start: Bytes,
    /// Length.
    pub size: Bytes,
}

/// A file system that is larger than its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a file system of {size} does not fit on the disk, which has room for {largest}")]
pub struct TooLarge {
    /// What was asked for.
    pub size: Bytes,
    /// What there is.
    pub largest: Bytes,
}

/// How far the start may lie from the first MiB: a GiB, or a sixteenth of a small disk, in MiB.
fn play(spec: &DiskSpec) -> u64 {
    (spec.capacity.0 / 16).min(1024 * MIB) / MIB
}

/// The largest partition that fits whatever the seed.
pub fn largest(spec: &DiskSpec) -> Bytes {
    Bytes((spec.capacity.0 / MIB).saturating_sub(play(spec) + 1) * MIB)
}

/// The partition of a trial; without a size the largest.
///
/// # Errors
/// [`TooLarge`].
pub fn place(spec: &DiskSpec, size: Option<Bytes>, seed: u64) -> Result<Partition, TooLarge> {
    let largest = largest(spec);
    let size = Bytes(size.unwrap_or(largest).0 / MIB * MIB);
    if size > largest {
        return Err(TooLarge { size, largest });
    }
    let start = MIB * (1 + seed::stream(seed, "partition").below(play(spec)));
    Ok(Partition { start: Bytes(start), size })
}

/// What an md array keeps for itself on each of its disks: its superblock of version 1.2 and what it
/// leaves before the data (mdadm's data offset, at most 128 MiB for large disks).
const MD_RESERVE: u64 = 132 * MIB;

/// The largest file system on an array of disks that each have room for `one`.
pub fn largest_array(one: Bytes, raid: RaidPlan) -> Bytes {
    let each = one.0.saturating_sub(MD_RESERVE) / MIB * MIB;
    Bytes(each * raid.half_disks_of_data() / 2 / MIB * MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_starts_where_the_seed_says_and_always_fits() {
        let spec = crate::catalog::get("hdd-7200").unwrap();
        let of = |size, seed| place(&spec, size, seed).unwrap();
        assert_ne!(of(None, 1).start, of(None, 2).start);
        for seed in 0..200 {
            let partition = of(None, seed);
            assert_eq!(partition.size, largest(&spec));
            assert_eq!(partition.start.0 % MIB, 0);
            assert!(partition.start.0 + partition.size.0 <= spec.capacity.0);
        }
        assert_eq!(of(Some(Bytes(5 << 30)), 1).size, Bytes(5 << 30));
        assert!(place(&spec, Some(spec.capacity), 1).is_err());
    }
}
