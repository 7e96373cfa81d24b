//! The time of a phase's calls: every kind of call with its share and latencies.

use fsdyno_record::{Nanos, OpKind};

use crate::model::{Row, Section};
use crate::number;
use crate::view::merge_latencies;

/// One kind of call on one file system, over all its trials.
#[derive(Debug)]
pub struct Calls {
    /// The kind.
    pub kind: OpKind,
    /// Number of calls.
    pub count: u64,
    /// The share of these calls in the time of all calls.
    pub share: f64,
    /// The median latency.
    pub p50: Nanos,
    /// The 99th percentile of the latency.
    pub p99: Nanos,
    /// The longest latency.
    pub max: Nanos,
}

/// At this share or above, one kind of call represents all of them.
const DOMINANT_SHARE: f64 = 0.9;

/// Below this share, a kind of call is omitted from a line.
const MIN_SHARE: f64 = 0.05;

/// Every kind of call of a row, in descending order of its share of the time.
pub fn calls(row: &Row<'_>) -> Vec<Calls> {
    let total: u64 =
        row.trials.iter().flat_map(|(_, phase)| phase.ops.values()).map(|s| s.total_ns.0).sum();
    let calls_of_kind = |kind: &OpKind| {
        let all = merge_latencies(&row.trials, *kind)?;
        Some(Calls {
            kind: *kind,
            count: all.count(),
            share: all.total() as f64 / (total.max(1)) as f64,
            p50: Nanos(all.percentile(50.0)),
            p99: Nanos(all.percentile(99.0)),
            max: Nanos(all.max()),
        })
    };
    let mut calls: Vec<Calls> = OpKind::ALL.iter().filter_map(calls_of_kind).collect();
    calls.sort_by(|a, b| b.share.total_cmp(&a.share));
    calls
}

/// A line for each row: `time of ext4 by call: fsync 95 % (p50 16.0 ms, p99 24.6 ms), create 5 % (...)`. There are no
/// lines if in every row one kind of call dominates and its latencies are in the table.
pub fn lines(section: &Section<'_>) -> Vec<String> {
    let has_dominant_call = |row: &Row<'_>| {
        calls(row).first().is_none_or(|first| {
            first.share >= DOMINANT_SHARE
                && section.latency_op == Some(first.kind)
                && section.unit.is_none()
        })
    };
    if section.rows.iter().all(has_dominant_call) {
        return Vec::new();
    }
    let line = |row: &Row<'_>| {
        let calls = calls(row);
        calls.first()?;
        let part = |calls: &Calls| {
            let share = number::percent(calls.share);
            format!("{} {share} (p50 {}, p99 {})", calls.kind, calls.p50, calls.p99)
        };
        let parts: Vec<String> =
            calls.iter().filter(|calls| calls.share >= MIN_SHARE).take(4).map(part).collect();
        let name = number::sanitize(&row.in_sentence());
        Some(format!("time of {name} by call: {}", parts.join(", ")))
    };
    section.rows.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn the_most_expensive_call_is_named_even_if_it_is_rare() {
        let mut trials = fixture::single();
        for trial in &mut trials {
            let ops = &mut trial.measured.phases[0].ops;
            let mut slow = ops[&OpKind::Create].clone();
            slow.count = 10;
            slow.total_ns = Nanos(ops[&OpKind::Create].total_ns.0 * 19);
            ops.insert(OpKind::Fsync, slow);
        }
        let sections = view::sections(&trials, None);
        let create = &sections[0];
        assert_eq!(
            (create.main_op, create.latency_op),
            (Some(OpKind::Create), Some(OpKind::Fsync))
        );
        let calls = calls(&create.rows[0]);
        assert_eq!(calls[0].kind, OpKind::Fsync);
        assert!((calls.iter().map(|calls| calls.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(lines(create).iter().all(|line| line.contains("calls: fsync 9")), "{create:?}");
        assert!(lines(&sections[1]).is_empty(), "unlink is the only call");
    }

    #[test]
    fn if_one_row_needs_a_line_every_row_has_one() {
        let mut trials = fixture::single();
        let ops = &mut trials[0].measured.phases[0].ops;
        let mut slow = ops[&OpKind::Create].clone();
        slow.total_ns = Nanos(slow.total_ns.0 * 19);
        ops.insert(OpKind::Fsync, slow);
        let sections = view::sections(&trials, None);
        assert_eq!(lines(&sections[0]).len(), 3, "{:?}", lines(&sections[0]));
    }
}
