//! Computes the figure of a cell in one trial: in seconds, as a fraction, in ops or bytes per second, as a count, or in
//! bytes.

use fsdyno_record::trial::{OpStats, Phase};
use fsdyno_record::{Nanos, OpKind, Trial};
use fsdyno_report::{Run, main_op};

use crate::file::{Cell, Dimension, Figure, Latency};

/// Returns the figure, summed over the cell's phases.
///
/// # Errors
/// The missing part of the trial, as a sentence.
pub fn value(cell: &Cell, trial: &Trial) -> Result<f64, String> {
    let phases = phases(cell, trial)?;
    let sum = |field: &dyn Fn(&Phase) -> Result<f64, String>| -> Result<f64, String> {
        phases.iter().map(|phase| field(phase)).sum()
    };
    let time = |field: &dyn Fn(&Phase) -> Nanos| sum(&|phase| Ok(field(phase).seconds()));
    let time_until = |field: &dyn Fn(&Phase) -> Option<Nanos>, what: &str| {
        sum(&|phase| {
            let unknown = || format!("the time until phase '{}' was {what} is unknown", phase.name);
            field(phase).map(Nanos::seconds).ok_or_else(unknown)
        })
    };
    match &cell.figure {
        Figure::Returned => time(&|phase| phase.returned_ns),
        Figure::Synced => time_until(&|phase| phase.synced_ns, "synced"),
        Figure::Durable => time_until(&|phase| phase.durable_ns, "durable"),
        Figure::Cpu => time(&|phase| phase.cpu_ns),
        Figure::User => time(&|phase| phase.user_ns),
        Figure::System => time(&|phase| phase.system_ns),
        Figure::KernelCpu(None) => {
            sum(&|phase| Ok(phase.kernel_cpu_ns.values().map(|time| time.seconds()).sum()))
        }
        // An idle thread does not appear in the record.
        Figure::KernelCpu(Some(thread)) => {
            time(&|phase| phase.kernel_cpu_ns.get(thread).copied().unwrap_or_default())
        }
        // CPU time is counted until the last time stamp, so the share is relative to that.
        Figure::CpuShare => divide(time(&|phase| phase.cpu_ns)?, time(&last_stamp)?),
        Figure::Rate => {
            sum(&|phase| divide(op_count(cell, trial, phase)?, phase.returned_ns.seconds()))
        }
        Figure::Latency(latency) => {
            sum(&|phase| Ok(latency_of(*latency, op(cell, trial, phase)?).seconds()))
        }
        Figure::WrittenRate => {
            sum(&|phase| divide(phase.bytes_written.0 as f64, phase.returned_ns.seconds()))
        }
        Figure::ReadRate => {
            sum(&|phase| divide(phase.bytes_read.0 as f64, phase.returned_ns.seconds()))
        }
        Figure::DeviceRequests => sum(&|phase| {
            let device = phase.device.ok_or("the device's requests were not counted")?;
            let counts = [device.reads, device.writes, device.flushes, device.discards];
            Ok(counts.into_iter().map(|count| count as f64).sum())
        }),
        Figure::DeviceSeeks => sum(&|phase| {
            let seeks = phase.device.and_then(|device| device.seeks);
            Ok(seeks.ok_or("the device does not report seeks")? as f64)
        }),
        // The value at the end, not a sum over phases: its cell has one phase.
        Figure::SpaceUsed => Ok(phases.last().map_or(0.0, |phase| phase.space_used.0 as f64)),
    }
}

/// Returns the last time stamp of a phase: durable, or else synced, or else returned.
fn last_stamp(phase: &Phase) -> Nanos {
    phase.durable_ns.or(phase.synced_ns).unwrap_or(phase.returned_ns)
}

/// Returns whether a figure is independent of the amount of work: a rate, a share, a latency.
pub fn is_size_independent(cell: &Cell) -> bool {
    let grows =
        matches!(cell.figure.dimension(), Dimension::Time | Dimension::Count | Dimension::Space);
    !grows || matches!(cell.figure, Figure::Latency(_))
}

/// Returns the phases that a cell names.
///
/// # Errors
/// The missing phase, with the existing ones.
pub fn phases<'t>(cell: &Cell, trial: &'t Trial) -> Result<Vec<&'t Phase>, String> {
    let find = |name: &String| {
        trial.measured.phases.iter().find(|phase| phase.name == *name).ok_or_else(|| {
            let names: Vec<&str> =
                trial.measured.phases.iter().map(|phase| phase.name.as_str()).collect();
            match names.join(", ") {
                names if names.is_empty() => "its trials have no phase at all".to_string(),
                names => format!("its trials have no phase '{name}': its phases are {names}"),
            }
        })
    };
    cell.phases.iter().map(find).collect()
}

/// Returns the number of ops of a rate: of the cell's op, or else of the phase's own unit, or else of its main op, or
/// else of all ops.
fn op_count(cell: &Cell, trial: &Trial, phase: &Phase) -> Result<f64, String> {
    let units =
        phase.unit.as_ref().and_then(|unit| phase.books.get(unit)).filter(|_| cell.op.is_none());
    match units {
        Some(units) => Ok(*units as f64),
        None if cell.op.is_none() && main_op(&[(trial, phase)]).is_none() => {
            Ok(phase.ops.values().map(|op| op.count).sum::<u64>() as f64)
        }
        None => Ok(op(cell, trial, phase)?.count as f64),
    }
}

/// Returns the cell's op, or else the phase's main op.
fn op<'t>(cell: &Cell, trial: &Trial, phase: &'t Phase) -> Result<&'t OpStats, String> {
    let kind: OpKind = match cell.op {
        Some(kind) => kind,
        None => main_op(&[(trial, phase)])
            .ok_or_else(|| format!("no op represents phase '{}'; name one", phase.name))?,
    };
    phase.ops.get(&kind).ok_or_else(|| format!("phase '{}' has no op '{kind}'", phase.name))
}

/// Returns the op of a latency if the cell names none: the main op of the first trial.
pub fn unnamed_op(cell: &Cell, runs: &[Run<'_>]) -> Option<OpKind> {
    let unnamed = matches!(cell.figure, Figure::Latency(_)) && cell.op.is_none();
    main_op(runs.get(..1).filter(|_| unnamed)?)
}

/// Returns the smallest number of ops per trial behind a percentile, and the number from which the percentile differs
/// from the maximum; `None` if there are enough, or if the figure is not a percentile.
pub fn few_ops(cell: &Cell, runs: &[Run<'_>]) -> Option<(u64, u64)> {
    let required = match cell.figure {
        Figure::Latency(Latency::P90) => 10,
        Figure::Latency(Latency::P99) => 100,
        Figure::Latency(Latency::P999) => 1000,
        _ => return None,
    };
    let count = |(trial, phase): &Run<'_>| op(cell, trial, phase).ok().map(|op| op.count);
    let fewest = runs.iter().filter_map(count).min()?;
    (fewest < required).then_some((fewest, required))
}

fn latency_of(latency: Latency, stats: &OpStats) -> Nanos {
    match latency {
        Latency::P50 => stats.p50_ns,
        Latency::P90 => stats.p90_ns,
        Latency::P99 => stats.p99_ns,
        Latency::P999 => stats.p999_ns,
        Latency::Max => stats.max_ns,
    }
}

fn divide(amount: f64, divisor: f64) -> Result<f64, String> {
    if divisor > 0.0 {
        Ok(amount / divisor)
    } else {
        Err("the phase took no time, so it has no rate".into())
    }
}
