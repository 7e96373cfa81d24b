//! Which reads are made of a drive to learn its law: few kinds, each for one part of the law.

use std::io;

use fsdyno_record::{Nanos, seed};

use super::drive::Drive;

/// Sectors of a small read: 4 KiB.
pub const BLOCK: u32 = 8;

/// Sectors of a large read that the drive's memory answers: 64 KiB.
pub const LARGE: u32 = 128;

/// Sectors of one request of a long read: 256 KiB, as the kernel's read-ahead makes them and less than
/// any controller takes at once.
const PIECE: u32 = 512;

/// Places at which long reads are made.
const PLACES: u64 = 13;

/// The most that is read at one of them, in sectors (64 MiB), and the least that tells a rate (4 MiB).
const LONGEST: u64 = (64 << 20) / crate::SECTOR;
const SHORTEST: u64 = (4 << 20) / crate::SECTOR;

/// The shortest way of the arm that is asked for, in sectors (16 MiB): farther than read-ahead goes.
const NEAREST: u64 = (16 << 20) / crate::SECTOR;

/// The queue depth of the reads that tell what a drive does beside the arm's way.
const QUEUED: u32 = 8;

/// Queue depths at which the fit is checked.
const DEPTHS: [u32; 2] = [1, 32];

/// Random reads of one thread before all begin anew, and the most of one depth.
const A_PART: u32 = 8;
const MOST: usize = 50_000;

/// A small read and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Its first sector.
    pub sector: u64,
    /// From asking until it was there.
    pub time: Nanos,
}

/// A long read in one go, after a piece that brought the arm there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long {
    /// Its first sector.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
    /// How long they took.
    pub time: Nanos,
}

/// Random small reads with some in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Reads in flight.
    pub depth: u32,
    /// Reads that are made in one go.
    pub part: usize,
    /// Their first sectors.
    pub places: Vec<u64>,
    /// How long they all took.
    pub time: Nanos,
}

/// What a probe has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// One block again and again, so that the drive's memory answers.
    pub cached: Vec<Nanos>,
    /// [`LARGE`] sectors again and again.
    pub cached_large: Vec<Nanos>,
    /// Each block right before the one of the read before it, so that the platter has to come round.
    pub backwards: Vec<Nanos>,
    /// Long reads from the first sector to the last.
    pub long: Vec<Long>,
    /// Blocks in the order in which the arm went to them, near and far.
    pub seeks: Vec<Timed>,
    /// Some in flight: what a drive does for one command while the arm goes for another.
    pub queued: Check,
    /// What the fit has to foretell.
    pub checks: Vec<Check>,
}

/// Probes a drive for about so many seconds of its own time. `step` is told what is done next.
///
/// # Errors
/// What the drive says.
pub fn probe(
    drive: &mut dyn Drive,
    seconds: u64,
    step: &mut dyn FnMut(&str),
) -> io::Result<Samples> {
    let share = |percent: u64| Nanos(seconds * 10_000_000 * percent);
    let mut samples = Samples::default();
    step("the drive's own memory and its turns");
    turns(drive, share(8), &mut samples)?;
    step("long reads from the outer edge to the inner");
    long(drive, share(23), &mut samples)?;
    step("seeks, near and far");
    seeks(drive, share(37), &mut samples)?;
    step(&format!("random reads, {QUEUED} in flight"));
    samples.queued = random(drive, QUEUED, A_PART, MOST, share(12))?;
    for depth in DEPTHS {
        step(&format!("random reads, {depth} in flight, to check the fit"));
        samples.checks.push(random(drive, depth, A_PART, MOST, share(10))?);
    }
    Ok(samples)
}

fn turns(drive: &mut dyn Drive, budget: Nanos, samples: &mut Samples) -> io::Result<()> {
    let middle = drive.sectors() / 2 / u64::from(LARGE) * u64::from(LARGE);
    for (sectors, times) in [(BLOCK, &mut samples.cached), (LARGE, &mut samples.cached_large)] {
        drive.read(middle, sectors)?;
        for _ in 0..200 {
            times.push(drive.read(middle, sectors)?);
        }
    }
    // At the outer edge tracks are longest, so that most reads stay on one.
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

fn long(drive: &mut dyn Drive, budget: Nanos, samples: &mut Samples) -> io::Result<()> {
    let room = drive.sectors().saturating_sub(LONGEST + u64::from(PIECE));
    for place in 0..PLACES {
        let first = room / (PLACES - 1) * place / u64::from(BLOCK) * u64::from(BLOCK);
        drive.read(first, PIECE)?;
        let sector = first + u64::from(PIECE);
        let (mut sectors, mut time) = (0, Nanos(0));
        while sectors < SHORTEST || (sectors < LONGEST && time.0 < budget.0 / PLACES) {
            time += drive.read(sector + sectors, PIECE)?;
            sectors += u64::from(PIECE);
        }
        samples.long.push(Long { sector, sectors, time });
    }
    Ok(())
}

fn seeks(drive: &mut dyn Drive, budget: Nanos, samples: &mut Samples) -> io::Result<()> {
    let mut draws = seed::stream(1, "ways of the arm");
    let blocks = drive.sectors() / u64::from(BLOCK);
    let mut at = blocks / 2;
    let mut spent = Nanos(0);
    while spent < budget && samples.seeks.len() < 20_000 {
        at = if draws.below(2) == 0 {
            draws.below(blocks)
        } else {
            // Ways of all lengths, each doubling as often as the next.
            let most = (blocks / (NEAREST / u64::from(BLOCK))).max(2).ilog2();
            let doublings = draws.below(u64::from(most)) as u32;
            let least = (NEAREST / u64::from(BLOCK)) << doublings;
            let way = least + draws.below(least);
            if at + way < blocks { at + way } else { at.saturating_sub(way) }
        };
        let sector = at * u64::from(BLOCK);
        let time = drive.read(sector, BLOCK)?;
        spent += time;
        samples.seeks.push(Timed { sector, time });
    }
    Ok(())
}

/// Random small reads, so many for each thread in one go, `most` at most.
pub fn random(
    drive: &mut dyn Drive,
    depth: u32,
    a_thread: u32,
    most: usize,
    budget: Nanos,
) -> io::Result<Check> {
    let part = (depth * a_thread) as usize;
    let mut draws = seed::stream(u64::from(depth), "places of the check");
    let blocks = drive.sectors() / u64::from(BLOCK);
    let mut check = Check { depth, part, places: Vec::new(), time: Nanos(0) };
    // In parts, so that it ends in time, each long enough for the ends not to matter.
    while check.time < budget && check.places.len() < most {
        let places: Vec<u64> = (0..part).map(|_| draws.below(blocks) * u64::from(BLOCK)).collect();
        check.time += drive.read_all(&places, BLOCK, depth)?;
        check.places.extend(places);
    }
    Ok(check)
}

impl Check {
    /// How long another drive takes for the same, in the same parts.
    ///
    /// # Errors
    /// What the drive says.
    pub fn again(&self, drive: &mut dyn Drive) -> io::Result<Nanos> {
        let mut time = Nanos(0);
        for part in self.places.chunks(self.part.max(1)) {
            time += drive.read_all(part, BLOCK, self.depth)?;
        }
        Ok(time)
    }

    /// Reads a second.
    pub fn rate(&self, time: Nanos) -> f64 {
        self.places.len() as f64 / time.seconds().max(1e-9)
    }
}
