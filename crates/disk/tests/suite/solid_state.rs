//! Tests the solid-state disk against its data sheet, and against values to which it was not fitted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use fsdyno_disk::models::{Model, Ssd};
use fsdyno_disk::{Action, DiskSpec, catalog};
use fsdyno_record::seed::stream;

use crate::load::{assert_near, random, rate, request, sequential, synchronous};

/// ssd-sata with some parameters changed.
fn drive(change: impl FnOnce(&mut Ssd)) -> DiskSpec {
    let mut spec = catalog::get("ssd-sata").unwrap();
    let Model::Ssd(ssd) = &mut spec.model else { panic!("ssd-sata is not a solid-state disk") };
    change(ssd);
    spec.validate().unwrap();
    spec
}

#[test]
fn the_drive_has_the_rates_of_the_data_sheet_to_which_it_was_fitted() {
    let (spec, all) = (drive(|_| ()), 1 << 39);
    assert_near("reads, depth 1", random(&spec, 1, 5000, 100, all), 13_000.0, 1.0);
    assert_near("reads, depth 32", random(&spec, 32, 50_000, 100, all), 98_000.0, 1.0);
    assert_near("writes, depth 1", random(&spec, 1, 20_000, 0, all), 36_000.0, 1.0);
    assert_near("writes, depth 32", random(&spec, 32, 50_000, 0, all), 88_000.0, 1.0);
    assert_near("sequential reads, MB/s", sequential(&spec, Action::Read), 560.0, 1.0);
    assert_near("sequential writes, MB/s", sequential(&spec, Action::Write), 530.0, 1.0);
}

#[test]
fn a_full_drive_is_slower_from_the_first_write_until_a_trim() {
    let new = drive(|_| ());
    let full = drive(|ssd| ssd.prefilled_percent = 100);
    // 300 MB: far less than a superblock.
    let writes = |spec: &DiskSpec, trimmed: bool| {
        let mut disk = fsdyno_disk::build(spec, 1);
        if trimmed {
            for first in (0..spec.capacity.0 / 512).step_by(1 << 22) {
                disk.note_untimed(request(0, Action::Trim, first, 1 << 22));
            }
        }
        let mut draws = stream(5, "places");
        let places = spec.capacity.0 / 4096;
        rate(&mut *disk, 32, 75_000, |id| request(id, Action::Write, draws.below(places) * 8, 8))
    };
    let (as_new, as_full, as_trimmed) =
        (writes(&new, false), writes(&full, false), writes(&full, true));
    assert!(as_full < as_new / 2.0, "{as_new:.0} on a new drive, {as_full:.0} on a full one");
    assert!(as_trimmed > as_full, "{as_full:.0} on a full drive, {as_trimmed:.0} trimmed");
    // Collection blocks a read for no longer than the suspension of a program.
    let reads = random(&full, 1, 5000, 100, 1 << 39);
    assert_near("reads of a full drive", reads, 13_000.0, 1.0);
}

#[test]
#[ignore = "prints numbers for docs/disks-ssd.md"]
fn numbers() {
    let spec = drive(|_| ());
    for depth in [1, 2, 4, 8, 16, 32] {
        println!("reads, depth {depth}: {:.0}", random(&spec, depth, 50_000, 100, 1 << 39));
        println!("writes, depth {depth}: {:.0}", random(&spec, depth, 50_000, 0, 1 << 39));
        println!("70/30, depth {depth}: {:.0}", random(&spec, depth, 50_000, 70, 1 << 36));
    }
    println!("write and flush: {:.0}", synchronous(&spec));
    for filled in [50, 90, 100] {
        let spec = drive(|ssd| ssd.prefilled_percent = filled);
        let rate = random(&spec, 32, 2_000_000, 0, spec.capacity.0);
        println!("random writes over the whole drive, {filled} % full: {rate:.0}");
    }
}
