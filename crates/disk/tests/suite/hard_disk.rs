//! Tests the hard disk against first principles: the speed must follow from its data sheet.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use fsdyno_disk::models::{Hdd, Model};
use fsdyno_disk::{Action, Disk, DiskSpec, Request, WriteCache, catalog};
use fsdyno_record::seed::{SplitMix64, stream};
use fsdyno_record::{Bytes, Nanos};

fn spec() -> DiskSpec {
    catalog::get("hdd-7200").unwrap()
}

fn parameters(spec: &DiskSpec) -> &Hdd {
    match &spec.model {
        Model::Hdd(hdd) => hdd,
        _ => panic!("not a hard disk"),
    }
}

fn request(id: u64, action: Action, sector: u64, sectors: u32) -> Request {
    Request { id, action, sector, sectors, fua: false }
}

/// Random offsets of 4 KiB on the whole disk.
fn random_sectors(spec: &DiskSpec, count: usize, name: &str) -> Vec<u64> {
    let mut draws = stream(11, name);
    (0..count).map(|_| draws.below(spec.capacity.0 / 4096) * 8).collect()
}

/// Waits for the next completion and returns its time and id.
fn wait(disk: &mut dyn Disk, now: &mut Nanos) -> u64 {
    loop {
        let due = disk.next_due().expect("nothing is in flight");
        *now = (*now).max(due);
        if let Some(id) = disk.pop_completed(*now) {
            return id;
        }
    }
}

/// Keeps `depth` requests in flight until all are done; returns the time of the last completion.
fn run(disk: &mut dyn Disk, requests: &[Request], depth: usize) -> Nanos {
    let mut now = Nanos(0);
    let mut in_flight = 0;
    for request in requests {
        if in_flight == depth {
            wait(disk, &mut now);
            in_flight -= 1;
        }
        disk.submit(now, *request);
        in_flight += 1;
    }
    (0..in_flight).for_each(|_| {
        wait(disk, &mut now);
    });
    now
}

fn reads(sectors: &[u64]) -> Vec<Request> {
    let numbered = sectors.iter().enumerate();
    numbered.map(|(id, sector)| request(id as u64, Action::Read, *sector, 8)).collect()
}

/// The catalog's disk, changed by `change`.
fn spec_with(change: impl FnOnce(&mut DiskSpec, &mut Hdd)) -> DiskSpec {
    let mut spec = spec();
    let mut hdd = parameters(&spec).clone();
    change(&mut spec, &mut hdd);
    spec.model = Model::Hdd(hdd);
    spec.validate().unwrap();
    spec
}

#[test]
fn a_random_read_takes_overhead_average_seek_and_half_a_revolution() {
    let spec = spec();
    let hdd = parameters(&spec);
    let sectors = random_sectors(&spec, 4000, "places");
    let total = run(&mut *fsdyno_disk::build(&spec, 1), &reads(&sectors), 1);
    let mean = total.0 as f64 / sectors.len() as f64;
    let half_turn = 60e9 / f64::from(hdd.rpm) / 2.0;
    let seek = mean_seek_by_radius(&spec, &sectors);
    let expected = hdd.miss_overhead_us as f64 * 1e3 + seek + half_turn;
    assert!((mean / expected - 1.0).abs() < 0.03, "{mean} ns, expected {expected}");
}

/// Mean seek over consecutive offsets, by an independent method: the radius of a sector from the
/// integral of a linear rate, the curve by Cramer's rule in units of the full stroke.
fn mean_seek_by_radius(spec: &DiskSpec, sectors: &[u64]) -> f64 {
    let hdd = parameters(spec);
    let (outer, inner) = (hdd.outer_rate_kb as f64, hdd.inner_rate_kb as f64);
    let total = spec.capacity.0 as f64 / 512.0;
    // Share x of the stroke holds (outer x - (outer - inner) x^2 / 2) / mean of the sectors.
    let stroke = |sector: u64| {
        let y = sector as f64 / total * (outer + inner) / 2.0;
        let slope = outer - inner;
        (outer - (outer * outer - 2.0 * slope * y).sqrt()) / slope
    };
    // With one cylinder taken as zero distance: t = s + a sqrt(x) + b x, t(0) = s.
    let s = hdd.seek_read.track_to_track_us as f64 * 1e3;
    let mean = hdd.seek_read.average_us as f64 * 1e3 - s;
    let full = hdd.seek_read.full_stroke_us as f64 * 1e3 - s;
    // Over pairs of random cylinders x has the mean 1/3, its root the mean 8/15.
    let root = (mean - full / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
    let linear = full - root;
    let pairs = sectors.windows(2);
    let times = pairs.map(|pair| (stroke(pair[0]) - stroke(pair[1])).abs());
    let sum: f64 = times.map(|x| s + root * x.sqrt() + linear * x).sum();
    sum / (sectors.len() - 1) as f64
}

/// Bonnie's seeks without a file system: chunks of 16 KiB of a file of 1800 MiB at the outer edge of the disk of 2006,
/// from three seekers, which a drive without a queue serves one at a time. docs/disks.md compares the same load, run
/// through kernel and cache, with the published rate.
#[test]
fn random_reads_within_a_file_take_the_time_of_the_data_sheet() {
    let spec = catalog::get("ata-2006").unwrap();
    let hdd = parameters(&spec);
    let length = 1800u64 << 20;
    let mut draws = stream(5, "chunks");
    let chunks: Vec<u64> = (0..4000).map(|_| draws.below(length >> 14) * 32).collect();
    let numbered = chunks.iter().enumerate();
    let reads: Vec<Request> =
        numbered.map(|(id, at)| request(id as u64, Action::Read, *at, 32)).collect();
    let total = run(&mut *fsdyno_disk::build(&spec, 1), &reads, 3);
    let turn = 60e9 / f64::from(hdd.rpm);
    let transfer = 16384.0 * 1e6 / hdd.outer_rate_kb as f64;
    // Chunks lie on different tracks, except about one pair in five thousand.
    let expected = hdd.miss_overhead_us as f64 * 1e3
        + mean_seek_by_radius(&spec, &chunks)
        + hdd.settle_us as f64 * 1e3
        + turn / 2.0
        + transfer;
    let mean = total.0 as f64 / chunks.len() as f64;
    println!("{:.1} reads/s, by arithmetic {:.1}", 1e9 / mean, 1e9 / expected);
    assert!((mean / expected - 1.0).abs() < 0.03, "{mean} ns, expected {expected}");
}

#[test]
fn a_head_switch_takes_its_own_time_and_a_long_read_includes_each() {
    // With a head switch of a quarter revolution, a track must hold more for the same rate.
    let slow = spec_with(|_, hdd| hdd.head_switch_us = 2083);
    for spec in [spec(), slow] {
        let hdd = parameters(&spec);
        let pieces: Vec<Request> =
            (0..1024).map(|id| request(id, Action::Read, id * 256, 256)).collect();
        let now = run(&mut *fsdyno_disk::build(&spec, 3), &pieces, 2);
        let rate = 1024.0 * 256.0 * 512.0 / now.seconds() / 1e3;
        assert!((rate / hdd.outer_rate_kb as f64 - 1.0).abs() < 0.03, "{rate} kB/s");
        // Two reads of one sector each, at distant angles but on neighbouring heads:
        // the second cannot start before the end of the switch.
        let per_track = hdd.outer_rate_kb as f64 * 1e3 * 60.0 / f64::from(hdd.rpm) / 512.0;
        let mut least = f64::MAX;
        for place in 0..64u64 {
            let mut disk = fsdyno_disk::build(&spec, 3);
            let mut now = Nanos(0);
            let next = (per_track * 1.5) as u64 + place * per_track as u64 / 64;
            disk.submit(now, request(1, Action::Read, 0, 1));
            wait(&mut *disk, &mut now);
            let began = now;
            disk.submit(now, request(2, Action::Read, next, 1));
            wait(&mut *disk, &mut now);
            least = least.min((now - began).seconds() * 1e6);
        }
        assert!(least >= hdd.head_switch_us as f64, "{least} us to another head");
    }
}

#[test]
fn a_long_read_and_a_long_write_have_the_rate_of_their_zone() {
    let spec = spec();
    let hdd = parameters(&spec);
    let inner_start = spec.capacity.0 / 512 - (300 << 20) / 512;
    for action in [Action::Read, Action::Write] {
        for (start, rate) in [(0, hdd.outer_rate_kb), (inner_start, hdd.inner_rate_kb)] {
            let pieces: Vec<Request> =
                (0..2048).map(|id| request(id, action, start + id * 256, 256)).collect();
            let mut disk = fsdyno_disk::build(&spec, 3);
            let mut now = run(&mut *disk, &pieces, 2);
            if action == Action::Write {
                disk.submit(now, request(9999, Action::Flush, 0, 0));
                wait(&mut *disk, &mut now);
            }
            let measured = 2048.0 * 256.0 * 512.0 / now.seconds() / 1e3;
            let ratio = measured / rate as f64;
            assert!((ratio - 1.0).abs() < 0.02, "{action:?} at {start}: {ratio} of {rate} kB/s");
        }
    }
}

#[test]
fn a_full_queue_of_random_reads_is_served_by_shortest_access() {
    let spec = spec();
    let all = reads(&random_sectors(&spec, 2000, "queue"));
    let one = run(&mut *fsdyno_disk::build(&spec, 1), &all, 1);
    let many = run(&mut *fsdyno_disk::build(&spec, 1), &all, 32);
    let gain = one.seconds() / many.seconds();
    assert!(gain >= 1.6, "32 in flight are only {gain} times faster");
}

/// Keeps `depth` random writes in flight, then flushes; returns the time until all are persisted.
fn write_and_flush(spec: &DiskSpec, seed: u64, writes: &[Request], depth: usize) -> Nanos {
    let mut disk = fsdyno_disk::build(spec, seed);
    let mut now = run(&mut *disk, writes, depth);
    disk.submit(now, request(u64::MAX, Action::Flush, 0, 0));
    wait(&mut *disk, &mut now);
    assert_eq!(disk.volatile_bytes(now), Bytes(0));
    now
}

/// The time of the same writes one at a time, each persisted before the next is submitted.
fn one_at_a_time(spec: &DiskSpec, seed: u64, writes: &[Request]) -> Nanos {
    let through: Vec<Request> =
        writes.iter().map(|write| Request { fua: true, ..*write }).collect();
    run(&mut *fsdyno_disk::build(spec, seed), &through, 1)
}

fn random_writes(spec: &DiskSpec, count: usize, seed: u64) -> Vec<Request> {
    let sectors = random_sectors(spec, count, &format!("writes {seed}"));
    let numbered = sectors.iter().enumerate();
    numbered.map(|(id, sector)| request(id as u64, Action::Write, *sector, 8)).collect()
}

#[test]
fn a_batch_of_writes_is_destaged_faster_than_by_an_elevator() {
    let spec = spec_with(|_, hdd| hdd.write_extents = 0);
    let (mut together, mut elevator, mut first_come) = (0.0, 0.0, 0.0);
    for seed in 0..10 {
        let mut writes = random_writes(&spec, 128, seed);
        together += write_and_flush(&spec, seed, &writes, 128).seconds();
        first_come += one_at_a_time(&spec, seed, &writes).seconds();
        writes.sort_by_key(|write| write.sector);
        elevator += one_at_a_time(&spec, seed, &writes).seconds();
    }
    assert!(together < elevator, "together {together} s, in one sweep {elevator} s");
    let gain = first_come / together;
    assert!(gain > 2.4, "{gain} times as fast as in order of arrival");
}

#[test]
fn writes_with_128_in_flight_are_more_than_three_times_as_fast_as_in_order_of_arrival() {
    let spec = spec_with(|_, hdd| hdd.write_extents = 0);
    let writes = random_writes(&spec, 2000, 1);
    let together = write_and_flush(&spec, 1, &writes, 128);
    let first_come = one_at_a_time(&spec, 1, &writes);
    let gain = first_come.seconds() / together.seconds();
    assert!(gain > 3.0, "together {together}, in order of arrival {first_come}: {gain}");
}

#[test]
fn a_drive_that_sorts_fewer_cached_writes_destages_slower() {
    let rate = |extents| {
        let spec = spec_with(|_, hdd| hdd.write_extents = extents);
        let writes = random_writes(&spec, 1000, 1);
        1000.0 / write_and_flush(&spec, 1, &writes, 32).seconds()
    };
    let (one, few, many) = (rate(1), rate(32), rate(0));
    println!("random writes a second: {one:.0}, {few:.0}, {many:.0}");
    assert!(one < few && few < many);
    // One at a time: average seek of a write and half a revolution, 13.7 ms.
    assert!((one / (1e3 / 13.7) - 1.0).abs() < 0.05, "{one}");
}

#[test]
fn no_request_starves_in_a_queue_that_is_never_empty() {
    let spec = spec_with(|_, hdd| hdd.age_limit_us = 600_000);
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    // One read at the far end competes with a stream of reads at the near end.
    disk.submit(now, request(0, Action::Read, 8, 8));
    disk.submit(now, request(1_000_000, Action::Read, spec.capacity.0 / 512 - 8, 8));
    let mut draws = SplitMix64::new(4);
    for id in 1..3000 {
        disk.submit(now, request(id, Action::Read, draws.below(100_000) * 8, 8));
        if id > 8 && wait(&mut *disk, &mut now) == 1_000_000 {
            assert!(now < Nanos(700_000_000), "the far read waited {now}");
            return;
        }
    }
    panic!("the far read was never served");
}

#[test]
fn an_idle_disk_destages_without_being_called() {
    let spec = spec();
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    for (id, sector) in random_sectors(&spec, 64, "idle").into_iter().enumerate() {
        disk.submit(now, request(id as u64, Action::Write, sector, 8));
        wait(&mut *disk, &mut now);
    }
    assert!(disk.volatile_bytes(now) > Bytes(0));
    assert_eq!(disk.next_due(), None);
    assert_eq!(disk.volatile_bytes(now + Nanos(2_000_000_000)), Bytes(0));
    let busy = disk.counters().busy_ns.unwrap();
    assert!(busy < Nanos(2_000_000_000) && busy > Nanos(64 * 2_000_000), "busy for {busy}");
}

#[test]
fn a_write_waits_for_space_in_a_full_cache() {
    let spec = spec_with(|_, hdd| hdd.write_cache = Bytes(64 << 10));
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    let sectors = random_sectors(&spec, 64, "room");
    for (id, sector) in sectors.iter().enumerate() {
        disk.submit(now, request(id as u64, Action::Write, *sector, 8));
    }
    for served in 1..=64 {
        wait(&mut *disk, &mut now);
        assert!(disk.volatile_bytes(now) <= Bytes(64 << 10));
        // The cache holds 16 of them; later ones wait until others are destaged.
        assert_eq!(served <= 16, now < Nanos(2_000_000), "{served} served at {now}");
    }
}

#[test]
fn a_write_larger_than_the_cache_bypasses_it() {
    let spec = spec_with(|_, hdd| hdd.write_cache = Bytes(64 << 10));
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    disk.submit(now, request(1, Action::Write, 0, 2048));
    assert_eq!(wait(&mut *disk, &mut now), 1);
    assert_eq!(disk.volatile_bytes(now), Bytes(0));
}

#[test]
fn without_a_write_cache_or_with_fua_a_write_is_persisted_when_it_completes() {
    let through = spec_with(|spec, _| spec.queue.write_cache = WriteCache::WriteThrough);
    for (spec, fua) in [(through, false), (spec(), true)] {
        let mut disk = fsdyno_disk::build(&spec, 1);
        let mut now = Nanos(0);
        disk.submit(now, Request { fua, ..request(1, Action::Write, 1_000_000_000, 8) });
        wait(&mut *disk, &mut now);
        assert!(now > Nanos(5_000_000), "a seek over half the disk took {now}");
        assert_eq!(disk.volatile_bytes(now), Bytes(0));
    }
}

#[test]
fn adjacent_writes_are_destaged_in_one_run() {
    let spec = spec();
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    // From the last to the first, so that only the cache's own order joins them.
    for id in (0..16).rev() {
        disk.submit(now, request(id, Action::Write, 900_000_000 + id * 8, 8));
    }
    disk.submit(now, request(99, Action::Flush, 0, 0));
    (0..17).for_each(|_| {
        wait(&mut *disk, &mut now);
    });
    // One run for the first write, started while the arm was idle, and one for the others.
    assert!(now < Nanos(40_000_000), "it took {now}");
    assert!(disk.counters().seeks.unwrap() <= 3);
}

#[test]
fn a_read_of_sectors_just_written_or_read_ahead_comes_from_memory() {
    let spec = spec();
    let mut disk = fsdyno_disk::build(&spec, 1);
    let mut now = Nanos(0);
    disk.submit(now, request(1, Action::Write, 5_000_000, 64));
    wait(&mut *disk, &mut now);
    disk.submit(now, request(2, Action::Read, 5_000_008, 8));
    wait(&mut *disk, &mut now);
    assert!(now < Nanos(300_000), "dirty sectors were read from the platter: {now}");
    let mut now = Nanos(1_000_000_000);
    disk.submit(now, request(3, Action::Read, 7_000_000, 8));
    wait(&mut *disk, &mut now);
    let later = now + Nanos(50_000_000);
    now = later;
    disk.submit(now, request(4, Action::Read, 7_000_008, 256));
    wait(&mut *disk, &mut now);
    assert!(now - later < Nanos(400_000), "read-ahead did not help: {}", now - later);
}

#[test]
fn the_rotational_position_comes_from_the_seed() {
    let spec = spec();
    let first = |seed| {
        let mut disk = fsdyno_disk::build(&spec, seed);
        disk.submit(Nanos(0), request(1, Action::Read, 1_234_568, 8));
        let mut now = Nanos(0);
        wait(&mut *disk, &mut now);
        now
    };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}
