//! The series of one phase.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos};

/// Maximum number of intervals of a phase. Beyond it, every two intervals are merged, so that a long enough phase (5.12
/// s if dirty bytes are sampled, otherwise 1.28 s) ends with 128 to 256 intervals.
pub const MAX_INTERVALS: usize = 256;

/// Minimum interval if only ops are counted: short phases get a resolution of 10 ms, and the cost of the end of an
/// interval is negligible.
pub const MIN_INTERVAL: Nanos = Nanos(10_000_000);

/// Minimum interval if dirty bytes are sampled. In the lab, a sample takes 22 to 37 us of the only CPU, and must take
/// less than 0.1 % of the time (docs/lab.md).
pub const MIN_SAMPLED_INTERVAL: Nanos = Nanos(40_000_000);

/// One phase, from its first op until durable (or its last stamp), in intervals of equal length.
/// Each list that is not empty has one entry per interval; the last interval may be shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseSeries {
    /// Name of the phase in the workload.
    pub name: String,
    /// Length of an interval.
    #[cfg_attr(feature = "schema", schemars(extend("minimum" = 1)))]
    pub interval_ns: Nanos,
    /// Length of the phase; the last interval ends here.
    #[cfg_attr(feature = "schema", schemars(extend("minimum" = 1)))]
    pub length_ns: Nanos,
    /// Ops of all threads that returned in each interval.
    #[cfg_attr(feature = "schema", schemars(length(min = 2, max = MAX_INTERVALS)))]
    pub ops: Vec<u64>,
    /// Dirty page cache at the end of each interval, bytes, or empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 2, max = MAX_INTERVALS)))]
    pub dirty_bytes: Vec<u64>,
    /// Pages under write-back at the end of each interval, bytes, or empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 2, max = MAX_INTERVALS)))]
    pub writeback_bytes: Vec<u64>,
    /// Bytes that the device completed writing in each interval, or empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 2, max = MAX_INTERVALS)))]
    pub device_written_bytes: Vec<u64>,
}

impl PhaseSeries {
    /// Returns the end of an interval, from the phase's first op; the last interval may be shorter than the others.
    pub fn end(&self, interval: usize) -> Nanos {
        let full = self.interval_ns.0.saturating_mul(interval as u64 + 1);
        Nanos(full.min(self.length_ns.0))
    }

    /// Returns the length of an interval: all are equal except the last.
    pub fn length(&self, interval: usize) -> Nanos {
        self.end(interval).since(Nanos(self.interval_ns.0.saturating_mul(interval as u64)))
    }

    /// Returns the dirty bytes and bytes under write-back at the end of an interval; `None` if unknown.
    pub fn unwritten(&self, interval: usize) -> Option<Bytes> {
        let dirty = self.dirty_bytes.get(interval)?;
        Some(Bytes(dirty + self.writeback_bytes.get(interval).copied().unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_interval_ends_with_the_phase() {
        let series = PhaseSeries {
            interval_ns: Nanos(10),
            length_ns: Nanos(23),
            ops: vec![5, 6, 1],
            dirty_bytes: vec![4096, 8192, 0],
            writeback_bytes: vec![0, 4096, 0],
            ..PhaseSeries::default()
        };
        let ends: Vec<u64> = (0..3).map(|index| series.end(index).0).collect();
        assert_eq!(ends, [10, 20, 23]);
        assert_eq!((series.length(0), series.length(2)), (Nanos(10), Nanos(3)));
        assert_eq!((series.unwritten(1), series.unwritten(3)), (Some(Bytes(12288)), None));
    }
}
