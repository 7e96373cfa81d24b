//! The flags and risks of trials, and the maximum speed of their devices, which is known only for modelled disks: the
//! speed of a host's drives is not estimated.

use crate::validity::{self, DeviceSpeed, Flag};
use fsdyno_disk::WriteCache;
use fsdyno_disk::limits::limits;
use fsdyno_filesystem::durability;
use fsdyno_record::trial::Phase;
use fsdyno_record::{OpKind, Trial};

use crate::run::Run;

/// The flags of the repeats of a phase, the most serious first; every output uses this list. [`Flag::Noisy`] is not
/// included, because it depends on the row's comparisons.
pub fn flags(runs: &[Run<'_>]) -> Vec<Flag> {
    let mut flags = validity::flags(runs, speed);
    if runs.iter().any(|(trial, _)| !risks(trial).is_empty()) {
        flags.push(Flag::Unsafe);
        flags.sort();
    }
    flags
}

/// The reasons why acknowledged data of a trial may be lost at a power cut: its options, or too few flushes of its
/// modelled disk.
pub fn risks(trial: &Trial) -> Vec<String> {
    let mut risks = durability::risks(trial.plan.filesystem.as_ref(), &trial.conditions);
    let lacks_flushes = trial.measured.phases.iter().any(|phase| lacks_flushes(trial, phase));
    if lacks_flushes {
        risks.push("fsync: returns without a flush of the disk's volatile cache".to_string());
    }
    risks
}

/// The number of fsyncs per flush above which threads that share a flush cannot explain the difference.
const FSYNCS_PER_FLUSH: u64 = 100;

/// Returns true if the fsyncs of a phase did not flush a volatile cache.
fn lacks_flushes(trial: &Trial, phase: &Phase) -> bool {
    let count = |kind| phase.ops.get(&kind).map_or(0, |op| op.count);
    let fsyncs = count(OpKind::Fsync) + count(OpKind::Fdatasync);
    let volatile = || {
        let spec = &trial.plan.medium.disk()?.spec;
        Some(spec.get("queue")?.get("write_cache")?.as_str()? == WriteCache::WriteBack.name())
    };
    let flushes = phase.device.as_ref().map(|device| device.flushes);
    flushes.is_some_and(|flushes| fsyncs >= FSYNCS_PER_FLUSH && fsyncs > flushes * FSYNCS_PER_FLUSH)
        && volatile() == Some(true)
}

/// The speed of the modelled disk, or of an array of them.
fn speed(trial: &Trial, phase: &Phase) -> Option<DeviceSpeed> {
    // A phase that moves no bytes cannot be too fast.
    if phase.bytes_written.0 == 0 && phase.bytes_read.0 == 0 {
        return None;
    }
    let medium = &trial.plan.medium;
    let disk = limits(&medium.disk()?.spec)?;
    let (read_disks, write_disks) = medium.raid().map_or((1.0, 1.0), |raid| {
        (f64::from(raid.disks), raid.capacity_in_half_disks() as f64 / 2.0)
    });
    Some(DeviceSpeed { read: disk.read * read_disks, write: disk.write * write_disks })
}

#[cfg(test)]
mod tests {
    use fsdyno_record::{Bytes, Nanos};
    use serde_json::json;

    use super::*;
    use crate::fixture;

    /// The flags of a phase that wrote and read these numbers of bytes on the catalog's 7200 rpm disk.
    fn flags_after(raid: Option<&str>, written: u64, read: u64) -> Vec<Flag> {
        let mut trial = fixture::trials().remove(0);
        let spec = fsdyno_disk::catalog::get("hdd-7200").unwrap();
        let modelled = trial.plan.medium.modelled_mut().unwrap();
        modelled.disk.spec = serde_json::to_value(&spec).unwrap().into();
        modelled.raid = raid.map(|raid| raid.parse().unwrap());
        let mut phase = trial.measured.phases[0].clone();
        (phase.returned_ns, phase.durable_ns) = (Nanos(500_000_000), Some(Nanos(1_000_000_000)));
        (phase.bytes_written, phase.bytes_read) = (Bytes(written), Bytes(read));
        flags(&[(&trial, &phase)])
    }

    #[test]
    fn more_bytes_than_the_platter_can_transfer_are_flagged_and_an_array_transfers_more() {
        let above = Flag::AboveDeviceSpeed;
        assert!(!flags_after(None, 60_000_000, 0).contains(&above));
        assert!(flags_after(None, 600_000_000, 0).contains(&above));
        assert!(flags_after(None, 0, 600_000_000).contains(&above));
        assert!(!flags_after(Some("0x4"), 600_000_000, 0).contains(&above));
        assert!(flags_after(Some("1x4"), 600_000_000, 0).contains(&above));
        assert!(!flags_after(Some("1x4"), 0, 600_000_000).contains(&above));
        assert!(!flags_after(None, 0, 0).contains(&above));
    }

    /// The risks of a trial whose last phase has these numbers of fsyncs and flushes, on a disk with this cache.
    fn risks_after(fsyncs: u64, flushes: u64, cache: WriteCache) -> Vec<String> {
        let mut trial = fixture::trials().remove(0);
        let mut spec = fsdyno_disk::catalog::get("hdd-7200").unwrap();
        spec.queue.write_cache = cache;
        let modelled = trial.plan.medium.modelled_mut().unwrap();
        modelled.disk.spec = serde_json::to_value(&spec).unwrap().into();
        let phase = trial.measured.phases.last_mut().unwrap();
        let mut stats = phase.ops.values().next().unwrap().clone();
        stats.count = fsyncs;
        phase.ops.insert(OpKind::Fsync, stats);
        phase.device = Some(fsdyno_record::trial::Device { flushes, ..Default::default() });
        risks(&trial)
    }

    #[test]
    fn fsyncs_without_flushes_are_unsafe_only_on_a_volatile_cache() {
        use WriteCache::{WriteBack, WriteThrough};
        assert_eq!(risks_after(500, 1, WriteBack).len(), 1);
        assert_eq!(risks_after(500, 0, WriteBack).len(), 1);
        assert!(risks_after(500, 8, WriteBack).is_empty(), "64 threads may share a flush");
        assert!(risks_after(99, 0, WriteBack).is_empty());
        assert!(risks_after(500, 1, WriteThrough).is_empty());
    }

    #[test]
    fn a_disk_without_a_model_and_a_host_have_no_flag() {
        let mut trial = fixture::trials().remove(0);
        let mut phase = trial.measured.phases[0].clone();
        phase.bytes_written = Bytes(u64::MAX / 4);
        let modelled = trial.plan.medium.modelled_mut().unwrap();
        modelled.disk.spec = json!({"model": {"law": "instant"}}).into();
        assert!(!flags(&[(&trial, &phase)]).contains(&Flag::AboveDeviceSpeed));
        let host = fixture::on_a_host().remove(0);
        assert!(!flags(&[(&host, &phase)]).contains(&Flag::AboveDeviceSpeed));
    }
}
