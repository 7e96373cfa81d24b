//! Figures of a phase and their units.

use fsdyno_record::{OpKind, suggest};

/// A figure of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Time until the last call returned.
    Returned,
    /// Time until syncfs(2) returned.
    Synced,
    /// Time until the device's own cache was empty.
    Durable,
    /// CPU time of the threads that issue ops.
    Cpu,
    /// The part of `Cpu` in user mode.
    User,
    /// The part of `Cpu` in the kernel.
    System,
    /// CPU time of kernel threads: of all of them, or of those with this name (`jbd2`).
    KernelCpu(Option<String>),
    /// CPU time of the threads that issue ops, as a fraction of the time until the work was durable (or else
    /// synced, or else returned), which is the period over which CPU time is counted.
    CpuShare,
    /// Rate per second over the time until the last call returned: of the cell's op, or else of the phase's own
    /// unit (transactions), or else of its main op, or else of all ops.
    Rate,
    /// Latency of an op: the median, another percentile, or the maximum.
    Latency(Latency),
    /// Bytes passed to write calls, per second of the time until the last call returned.
    WrittenRate,
    /// Bytes returned by read calls, per second of the time until the last call returned.
    ReadRate,
    /// Requests that the device completed: reads, writes, flushes and discards.
    DeviceRequests,
    /// Seeks of the device's arm.
    DeviceSeeks,
    /// Space in use on the file system at the end of the phase.
    SpaceUsed,
}

/// A percentile or the maximum of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
    /// The maximum.
    Max,
}

/// The op of a cell.
pub type Op = OpKind;

/// The dimension of a figure; a unit of the same dimension is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Time.
    Time,
    /// A fraction of a whole.
    Share,
    /// Events per second.
    Rate,
    /// Bytes per second.
    Flow,
    /// A number of events.
    Count,
    /// Bytes.
    Space,
}

/// A unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Name in the file.
    pub name: &'static str,
    /// Its dimension.
    pub dimension: Dimension,
    /// Size in the base unit of its dimension: s, 1 (shares), events/s, bytes/s, 1 (counts), or bytes.
    pub factor: f64,
}

const KIB: f64 = 1024.0;

/// All units.
const UNITS: &[Unit] = &[
    Unit { name: "s", dimension: Dimension::Time, factor: 1.0 },
    Unit { name: "ms", dimension: Dimension::Time, factor: 1e-3 },
    Unit { name: "us", dimension: Dimension::Time, factor: 1e-6 },
    Unit { name: "%", dimension: Dimension::Share, factor: 0.01 },
    Unit { name: "/s", dimension: Dimension::Rate, factor: 1.0 },
    Unit { name: "MiB/s", dimension: Dimension::Flow, factor: KIB * KIB },
    Unit { name: "KiB/s", dimension: Dimension::Flow, factor: KIB },
    Unit { name: "MB/s", dimension: Dimension::Flow, factor: 1e6 },
    Unit { name: "count", dimension: Dimension::Count, factor: 1.0 },
    Unit { name: "MiB", dimension: Dimension::Space, factor: KIB * KIB },
    Unit { name: "MB", dimension: Dimension::Space, factor: 1e6 },
];

impl Unit {
    /// Returns the unit with this name.
    ///
    /// # Errors
    /// The valid names.
    pub fn named(name: &str) -> Result<Unit, String> {
        let found = UNITS.iter().find(|unit| unit.name == name);
        found.copied().ok_or_else(|| format!("valid values: {}", Unit::names().join(", ")))
    }

    /// Returns the names of all units.
    pub fn names() -> Vec<&'static str> {
        UNITS.iter().map(|unit| unit.name).collect()
    }
}

/// Figures with a fixed name.
const FIGURES: &[(&str, Figure)] = &[
    ("returned", Figure::Returned),
    ("synced", Figure::Synced),
    ("durable", Figure::Durable),
    ("cpu", Figure::Cpu),
    ("user", Figure::User),
    ("system", Figure::System),
    ("kernel cpu", Figure::KernelCpu(None)),
    ("cpu share", Figure::CpuShare),
    ("rate", Figure::Rate),
    ("p50", Figure::Latency(Latency::P50)),
    ("p90", Figure::Latency(Latency::P90)),
    ("p99", Figure::Latency(Latency::P99)),
    ("p999", Figure::Latency(Latency::P999)),
    ("max", Figure::Latency(Latency::Max)),
    ("written a second", Figure::WrittenRate),
    ("read a second", Figure::ReadRate),
    ("device requests", Figure::DeviceRequests),
    ("device seeks", Figure::DeviceSeeks),
    ("space used", Figure::SpaceUsed),
];

/// Prefix of a figure's name, followed by the name of a kernel thread.
const KERNEL_CPU: &str = "kernel cpu ";

impl Figure {
    /// Returns the figure with this name.
    ///
    /// # Errors
    /// The nearest valid name, or all names.
    pub fn named(name: &str) -> Result<Figure, String> {
        if let Some(thread) = name.strip_prefix(KERNEL_CPU).filter(|name| !name.trim().is_empty()) {
            return Ok(Figure::KernelCpu(Some(thread.trim().to_string())));
        }
        let found =
            FIGURES.iter().find(|(known, _)| *known == name).map(|(_, figure)| figure.clone());
        found.ok_or_else(|| suggest::hint(name, Figure::names()))
    }

    /// Returns the names of all figures.
    pub fn names() -> Vec<&'static str> {
        FIGURES.iter().map(|(known, _)| *known).collect()
    }

    /// Returns its name.
    pub fn name(&self) -> String {
        if let Figure::KernelCpu(Some(thread)) = self {
            return format!("{KERNEL_CPU}{thread}");
        }
        let found = FIGURES.iter().find(|(_, figure)| figure == self);
        found.map_or_else(String::new, |(known, _)| (*known).to_string())
    }

    /// Returns its dimension.
    pub fn dimension(&self) -> Dimension {
        match self {
            Figure::CpuShare => Dimension::Share,
            Figure::Rate => Dimension::Rate,
            Figure::WrittenRate | Figure::ReadRate => Dimension::Flow,
            Figure::DeviceRequests | Figure::DeviceSeeks => Dimension::Count,
            Figure::SpaceUsed => Dimension::Space,
            _ => Dimension::Time,
        }
    }

    /// Returns its default unit, the first one of its dimension.
    pub fn usual_unit(&self) -> Unit {
        let dimension = self.dimension();
        let found = UNITS.iter().find(|unit| unit.dimension == dimension);
        // A test checks that every dimension has a unit.
        found.copied().unwrap_or(UNITS[0])
    }

    /// Returns whether it can be a figure of a single op.
    pub fn is_of_an_op(&self) -> bool {
        matches!(self, Figure::Rate | Figure::Latency(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_parsable_name_and_a_unit_of_its_dimension() {
        for (known, figure) in FIGURES {
            assert_eq!(Figure::named(known).as_ref(), Ok(figure));
            assert_eq!(figure.name(), *known);
            assert_eq!(figure.usual_unit().dimension, figure.dimension(), "{known}");
        }
        let jbd2 = Figure::named("kernel cpu jbd2").unwrap();
        assert_eq!(jbd2, Figure::KernelCpu(Some("jbd2".into())));
        assert_eq!(jbd2.name(), "kernel cpu jbd2");
        assert_eq!(Figure::named("retuned").unwrap_err(), "did you mean 'returned'?");
        assert_eq!(Unit::named("MiB/s").unwrap().factor, 1_048_576.0);
    }
}
