//! The highest speed of a trial's device, if it is known: for a modelled disk by its model. The speed of a host's own
//! drives is unknown and not estimated.

use crate::validity::{self, DeviceSpeed, Flag};
use fsdyno_disk::limits::limits;
use fsdyno_filesystem::durability;
use fsdyno_record::Trial;
use fsdyno_record::trial::Phase;

use crate::run::Run;

/// The flags of repeats of one phase, the gravest first: the one list for every output. [`Flag::Noisy`] is not among
/// them, because it depends on the row's comparisons.
pub fn flags(runs: &[Run<'_>]) -> Vec<Flag> {
    let mut flags = validity::flags(runs, speed);
    if runs.iter().any(|(trial, _)| !risks(trial).is_empty()) {
        flags.push(Flag::Unsafe);
        flags.sort();
    }
    flags
}

/// The reasons why acknowledged data of a trial may be lost at a power cut, by its options.
pub fn risks(trial: &Trial) -> Vec<String> {
    durability::risks(trial.plan.filesystem.as_ref(), &trial.conditions)
}

/// The speed of the modelled disk, or of an array of them.
fn speed(trial: &Trial, phase: &Phase) -> Option<DeviceSpeed> {
    // Without bytes nothing can be too fast.
    if phase.bytes_written.0 == 0 && phase.bytes_read.0 == 0 {
        return None;
    }
    let medium = &trial.plan.medium;
    let one = limits(&medium.disk()?.spec)?;
    let (reading, writing) = medium
        .raid()
        .map_or((1.0, 1.0), |raid| (f64::from(raid.disks), raid.half_disks_of_data() as f64 / 2.0));
    Some(DeviceSpeed { read: one.read * reading, write: one.write * writing })
}

#[cfg(test)]
mod tests {
    use fsdyno_record::{Bytes, Nanos};
    use serde_json::json;

    use super::*;
    use crate::fixture;

    /// A trial on the catalog's 7200 rpm disk, with an additional phase of these bytes.
    fn moved(raid: Option<&str>, written: u64, read: u64) -> Vec<Flag> {
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
    fn more_bytes_than_the_platter_can_write_until_durable_are_flagged_and_an_array_writes_more() {
        let above = Flag::AboveDeviceSpeed;
        assert!(!moved(None, 60_000_000, 0).contains(&above));
        assert!(moved(None, 600_000_000, 0).contains(&above));
        assert!(moved(None, 0, 600_000_000).contains(&above));
        assert!(!moved(Some("0x4"), 600_000_000, 0).contains(&above));
        assert!(moved(Some("1x4"), 600_000_000, 0).contains(&above));
        assert!(!moved(Some("1x4"), 0, 600_000_000).contains(&above));
        assert!(!moved(None, 0, 0).contains(&above));
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
