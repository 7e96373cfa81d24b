//! Fits the read side of a solid-state disk's model to reads of a real drive.
//!
//! The difference between a random read and a repeated one gives the flash's sensing time; long sequential
//! reads give the interface's rate; the rate with the most reads in flight (32, or 128 for NVMe) gives the
//! command overhead, and the rate with one in flight the latency. The number of dies, and the fraction of sensing
//! in a read, are found by a search with the model itself, using also the reads with 4 and 16 in flight.

use std::io;

use fsdyno_record::{Bytes, Nanos, seed};
use serde_json::json;

use super::drive::{Drive, Modelled};
use super::hard_disk::{median, predict, sources};
use super::probe::{BLOCK, Check, probe_random_reads};
use super::{Facts, FitError, Fitted, Parameter};
use crate::SECTOR;
use crate::catalog;
use crate::models::{Model, Ssd};
use crate::spec::{DiskSpec, WriteCache};

/// Returns the catalog disk that provides the parameters that reads cannot reveal.
fn base(facts: &Facts) -> &'static str {
    match (facts.nvme, facts.queue.write_cache) {
        (false, _) => "ssd-sata",
        (true, WriteCache::WriteThrough) => "nvme-datacenter",
        (true, WriteCache::WriteBack) => "nvme-consumer",
    }
}

/// Queue depths of the fit and of its check; those of NVMe drives follow.
const FIT_DEPTHS: [u32; 4] = [1, 4, 16, 32];
const CHECK_DEPTHS: &[u32] = &[2, 8];
const FIT_DEPTHS_NVME: [u32; 4] = [1, 4, 16, 128];
const CHECK_DEPTHS_NVME: &[u32] = &[2, 8, 32, 64];

/// Reads per thread in one batch (enough to make the start of the threads negligible), and maximum number of
/// reads at one depth (enough for a rate accurate to 1 %, few enough for a fast search).
const READS_PER_THREAD: u32 = 256;
const MAX_READS: usize = 16_384;

/// Sectors of the two sizes of long reads, 32 and 128 KiB, and their queue depth.
const LONG: [u32; 2] = [64, 256];
const LONG_DEPTH: u32 = 32;

/// Minimum time of a read from flash: the fastest kinds need about 3 us to sense a page, plus the transfer
/// to the host. Memory responds in 1 to 2 us.
const MIN_FLASH_TIME: Nanos = Nanos(5_000);

/// Candidates for the number of dies.
const DIES: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];

/// Candidates for the sensing time, in percent of a read at depth 1, in addition to the measured time. That is
/// wrong for a drive that serves a repeated read from its own memory, or does not cache it.
const SHARES: [u64; 4] = [20, 40, 60, 80];

/// Maximum number of rounds of fitting the command time and the latency.
const MAX_ROUNDS: u32 = 8;

/// Minimum improvement of the error, the logarithm of a ratio of rates, for choosing a sensing time other than
/// the measured one; no other is tried if the error with the measured one is below it.
const MIN_IMPROVEMENT: f64 = 0.01;

/// Maximum prediction error in percent; a fit with a larger one is refused, since similar drives differ by less.
const MAX_ERROR: f64 = 30.0;

/// The measurements of a solid-state disk.
#[derive(Clone, Debug, Default)]
pub struct FlashSamples {
    /// Repeated reads of one block.
    repeated: Vec<Nanos>,
    /// Time of a long sequential read, for both sizes.
    long: [Nanos; 2],
    /// Random reads at the depths of the fit.
    fitted: Vec<Check>,
    /// Random reads at the depths of the check.
    checks: Vec<Check>,
}

/// Measures the mean time of 64 random reads of 4 KiB, one at a time. If it is below 2 ms (half a revolution
/// at 15,000 rpm), the disk does not rotate.
///
/// # Errors
/// Errors from the drive.
pub fn mean_read_time(drive: &mut dyn Drive) -> io::Result<Nanos> {
    const READS: u64 = 64;
    let mut draws = seed::stream(3, "places of a first look");
    let blocks = drive.sectors() / u64::from(BLOCK);
    let mut time = Nanos(0);
    for _ in 0..READS {
        time += drive.read(draws.below(blocks) * u64::from(BLOCK), BLOCK)?;
    }
    Ok(Nanos(time.0 / READS))
}

/// Probes a solid-state disk for at most about `seconds` of its own time; NVMe at greater queue depths.
///
/// # Errors
/// Errors from the drive.
pub fn probe_flash(
    drive: &mut dyn Drive,
    nvme: bool,
    seconds: u64,
    step: &mut dyn FnMut(&str),
) -> io::Result<FlashSamples> {
    let (fitted, checked) =
        if nvme { (FIT_DEPTHS_NVME, CHECK_DEPTHS_NVME) } else { (FIT_DEPTHS, CHECK_DEPTHS) };
    let share = Nanos(seconds * 1_000_000_000 / 8);
    let mut samples = FlashSamples::default();
    step("repeated reads of one block");
    let middle = drive.sectors() / 2 / u64::from(BLOCK) * u64::from(BLOCK);
    drive.read(middle, BLOCK)?;
    for _ in 0..500 {
        samples.repeated.push(drive.read(middle, BLOCK)?);
    }
    step("long sequential reads");
    for (sectors, time) in LONG.iter().zip(&mut samples.long) {
        *time = mean_sequential_read_time(drive, *sectors, share)?;
    }
    for depth in fitted {
        step(&format!("random reads, {depth} in flight"));
        samples.fitted.push(probe_random_reads(drive, depth, READS_PER_THREAD, MAX_READS, share)?);
    }
    for depth in checked.iter().copied() {
        step(&format!("random reads, {depth} in flight, to check the fit"));
        samples.checks.push(probe_random_reads(drive, depth, READS_PER_THREAD, MAX_READS, share)?);
    }
    Ok(samples)
}

/// Measures the mean time of a sequential read of `sectors` sectors with a queue.
fn mean_sequential_read_time(
    drive: &mut dyn Drive,
    sectors: u32,
    budget: Nanos,
) -> io::Result<Nanos> {
    /// Number of reads in one run, and number of runs.
    const RUN: u64 = 1024;
    const RUNS: u64 = 4;
    let room = drive.sectors().saturating_sub(RUN * u64::from(sectors));
    let (mut reads, mut time) = (0, Nanos(0));
    for run in 0..RUNS {
        let first = room / RUNS * run / u64::from(BLOCK) * u64::from(BLOCK);
        let offsets: Vec<u64> = (0..RUN).map(|at| first + at * u64::from(sectors)).collect();
        time += drive.read_all(&offsets, sectors, LONG_DEPTH)?;
        reads += RUN;
        if time > budget {
            break;
        }
    }
    Ok(Nanos(time.0 / reads))
}

/// Fits the read side of the model to the samples of a drive of `sectors` sectors.
///
/// # Errors
/// The reason why the samples are not those of flash.
pub fn fit_flash(samples: &FlashSamples, facts: &Facts, sectors: u64) -> Result<Fitted, FitError> {
    let each = |check: &Check| Nanos(check.time.0 / check.offsets.len().max(1) as u64);
    let [single, .., deepest] = samples.fitted.as_slice() else { return Err(FitError::TooFew(0)) };
    if each(single) < MIN_FLASH_TIME {
        return Err(FitError::Memory { took: each(single), least: MIN_FLASH_TIME });
    }
    // The additional time of the larger size is the interface's time for the additional bytes.
    let additional_ns = samples.long[1].0.saturating_sub(samples.long[0].0).max(1);
    let rate = u64::from(LONG[1] - LONG[0]) * SECTOR * 1_000_000 / additional_ns;
    let rate = rate.clamp(100, 100_000_000);
    let sensed = each(single).0.saturating_sub(median(&samples.repeated).0) / 1000;
    let mut best: Option<Candidate> = None;
    let shares = SHARES.map(|percent| each(single).0 / 1000 * percent / 100);
    for (at, read_us) in std::iter::once(sensed).chain(shares).enumerate() {
        if best.as_ref().is_some_and(|best| best.measured && best.error < MIN_IMPROVEMENT) {
            break;
        }
        for dies in DIES {
            let parameters = Parameters { rate, read_us: read_us.max(1), dies };
            let mut candidate = parameters.fit(samples, facts, sectors)?;
            candidate.measured = at == 0;
            let margin = best.as_ref().filter(|best| best.measured != candidate.measured);
            let margin = margin.map_or(0.0, |_| MIN_IMPROVEMENT);
            if best.as_ref().is_none_or(|best| candidate.error + margin < best.error) {
                best = Some(candidate);
            }
        }
    }
    let Some(Candidate { mut spec, measured, .. }) = best else { return Err(FitError::TooFew(0)) };
    let found = parameters(ssd(&spec)?, measured, each(deepest), facts);
    spec.source = sources(&spec, facts, &found, base(facts))?;
    let predictions = predict(&samples.checks, &spec)?;
    if let Some(inaccurate) = predictions.iter().find(|check| check.error().abs() > MAX_ERROR) {
        let (depth, error) = (inaccurate.depth, inaccurate.error());
        return Err(FitError::Inaccurate {
            depth,
            measured: inaccurate.measured,
            predicted: inaccurate.predicted,
            error,
        });
    }
    Ok(Fitted { spec, predictions, seeks: 0, outliers: 0 })
}

/// A fitted candidate, and its error.
struct Candidate {
    spec: DiskSpec,
    /// The largest error of the fitted depths' rates, as the logarithm of a ratio.
    error: f64,
    /// True if its sensing time is the measured one.
    measured: bool,
}

/// The parameters of a candidate.
struct Parameters {
    rate: u64,
    read_us: u64,
    dies: u32,
}

impl Parameters {
    /// Fits the command's link time to the measured rate at the greatest depth, and
    /// the latency to the rate at depth 1.
    fn fit(
        &self,
        samples: &FlashSamples,
        facts: &Facts,
        sectors: u64,
    ) -> Result<Candidate, FitError> {
        let mut spec = disk(facts, sectors, self)?;
        let [single, .., deepest] = samples.fitted.as_slice() else {
            return Err(FitError::TooFew(0));
        };
        let mean_error = |check: &Check, spec: &DiskSpec| -> Result<f64, FitError> {
            let time = check.replay(&mut Modelled::new(spec, 1))?;
            Ok((check.time.0 as f64 - time.0 as f64) / check.offsets.len().max(1) as f64)
        };
        let add = |time: &mut u64, more: f64| {
            *time = (*time as f64 + more).round().clamp(1.0, 100_000_000.0) as u64;
        };
        // The two affect each other slightly, so there are at least two rounds; more are needed if the dies are also
        // nearly a bottleneck, since a longer command then lengthens a read by less.
        for round in 1..=MAX_ROUNDS {
            let command = mean_error(deepest, &spec)?;
            add(&mut ssd_mut(&mut spec)?.read_command_ns, command);
            let latency = mean_error(single, &spec)?;
            add(&mut ssd_mut(&mut spec)?.read_latency_ns, latency);
            let each = deepest.time.0 as f64 / deepest.offsets.len().max(1) as f64;
            if round >= 2 && command.abs() < each / 200.0 {
                break;
            }
        }
        let mut error = 0.0_f64;
        for check in &samples.fitted {
            let time = check.replay(&mut Modelled::new(&spec, 1))?;
            let ratio = time.0.max(1) as f64 / check.time.0.max(1) as f64;
            error = error.max(ratio.ln().abs());
        }
        Ok(Candidate { spec, error, measured: false })
    }
}

/// Returns the catalog's disk, as a new drive, with these parameters replaced.
fn disk(facts: &Facts, sectors: u64, parameters: &Parameters) -> Result<DiskSpec, FitError> {
    let mut spec = catalog::get(base(facts))?;
    let capacity = Bytes(sectors * SECTOR / 4096 * 4096);
    spec.about = facts.about.clone();
    spec.queue = facts.queue.clone();
    spec.queue.rotational = false;
    // The write buffer, an estimate, must hold the largest request.
    spec.queue.max_sectors_kb = spec.queue.max_sectors_kb.min(16 << 10);
    let whole = spec.capacity.0;
    spec.capacity = capacity;
    let ssd = ssd_mut(&mut spec)?;
    // The number of superblocks is that of the catalog's disk.
    let block = u128::from(ssd.block.0) * u128::from(ssd.dies) * u128::from(capacity.0)
        / u128::from(whole)
        / u128::from(parameters.dies);
    let program = ssd.program_size.0;
    let slc = u128::from(ssd.slc_cache.0) * u128::from(capacity.0) / u128::from(whole);
    ssd.slc_cache = Bytes(slc as u64);
    ssd.block = Bytes((block as u64 / program * program).clamp(program, 1 << 30));
    ssd.dies = parameters.dies;
    ssd.channels = ssd.channels.min(parameters.dies);
    ssd.read_us = parameters.read_us;
    ssd.read_rate_kb = parameters.rate;
    (ssd.read_command_ns, ssd.read_latency_ns) = (1, 1);
    // A profile describes a new drive by default.
    ssd.prefilled_percent = 0;
    spec.validate()?;
    Ok(spec)
}

fn ssd(spec: &DiskSpec) -> Result<&Ssd, FitError> {
    match &spec.model {
        Model::Ssd(ssd) => Ok(ssd),
        _ => Err(FitError::NoSolidState("base disk")),
    }
}

fn ssd_mut(spec: &mut DiskSpec) -> Result<&mut Ssd, FitError> {
    match &mut spec.model {
        Model::Ssd(ssd) => Ok(ssd),
        _ => Err(FitError::NoSolidState("base disk")),
    }
}

/// Returns the fitted parameters with their sources.
fn parameters(ssd: &Ssd, measured: bool, busiest: Nanos, facts: &Facts) -> Vec<Parameter> {
    let base = base(facts);
    let [.., deepest] = if facts.nvme { FIT_DEPTHS_NVME } else { FIT_DEPTHS };
    let from = |name, value, from: String| Parameter { name, value, from };
    let sensing = if measured {
        "measured: random reads of 4 KiB one at a time, minus repeated reads of one block"
    } else {
        "fitted: best predictor at queue depths 4 and 16, of four shares of a read; repeated reads of one block \
         did not show it"
    };
    vec![
        from("read_us", json!(ssd.read_us), sensing.into()),
        from(
            "dies",
            json!(ssd.dies),
            format!(
                "fitted: best predictor at queue depths 4, 16 and {deepest}, of the powers of two from 2 to 128; \
                 if the interface is the limit, many numbers fit equally well"
            ),
        ),
        from(
            "channels",
            json!(ssd.channels),
            format!("estimate: as {base}, but not more than dies"),
        ),
        from(
            "read_rate_kb",
            json!(ssd.read_rate_kb),
            "measured: sequential reads of 128 KiB against 32 KiB, 32 in flight".into(),
        ),
        from(
            "read_command_ns",
            json!(ssd.read_command_ns),
            format!(
                "measured: a read of 4 KiB with {deepest} in flight takes {busiest}; minus its transfer on the \
                 interface and waits for dies"
            ),
        ),
        from(
            "read_latency_ns",
            json!(ssd.read_latency_ns),
            "measured: the rest of a single read of 4 KiB, including the host's overhead".into(),
        ),
        from(
            "block",
            json!(ssd.block),
            format!("estimate: the number of superblocks is that of {base}"),
        ),
        from("prefilled_percent", json!(0), "chosen: a new drive".into()),
        from("interface", json!(ssd.interface), "the kernel's driver of the drive".into()),
        from(
            "power_loss_protection",
            json!(ssd.power_loss_protection),
            "estimate: the kernel reports a write cache that is not volatile".into(),
        ),
    ]
}
