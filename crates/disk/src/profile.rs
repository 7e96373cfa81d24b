//! Performance of a disk, computed with its model: rates of random and of sequential requests.
//!
//! Only the [`Disk`] trait is used, and the model's parameter for a full disk. Nothing here is stored;
//! the same disk and seed give the same profile.

use fsdyno_record::{Bytes, Nanos, seed};
use serde::Serialize;

use crate::SECTOR;
use crate::build;
use crate::disk::{Action, Disk, Request};
use crate::spec::DiskSpec;

/// Queue depths to evaluate, up to the disk's own; 128 is the maximum of the guest's driver.
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Number of sectors in a random request: 4 KiB.
const BLOCK: u32 = 8;
/// Number of reads per rate. The standard deviation of their times is about a third of the mean, so the rate
/// is accurate to about 1 %.
const READS: u64 = 1000;
/// Number of writes per rate, followed by a flush whose time is included. They fit into a hard disk's cache: filling
/// it several times over would take minutes, so the flush accounts for the cost of destaging.
const WRITES: u64 = 3000;
/// Number of writes to a full disk: several times the write buffer, and several superblocks.
const FULL_WRITES: u64 = 400_000;
/// Number of offsets of the sequential rates, including the first and the last sector.
const OFFSETS: u64 = 9;
/// Number of bytes in one sequential run.
const RUN: u64 = 64 << 20;
/// Number of sectors in one request of a run: 128 KiB, the kernel's read-ahead.
const PIECE: u32 = 256;
/// Size of the part of the disk that represents a file system.
const PART: Bytes = Bytes(32 << 30);

/// The performance of a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// The seed of the rotational position and of the offsets.
    pub seed: u64,
    /// Rates of 4 KiB at random offsets, by queue depth.
    pub random: Vec<RandomRate>,
    /// Sequential rates from the first sector to the last.
    pub sequential: Vec<SequentialRate>,
    /// For a solid-state disk: random writes per second, final flush included, in the steady
    /// state of a full disk after random overwriting.
    pub preconditioned_writes: Option<f64>,
}

/// Random requests of 4 KiB per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RandomRate {
    /// Requests in flight.
    pub depth: u32,
    /// Reads per second over the whole disk.
    pub reads: f64,
    /// Reads per second within the first 32 GiB (or the whole of a smaller disk).
    pub reads_in_part: f64,
    /// Writes per second over the whole disk, final flush included.
    pub writes: f64,
    /// Writes per second within the first 32 GiB, final flush included.
    pub writes_in_part: f64,
}

/// Rates of a run of 64 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SequentialRate {
    /// Offset of the run, in bytes.
    pub at: Bytes,
    /// Reads, in MB/s (1,000,000 bytes per second).
    pub read_mb: f64,
    /// Writes, final flush included, in MB/s.
    pub write_mb: f64,
}

/// Computes the performance of a valid `spec`, with a rotational position drawn from `seed`.
pub fn profile(spec: &DiskSpec, seed: u64) -> Profile {
    let part = Bytes(spec.capacity.0.min(PART.0));
    let mut depths: Vec<u32> = DEPTHS.iter().map(|depth| spec.queue.depth.min(*depth)).collect();
    depths.dedup();
    let random = depths.into_iter().map(|depth| {
        let rate = |action, within| random_rate(spec, seed, depth, action, within);
        RandomRate {
            depth,
            reads: rate(Action::Read, spec.capacity),
            reads_in_part: rate(Action::Read, part),
            writes: rate(Action::Write, spec.capacity),
            writes_in_part: rate(Action::Write, part),
        }
    });
    let sequential = (0..OFFSETS).map(|index| {
        let last = spec.capacity.0.saturating_sub(RUN) / SECTOR;
        let first = last / (OFFSETS - 1) * index / u64::from(BLOCK) * u64::from(BLOCK);
        SequentialRate {
            at: Bytes(first * SECTOR),
            read_mb: sequential_rate(spec, seed, Action::Read, first),
            write_mb: sequential_rate(spec, seed, Action::Write, first),
        }
    });
    Profile {
        seed,
        random: random.collect(),
        sequential: sequential.collect(),
        preconditioned_writes: preconditioned_rate(spec, seed),
    }
}

fn random_rate(spec: &DiskSpec, seed: u64, depth: u32, action: Action, within: Bytes) -> f64 {
    let mut load = LoadGenerator::new(build(spec, seed), depth);
    let mut offsets = seed::stream(seed, "profile");
    let count = if action == Action::Read { READS } else { WRITES };
    for _ in 0..count {
        let block = offsets.below(within.0 / SECTOR / u64::from(BLOCK));
        load.submit(action, block * u64::from(BLOCK), BLOCK);
    }
    load.finish(action);
    count as f64 / load.now.seconds()
}

fn sequential_rate(spec: &DiskSpec, seed: u64, action: Action, first: u64) -> f64 {
    let length = RUN.min(spec.capacity.0) / SECTOR;
    // As with the kernel's read-ahead, the next piece is in flight.
    let mut load = LoadGenerator::new(build(spec, seed), spec.queue.depth.min(2));
    load.submit_run(action, first, length);
    load.finish(action);
    (length * SECTOR) as f64 / 1e6 / load.now.seconds()
}

/// Returns the rate of random writes in the steady state after random overwriting. The model starts in
/// that state, because overwriting a disk of 1 TB would take the model half a minute.
fn preconditioned_rate(spec: &DiskSpec, seed: u64) -> Option<f64> {
    let mut spec = spec.clone();
    spec.model = spec.model.preconditioned()?;
    let blocks = spec.capacity.0 / SECTOR / u64::from(BLOCK);
    let mut load = LoadGenerator::new(build(&spec, seed), spec.queue.depth);
    let mut offsets = seed::stream(seed, "profile full");
    for _ in 0..FULL_WRITES {
        load.submit(Action::Write, offsets.below(blocks) * u64::from(BLOCK), BLOCK);
    }
    load.finish(Action::Write);
    Some(FULL_WRITES as f64 / load.now.seconds())
}

/// A load that keeps up to `depth` requests in flight: once that many are, each completion admits the next.
struct LoadGenerator {
    disk: Box<dyn Disk>,
    depth: u32,
    in_flight: u32,
    submitted: u64,
    now: Nanos,
}

impl LoadGenerator {
    fn new(disk: Box<dyn Disk>, depth: u32) -> LoadGenerator {
        LoadGenerator { disk, depth, in_flight: 0, submitted: 0, now: Nanos(0) }
    }

    fn submit(&mut self, action: Action, sector: u64, sectors: u32) {
        if self.in_flight == self.depth {
            self.wait_for_completion();
        }
        let request = Request { id: self.submitted, action, sector, sectors, fua: false };
        self.disk.submit(self.now, request);
        self.submitted += 1;
        self.in_flight += 1;
    }

    fn submit_run(&mut self, action: Action, first: u64, sectors: u64) {
        let mut offset = 0;
        while offset < sectors {
            let piece = (sectors - offset).min(PIECE.into());
            self.submit(action, first + offset, piece as u32);
            offset += piece;
        }
    }

    /// Waits for all requests in flight; after writes, also flushes the disk's cache.
    fn finish(&mut self, action: Action) {
        while self.in_flight > 0 {
            self.wait_for_completion();
        }
        if action == Action::Write {
            self.submit(Action::Flush, 0, 0);
            self.wait_for_completion();
        }
    }

    fn wait_for_completion(&mut self) {
        // Persisted sectors do not matter here.
        while self.disk.pop_persisted().is_some() {}
        while let Some(due) = self.disk.next_due() {
            self.now = self.now.max(due);
            if self.disk.pop_completed(self.now).is_some() {
                break;
            }
        }
        self.in_flight = self.in_flight.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use crate::models::Model;

    #[test]
    fn sequential_rates_match_the_data_sheet_and_random_rates_grow_with_depth() {
        for name in catalog::names() {
            let spec = catalog::get(name).unwrap();
            let Model::Hdd(hdd) = &spec.model else { continue };
            let profile = profile(&spec, 1);
            let (first, last) = (profile.sequential[0], profile.sequential[8]);
            for (rate, kb) in [
                (first.read_mb, hdd.outer_rate_kb),
                (first.write_mb, hdd.outer_rate_kb),
                (last.read_mb, hdd.inner_rate_kb),
                (last.write_mb, hdd.inner_rate_kb),
            ] {
                assert!((rate * 1e3 / kb as f64 - 1.0).abs() < 0.04, "{name}: {rate} of {kb}");
            }
            for pair in profile.random.windows(2) {
                assert!(pair[0].reads < pair[1].reads, "{name}: {pair:?}");
                assert!(pair[0].reads_in_part < pair[1].reads_in_part, "{name}: {pair:?}");
            }
            assert!(profile.random.iter().all(|rate| rate.reads < rate.reads_in_part));
            assert_eq!(profile.random.len() == 1, spec.queue.depth == 1, "{name}");
        }
    }

    #[test]
    fn a_profile_is_reproducible_and_depends_little_on_the_seed() {
        let spec = catalog::get("ata-2006").unwrap();
        let first = profile(&spec, 1);
        assert_eq!(first, profile(&spec, 1));
        let second = profile(&spec, 2);
        assert_ne!(first, second);
        assert!((first.random[0].reads / second.random[0].reads - 1.0).abs() < 0.03);
    }
}
