//! Records latencies by kind of op, and ops over time.

use std::collections::BTreeMap;

use fsdyno_record::trial::OpStats;
use fsdyno_record::{Histogram, Nanos, OpKind};

use crate::timeline::Timeline;

const KINDS: usize = OpKind::ALL.len();

/// A histogram for each kind of op, allocated at its first use (30 KiB), and a timeline of ops.
#[derive(Clone, Debug)]
pub struct Recorder {
    histograms: [Histogram; KINDS],
    timeline: Timeline,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::new()
    }
}

impl Recorder {
    /// Creates an empty recorder.
    pub fn new() -> Recorder {
        Recorder {
            histograms: std::array::from_fn(|_| Histogram::new()),
            timeline: Timeline::new(),
        }
    }

    /// Records the latency of an op.
    #[inline]
    pub fn record(&mut self, kind: OpKind, latency: Nanos) {
        self.histograms[kind as usize].record(latency.0);
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Recorder) {
        for (histogram, added) in self.histograms.iter_mut().zip(&other.histograms) {
            histogram.merge(added);
        }
        self.timeline.merge(&other.timeline);
    }

    /// Clears everything, for the next phase.
    pub fn clear(&mut self) {
        self.histograms.iter_mut().for_each(Histogram::clear);
        self.timeline.clear();
    }

    /// Returns the ops over time.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    pub(crate) fn timeline_mut(&mut self) -> &mut Timeline {
        &mut self.timeline
    }

    /// Returns the number of ops of each kind.
    pub fn counts(&self) -> BTreeMap<OpKind, u64> {
        self.used_histograms().map(|(kind, histogram)| (kind, histogram.count())).collect()
    }

    /// Returns counts and latencies by kind; kinds without ops are omitted.
    pub fn ops(&self) -> BTreeMap<OpKind, OpStats> {
        self.used_histograms().map(|(kind, histogram)| (kind, stats(histogram))).collect()
    }

    fn used_histograms(&self) -> impl Iterator<Item = (OpKind, &Histogram)> {
        let histograms = OpKind::ALL.iter().copied().zip(&self.histograms);
        histograms.filter(|(_, histogram)| !histogram.is_empty())
    }
}

/// Returns the statistics of a histogram, as a record stores them.
pub fn stats(histogram: &Histogram) -> OpStats {
    let percentile = |p| Nanos(histogram.percentile(p));
    OpStats {
        count: histogram.count(),
        total_ns: Nanos(histogram.total()),
        p50_ns: percentile(50.0),
        p90_ns: percentile(90.0),
        p99_ns: percentile(99.0),
        p999_ns: percentile(99.9),
        max_ns: Nanos(histogram.max()),
        histogram: histogram.buckets().into_iter().map(|(upper, n)| (Nanos(upper), n)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_recorded_separately() {
        let mut recorder = Recorder::new();
        recorder.record(OpKind::Create, Nanos(100));
        recorder.record(OpKind::Create, Nanos(300));
        recorder.record(OpKind::Chown, Nanos(7));
        let ops = recorder.ops();
        assert_eq!(ops.len(), 2);
        assert_eq!((ops[&OpKind::Create].count, ops[&OpKind::Create].total_ns), (2, Nanos(400)));
        assert_eq!(ops[&OpKind::Chown].max_ns, Nanos(7));
        let mut sum = recorder.clone();
        sum.merge(&recorder);
        assert_eq!(sum.counts()[&OpKind::Create], 4);
        sum.clear();
        assert!(sum.ops().is_empty());
    }

    #[test]
    fn kinds_are_listed_in_the_order_of_their_numbers() {
        assert!(OpKind::ALL.iter().enumerate().all(|(index, kind)| *kind as usize == index));
    }
}
