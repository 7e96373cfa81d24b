//! Probes a hard disk with a few kinds of reads, each for one parameter of the model.

use std::io;

use fsdyno_record::{Nanos, seed};

use super::drive::Drive;

/// Sectors of a small read: 4 KiB.
pub const BLOCK: u32 = 8;

/// Sectors of a large read from the drive's cache: 64 KiB.
pub const LARGE: u32 = 128;

/// Sectors of one request of a long read: 256 KiB, twice the kernel's default read-ahead and below the maximum
/// request size of any controller.
const PIECE: u32 = 512;

/// Number of offsets of long reads.
const OFFSETS: u64 = 13;

/// Maximum length of the long read at one offset, in sectors (64 MiB), and minimum for a rate (4 MiB).
const MAX_LONG: u64 = (64 << 20) / crate::SECTOR;
const MIN_LONG: u64 = (4 << 20) / crate::SECTOR;

/// Minimum length of the short seeks, in sectors (16 MiB): beyond the drive's read-ahead.
const MIN_SEEK: u64 = (16 << 20) / crate::SECTOR;

/// Queue depth of the reads that reveal how much overhead overlaps with seeks.
const QUEUED: u32 = 8;

/// Queue depths at which the fit is checked.
const DEPTHS: [u32; 2] = [1, 32];

/// Random reads per thread in one batch, and maximum number of reads at one depth.
const READS_PER_THREAD: u32 = 8;
const MAX_READS: usize = 50_000;

/// A small read and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRead {
    /// Its first sector.
    pub sector: u64,
    /// Time from submission to completion.
    pub time: Nanos,
}

/// A contiguous long read, after the read of a piece that moved the arm to its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongRead {
    /// Its first sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Total time.
    pub time: Nanos,
}

/// Random small reads at one queue depth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Reads in flight.
    pub depth: u32,
    /// Reads per batch.
    pub batch: usize,
    /// First sectors of the reads.
    pub offsets: Vec<u64>,
    /// Total time.
    pub time: Nanos,
}

/// The measurements of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Repeated reads of one block, which hit the drive's memory.
    pub cached: Vec<Nanos>,
    /// Repeated reads of [`LARGE`] sectors.
    pub cached_large: Vec<Nanos>,
    /// Reads of blocks in descending order, each of which takes one revolution.
    pub backwards: Vec<Nanos>,
    /// Long reads from the first sector to the last.
    pub long: Vec<LongRead>,
    /// Single reads in order, with short and long seeks.
    pub seeks: Vec<TimedRead>,
    /// Reads with a queue: the overhead of one command overlaps with the seek of another.
    pub queued: Check,
    /// Reads for checking the fit.
    pub checks: Vec<Check>,
}

/// Probes a drive for about `seconds` of its own time. `step` receives a description of each step.
///
/// # Errors
/// Errors from the drive.
pub fn probe(
    drive: &mut dyn Drive,
    seconds: u64,
    step: &mut dyn FnMut(&str),
) -> io::Result<Samples> {
    let share = |percent: u64| Nanos(seconds * 10_000_000 * percent);
    let mut samples = Samples::default();
    step("the drive's memory and rotation");
    probe_memory_and_rotation(drive, share(8), &mut samples)?;
    step("long reads from the outer edge to the inner");
    probe_long_reads(drive, share(23), &mut samples)?;
    step("seeks, near and far");
    probe_seeks(drive, share(37), &mut samples)?;
    step(&format!("random reads, {QUEUED} in flight"));
    samples.queued = probe_random_reads(drive, QUEUED, READS_PER_THREAD, MAX_READS, share(12))?;
    for depth in DEPTHS {
        step(&format!("random reads, {depth} in flight, to check the fit"));
        samples.checks.push(probe_random_reads(
            drive,
            depth,
            READS_PER_THREAD,
            MAX_READS,
            share(10),
        )?);
    }
    Ok(samples)
}

fn probe_memory_and_rotation(
    drive: &mut dyn Drive,
    budget: Nanos,
    samples: &mut Samples,
) -> io::Result<()> {
    let middle = drive.sectors() / 2 / u64::from(LARGE) * u64::from(LARGE);
    for (sectors, times) in [(BLOCK, &mut samples.cached), (LARGE, &mut samples.cached_large)] {
        drive.read(middle, sectors)?;
        for _ in 0..200 {
            times.push(drive.read(middle, sectors)?);
        }
    }
    // Tracks are longest at the outer edge, so most consecutive reads stay on one track.
    let mut spent = Nanos(0);
    let mut sector = (drive.sectors() / 100).max(1 << 16) / u64::from(BLOCK) * u64::from(BLOCK);
    drive.read(sector, BLOCK)?;
    while spent < budget && samples.backwards.len() < 300 && sector >= u64::from(BLOCK) {
        sector -= u64::from(BLOCK);
        let time = drive.read(sector, BLOCK)?;
        spent += time;
        samples.backwards.push(time);
    }
    Ok(())
}

fn probe_long_reads(drive: &mut dyn Drive, budget: Nanos, samples: &mut Samples) -> io::Result<()> {
    let room = drive.sectors().saturating_sub(MAX_LONG + u64::from(PIECE));
    for index in 0..OFFSETS {
        let first = room / (OFFSETS - 1) * index / u64::from(BLOCK) * u64::from(BLOCK);
        drive.read(first, PIECE)?;
        let sector = first + u64::from(PIECE);
        let (mut sectors, mut time) = (0, Nanos(0));
        while sectors < MIN_LONG || (sectors < MAX_LONG && time.0 < budget.0 / OFFSETS) {
            time += drive.read(sector + sectors, PIECE)?;
            sectors += u64::from(PIECE);
        }
        samples.long.push(LongRead { sector, sectors, time });
    }
    Ok(())
}

fn probe_seeks(drive: &mut dyn Drive, budget: Nanos, samples: &mut Samples) -> io::Result<()> {
    let mut draws = seed::stream(1, "ways of the arm");
    let blocks = drive.sectors() / u64::from(BLOCK);
    let mut at = blocks / 2;
    let mut spent = Nanos(0);
    while spent < budget && samples.seeks.len() < 20_000 {
        at = if draws.below(2) == 0 {
            draws.below(blocks)
        } else {
            // Seeks of all lengths; each power of two has the same probability.
            let max_doublings = (blocks / (MIN_SEEK / u64::from(BLOCK))).max(2).ilog2();
            let doublings = draws.below(u64::from(max_doublings)) as u32;
            let shortest = (MIN_SEEK / u64::from(BLOCK)) << doublings;
            let seek = shortest + draws.below(shortest);
            if at + seek < blocks { at + seek } else { at.saturating_sub(seek) }
        };
        let sector = at * u64::from(BLOCK);
        let time = drive.read(sector, BLOCK)?;
        spent += time;
        samples.seeks.push(TimedRead { sector, time });
    }
    Ok(())
}

/// Performs random small reads in batches of `per_thread` per thread, until `max_reads` or `budget` is reached.
pub fn probe_random_reads(
    drive: &mut dyn Drive,
    depth: u32,
    per_thread: u32,
    max_reads: usize,
    budget: Nanos,
) -> io::Result<Check> {
    let batch = (depth * per_thread) as usize;
    let mut draws = seed::stream(u64::from(depth), "places of the check");
    let blocks = drive.sectors() / u64::from(BLOCK);
    let mut check = Check { depth, batch, offsets: Vec::new(), time: Nanos(0) };
    // Batches let the probe end in time; each is long enough to make its start and end negligible.
    while check.time < budget && check.offsets.len() < max_reads {
        let offsets: Vec<u64> =
            (0..batch).map(|_| draws.below(blocks) * u64::from(BLOCK)).collect();
        check.time += drive.read_all(&offsets, BLOCK, depth)?;
        check.offsets.extend(offsets);
    }
    Ok(check)
}

impl Check {
    /// Repeats the reads on another drive, in the same batches; returns the total time.
    ///
    /// # Errors
    /// Errors from the drive.
    pub fn replay(&self, drive: &mut dyn Drive) -> io::Result<Nanos> {
        let mut time = Nanos(0);
        for batch in self.offsets.chunks(self.batch.max(1)) {
            time += drive.read_all(batch, BLOCK, self.depth)?;
        }
        Ok(time)
    }

    /// Returns the reads per second.
    pub fn rate(&self, time: Nanos) -> f64 {
        self.offsets.len() as f64 / time.seconds().max(1e-9)
    }
}
