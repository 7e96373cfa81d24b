//! The figure of a cell in one trial, in seconds, parts of a whole, ops or bytes a second, ones or bytes.

use fsdyno_record::trial::{OpStats, Phase};
use fsdyno_record::{Nanos, OpKind, Trial};
use fsdyno_report::{Run, main_op};

use crate::file::{Cell, Dimension, Figure, Latency};

/// The figure; several phases' are added.
///
/// # Errors
/// In a sentence, what the trial lacks for it.
pub fn value(cell: &Cell, trial: &Trial) -> Result<f64, String> {
    let phases = phases(cell, trial)?;
    let sum = |of: &dyn Fn(&Phase) -> Result<f64, String>| -> Result<f64, String> {
        phases.iter().map(|phase| of(phase)).sum()
    };
    let time = |of: &dyn Fn(&Phase) -> Nanos| sum(&|phase| Ok(of(phase).seconds()));
    let stamp = |of: &dyn Fn(&Phase) -> Option<Nanos>, what: &str| {
        sum(&|phase| {
            let lacks = || format!("no time to {what} of phase '{}' could be shown", phase.name);
            of(phase).map(Nanos::seconds).ok_or_else(lacks)
        })
    };
    match &cell.figure {
        Figure::Returned => time(&|phase| phase.returned_ns),
        Figure::Synced => stamp(&|phase| phase.synced_ns, "synced"),
        Figure::Durable => stamp(&|phase| phase.durable_ns, "durable"),
        Figure::Cpu => time(&|phase| phase.cpu_ns),
        Figure::User => time(&|phase| phase.user_ns),
        Figure::System => time(&|phase| phase.system_ns),
        Figure::KernelCpu(None) => {
            sum(&|phase| Ok(phase.kernel_cpu_ns.values().map(|time| time.seconds()).sum()))
        }
        // A thread that did nothing is not in the record.
        Figure::KernelCpu(Some(thread)) => {
            time(&|phase| phase.kernel_cpu_ns.get(thread).copied().unwrap_or_default())
        }
        // CPU is counted to the last stamp, so that is what it is a part of.
        Figure::CpuShare => over(time(&|phase| phase.cpu_ns)?, time(&last)?),
        Figure::Rate => sum(&|phase| over(done(cell, trial, phase)?, phase.returned_ns.seconds())),
        Figure::Latency(latency) => {
            sum(&|phase| Ok(latency_of(*latency, op(cell, trial, phase)?).seconds()))
        }
        Figure::WrittenRate => {
            sum(&|phase| over(phase.bytes_written.0 as f64, phase.returned_ns.seconds()))
        }
        Figure::ReadRate => {
            sum(&|phase| over(phase.bytes_read.0 as f64, phase.returned_ns.seconds()))
        }
        Figure::DeviceRequests => sum(&|phase| {
            let device = phase.device.ok_or("the device's requests were not counted")?;
            Ok((device.reads + device.writes + device.flushes + device.discards) as f64)
        }),
        Figure::DeviceSeeks => sum(&|phase| {
            let seeks = phase.device.and_then(|device| device.seeks);
            Ok(seeks.ok_or("the device does not tell of the movements of its arm")? as f64)
        }),
        // It is that of the end, and no amount that phases add to: a cell of it has one phase.
        Figure::SpaceUsed => Ok(phases.last().map_or(0.0, |phase| phase.space_used.0 as f64)),
    }
}

/// The last stamp of a phase: when it was durable, else synced, else when its last call came back.
fn last(phase: &Phase) -> Nanos {
    phase.durable_ns.or(phase.synced_ns).unwrap_or(phase.returned_ns)
}

/// Whether a figure is the same of less work: a rate, a share, a latency.
pub fn keeps_its_size(cell: &Cell) -> bool {
    let sized =
        matches!(cell.figure.dimension(), Dimension::Time | Dimension::Count | Dimension::Space);
    !sized || matches!(cell.figure, Figure::Latency(_))
}

/// The phases that a cell names.
///
/// # Errors
/// That the trial has no such phase, and which it has.
pub fn phases<'t>(cell: &Cell, trial: &'t Trial) -> Result<Vec<&'t Phase>, String> {
    let find = |name: &String| {
        trial.measured.phases.iter().find(|phase| phase.name == *name).ok_or_else(|| {
            let names: Vec<&str> =
                trial.measured.phases.iter().map(|phase| phase.name.as_str()).collect();
            match names.join(", ") {
                none if none.is_empty() => "its trials have no phase at all".to_string(),
                names => format!("its trials have no phase '{name}': there are {names}"),
            }
        })
    };
    cell.phases.iter().map(find).collect()
}

/// How many ops a rate is of: those that the cell names, else of the unit of the phase's own books, else
/// of its main op.
fn done(cell: &Cell, trial: &Trial, phase: &Phase) -> Result<f64, String> {
    let own =
        phase.unit.as_ref().and_then(|unit| phase.books.get(unit)).filter(|_| cell.op.is_none());
    match own {
        Some(own) => Ok(*own as f64),
        None => Ok(op(cell, trial, phase)?.count as f64),
    }
}

/// The op that a cell names, else the phase's main op.
fn op<'t>(cell: &Cell, trial: &Trial, phase: &'t Phase) -> Result<&'t OpStats, String> {
    let kind: OpKind = match cell.op {
        Some(kind) => kind,
        None => main_op(&[(trial, phase)])
            .ok_or_else(|| format!("phase '{}' has no op at all", phase.name))?,
    };
    let lacks = || format!("phase '{}' has no op '{kind}'", phase.name);
    phase.ops.get(&kind).ok_or_else(lacks)
}

/// The op whose latency a cell is of where the file names none: the main op of the first of its trials.
pub fn unnamed_op(cell: &Cell, runs: &[Run<'_>]) -> Option<OpKind> {
    let unnamed = matches!(cell.figure, Figure::Latency(_)) && cell.op.is_none();
    main_op(runs.get(..1).filter(|_| unnamed)?)
}

/// The fewest ops of a trial that a percentile is of, and how many it takes to be less than the longest; none where
/// there are enough, and of what is no percentile.
pub fn few_ops(cell: &Cell, runs: &[Run<'_>]) -> Option<(u64, u64)> {
    let takes = match cell.figure {
        Figure::Latency(Latency::P90) => 10,
        Figure::Latency(Latency::P99) => 100,
        Figure::Latency(Latency::P999) => 1000,
        _ => return None,
    };
    let count = |(trial, phase): &Run<'_>| op(cell, trial, phase).ok().map(|op| op.count);
    let fewest = runs.iter().filter_map(count).min()?;
    (fewest < takes).then_some((fewest, takes))
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

fn over(amount: f64, by: f64) -> Result<f64, String> {
    if by > 0.0 { Ok(amount / by) } else { Err("the phase took no time, so it has no rate".into()) }
}
