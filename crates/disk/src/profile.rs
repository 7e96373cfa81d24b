//! What a disk can do, worked out by asking its model: rates of random and of sequential requests.
//!
//! It knows the [`Disk`] trait, and of the laws only how one is told that its disk is full. Nothing here is
//! stored; the same disk and seed give the same profile.

use fsdyno_record::{Bytes, Nanos, seed};
use serde::Serialize;

use crate::SECTOR;
use crate::disk::{Action, Disk, Request, build};
use crate::model::Model;
use crate::spec::DiskSpec;

/// Queue depths that are asked about, each but no more than the disk's own.
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Sectors of a random request: 4 KiB.
const BLOCK: u32 = 8;
/// Reads that one rate is the mean of. Their times spread by about a third of the mean, so the rate
/// is known to about 1 %.
const READS: u64 = 1000;
/// Writes that one rate is the mean of, the flush that ends them included: several times what the
/// extents of a hard disk's cache hold would cost minutes, so the tail counts at its true cost.
const WRITES: u64 = 3000;
/// Writes onto a full disk: several times what the write buffer holds, and several superblocks.
const FULL_WRITES: u64 = 400_000;
/// Places at which the sequential rates are taken, the first and the last sector among them.
const PLACES: u64 = 9;
/// Bytes of one sequential run.
const RUN: u64 = 64 << 20;
/// Sectors of one request of it: 128 KiB, the kernel's read-ahead.
const PIECE: u32 = 256;
/// The part of the disk that stands for a file system's.
const PART: Bytes = Bytes(32 << 30);

/// What a disk can do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// The seed of the platter's angle and of the places.
    pub seed: u64,
    /// 4 KiB at random places, by queue depth.
    pub random: Vec<RandomRate>,
    /// From the first sector to the last.
    pub sequential: Vec<SequentialRate>,
    /// Of a solid-state disk: random writes a second, the flush that ends them included, in the steady
    /// state of a disk that was written full and over at random.
    pub full_writes: Option<f64>,
}

/// Random requests of 4 KiB a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RandomRate {
    /// Requests in flight.
    pub depth: u32,
    /// Reads over the whole disk, a second.
    pub reads: f64,
    /// Reads within the first 32 GiB (or the whole of a smaller disk), a second.
    pub reads_in_part: f64,
    /// Writes over the whole disk, a second, the flush that ends them included.
    pub writes: f64,
    /// Writes within the first 32 GiB, a second, the flush that ends them included.
    pub writes_in_part: f64,
}

/// Rates of a run of 64 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SequentialRate {
    /// Where it begins, in bytes.
    pub at: Bytes,
    /// Reads, in MB/s (1,000,000 bytes a second).
    pub read_mb: f64,
    /// Writes, the flush that ends them included, in MB/s.
    pub write_mb: f64,
}

/// Asks the model of `spec`, which must be valid, its platter at an angle drawn from `seed`.
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
    let sequential = (0..PLACES).map(|place| {
        let last = spec.capacity.0.saturating_sub(RUN) / SECTOR;
        let first = last / (PLACES - 1) * place / u64::from(BLOCK) * u64::from(BLOCK);
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
        full_writes: full_rate(spec, seed),
    }
}

fn random_rate(spec: &DiskSpec, seed: u64, depth: u32, action: Action, within: Bytes) -> f64 {
    let mut caller = Caller::new(build(spec, seed), depth);
    let mut places = seed::stream(seed, "profile");
    let count = if action == Action::Read { READS } else { WRITES };
    for _ in 0..count {
        let block = places.below(within.0 / SECTOR / u64::from(BLOCK));
        caller.ask(action, block * u64::from(BLOCK), BLOCK);
    }
    caller.end(action);
    count as f64 / caller.now.seconds()
}

fn sequential_rate(spec: &DiskSpec, seed: u64, action: Action, first: u64) -> f64 {
    let length = RUN.min(spec.capacity.0) / SECTOR;
    // The kernel's read-ahead keeps the next piece in flight.
    let mut caller = Caller::new(build(spec, seed), spec.queue.depth.min(2));
    caller.run(action, first, length);
    caller.end(action);
    (length * SECTOR) as f64 / 1e6 / caller.now.seconds()
}

/// Random writes onto the disk as it is when random overwriting has brought it to its steady state: the
/// law begins there if it is told so. Writing a disk of 1 TB full and over takes its model half a minute.
fn full_rate(spec: &DiskSpec, seed: u64) -> Option<f64> {
    let mut spec = spec.clone();
    let Model::Ssd(ssd) = &mut spec.model else { return None };
    ssd.prefilled_percent = 100;
    let blocks = spec.capacity.0 / SECTOR / u64::from(BLOCK);
    let mut caller = Caller::new(build(&spec, seed), spec.queue.depth);
    let mut places = seed::stream(seed, "profile full");
    for _ in 0..FULL_WRITES {
        caller.ask(Action::Write, places.below(blocks) * u64::from(BLOCK), BLOCK);
    }
    caller.end(Action::Write);
    Some(FULL_WRITES as f64 / caller.now.seconds())
}

/// Keeps a number of requests in flight: the next is handed in when one completes.
struct Caller {
    disk: Box<dyn Disk>,
    depth: u32,
    in_flight: u32,
    asked: u64,
    now: Nanos,
}

impl Caller {
    fn new(disk: Box<dyn Disk>, depth: u32) -> Caller {
        Caller { disk, depth, in_flight: 0, asked: 0, now: Nanos(0) }
    }

    fn ask(&mut self, action: Action, sector: u64, sectors: u32) {
        if self.in_flight == self.depth {
            self.wait();
        }
        let request = Request { id: self.asked, action, sector, sectors, fua: false };
        self.disk.submit(self.now, request);
        self.asked += 1;
        self.in_flight += 1;
    }

    fn run(&mut self, action: Action, first: u64, sectors: u64) {
        let mut at = 0;
        while at < sectors {
            let piece = (sectors - at).min(PIECE.into());
            self.ask(action, first + at, piece as u32);
            at += piece;
        }
    }

    /// Waits for all that is in flight; after writes, for what is in the disk's cache too.
    fn end(&mut self, action: Action) {
        while self.in_flight > 0 {
            self.wait();
        }
        if action == Action::Write {
            self.ask(Action::Flush, 0, 0);
            self.wait();
        }
    }

    fn wait(&mut self) {
        // Nobody asks this disk what has landed.
        while self.disk.landed().is_some() {}
        while let Some(due) = self.disk.next_due() {
            self.now = self.now.max(due);
            if self.disk.completed(self.now).is_some() {
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

    #[test]
    fn sequential_rates_are_the_data_sheets_and_random_ones_grow_with_depth() {
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
    fn the_same_disk_has_the_same_profile_and_another_seed_nearly_the_same() {
        let spec = catalog::get("ata-2006").unwrap();
        let one = profile(&spec, 1);
        assert_eq!(one, profile(&spec, 1));
        let other = profile(&spec, 2);
        assert_ne!(one, other);
        assert!((one.random[0].reads / other.random[0].reads - 1.0).abs() < 0.03);
    }
}
