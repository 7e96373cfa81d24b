//! The read side of a solid-state disk's law, fitted to reads of a real one.
//!
//! What a block takes that was just read, and one that was not, tells the flash's sensing; long reads in
//! sequence tell the interface's rate; the rate with 32 reads in flight what a command takes of it; one in
//! flight the latency. How many dies share the work, and how much of a read is theirs, is searched
//! for with the model itself, by the reads with 4 and 16 in flight.

use std::io;

use fsdyno_record::{Bytes, Nanos, seed};
use serde_json::json;

use super::drive::{Drive, Modelled};
use super::hard_disk::{foretold, median, sources};
use super::probe::{BLOCK, Check, random};
use super::{Facts, FitError, Fitted, Parameter};
use crate::SECTOR;
use crate::catalog;
use crate::model::{Model, Ssd};
use crate::spec::DiskSpec;

/// The catalog's disk from which comes what reading cannot tell.
const BASE: &str = "ssd-sata";

/// Queue depths that the law is fitted to, and those at which it is checked.
const FITTED: [u32; 4] = [1, 4, 16, 32];
const CHECKED: [u32; 2] = [2, 8];

/// Reads of one thread before all threads begin anew, so that beginning them counts for little, and
/// the most of one depth: their rate is then known to 1 %, and the search does not take long.
const A_THREAD: u32 = 256;
const MOST: usize = 16_384;

/// Sectors of the two sizes of long reads, 32 and 128 KiB, and how many of them are in flight.
const LONG: [u32; 2] = [64, 256];
const LONG_DEPTH: u32 = 32;

/// Faster than this no flash answers: the fastest kinds need some 3 us to sense a page, and the way
/// to the host and back comes on top. Memory answers in 1 to 2 us.
const FASTEST: Nanos = Nanos(5_000);

/// Numbers of dies that are tried.
const DIES: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];

/// Shares of a read at depth 1 that are tried for sensing besides the measured one, in percent: a drive that
/// answers a block again out of its own memory, or does not remember it, measures wrong.
const SHARES: [u64; 4] = [20, 40, 60, 80];

/// How much nearer another sensing time must come, as a ratio of rates, before it is taken in place of the
/// measured one; nothing else is tried if that comes nearer than this itself.
const CLEARLY: f64 = 0.01;

/// The error of what was not fitted to, in percent, above which there is no law: drives that are alike differ
/// less.
const TOO_FAR: f64 = 30.0;

/// What reads of a solid-state disk have shown.
#[derive(Clone, Debug, Default)]
pub struct FlashSamples {
    /// One block again and again.
    again: Vec<Nanos>,
    /// Time for each long read of the two sizes, in sequence.
    long: [Nanos; 2],
    /// Random reads at the depths that are fitted to.
    fitted: Vec<Check>,
    /// And at those that are not.
    checks: Vec<Check>,
}

/// Mean time of 64 reads of 4 KiB at random places, one at a time: below 2 ms nothing turns, for that
/// is half a turn at 15,000 a minute.
///
/// # Errors
/// What the drive says.
pub fn first_look(drive: &mut dyn Drive) -> io::Result<Nanos> {
    const READS: u64 = 64;
    let mut draws = seed::stream(3, "places of a first look");
    let blocks = drive.sectors() / u64::from(BLOCK);
    let mut time = Nanos(0);
    for _ in 0..READS {
        time += drive.read(draws.below(blocks) * u64::from(BLOCK), BLOCK)?;
    }
    Ok(Nanos(time.0 / READS))
}

/// Probes a solid-state disk for at most about so many seconds of its own time.
///
/// # Errors
/// What the drive says.
pub fn probe_flash(
    drive: &mut dyn Drive,
    seconds: u64,
    step: &mut dyn FnMut(&str),
) -> io::Result<FlashSamples> {
    let share = Nanos(seconds * 1_000_000_000 / 8);
    let mut samples = FlashSamples::default();
    step("one block again and again");
    let middle = drive.sectors() / 2 / u64::from(BLOCK) * u64::from(BLOCK);
    drive.read(middle, BLOCK)?;
    for _ in 0..500 {
        samples.again.push(drive.read(middle, BLOCK)?);
    }
    step("long reads in sequence");
    for (sectors, time) in LONG.iter().zip(&mut samples.long) {
        *time = in_sequence(drive, *sectors, share)?;
    }
    for depth in FITTED {
        step(&format!("random reads, {depth} in flight"));
        samples.fitted.push(random(drive, depth, A_THREAD, MOST, share)?);
    }
    for depth in CHECKED {
        step(&format!("random reads, {depth} in flight, to check the fit"));
        samples.checks.push(random(drive, depth, A_THREAD, MOST, share)?);
    }
    Ok(samples)
}

/// Time for each read of so many sectors, some in flight, one behind the other.
fn in_sequence(drive: &mut dyn Drive, sectors: u32, budget: Nanos) -> io::Result<Nanos> {
    /// Reads in one go, at each of so many places.
    const RUN: u64 = 1024;
    const PLACES: u64 = 4;
    let room = drive.sectors().saturating_sub(RUN * u64::from(sectors));
    let (mut reads, mut time) = (0, Nanos(0));
    for place in 0..PLACES {
        let first = room / PLACES * place / u64::from(BLOCK) * u64::from(BLOCK);
        let run: Vec<u64> = (0..RUN).map(|at| first + at * u64::from(sectors)).collect();
        time += drive.read_all(&run, sectors, LONG_DEPTH)?;
        reads += RUN;
        if time > budget {
            break;
        }
    }
    Ok(Nanos(time.0 / reads))
}

/// Fits the read side of the law to the samples of a drive of `sectors` sectors.
///
/// # Errors
/// Why they are not those of flash.
pub fn fit_flash(samples: &FlashSamples, facts: &Facts, sectors: u64) -> Result<Fitted, FitError> {
    let each = |check: &Check| Nanos(check.time.0 / check.places.len().max(1) as u64);
    let [one, .., all] = samples.fitted.as_slice() else { return Err(FitError::TooFew(0)) };
    if each(one) < FASTEST {
        return Err(FitError::Memory { took: each(one), least: FASTEST });
    }
    // Of two sizes the larger one's more time is what the interface takes for the more bytes.
    let more = samples.long[1].0.saturating_sub(samples.long[0].0).max(1);
    let rate = u64::from(LONG[1] - LONG[0]) * SECTOR * 1_000_000 / more;
    let rate = rate.clamp(100, 100_000_000);
    let sensed = each(one).0.saturating_sub(median(&samples.again).0) / 1000;
    let mut best: Option<Candidate> = None;
    let shares = SHARES.map(|percent| each(one).0 / 1000 * percent / 100);
    for (at, read_us) in std::iter::once(sensed).chain(shares).enumerate() {
        if best.as_ref().is_some_and(|best| best.measured && best.error < CLEARLY) {
            break;
        }
        for dies in DIES {
            let tried = Law { rate, read_us: read_us.max(1), dies };
            let mut candidate = tried.fit(samples, facts, sectors)?;
            candidate.measured = at == 0;
            let lead = best.as_ref().filter(|best| best.measured != candidate.measured);
            let lead = lead.map_or(0.0, |_| CLEARLY);
            if best.as_ref().is_none_or(|best| candidate.error + lead < best.error) {
                best = Some(candidate);
            }
        }
    }
    let Some(Candidate { mut spec, measured, .. }) = best else { return Err(FitError::TooFew(0)) };
    let found = parameters(ssd(&spec)?, measured, each(all));
    spec.source = sources(&spec, facts, &found, BASE)?;
    let foretold = foretold(&samples.checks, &spec)?;
    if let Some(far) = foretold.iter().find(|check| check.error().abs() > TOO_FAR) {
        let (depth, error) = (far.depth, far.error());
        return Err(FitError::Far { depth, measured: far.measured, foretold: far.foretold, error });
    }
    Ok(Fitted { spec, foretold, seeks: 0, outliers: 0 })
}

/// A law that was tried, and how near it comes.
struct Candidate {
    spec: DiskSpec,
    /// The largest error of the fitted depths' rates, as the logarithm of a ratio.
    error: f64,
    /// Whether its sensing time is the measured one.
    measured: bool,
}

/// What is tried together.
struct Law {
    rate: u64,
    read_us: u64,
    dies: u32,
}

impl Law {
    /// The law with the command's share of the link that gives the measured rate at the greatest depth, and
    /// the latency that gives it at depth 1.
    fn fit(
        &self,
        samples: &FlashSamples,
        facts: &Facts,
        sectors: u64,
    ) -> Result<Candidate, FitError> {
        let mut spec = disk(facts, sectors, self)?;
        let (one, all) = (&samples.fitted[0], &samples.fitted[FITTED.len() - 1]);
        let off = |check: &Check, spec: &DiskSpec| -> Result<f64, FitError> {
            let time = check.again(&mut Modelled::new(spec, 1))?;
            Ok((check.time.0 as f64 - time.0 as f64) / check.places.len().max(1) as f64)
        };
        let add = |time: &mut u64, more: f64| {
            *time = (*time as f64 + more).round().clamp(1.0, 100_000_000.0) as u64;
        };
        // One moves the other a little, so twice.
        for _ in 0..2 {
            let command = off(all, &spec)?;
            add(&mut ssd_mut(&mut spec)?.read_command_ns, command);
            let latency = off(one, &spec)?;
            add(&mut ssd_mut(&mut spec)?.read_latency_ns, latency);
        }
        let mut error = 0.0_f64;
        for check in &samples.fitted {
            let time = check.again(&mut Modelled::new(&spec, 1))?;
            let ratio = time.0.max(1) as f64 / check.time.0.max(1) as f64;
            error = error.max(ratio.ln().abs());
        }
        Ok(Candidate { spec, error, measured: false })
    }
}

/// The catalog's disk, new, with these in place of its own.
fn disk(facts: &Facts, sectors: u64, law: &Law) -> Result<DiskSpec, FitError> {
    let mut spec = catalog::get(BASE)?;
    let capacity = Bytes(sectors * SECTOR / 4096 * 4096);
    spec.about = facts.about.clone();
    spec.queue = facts.queue.clone();
    spec.queue.rotational = false;
    // The buffer of writes, which is an estimate, must hold the largest request.
    spec.queue.max_sectors_kb = spec.queue.max_sectors_kb.min(16 << 10);
    let whole = spec.capacity.0;
    spec.capacity = capacity;
    let ssd = ssd_mut(&mut spec)?;
    // As many superblocks as the catalog's disk has.
    let block = u128::from(ssd.block.0) * u128::from(ssd.dies) * u128::from(capacity.0)
        / u128::from(whole)
        / u128::from(law.dies);
    let program = ssd.program_size.0;
    ssd.block = Bytes((block as u64 / program * program).clamp(program, 1 << 30));
    ssd.dies = law.dies;
    ssd.channels = ssd.channels.min(law.dies);
    ssd.read_us = law.read_us;
    ssd.read_rate_kb = law.rate;
    (ssd.read_command_ns, ssd.read_latency_ns) = (1, 1);
    // The file of a drive says nothing of what other drives hold.
    ssd.prefilled_percent = 0;
    spec.validate()?;
    Ok(spec)
}

fn ssd(spec: &DiskSpec) -> Result<&Ssd, FitError> {
    match &spec.model {
        Model::Ssd(ssd) => Ok(ssd),
        _ => Err(FitError::NoSolidState(BASE)),
    }
}

fn ssd_mut(spec: &mut DiskSpec) -> Result<&mut Ssd, FitError> {
    match &mut spec.model {
        Model::Ssd(ssd) => Ok(ssd),
        _ => Err(FitError::NoSolidState(BASE)),
    }
}

/// What was found, and how.
fn parameters(ssd: &Ssd, measured: bool, busiest: Nanos) -> Vec<Parameter> {
    let from = |name, value, from: String| Parameter { name, value, from };
    let sensing = if measured {
        "measured: random reads of 4 KiB one at a time, less the same block again and again"
    } else {
        "fitted: of four shares of a read the one that foretells 4 and 16 reads in flight best; the same block \
         read again and again did not tell it"
    };
    vec![
        from("read_us", json!(ssd.read_us), sensing.into()),
        from(
            "dies",
            json!(ssd.dies),
            "fitted: of the powers of two from 2 to 128 the one that foretells 4, 16 and 32 reads in flight \
             best; where the interface is the limit many numbers do as well"
                .into(),
        ),
        from(
            "channels",
            json!(ssd.channels),
            format!("estimate: as {BASE}, and no more than dies"),
        ),
        from(
            "read_rate_kb",
            json!(ssd.read_rate_kb),
            "measured: reads of 128 KiB against 32 KiB in sequence, 32 in flight".into(),
        ),
        from(
            "read_command_ns",
            json!(ssd.read_command_ns),
            format!(
                "measured: with 32 in flight a read of 4 KiB takes {busiest}; less its bytes on the interface \
                 and what dies keep waiting"
            ),
        ),
        from(
            "read_latency_ns",
            json!(ssd.read_latency_ns),
            "measured: the rest of a read of 4 KiB alone; the host's own part is in it".into(),
        ),
        from(
            "block",
            json!(ssd.block),
            format!("estimate: as many superblocks as {BASE} has"),
        ),
        from("prefilled_percent", json!(0), "chosen: a drive as new".into()),
    ]
}
