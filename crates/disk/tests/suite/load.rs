//! Loads for tests of disk models: random and sequential requests with a fixed number in flight.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use fsdyno_disk::{Action, Disk, DiskSpec, Request};
use fsdyno_record::Nanos;
use fsdyno_record::seed::stream;

/// A request without FUA.
pub fn request(id: u64, action: Action, sector: u64, sectors: u32) -> Request {
    Request { id, action, sector, sectors, fua: false }
}

/// Requests per second, with `depth` in flight, over the last nine tenths of `count`.
pub fn rate(
    disk: &mut dyn Disk,
    depth: u64,
    count: u64,
    mut next: impl FnMut(u64) -> Request,
) -> f64 {
    let (mut now, mut submitted, mut ended, mut from) = (Nanos(0), 0, 0, Nanos(0));
    while ended < count {
        while submitted < count && submitted - ended < depth {
            disk.submit(now, next(submitted));
            submitted += 1;
        }
        now = disk.next_due().unwrap().max(now);
        while disk.pop_completed(now).is_some() {
            ended += 1;
            if ended == count / 10 {
                from = now;
            }
        }
        while disk.pop_persisted().is_some() {}
    }
    (count - count / 10) as f64 / (now - from).seconds()
}

/// Random requests of 4 KiB over the first `span` bytes, `reads` percent of them reads.
pub fn random(spec: &DiskSpec, depth: u64, count: u64, reads: u64, span: u64) -> f64 {
    let mut draws = stream(5, "places");
    rate(&mut *fsdyno_disk::build(spec, 1), depth, count, |id| {
        let action = if draws.below(100) < reads { Action::Read } else { Action::Write };
        request(id, action, draws.below(span / 4096) * 8, 8)
    })
}

/// Sequential requests of 128 KiB with 32 in flight, in MB/s.
pub fn sequential(spec: &DiskSpec, action: Action) -> f64 {
    let mut disk = fsdyno_disk::build(spec, 1);
    rate(&mut *disk, 32, 8000, |id| request(id, action, id * 256, 256)) * 131_072.0 / 1e6
}

/// Writes of 4 KiB per second, each followed by a flush.
pub fn synchronous(spec: &DiskSpec) -> f64 {
    let mut disk = fsdyno_disk::build(spec, 1);
    rate(&mut *disk, 1, 4000, |id| match id % 2 {
        0 => request(id, Action::Write, id * 4, 8),
        _ => request(id, Action::Flush, 0, 0),
    }) / 2.0
}

/// Checks that a value is within `percent` percent of the expected one.
pub fn assert_near(what: &str, measured: f64, expected: f64, percent: f64) {
    let error = (measured / expected - 1.0) * 100.0;
    assert!(error.abs() <= percent, "{what}: {measured:.0}, {error:+.1} % off {expected}");
}
