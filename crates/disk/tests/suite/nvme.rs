//! Tests the NVMe drives against their data sheets, and against figures to which they were not fitted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may panic")]

use fsdyno_disk::models::{Model, Ssd};
use fsdyno_disk::{Action, Disk, DiskSpec, Request, catalog};
use fsdyno_record::{Bytes, Nanos};

use crate::load::{assert_near, random, rate, request, sequential};

/// A disk of the catalog with some parameters of its model changed.
fn drive(name: &str, change: impl FnOnce(&mut Ssd)) -> DiskSpec {
    let mut spec = catalog::get(name).unwrap();
    let Model::Ssd(ssd) = &mut spec.model else { panic!("{name} is no solid-state disk") };
    change(ssd);
    spec.validate().unwrap();
    spec
}

fn datacenter() -> DiskSpec {
    drive("nvme-datacenter", |_| ())
}

/// The whole of a drive, as the span of random requests.
fn whole(spec: &DiskSpec) -> u64 {
    spec.capacity.0
}

/// The time until all of `requests`, submitted together at `now`, are complete.
fn take(disk: &mut dyn Disk, now: Nanos, requests: &[Request]) -> Nanos {
    requests.iter().for_each(|request| disk.submit(now, *request));
    let (mut at, mut left) = (now, requests.len());
    while left > 0 {
        at = disk.next_due().unwrap().max(at);
        while disk.completed(at).is_some() {
            left -= 1;
        }
    }
    while disk.persisted().is_some() {}
    at.since(now)
}

#[test]
fn the_data_center_drive_is_as_fast_as_the_data_sheet_it_was_fitted_to() {
    let spec = datacenter();
    let all = whole(&spec);
    assert_near("reads, depth 1", random(&spec, 1, 5000, 100, all), 1e6 / 80.0, 1.0);
    assert_near("reads, depth 256", random(&spec, 256, 30_000, 100, all), 1e6, 1.0);
    assert_near("writes, depth 1", random(&spec, 1, 20_000, 0, all), 1e6 / 15.0, 1.0);
    assert_near("sequential reads", sequential(&spec, Action::Read), 6800.0, 1.0);
    assert_near("sequential writes", sequential(&spec, Action::Write), 5300.0, 1.0);
}

/// Not used for the fit: the maker's 180,000 random writes a second of a full drive. The model is 15 % slower:
/// docs/disks-ssd.md has the reason.
#[test]
fn a_full_data_center_drive_writes_at_random_as_its_data_sheet_says() {
    let spec = drive("nvme-datacenter", |ssd| ssd.prefilled_percent = 100);
    assert_near("writes", random(&spec, 256, 120_000, 0, whole(&spec)), 180_000.0, 17.0);
}

/// With capacitors a write is persisted once it completes, and a flush costs a command.
#[test]
fn a_flush_with_power_loss_protection_waits_for_nothing() {
    let spec = datacenter();
    let mut disk = fsdyno_disk::build(&spec, 1);
    let writes: Vec<Request> =
        (0..64).map(|id| request(id, Action::Write, id * 4096, 256)).collect();
    let mut persisted = 0;
    writes.iter().for_each(|write| disk.submit(Nanos(0), *write));
    let mut done = 0;
    while done < 64 {
        let now = disk.next_due().unwrap();
        done += u64::from(disk.completed(now).is_some());
        while let Some((_, count)) = disk.persisted() {
            persisted += count;
        }
        assert!(persisted >= done * 256, "{done} writes complete, {persisted} sectors persisted");
        assert_eq!(disk.volatile_bytes(now), Bytes(0));
    }
    let now = Nanos(10_000_000);
    take(&mut *disk, now, &[request(100, Action::Write, 8, 8)]);
    let flush = take(&mut *disk, now + Nanos(20_000), &[request(101, Action::Flush, 0, 0)]);
    assert!(flush < Nanos(20_000), "a flush took {flush}");
}

#[test]
fn data_pass_in_both_directions_at_once() {
    let spec = datacenter();
    let both = |reads: u64| {
        let mut disk = fsdyno_disk::build(&spec, 1);
        rate(&mut *disk, 64, 20_000, |id| {
            let action = if id % 100 < reads { Action::Read } else { Action::Write };
            request(id, action, id * 256, 256)
        }) * 131_072.0
            / 1e6
    };
    assert!(both(50) > 1.4 * both(0), "{:.0} and {:.0} MB/s", both(50), both(0));
}

#[test]
#[ignore = "prints numbers for docs/disks-ssd.md"]
fn numbers() {
    for name in ["nvme-datacenter"] {
        let spec = drive(name, |_| ());
        let all = whole(&spec);
        for depth in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
            let rates = [100, 0, 70].map(|reads| random(&spec, depth, 50_000, reads, all));
            println!("{name}, depth {depth}: {rates:.0?}");
        }
        for action in [Action::Read, Action::Write] {
            println!("{name}, sequential {action:?}: {:.0} MB/s", sequential(&spec, action));
        }
        for filled in [50, 90, 100] {
            let spec = drive(name, |ssd| ssd.prefilled_percent = filled);
            let rates = [0, 70].map(|reads| random(&spec, 256, 400_000, reads, all));
            println!("{name}, {filled} % full, writes and 70 % reads: {rates:.0?}");
        }
    }
}
