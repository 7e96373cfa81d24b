//! Fits the model of a hard disk to the samples of a probe.

use fsdyno_record::Nanos;
use serde_json::{Value, json};

use super::drive::{Drive, Modelled};
use super::probe::{BLOCK, Check, LARGE, Samples, TimedRead};
use super::{Facts, FitError, Fitted, Parameter, Prediction};
use crate::SECTOR;
use crate::catalog;
use crate::models::hdd::geometry::Geometry;
use crate::models::{Hdd, Model};
use crate::spec::{DiskSpec, Source};

/// The catalog disk that provides the parameters that reads cannot reveal.
const BASE: &str = "hdd-7200";

/// Minimum number of seeks for fitting a curve.
const MIN_SEEKS: usize = 100;

/// Number of rounds of the curve fit, each with the geometry of the previous one.
const ROUNDS: usize = 4;

/// Number of rotational positions over which the rotational delays of the model are averaged.
const ANGLES: u64 = 8;

/// Candidates for the additional overhead of a read that misses the drive's cache, in microseconds.
const MISSES: [u64; 8] = [0, 100, 200, 300, 400, 500, 600, 800];

/// Rotation speeds of disks on the market. A measured speed within 2 % of one of them is rounded to it.
const SPEEDS: [u32; 11] =
    [3600, 4200, 4500, 5400, 5700, 5900, 7200, 10_000, 10_500, 12_000, 15_000];

/// Fits the model to the samples of a drive of `sectors` sectors.
///
/// # Errors
/// The reason why the samples are not those of a rotating disk.
pub fn fit(samples: &Samples, facts: &Facts, sectors: u64) -> Result<Fitted, FitError> {
    if samples.seeks.len() < MIN_SEEKS {
        return Err(FitError::TooFew(samples.seeks.len()));
    }
    let (overhead_us, interface_kb) = controller(samples);
    let (outer, inner) = rates(samples, sectors, u64::from(zones(&catalog::get(BASE)?)));
    let (rpm, rpm_from) = rotation_speed(samples, facts, outer)?;
    let turn_us = 60_000_000 / u64::from(rpm);
    let mean_us = samples.seeks.iter().map(|read| read.time.0).sum::<u64>()
        / samples.seeks.len() as u64
        / 1000;
    if mean_us < turn_us / 2 {
        return Err(FitError::NotRotating { mean_us, half_us: turn_us / 2 });
    }
    // A platter cannot deliver more than the interface transfers.
    let rates = Rates { outer, inner, interface_kb: interface_kb.max(outer) };
    let parameters = measured_parameters((rpm, rpm_from), &rates, overhead_us, facts);
    // One command's overhead overlaps with another's seek only if several commands are in flight, so
    // the reads with a queue separate the overhead from the seek.
    let mut best: Option<(f64, DiskSpec, Vec<Parameter>, usize)> = None;
    // A drive without a queue shows only the sum of overhead and seek.
    let (misses, from) = match facts.queue.depth {
        1 => {
            (&MISSES[..1], "not measured: a drive without a queue shows only its sum with the seek")
        }
        _ => (&MISSES[..], "measured: best predictor at queue depth 8, of 8 candidates"),
    };
    for miss_us in misses {
        let mut parameters = parameters.clone();
        parameters.push(new_parameter("miss_overhead_us", json!(overhead_us + miss_us), from));
        let (spec, used) = fit_seeks(samples, facts, sectors, &mut parameters, turn_us)?;
        let time = samples.queued.replay(&mut Modelled::new(&spec, 1))?;
        let error = (time.seconds().max(1e-9) / samples.queued.time.seconds().max(1e-9)).ln().abs();
        if best.as_ref().is_none_or(|(best_error, ..)| error < *best_error) {
            best = Some((error, spec, parameters, used));
        }
    }
    let Some((_, mut spec, parameters, used)) = best else { return Err(FitError::TooFew(0)) };
    spec.source = sources(&spec, facts, &parameters, BASE)?;
    let predictions = predict(&samples.checks, &spec)?;
    Ok(Fitted { spec, predictions, seeks: used, outliers: samples.seeks.len() - 1 - used })
}

/// Returns a parameter with its source.
fn new_parameter(name: &'static str, value: Value, from: &str) -> Parameter {
    Parameter { name, value, from: from.to_string() }
}

/// The rates of a drive in kB/s: at the outer and the inner edge, and of its interface.
struct Rates {
    outer: u64,
    inner: u64,
    interface_kb: u64,
}

/// Returns the parameters that are measured without a fit.
fn measured_parameters(
    (rpm, rpm_from): (u32, String),
    rates: &Rates,
    overhead_us: u64,
    facts: &Facts,
) -> Vec<Parameter> {
    vec![
        Parameter { name: "rpm", value: json!(rpm), from: rpm_from },
        new_parameter(
            "outer_rate_kb",
            json!(rates.outer),
            "measured: long reads at 13 offsets, and a line fitted to the square of their rates by least squares (if \
             the rate falls linearly with the track number, its square falls linearly with the offset)",
        ),
        new_parameter("inner_rate_kb", json!(rates.inner), "measured with the outer rate"),
        new_parameter(
            "interface_rate_kb",
            json!(rates.interface_kb),
            "measured: 64 KiB against 4 KiB from the drive's cache, including the transfer to the host",
        ),
        new_parameter(
            "overhead_us",
            json!(overhead_us),
            "measured: the median of repeated reads of 4 KiB from the drive's cache, including the host's overhead",
        ),
        new_parameter(
            "flush_alone",
            json!(facts.ata),
            "by the protocol: ATA's FLUSH CACHE is not a queued command, SCSI's SYNCHRONIZE CACHE is",
        ),
    ]
}

/// Fits the seeks to the other parameters and adds them; returns the disk and the number of reads
/// in the fit.
fn fit_seeks(
    samples: &Samples,
    facts: &Facts,
    sectors: u64,
    parameters: &mut Vec<Parameter>,
    turn_us: u64,
) -> Result<(DiskSpec, usize), FitError> {
    let curve = curve(samples, disk(facts, sectors, parameters)?, turn_us)?;
    let [nearest, average, full] = curve.seeks;
    let read = json!({"track_to_track_us": nearest, "average_us": average, "full_stroke_us": full});
    let [write, age] = estimates(curve.seeks, turn_us, facts.queue.depth);
    let source = format!(
        "measured: least squares over {} reads, minus the model's time without the seek",
        curve.used
    );
    let from = |name, value, from: &str| Parameter { name, value, from: from.to_string() };
    parameters.extend([
        from("seek_read", read, &source),
        from(
            "seek_write",
            write,
            "estimate, since nothing was written: as for reads, plus 0.2 ms for the seek to the next track and \
             1 ms for the average and the full-stroke seek, as is usual where a manufacturer states both",
        ),
        from("head_switch_us", json!(nearest), "estimate: as for a seek to the next track"),
        from("age_limit_us", age, "estimate: twice the time of a full queue served in order of arrival"),
    ]);
    let spec = disk(facts, sectors, parameters)?;
    spec.validate()?;
    Ok((spec, curve.used))
}

/// Returns the controller overhead of a command in microseconds, and the interface rate in kB/s.
fn controller(samples: &Samples) -> (u64, u64) {
    let (small, large) = (median(&samples.cached), median(&samples.cached_large));
    let additional_ns = large.since(small).0.max(1);
    let bytes = u64::from(LARGE - BLOCK) * SECTOR;
    // One byte per nanosecond is 1,000,000 kB/s.
    let rate = (bytes * 1_000_000 / additional_ns).clamp(100, 100_000_000);
    let transfer = u64::from(BLOCK) * SECTOR * 1_000_000 / rate;
    (small.0.saturating_sub(transfer) / 1000, rate)
}

/// Returns the rates of the outermost and the innermost zone in kB/s. Over the fraction x of the tracks, the
/// rate falls linearly from a to b, so the fraction y of the bytes before x is given by
/// y (a + b) / 2 = a x - (a - b) x^2 / 2; hence rate^2 = a^2 - y (a^2 - b^2).
fn rates(samples: &Samples, sectors: u64, zones: u64) -> (u64, u64) {
    let points: Vec<(f64, f64)> = samples
        .long
        .iter()
        .map(|long| {
            let at = (long.sector + long.sectors / 2) as f64 / sectors as f64;
            let rate = (long.sectors * SECTOR) as f64 / long.time.0.max(1) as f64 * 1e6;
            (at, rate * rate)
        })
        .collect();
    let n = points.len().max(1) as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope =
        points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread.max(1e-9);
    let edge = |at: f64| (mean_y + slope * (at - mean_x)).max(1.0).sqrt();
    let (a, b) = (edge(0.0), edge(1.0).min(edge(0.0)));
    // The ends of the line are half a zone beyond the middle of the first and the last zone.
    let half = (a - b) / (2 * zones) as f64;
    (((a - half) as u64).max(100), ((b + half) as u64).max(100))
}

fn zones(base: &DiskSpec) -> u32 {
    hdd(base).map_or(1, |hdd| hdd.zones)
}

/// Returns the revolutions per minute and their source. After a block has been read, the end of the preceding
/// block passes the head one revolution minus one block later.
fn rotation_speed(
    samples: &Samples,
    facts: &Facts,
    outer_kb: u64,
) -> Result<(u32, String), FitError> {
    if let Some((rpm, from)) = &facts.rpm {
        return Ok((*rpm, from.clone()));
    }
    let block = u64::from(BLOCK) * SECTOR * 1_000_000 / outer_kb.max(1);
    let turn = median(&samples.backwards).0 + block;
    let rpm = 60e9 / turn as f64;
    let near = |speed: &&u32| (rpm / f64::from(**speed) - 1.0).abs() < 0.02;
    match SPEEDS.iter().find(near) {
        Some(speed) => {
            let from = format!(
                "measured: {rpm:.0} by reading backwards; the nearest speed on the market is {speed}"
            );
            Ok((*speed, from))
        }
        None => Err(FitError::NoRevolution { median_us: turn / 1000 }),
    }
}

/// Returns estimates of the seek times of writes and of the age limit.
fn estimates(seeks: [u64; 3], turn_us: u64, depth: u32) -> [Value; 2] {
    let [nearest, average, full] = seeks;
    let average = average + 1000;
    let write = json!({
        "track_to_track_us": nearest + 200, "average_us": average, "full_stroke_us": full + 1000,
    });
    [write, json!(2 * u64::from(depth) * (average + turn_us))]
}

/// Returns the catalog's disk with these parameters replaced. Parameters that its model lacks are ignored.
fn disk(facts: &Facts, sectors: u64, parameters: &[Parameter]) -> Result<DiskSpec, FitError> {
    let mut spec = catalog::get(BASE)?;
    spec.about = facts.about.clone();
    spec.capacity.0 = sectors * SECTOR / 4096 * 4096;
    spec.queue = facts.queue.clone();
    let mut model = serde_json::to_value(&spec.model)?;
    for parameter in parameters {
        if let Some(value) = model.get_mut(parameter.name) {
            *value = parameter.value.clone();
        }
    }
    spec.model = serde_json::from_value(model)?;
    Ok(spec)
}

fn hdd(spec: &DiskSpec) -> Option<&Hdd> {
    match &spec.model {
        Model::Hdd(hdd) => Some(hdd),
        _ => None,
    }
}

struct Curve {
    /// Seek to the next track, average and full stroke, in microseconds.
    seeks: [u64; 3],
    /// Number of reads in the fit.
    used: usize,
}

/// Fits the seek times by least squares. The model's seek time is linear in the three seek times of its data
/// sheet, so three curves that each differ in one of these give the derivatives, whatever "average" means in
/// the model.
fn curve(samples: &Samples, mut spec: DiskSpec, turn_us: u64) -> Result<Curve, FitError> {
    let mut seeks = [1000.0, 9000.0, 18_000.0];
    let mut used = 0;
    for round in 0..ROUNDS {
        set_seeks(&mut spec, seeks);
        let without_seek = time_without_seek(samples, &spec)?;
        let movements = movements(samples, &spec, seeks)?;
        let (mut normal, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        used = 0;
        for (movement, read) in movements.iter().zip(&samples.seeks[1..]) {
            let rest = read.time.0 as f64 / 1e3 - without_seek - movement.time;
            // The rotational delay differs from its mean by at most half a revolution.
            if round > 0 && rest.abs() > 0.75 * turn_us as f64 {
                continue;
            }
            used += 1;
            for (row, slope) in movement.slopes.iter().enumerate() {
                right[row] += slope * rest;
                (0..3).for_each(|column| normal[row][column] += slope * movement.slopes[column]);
            }
        }
        let Some(step) = solve(normal, right) else { return Err(FitError::TooFew(used)) };
        seeks = nearest_possible(&spec, [0, 1, 2].map(|at| seeks[at] + step[at]));
    }
    Ok(Curve { seeks: seeks.map(|seek| seek.round() as u64), used })
}

fn set_seeks(spec: &mut DiskSpec, seeks: [f64; 3]) {
    let [nearest, average, full] = seeks.map(|seek| seek.round().max(1.0) as u64);
    if let Model::Hdd(hdd) = &mut spec.model {
        let seek = &mut hdd.seek_read;
        (seek.track_to_track_us, seek.average_us, seek.full_stroke_us) = (nearest, average, full);
        let seek = &mut hdd.seek_write;
        (seek.track_to_track_us, seek.average_us, seek.full_stroke_us) =
            (nearest + 200, average + 1000, full + 1000);
    }
}

/// Returns the valid seek times nearest to the fitted ones: noise may make the fitted curve decrease.
fn nearest_possible(spec: &DiskSpec, seeks: [f64; 3]) -> [f64; 3] {
    let nearest = seeks[0].clamp(100.0, 5000.0);
    let average = seeks[1].clamp(nearest * 1.1, 100_000.0);
    let mut spec = spec.clone();
    let mut is_valid = |full: f64| {
        set_seeks(&mut spec, [nearest, average, full]);
        // The age limit is estimated later; only the curve is checked here.
        if let Model::Hdd(hdd) = &mut spec.model {
            hdd.age_limit_us = 600_000_000;
        }
        spec.validate().is_ok()
    };
    if is_valid(seeks[2]) {
        return [nearest, average, seeks[2]];
    }
    let ratios = (100..300).map(|percent| average * f64::from(percent) / 100.0);
    let mut full_strokes: Vec<f64> = ratios.filter(|full| is_valid(*full)).collect();
    full_strokes.sort_by(|a, b| (a - seeks[2]).abs().total_cmp(&(b - seeks[2]).abs()));
    [nearest, average, full_strokes.first().copied().unwrap_or(2.0 * average)]
}

/// Returns the model's mean time of a read without the seek, in microseconds.
fn time_without_seek(samples: &Samples, spec: &DiskSpec) -> Result<f64, FitError> {
    let drive = geometry(spec)?;
    let seeks = pairs(&samples.seeks).map(|(from, to)| seek(&drive, from, to)).sum::<f64>();
    let mut times = 0.0;
    for angle in 0..ANGLES {
        let mut model = Modelled::new(spec, angle);
        for (at, read) in samples.seeks.iter().enumerate() {
            let time = model.read(read.sector, BLOCK)?;
            times += if at == 0 { 0.0 } else { time.0 as f64 / 1e3 };
        }
    }
    Ok((times / ANGLES as f64 - seeks) / (samples.seeks.len() - 1) as f64)
}

/// A movement of the arm: its time in microseconds according to the current curve, and the derivatives
/// with respect to the curve's three seek times.
struct Movement {
    time: f64,
    slopes: [f64; 3],
}

fn movements(
    samples: &Samples,
    spec: &DiskSpec,
    seeks: [f64; 3],
) -> Result<Vec<Movement>, FitError> {
    const STEP_US: f64 = 200.0;
    let now = geometry(spec)?;
    let mut others = Vec::new();
    for at in 0..3 {
        let (mut spec, mut seeks) = (spec.clone(), seeks);
        seeks[at] += STEP_US;
        set_seeks(&mut spec, seeks);
        others.push(geometry(&spec)?);
    }
    let movement = |(from, to)| {
        let time = seek(&now, from, to);
        let mut slopes = [0.0; 3];
        for (slope, other) in slopes.iter_mut().zip(&others) {
            *slope = (seek(other, from, to) - time) / STEP_US;
        }
        Movement { time, slopes }
    };
    Ok(pairs(&samples.seeks).map(movement).collect())
}

fn geometry(spec: &DiskSpec) -> Result<Geometry, FitError> {
    let hdd = hdd(spec).ok_or(FitError::NoHardDisk(BASE))?;
    Ok(Geometry::new(hdd, spec.capacity.0 / SECTOR, 0))
}

fn pairs(reads: &[TimedRead]) -> impl Iterator<Item = (u64, u64)> + '_ {
    reads.windows(2).map(|pair| (pair[0].sector, pair[1].sector))
}

fn seek(drive: &Geometry, from: u64, to: u64) -> f64 {
    let (from, to) = (drive.locate(from), drive.locate(to));
    drive.seek(from.cylinder.abs_diff(to.cylinder), false) as f64 / 1e3
}

/// Solves three linear equations by elimination, largest pivot first, or `None` if they are dependent.
fn solve(mut a: [[f64; 3]; 3], mut b: [f64; 3]) -> Option<[f64; 3]> {
    for at in 0..3 {
        let pivot = (at..3).max_by(|x, y| a[*x][at].abs().total_cmp(&a[*y][at].abs()))?;
        a.swap(at, pivot);
        b.swap(at, pivot);
        if a[at][at].abs() < 1e-9 {
            return None;
        }
        for row in at + 1..3 {
            let factor = a[row][at] / a[at][at];
            (at..3).for_each(|column| a[row][column] -= factor * a[at][column]);
            b[row] -= factor * b[at];
        }
    }
    let mut x = [0.0; 3];
    for at in (0..3).rev() {
        let known: f64 = (at + 1..3).map(|column| a[at][column] * x[column]).sum();
        x[at] = (b[at] - known) / a[at][at];
    }
    Some(x)
}

/// Returns one source for each fitted parameter, one for all others, and one for the kernel's settings.
pub fn sources(
    spec: &DiskSpec,
    facts: &Facts,
    fitted: &[Parameter],
    base: &str,
) -> Result<Vec<Source>, FitError> {
    let model = serde_json::to_value(&spec.model)?;
    let mut sources = vec![Source {
        what: "capacity, depth, max_sectors_kb, read_ahead_kb, scheduler, wbt_lat_usec, write_cache, fua, \
               logical_block_size, physical_block_size, discard, nr_requests, rotational"
            .into(),
        value: "as reported by the kernel".into(),
        from: facts.probed.clone(),
    }];
    let mut rest = Vec::new();
    // "law" is the key that selects the model, not a parameter.
    for (name, value) in model.as_object().into_iter().flatten().filter(|(name, _)| *name != "law")
    {
        match fitted.iter().find(|parameter| parameter.name == name) {
            Some(parameter) => sources.push(Source {
                what: name.clone(),
                value: value.to_string().replace(['{', '}', '"'], ""),
                from: parameter.from.clone(),
            }),
            None => rest.push(name.clone()),
        }
    }
    sources.push(Source {
        what: rest.join(", "),
        value: format!("as {base}"),
        from: format!(
            "Not measured: reads alone do not show them. Taken from the catalog's {base}"
        ),
    });
    Ok(sources)
}

/// Predicts the times of these reads with a disk model.
pub fn predict(checks: &[Check], spec: &DiskSpec) -> Result<Vec<Prediction>, FitError> {
    spec.validate()?;
    let mut all = Vec::new();
    for check in checks {
        let time = check.replay(&mut Modelled::new(spec, 1))?;
        all.push(Prediction {
            depth: check.depth,
            reads: check.offsets.len(),
            measured: check.rate(check.time),
            predicted: check.rate(time),
        });
    }
    Ok(all)
}

/// Returns the median; 0 if empty.
pub fn median(times: &[Nanos]) -> Nanos {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
