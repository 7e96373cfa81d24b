//! The law of a hard disk, fitted to what a probe has seen.

use fsdyno_record::Nanos;
use serde_json::{Value, json};

use super::drive::{Drive, Modelled};
use super::probe::{BLOCK, Check, LARGE, Samples, Timed};
use super::{Facts, FitError, Fitted, Foretold, Parameter};
use crate::SECTOR;
use crate::catalog;
use crate::geometry::Geometry;
use crate::model::{Hdd, Model};
use crate::spec::{DiskSpec, Source};

/// The catalog's disk from which comes what reading cannot tell.
const BASE: &str = "hdd-7200";

/// Fewer seeks than this tell no curve.
const FEWEST: usize = 100;

/// How often the curve is fitted anew, each time with the geometry that the last one made.
const ROUNDS: usize = 4;

/// Angles of the platter over which the model's own waits are averaged.
const ANGLES: u64 = 8;

/// What a read outside the drive's memory may take more than one inside it, in microseconds.
const MISSES: [u64; 8] = [0, 100, 200, 300, 400, 500, 600, 800];

/// How fast disks turn that were ever sold in numbers. A measured turn within 2 % of one of them is it.
const SPEEDS: [u32; 11] =
    [3600, 4200, 4500, 5400, 5700, 5900, 7200, 10_000, 10_500, 12_000, 15_000];

/// Fits the law to the samples of a drive of `sectors` sectors.
///
/// # Errors
/// Why they are not those of a disk that turns.
pub fn fit(samples: &Samples, facts: &Facts, sectors: u64) -> Result<Fitted, FitError> {
    if samples.seeks.len() < FEWEST {
        return Err(FitError::TooFew(samples.seeks.len()));
    }
    let (overhead_us, interface_kb) = controller(samples);
    let (outer, inner) = rates(samples, sectors, u64::from(zones(&catalog::get(BASE)?)));
    let (rpm, rpm_from) = turn(samples, facts, outer)?;
    let turn_us = 60_000_000 / u64::from(rpm);
    let took_us = samples.seeks.iter().map(|read| read.time.0).sum::<u64>()
        / samples.seeks.len() as u64
        / 1000;
    if took_us < turn_us / 2 {
        return Err(FitError::NothingTurns { took_us, half_us: turn_us / 2 });
    }
    // A platter cannot give more than the interface takes.
    let interface_kb = interface_kb.max(outer);
    let measured = |name, value, from: &str| Parameter { name, value, from: from.to_string() };
    let parameters = vec![
        Parameter { name: "rpm", value: json!(rpm), from: rpm_from },
        measured(
            "outer_rate_kb",
            json!(outer),
            "measured: long reads at 13 places, the square of their rates by least squares over the bytes (where the rate falls linearly over the tracks, its square does over the bytes)",
        ),
        measured("inner_rate_kb", json!(inner), "measured with the outer rate"),
        measured(
            "interface_rate_kb",
            json!(interface_kb),
            "measured: 64 KiB against 4 KiB out of the drive's memory, way to the host and all",
        ),
        measured(
            "overhead_us",
            json!(overhead_us),
            "measured: 4 KiB out of the drive's memory again and again, the median; the host's own part is in it",
        ),
        measured(
            "flush_alone",
            json!(facts.ata),
            "by the protocol: ATA's FLUSH CACHE is no queued command, SCSI's SYNCHRONIZE CACHE is",
        ),
    ];
    // One command's overhead and another's seek overlap only where several are in flight: the reads
    // with a queue tell the two apart.
    let mut best: Option<(f64, DiskSpec, Vec<Parameter>, usize)> = None;
    // A drive without a queue shows only their sum.
    let (misses, from) = match facts.queue.depth {
        1 => {
            (&MISSES[..1], "not measured: a drive without a queue shows only its sum with the seek")
        }
        _ => {
            (&MISSES[..], "measured: of eight values the one that foretells 8 reads in flight best")
        }
    };
    for more in misses {
        let mut parameters = parameters.clone();
        parameters.push(measured("miss_overhead_us", json!(overhead_us + more), from));
        let (spec, used) = with_seeks(samples, facts, sectors, &mut parameters, turn_us)?;
        let time = samples.queued.again(&mut Modelled::new(&spec, 1))?;
        let error = (time.seconds().max(1e-9) / samples.queued.time.seconds().max(1e-9)).ln().abs();
        if best.as_ref().is_none_or(|(least, ..)| error < *least) {
            best = Some((error, spec, parameters, used));
        }
    }
    let Some((_, mut spec, parameters, used)) = best else { return Err(FitError::TooFew(0)) };
    spec.source = sources(&spec, facts, &parameters, BASE)?;
    let foretold = foretold(&samples.checks, &spec)?;
    Ok(Fitted { spec, foretold, seeks: used, outliers: samples.seeks.len() - 1 - used })
}

/// The disk with seeks that fit its other parameters, which are added to them; and to how many reads
/// they are fitted.
fn with_seeks(
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
    let found = format!(
        "measured: least squares over {} reads, less what the model takes besides the seek",
        curve.used
    );
    let from = |name, value, from: &str| Parameter { name, value, from: from.to_string() };
    parameters.extend([
        from("seek_read", read, &found),
        from(
            "seek_write",
            write,
            "estimate, for no write was made: as the reads, 0.2 ms more to the next track and 1 ms more \
             on average and over all, as is usual where a maker gives both",
        ),
        from("head_switch_us", json!(nearest), "estimate: as to the next track"),
        from("age_limit_us", age, "estimate: twice what a full queue takes in order of arrival"),
    ]);
    let spec = disk(facts, sectors, parameters)?;
    spec.validate()?;
    Ok((spec, curve.used))
}

/// Microseconds of the controller for a command, and kB/s over the interface.
fn controller(samples: &Samples) -> (u64, u64) {
    let (small, large) = (median(&samples.cached), median(&samples.cached_large));
    let more = large.since(small).0.max(1);
    let bytes = u64::from(LARGE - BLOCK) * SECTOR;
    // Bytes a nanosecond are 1,000,000 kB/s.
    let rate = (bytes * 1_000_000 / more).clamp(100, 100_000_000);
    let transfer = u64::from(BLOCK) * SECTOR * 1_000_000 / rate;
    (small.0.saturating_sub(transfer) / 1000, rate)
}

/// Rates of the outermost and the innermost zone in kB/s. Over the share x of the tracks the rate
/// falls linearly from a to b, so the share y of the bytes lies before x with
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
    // The edges of the line lie half a zone beyond the middles of the first zone and the last.
    let half = (a - b) / (2 * zones) as f64;
    (((a - half) as u64).max(100), ((b + half) as u64).max(100))
}

fn zones(base: &DiskSpec) -> u32 {
    hdd(base).map_or(1, |hdd| hdd.zones)
}

/// Revolutions a minute and who says so. The head, at the end of a block, meets the end of the block
/// before it a turn less one block later.
fn turn(samples: &Samples, facts: &Facts, outer_kb: u64) -> Result<(u32, String), FitError> {
    if let Some((rpm, from)) = &facts.rpm {
        return Ok((*rpm, from.clone()));
    }
    let block = u64::from(BLOCK) * SECTOR * 1_000_000 / outer_kb.max(1);
    let turn = median(&samples.backwards).0 + block;
    let rpm = 60e9 / turn as f64;
    let near = |speed: &&u32| (rpm / f64::from(**speed) - 1.0).abs() < 0.02;
    match SPEEDS.iter().find(near) {
        Some(speed) => {
            let from =
                format!("measured: {rpm:.0} by reading backwards, and disks are made with {speed}");
            Ok((*speed, from))
        }
        None => Err(FitError::NoTurn { took_us: turn / 1000 }),
    }
}

/// What is put in for writes and for the longest wait.
fn estimates(seeks: [u64; 3], turn_us: u64, depth: u32) -> [Value; 2] {
    let [nearest, average, full] = seeks;
    let average = average + 1000;
    let write = json!({
        "track_to_track_us": nearest + 200, "average_us": average, "full_stroke_us": full + 1000,
    });
    [write, json!(2 * u64::from(depth) * (average + turn_us))]
}

/// The catalog's disk with these parameters in place of its own. One that its law does not have is left
/// out.
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
    /// To the next track, on average, over all; in microseconds.
    seeks: [u64; 3],
    /// How many reads it was fitted to.
    used: usize,
}

/// Seek times by least squares. A seek of the model is linear in the three of its data sheet, so
/// the times of three curves that differ in one of them each tell how it depends on it, whatever
/// "average" means to the model.
fn curve(samples: &Samples, mut spec: DiskSpec, turn_us: u64) -> Result<Curve, FitError> {
    let mut seeks = [1000.0, 9000.0, 18_000.0];
    let mut used = 0;
    for round in 0..ROUNDS {
        set(&mut spec, seeks);
        let besides = besides(samples, &spec)?;
        let ways = ways(samples, &spec, seeks)?;
        let (mut normal, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        used = 0;
        for (way, read) in ways.iter().zip(&samples.seeks[1..]) {
            let rest = read.time.0 as f64 / 1e3 - besides - way.time;
            // A platter makes a read wait for half a turn more or less than the mean of half a turn.
            if round > 0 && rest.abs() > 0.75 * turn_us as f64 {
                continue;
            }
            used += 1;
            for (row, slope) in way.slopes.iter().enumerate() {
                right[row] += slope * rest;
                (0..3).for_each(|column| normal[row][column] += slope * way.slopes[column]);
            }
        }
        let Some(step) = solve(normal, right) else { return Err(FitError::TooFew(used)) };
        seeks = possible(&spec, [0, 1, 2].map(|at| seeks[at] + step[at]));
    }
    Ok(Curve { seeks: seeks.map(|seek| seek.round() as u64), used })
}

fn set(spec: &mut DiskSpec, seeks: [f64; 3]) {
    let [nearest, average, full] = seeks.map(|seek| seek.round().max(1.0) as u64);
    if let Model::Hdd(hdd) = &mut spec.model {
        let seek = &mut hdd.seek_read;
        (seek.track_to_track_us, seek.average_us, seek.full_stroke_us) = (nearest, average, full);
        let seek = &mut hdd.seek_write;
        (seek.track_to_track_us, seek.average_us, seek.full_stroke_us) =
            (nearest + 200, average + 1000, full + 1000);
    }
}

/// The nearest seeks that a curve can have: noise may ask for one that falls.
fn possible(spec: &DiskSpec, seeks: [f64; 3]) -> [f64; 3] {
    let nearest = seeks[0].clamp(100.0, 5000.0);
    let average = seeks[1].clamp(nearest * 1.1, 100_000.0);
    let mut spec = spec.clone();
    let mut can = |full: f64| {
        set(&mut spec, [nearest, average, full]);
        // The age limit is an estimate that is made later; only the curve is asked about here.
        if let Model::Hdd(hdd) = &mut spec.model {
            hdd.age_limit_us = 600_000_000;
        }
        spec.validate().is_ok()
    };
    if can(seeks[2]) {
        return [nearest, average, seeks[2]];
    }
    let ratios = (100..300).map(|percent| average * f64::from(percent) / 100.0);
    let mut fulls: Vec<f64> = ratios.filter(|full| can(*full)).collect();
    fulls.sort_by(|a, b| (a - seeks[2]).abs().total_cmp(&(b - seeks[2]).abs()));
    [nearest, average, fulls.first().copied().unwrap_or(2.0 * average)]
}

/// Mean time of the model, in microseconds, for all of a read but the seek.
fn besides(samples: &Samples, spec: &DiskSpec) -> Result<f64, FitError> {
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

/// A way of the arm: its time in microseconds by the curve as it is, and how that time depends on each
/// of the curve's three seeks.
struct Way {
    time: f64,
    slopes: [f64; 3],
}

fn ways(samples: &Samples, spec: &DiskSpec, seeks: [f64; 3]) -> Result<Vec<Way>, FitError> {
    const MORE: f64 = 200.0;
    let now = geometry(spec)?;
    let mut others = Vec::new();
    for at in 0..3 {
        let (mut spec, mut seeks) = (spec.clone(), seeks);
        seeks[at] += MORE;
        set(&mut spec, seeks);
        others.push(geometry(&spec)?);
    }
    let way = |(from, to)| {
        let time = seek(&now, from, to);
        let mut slopes = [0.0; 3];
        for (slope, other) in slopes.iter_mut().zip(&others) {
            *slope = (seek(other, from, to) - time) / MORE;
        }
        Way { time, slopes }
    };
    Ok(pairs(&samples.seeks).map(way).collect())
}

fn geometry(spec: &DiskSpec) -> Result<Geometry, FitError> {
    let hdd = hdd(spec).ok_or(FitError::NoHardDisk(BASE))?;
    Ok(Geometry::new(hdd, spec.capacity.0 / SECTOR, 0))
}

fn pairs(reads: &[Timed]) -> impl Iterator<Item = (u64, u64)> + '_ {
    reads.windows(2).map(|pair| (pair[0].sector, pair[1].sector))
}

fn seek(drive: &Geometry, from: u64, to: u64) -> f64 {
    let (from, to) = (drive.locate(from), drive.locate(to));
    drive.seek(from.cylinder.abs_diff(to.cylinder), false) as f64 / 1e3
}

/// Solves three linear equations by elimination, the largest pivot first; none if they are no three.
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

/// One source for each parameter of the law that was found, one for all that were not, and those of
/// what the kernel tells.
pub fn sources(
    spec: &DiskSpec,
    facts: &Facts,
    found: &[Parameter],
    base: &str,
) -> Result<Vec<Source>, FitError> {
    let model = serde_json::to_value(&spec.model)?;
    let mut sources = vec![Source {
        what: "capacity, depth, max_sectors_kb, read_ahead_kb, scheduler, wbt_lat_usec, write_cache, fua, \
               logical_block_size, physical_block_size, discard, nr_requests, rotational"
            .into(),
        value: "as the kernel gives them".into(),
        from: facts.probed.clone(),
    }];
    let mut rest = Vec::new();
    for (name, value) in model.as_object().into_iter().flatten().filter(|(name, _)| *name != "law")
    {
        match found.iter().find(|parameter| parameter.name == name) {
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
            "Not measured: reads alone do not tell them. Taken from the catalog's {base}"
        ),
    });
    Ok(sources)
}

/// How well a disk foretells these reads.
pub fn foretold(checks: &[Check], spec: &DiskSpec) -> Result<Vec<Foretold>, FitError> {
    spec.validate()?;
    let mut all = Vec::new();
    for check in checks {
        let time = check.again(&mut Modelled::new(spec, 1))?;
        all.push(Foretold {
            depth: check.depth,
            reads: check.places.len(),
            measured: check.rate(check.time),
            foretold: check.rate(time),
        });
    }
    Ok(all)
}

/// The time in the middle; none is 0.
pub fn median(times: &[Nanos]) -> Nanos {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
