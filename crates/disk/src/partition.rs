//! The part of a disk that holds a trial's file system.
//!
//! The start of a partition is arbitrary, so it is drawn from the seed; its size is not,
//! so it is the same for all seeds.

use fsdyno_record::plan::{MD_DATA_OFFSET, RaidPlan};
use fsdyno_record::{Bytes, seed};

use crate::spec::DiskSpec;

const MIB: u64 = 1 << 20;

/// A part of a disk, aligned to whole MiB as by partitioning tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// First byte.
    pub start: Bytes,
    /// Length.
    pub size: Bytes,
}

/// The error for a file system that is larger than its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a file system of {size} does not fit on the disk, which holds at most {largest}")]
pub struct TooLarge {
    /// Requested size.
    pub size: Bytes,
    /// Largest possible size.
    pub largest: Bytes,
}

/// Returns the range, in MiB after the first MiB, in which a partition may start: 1 GiB, or 1/16 of a small disk.
fn start_range(spec: &DiskSpec) -> u64 {
    (spec.capacity.0 / 16).min(1024 * MIB) / MIB
}

/// Returns the size of the largest partition that fits for every seed.
pub fn largest(spec: &DiskSpec) -> Bytes {
    Bytes((spec.capacity.0 / MIB).saturating_sub(start_range(spec) + 1) * MIB)
}

/// Places the partition of a trial; without a size, the partition is as large as possible.
///
/// # Errors
/// [`TooLarge`].
pub fn place(spec: &DiskSpec, size: Option<Bytes>, seed: u64) -> Result<Partition, TooLarge> {
    let largest = largest(spec);
    let size = Bytes(size.unwrap_or(largest).0 / MIB * MIB);
    if size > largest {
        return Err(TooLarge { size, largest });
    }
    let start = MIB * (1 + seed::stream(seed, "partition").below(start_range(spec)));
    Ok(Partition { start: Bytes(start), size })
}

/// Returns the size of the largest file system on an array of disks with `disk_size` bytes each.
pub fn largest_array(disk_size: Bytes, raid: RaidPlan) -> Bytes {
    let member_data = disk_size.0.saturating_sub(MD_DATA_OFFSET.0) / MIB * MIB;
    Bytes(member_data * raid.capacity_in_half_disks() / 2 / MIB * MIB)
}

/// Returns the partition size on each disk of an array that holds `size`. It is rounded up to whole MiB, and
/// thus to whole chunks, so an array may hold up to one MiB per disk more than requested.
pub fn member_size(size: Bytes, raid: RaidPlan) -> Bytes {
    let member_data = (2 * size.0).div_ceil(raid.capacity_in_half_disks()).next_multiple_of(MIB);
    Bytes(MD_DATA_OFFSET.0 + member_data)
}

/// Returns the seed of disk `index` of a guest, for its rotational position and its partition's start. The first disk
/// has the seed of the trial.
pub fn disk_seed(seed: u64, index: u32) -> u64 {
    match index {
        0 => seed,
        _ => seed::stream(seed, &format!("disk {index}")).draw(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_starts_at_a_random_offset_and_always_fits() {
        let spec = crate::catalog::get("hdd-7200").unwrap();
        let partition_of = |size, seed| place(&spec, size, seed).unwrap();
        assert_ne!(partition_of(None, 1).start, partition_of(None, 2).start);
        for seed in 0..200 {
            let partition = partition_of(None, seed);
            assert_eq!(partition.size, largest(&spec));
            assert_eq!(partition.start.0 % MIB, 0);
            assert!(partition.start.0 + partition.size.0 <= spec.capacity.0);
        }
        assert_eq!(partition_of(Some(Bytes(5 << 30)), 1).size, Bytes(5 << 30));
        assert!(place(&spec, Some(spec.capacity), 1).is_err());
    }

    #[test]
    fn an_array_holds_the_requested_size_and_the_largest_array_fits_on_its_disks() {
        for text in ["0x2", "0x3", "1x2", "5x3", "5x7", "10x4", "10x3"] {
            let raid: RaidPlan = text.parse().unwrap();
            for size in [32 << 30, (5 << 30) + MIB, 7 * MIB] {
                let member_data = member_size(Bytes(size), raid).0 - MD_DATA_OFFSET.0;
                let capacity = member_data * raid.capacity_in_half_disks() / 2;
                let excess = capacity.checked_sub(size).unwrap();
                assert!(excess < u64::from(raid.disks) * MIB, "{text}: {excess} bytes too many");
            }
            let disk_size = Bytes(10 << 30);
            assert!(member_size(largest_array(disk_size, raid), raid) <= disk_size, "{text}");
        }
    }

    #[test]
    fn the_first_disk_has_the_seed_of_the_trial_and_the_others_have_different_seeds() {
        assert_eq!(disk_seed(7, 0), 7);
        assert_ne!(disk_seed(7, 1), disk_seed(7, 2));
        assert_ne!(disk_seed(7, 1), disk_seed(8, 1));
    }
}
