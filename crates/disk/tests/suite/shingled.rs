//! Tests the shingled disk: the media cache, the slowdown once it is full, cleaning in idle time, streams, and figures
//! to which it was not fitted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use fsdyno_disk::models::{Model, Smr};
use fsdyno_disk::{Action, Disk, DiskSpec, Request, catalog};
use fsdyno_record::seed::stream;
use fsdyno_record::{Bytes, Nanos};

/// smr-8tb with some parameters changed.
fn drive(change: impl FnOnce(&mut Smr)) -> DiskSpec {
    let mut spec = catalog::get("smr-8tb").unwrap();
    let Model::Smr(smr) = &mut spec.model else { panic!("smr-8tb is not shingled") };
    change(smr);
    spec.validate().unwrap();
    spec
}

fn request(id: u64, action: Action, sector: u64, sectors: u32) -> Request {
    Request { id, action, sector, sectors, fua: false }
}

/// Waits until all requests are done.
fn wait_all(disk: &mut dyn Disk, now: &mut Nanos) {
    while let Some(due) = disk.next_due() {
        *now = due.max(*now);
        disk.pop_completed(*now);
        while disk.pop_persisted().is_some() {}
    }
}

/// Requests per second from the time `now` on, with `depth` in flight.
fn rate(
    disk: &mut dyn Disk,
    now: &mut Nanos,
    depth: u64,
    requests: impl ExactSizeIterator<Item = Request>,
) -> f64 {
    let (from, count, mut in_flight) = (*now, requests.len(), 0);
    for request in requests {
        while in_flight == depth {
            *now = disk.next_due().unwrap().max(*now);
            in_flight -= u64::from(disk.pop_completed(*now).is_some());
        }
        while disk.pop_persisted().is_some() {}
        disk.submit(*now, request);
        in_flight += 1;
    }
    wait_all(disk, now);
    count as f64 / (*now - from).seconds()
}

/// `count` random requests of 4 KiB within `span` bytes.
fn random(action: Action, span: u64, count: u64) -> impl ExactSizeIterator<Item = Request> {
    let mut draws = stream(5, "places");
    let all: Vec<Request> =
        (0..count).map(|id| request(id, action, draws.below(span / 4096) * 8, 8)).collect();
    all.into_iter()
}

#[test]
fn random_writes_are_fast_until_the_media_cache_is_full_and_then_each_waits_for_a_band() {
    let spec = drive(|smr| smr.cache_entries = 4096);
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    let fast = rate(&mut *disk, &mut now, 1, random(Action::Write, spec.capacity.0, 4000));
    let mut draws = stream(6, "more");
    let places: Vec<Request> = (0..300)
        .map(|id| request(id, Action::Write, draws.below(spec.capacity.0 / 4096) * 8, 8))
        .collect();
    let slow = rate(&mut *disk, &mut now, 1, places.into_iter().skip(200));
    println!("{fast:.0} writes a second in the cache, {slow:.2} beyond it");
    assert!(fast > 500.0 * slow, "{fast} and {slow}");
}

#[test]
fn a_band_takes_as_long_to_clean_as_reading_it_once_and_writing_it_twice() {
    let spec = drive(|smr| smr.cached_percent = 100);
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    // Each write needs at least one band; entries of this map are one block each, spread over all bands.
    let rate = rate(&mut *disk, &mut now, 1, random(Action::Write, spec.capacity.0, 60));
    let band = 30.0 * 1.048_576;
    let seconds = 3.0 * band / 150.0;
    println!(
        "{rate:.2} writes a second, a band in {:.2} s, by arithmetic {seconds:.2}",
        1.0 / rate
    );
    // The first writes clean several bands, since the map needs space for a split, and each change of position costs a
    // seek.
    assert!(1.0 / rate > 0.5 * seconds && 1.0 / rate < 2.0 * seconds, "{rate}");
}

#[test]
fn an_idle_drive_cleans_all_bands_and_is_fast_again() {
    let spec = drive(|smr| (smr.cache_entries, smr.cached_percent) = (2048, 100));
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    let full = rate(&mut *disk, &mut now, 1, random(Action::Write, spec.capacity.0, 20));
    now += Nanos(7_200_000_000_000);
    disk.advance_to(now);
    assert_eq!(disk.next_due(), None);
    while disk.pop_persisted().is_some() {}
    let clean = rate(&mut *disk, &mut now, 1, random(Action::Write, spec.capacity.0, 20));
    assert!(clean > 100.0 * full, "{full} full, {clean} after two hours");
    let busy = disk.counters().busy_ns.unwrap();
    assert!(busy > Nanos(500_000_000_000), "2,000 bands cleaned in {busy}");
}

#[test]
fn cleaning_in_idle_time_delays_a_request_by_one_piece_only() {
    let spec = drive(|smr| (smr.cache_entries, smr.cached_percent) = (2048, 50));
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(10_000_000_000);
    disk.advance_to(now);
    let before = now;
    disk.submit(now, request(1, Action::Read, 1_000_000, 8));
    wait_all(&mut *disk, &mut now);
    // A piece of 1 MiB takes at most 10 ms with its access; the rest is a read with a full-stroke seek.
    assert!(now - before < Nanos(90_000_000), "it took {}", now - before);
}

#[test]
fn sequential_writes_of_whole_bands_bypass_the_media_cache() {
    let spec = drive(|_| ());
    let writes = |from: u64| {
        let mut disk = fsdyno_disk::build(&spec, 1);
        let mut now = Nanos(0);
        let pieces = (0..2000u32)
            .map(|id| request(id.into(), Action::Write, from + u64::from(id) * 512, 512));
        let rate = rate(&mut *disk, &mut now, 4, pieces) * 0.262_144;
        // The remaining cleaning shows as busy time of the idle drive.
        let busy = disk.counters().busy_ns.unwrap();
        disk.advance_to(now + Nanos(600_000_000_000));
        (rate, (disk.counters().busy_ns.unwrap() - busy).seconds())
    };
    let ((aligned, cleaning), (unaligned, unaligned_cleaning)) =
        (writes(61_440 * 7), writes(61_440 * 7 + 8));
    println!(
        "{aligned:.0} MB/s from a band's start, {cleaning:.1} s to clean; from elsewhere {unaligned:.0} MB/s, {unaligned_cleaning:.1} s"
    );
    assert!(aligned > 150.0 && cleaning < 1.0);
    // The data before the next band's start go to the media cache: one band to clean.
    assert!(unaligned_cleaning > 0.4 && unaligned_cleaning < 3.0);
}

#[test]
fn a_read_finds_the_newest_data_in_the_media_cache_or_in_the_band() {
    let spec = drive(|_| ());
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    // Neighbours in the log are far apart on the disk: reading them back in that order is fast.
    let mut draws = stream(5, "places");
    let places: Vec<u64> = (0..200).map(|_| draws.below(spec.capacity.0 / 4096) * 8).collect();
    let writes = places.iter().enumerate();
    let writes: Vec<Request> =
        writes.map(|(id, at)| request(id as u64, Action::Write, *at, 8)).collect();
    rate(&mut *disk, &mut now, 1, writes.into_iter());
    disk.submit(now, request(999, Action::Flush, 0, 0));
    wait_all(&mut *disk, &mut now);
    let reads = |places: &[u64]| -> Vec<Request> {
        let numbered = places.iter().enumerate();
        numbered.map(|(id, at)| request(id as u64, Action::Read, *at, 8)).collect()
    };
    let cached = rate(&mut *disk, &mut now, 1, reads(&places).into_iter());
    let elsewhere: Vec<u64> = places.iter().map(|at| at ^ 4096).collect();
    let others = rate(&mut *disk, &mut now, 1, reads(&elsewhere).into_iter());
    println!("{cached:.0} reads of cached blocks in the order of writes, {others:.0} of others");
    assert!(cached > 3.0 * others);
}

/// The figures of docs/disks-smr.md that were not used for fitting.
#[test]
fn the_model_agrees_with_figures_to_which_it_was_not_fitted() {
    let spec = drive(|_| ());
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    let reads = rate(&mut *disk, &mut now, 1, random(Action::Read, spec.capacity.0, 1000));
    println!("random reads {reads:.1} a second, {:.1} ms", 1e3 / reads);
    // Average seek and half a revolution of 5900 rpm.
    assert!((1e3 / reads - 17.1).abs() < 0.7, "{reads}");
    let profile = fsdyno_disk::profile::profile(&spec, 1);
    let rates: Vec<f64> = profile.sequential.iter().map(|at| at.read_mb).collect();
    println!("sequential reads {rates:?}");
    println!("random {:?}", profile.random);
}

#[test]
fn a_disk_smaller_than_its_media_cache_and_other_invalid_parameters_are_refused_by_name() {
    let text = catalog::text("smr-8tb").unwrap();
    for (from, to, part) in [
        (
            "capacity = 8001563222016",
            "capacity = 8001564672",
            "model.media_cache is 23.3 GiB, but must be smaller than the disk, which has 7.5 GiB",
        ),
        (
            "band = 31457280",
            "band = 31457281",
            "model.band is 30.0 MiB, but must be a multiple of 1 MiB",
        ),
        ("band = 31457280", "band = 1048576", "at most 1048576 bands"),
        ("media_cache = 25000148992", "media_cache = 1048576", "must be 134217728 to"),
        (
            "cache_entries = 250000",
            "cache_entries = 10",
            "model.cache_entries is 10, but must be 1024 to",
        ),
        ("cached_percent = 0", "cached_percent = 101", "must be 0 to 100"),
        ("streams = 4", "streams = 0", "model.streams is 0"),
        ("rpm = 5900", "rpm = 1", "model.drive.rpm is 1, but must be 600 to 60000"),
        ("heads = 12\n", "", "missing field `heads`"),
    ] {
        assert!(text.contains(from), "the file has no '{from}'");
        let error =
            DiskSpec::from_toml("my.toml", &text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(part), "'{to}' gives the error '{error}'");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_completed_write_is_volatile_until_a_flush() {
    let spec = drive(|_| ());
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    disk.submit(now, request(1, Action::Write, 5_000_000, 8));
    now = disk.next_due().unwrap();
    assert_eq!(disk.pop_completed(now), Some(1));
    assert_eq!((disk.volatile_bytes(now), disk.pop_persisted()), (Bytes(4096), None));
    disk.submit(now, request(2, Action::Flush, 0, 0));
    while disk.pop_completed(now).is_none() {
        now = disk.next_due().unwrap();
    }
    assert_eq!((disk.volatile_bytes(now), disk.pop_persisted()), (Bytes(0), Some((5_000_000, 8))));
}
