//! Merges the engine's counts and the sampler's values of a phase into intervals of equal length.

use fsdyno_engine::{Gauge, Timeline};
use fsdyno_record::Nanos;
use fsdyno_record::series::{MAX_INTERVALS, MIN_SAMPLED_INTERVAL, PhaseSeries};

use crate::sampler::Samples;

/// The sampler's values during a phase and at its end.
pub struct PhaseSamples {
    /// The values at the ends of intervals.
    pub samples: Samples,
    /// Dirty bytes and bytes under write-back at the end; `None` if those of the trial cannot be determined.
    pub unwritten: Option<[u64; 2]>,
    /// Bytes written to the device in the whole phase; `None` if unknown.
    pub written: Option<u64>,
}

/// Returns the series of a phase that took `length` from the start of its timeline to its last stamp; `None` if it is
/// too short for two intervals.
pub fn series(
    name: &str,
    timeline: &Timeline,
    length: Nanos,
    phase_samples: Option<PhaseSamples>,
) -> Option<PhaseSeries> {
    let mut timeline = timeline.clone();
    // A phase that is too short for two samples has ops only.
    let phase_samples = phase_samples.filter(|_| length > MIN_SAMPLED_INTERVAL);
    let mut gauge = phase_samples
        .as_ref()
        .map(|phase_samples| phase_samples.samples.gauge.clone())
        .unwrap_or_default();
    let sampled = phase_samples.is_some().then_some(&mut gauge);
    let interval = align(&mut timeline, sampled, length);
    let intervals = length.0.div_ceil(interval.0) as usize;
    if intervals < 2 {
        return None;
    }
    let series = PhaseSeries {
        name: name.to_string(),
        interval_ns: interval,
        length_ns: length,
        ops: ops_by_interval(&timeline, intervals),
        ..PhaseSeries::default()
    };
    let Some(PhaseSamples { samples, unwritten, written }) = phase_samples else {
        return Some(series);
    };
    let values_of = |at: usize, first: u64, last: Option<u64>| -> Vec<u64> {
        last.map_or_else(Vec::new, |last| values(&gauge, at, intervals, first, last))
    };
    let before = samples.written_before;
    let sums = values_of(2, before, written.map(|written| before + written));
    let written_per_interval = sums.iter().scan(before, |previous, sum| {
        let written = sum.saturating_sub(*previous);
        *previous = *sum.max(previous);
        Some(written)
    });
    Some(PhaseSeries {
        dirty_bytes: values_of(0, 0, unwritten.map(|[dirty, _]| dirty)),
        writeback_bytes: values_of(1, 0, unwritten.map(|[_, writeback]| writeback)),
        device_written_bytes: written_per_interval.collect(),
        ..series
    })
}

/// Merges intervals of both until they are equally long and few enough for the phase. Returns their length.
fn align(timeline: &mut Timeline, sampled: Option<&mut Gauge<3>>, length: Nanos) -> Nanos {
    let mut interval = timeline.interval();
    if let Some(gauge) = &sampled {
        interval = interval.max(gauge.interval());
    }
    while length.0.div_ceil(interval.0) > MAX_INTERVALS as u64 {
        interval = interval + interval;
    }
    while timeline.interval() < interval {
        timeline.coarsen();
    }
    if let Some(gauge) = sampled {
        while gauge.interval() < interval {
            gauge.coarsen();
        }
    }
    interval
}

/// Returns the number of ops in each interval. An op that returned with the last stamp belongs to the last interval.
fn ops_by_interval(timeline: &Timeline, intervals: usize) -> Vec<u64> {
    let mut ops = timeline.counts().to_vec();
    let surplus: u64 = ops.drain(intervals.min(ops.len())..).sum();
    ops.resize(intervals, 0);
    if let Some(last) = ops.last_mut() {
        *last += surplus;
    }
    ops
}

/// Returns one of the values at the end of each interval: the sampled value; after the last sample, that sample; and
/// for the last interval, the value at the end of the phase.
fn values(gauge: &Gauge<3>, index: usize, intervals: usize, first: u64, last: u64) -> Vec<u64> {
    let mut values: Vec<u64> = gauge.samples().iter().map(|sample| sample[index]).collect();
    values.truncate(intervals - 1);
    let last_known = values.last().copied().unwrap_or(first);
    values.resize(intervals - 1, last_known);
    values.push(last);
    values
}

#[cfg(test)]
mod tests {
    use fsdyno_record::series::MIN_INTERVAL;

    use super::*;

    const MS: u64 = 1_000_000;

    /// One op per millisecond for `ms` milliseconds.
    fn timeline(ms: u64) -> Timeline {
        let mut timeline = Timeline::new();
        timeline.begin(Nanos(0));
        (0..ms).for_each(|millisecond| timeline.add(Nanos(millisecond * MS), 1));
        timeline
    }

    fn phase_samples(values: &[[u64; 3]], written: Option<u64>) -> PhaseSamples {
        let gauge = Gauge::from_samples(MIN_SAMPLED_INTERVAL, values.to_vec());
        let samples = Samples { gauge, written_before: 1000 };
        PhaseSamples { samples, unwritten: Some([0, 0]), written }
    }

    #[test]
    fn ops_end_with_the_last_call_and_sampled_values_end_with_the_last_stamp() {
        let samples = [[10, 0, 1000], [20, 5, 1100], [30, 5, 1300], [9, 9, 9999]];
        let phase_samples = phase_samples(&samples, Some(400));
        let series =
            series("create", &timeline(100), Nanos(134 * MS), Some(phase_samples)).unwrap();
        assert_eq!((series.interval_ns, series.length_ns), (MIN_SAMPLED_INTERVAL, Nanos(134 * MS)));
        assert_eq!(series.ops, [40, 40, 20, 0]);
        assert_eq!(series.dirty_bytes, [10, 20, 30, 0], "the sample after the end is omitted");
        assert_eq!(series.writeback_bytes, [0, 5, 5, 0]);
        assert_eq!(series.device_written_bytes, [0, 100, 200, 100]);
    }

    #[test]
    fn unknown_values_are_empty_and_too_short_phases_are_omitted() {
        let short_series =
            series("stat", &timeline(25), Nanos(85 * MS), Some(phase_samples(&[], None))).unwrap();
        assert!(short_series.device_written_bytes.is_empty());
        assert_eq!(short_series.dirty_bytes, [0, 0, 0], "no sample, and clean at the end");
        for samples in [None, Some(phase_samples(&[], Some(400)))] {
            let ops_only = series("stat", &timeline(25), Nanos(25 * MS), samples).unwrap();
            assert_eq!((ops_only.interval_ns, ops_only.ops.len()), (MIN_INTERVAL, 3));
            assert!(ops_only.dirty_bytes.is_empty() && ops_only.device_written_bytes.is_empty());
        }
        assert_eq!(series("stat", &timeline(9), Nanos(10 * MS), None), None);
    }

    #[test]
    fn a_long_sync_makes_the_intervals_longer_and_loses_no_op() {
        let series = series("create", &timeline(100), Nanos(10_000 * MS), None).unwrap();
        assert_eq!((series.interval_ns.0 / MS, series.ops.len()), (40, 250));
        assert_eq!(series.ops[..3], [40, 40, 20]);
        assert_eq!(series.ops.iter().sum::<u64>(), 100);
    }
}
