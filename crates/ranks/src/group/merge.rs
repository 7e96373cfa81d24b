//! Merges the ranks' measurements of a phase.

use std::collections::BTreeMap;

use fsdyno_engine::Timeline;
use fsdyno_engine::recorder::stats;
use fsdyno_record::ranks::{RankPhase, RanksPhase, is_straggler};
use fsdyno_record::series::{MAX_INTERVALS, PhaseSeries};
use fsdyno_record::trial::{Instrument, OpStats, Phase, Split};
use fsdyno_record::{Bytes, Histogram, Nanos, OpKind};

use crate::clocks::Clock;
use crate::messages::PhaseDone;

/// A phase as the ranks report it.
pub(super) struct PhaseOfRanks<'a> {
    pub(super) name: &'a str,
    /// The work of each rank; times are on its own clock.
    pub(super) done: &'a [PhaseDone],
    /// The clock of each rank.
    pub(super) clocks: &'a [Clock],
    /// Time at which each rank's client was synced, on the rank's own clock.
    pub(super) synced: &'a [Option<Nanos>],
}

/// Returns the phase of all ranks, the share of each rank, and the ops over time.
pub(super) fn merge(reports: &PhaseOfRanks<'_>) -> (Phase, RanksPhase, Option<PhaseSeries>) {
    let ours =
        |rank: usize, at: Nanos| reports.clocks.get(rank).map_or(at, |clock| clock.to_ours(at));
    let times: Vec<RankTimes> = reports
        .done
        .iter()
        .enumerate()
        .map(|(rank, one)| {
            let synced = reports.synced.get(rank).copied().flatten();
            let synced = synced.map(|at| ours(rank, at));
            (ours(rank, one.started), ours(rank, one.returned), synced)
        })
        .collect();
    let start = times.iter().map(|(started, ..)| *started).min().unwrap_or_default();
    let since = |at: Nanos| at.since(start);
    let returned = times.iter().map(|(_, returned, _)| since(*returned)).max().unwrap_or_default();
    let synced = times.iter().filter_map(|(.., synced)| synced.map(since)).max();
    let ops = merge_operations(reports.done);
    let main = main_kind(&ops);
    let ranks = rank_results(reports, &times, main, start);
    let of_all = RanksPhase {
        name: reports.name.to_string(),
        skew_ns: ranks.iter().map(|rank| rank.started_ns).max().unwrap_or_default(),
        skew_uncertainty_ns: skew_uncertainty(&ranks),
        first_done_ns: ranks.iter().map(|rank| rank.returned_ns).min().unwrap_or_default(),
        last_done_ns: returned,
        stonewall: None,
        ranks,
        views: Vec::new(),
    };
    let sum = |part: fn(&PhaseDone) -> Nanos| {
        reports.done.iter().map(part).fold(Nanos(0), |sum, one| sum + one)
    };
    let (user_ns, system_ns) = (sum(|one| one.cpu.0), sum(|one| one.cpu.1));
    let phase = Phase {
        name: reports.name.to_string(),
        returned_ns: returned,
        synced_ns: synced.map(|synced| synced.max(returned)),
        cpu_ns: user_ns + system_ns,
        user_ns,
        system_ns,
        split: Split::Sampled,
        think_ns: sum(|one| one.think),
        ops,
        bytes_written: Bytes(reports.done.iter().map(|one| one.written).sum()),
        bytes_read: Bytes(reports.done.iter().map(|one| one.read).sum()),
        instrument: Instrument {
            engine_ns: reports.done.iter().map(|one| one.engine).max().unwrap_or_default(),
            ..Instrument::default()
        },
        ..Phase::default()
    };
    let end = phase.synced_ns.unwrap_or(returned);
    let starts: Vec<Nanos> = times.iter().map(|(started, ..)| *started).collect();
    let series = merge_series(reports, &starts, start, end);
    (phase, of_all, series)
}

/// Start, return and sync of a rank in a phase, on the clock of rank 0.
type RankTimes = (Nanos, Nanos, Option<Nanos>);

/// Returns the results of each rank in a phase that began at `start`; latencies are those of the kind `main`.
fn rank_results(
    reports: &PhaseOfRanks<'_>,
    times: &[RankTimes],
    main: Option<OpKind>,
    start: Nanos,
) -> Vec<RankPhase> {
    let since = |at: Nanos| at.since(start);
    let durations: Vec<Nanos> =
        times.iter().map(|(started, returned, _)| returned.since(*started)).collect();
    let mut ranks = Vec::new();
    for (rank, (one, time)) in reports.done.iter().zip(times).enumerate() {
        let offset = reports.clocks.get(rank).map(|clock| clock.at(time.0)).unwrap_or_default();
        let stats = main.and_then(|kind| one.ops.get(&kind)).cloned().unwrap_or_default();
        ranks.push(RankPhase {
            rank: rank as u32,
            started_ns: since(time.0),
            returned_ns: since(time.1),
            synced_ns: time.2.map(since),
            ops: one.calls,
            items: stats.count,
            stonewall_items: None,
            p50_ns: stats.p50_ns,
            p99_ns: stats.p99_ns,
            p999_ns: stats.p999_ns,
            max_ns: stats.max_ns,
            cpu_ns: one.cpu.0 + one.cpu.1,
            clock_offset_ns: offset.ahead,
            clock_uncertainty_ns: offset.uncertainty,
            straggler: is_straggler(durations[rank], &durations),
        });
    }
    ranks
}

/// Returns the uncertainty of the time between the first and the last start of a rank.
fn skew_uncertainty(ranks: &[RankPhase]) -> Nanos {
    let first = ranks.iter().min_by_key(|rank| rank.started_ns);
    let last = ranks.iter().max_by_key(|rank| rank.started_ns);
    match (first, last) {
        (Some(first), Some(last)) if first.rank != last.rank => {
            first.clock_uncertainty_ns + last.clock_uncertainty_ns
        }
        _ => Nanos(0),
    }
}

/// Merges counts and latencies of all ranks by kind of op; merging histograms adds no error.
fn merge_operations(done: &[PhaseDone]) -> BTreeMap<OpKind, OpStats> {
    let mut merged: BTreeMap<OpKind, Histogram> = BTreeMap::new();
    for (kind, one) in done.iter().flat_map(|one| &one.ops) {
        let buckets: Vec<(u64, u64)> =
            one.histogram.iter().map(|(upper, count)| (upper.0, *count)).collect();
        let histogram = Histogram::from_buckets(&buckets, one.total_ns.0, one.max_ns.0);
        merged.entry(*kind).or_default().merge(&histogram);
    }
    merged.iter().map(|(kind, histogram)| (*kind, stats(histogram))).collect()
}

/// Returns the most frequent kind of call; open, close or readdir only if there is no other kind.
fn main_kind(ops: &BTreeMap<OpKind, OpStats>) -> Option<OpKind> {
    let is_secondary =
        |kind: &OpKind| matches!(kind, OpKind::Open | OpKind::Close | OpKind::Readdir);
    let most_frequent = |all: &mut dyn Iterator<Item = (&OpKind, &OpStats)>| {
        // If counts are equal, the first in the order of kinds: creating a file comes before writing it.
        all.fold(None, |best: Option<(OpKind, u64)>, (kind, one)| match best {
            Some((_, count)) if count >= one.count => best,
            _ => Some((*kind, one.count)),
        })
    };
    let primary = most_frequent(&mut ops.iter().filter(|(kind, _)| !is_secondary(kind)));
    primary.or_else(|| most_frequent(&mut ops.iter())).map(|(kind, _)| kind)
}

fn merge_series(
    reports: &PhaseOfRanks<'_>,
    starts: &[Nanos],
    start: Nanos,
    length: Nanos,
) -> Option<PhaseSeries> {
    let mut all = Timeline::new();
    all.begin(start);
    for (one, started) in reports.done.iter().zip(starts) {
        let (interval, counts) = &one.timeline;
        for (at, count) in (0..).zip(counts).filter(|(_, count)| **count > 0) {
            all.add(*started + Nanos(interval.0 * at + interval.0 / 2), *count);
        }
    }
    while length.0.div_ceil(all.interval().0) > MAX_INTERVALS as u64 {
        all.coarsen();
    }
    let intervals = length.0.div_ceil(all.interval().0) as usize;
    if intervals < 2 {
        return None;
    }
    let mut ops = all.counts().to_vec();
    let rest: u64 = ops.drain(intervals.min(ops.len())..).sum();
    ops.resize(intervals, 0);
    if let Some(last) = ops.last_mut() {
        *last += rest;
    }
    let (name, interval_ns) = (reports.name.to_string(), all.interval());
    Some(PhaseSeries { name, interval_ns, length_ns: length, ops, ..PhaseSeries::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clocks::Offset;

    fn done(started: u64, returned: u64, latencies: &[u64]) -> PhaseDone {
        let mut histogram = Histogram::new();
        latencies.iter().for_each(|ns| histogram.record(*ns));
        PhaseDone {
            started: Nanos(started),
            returned: Nanos(returned),
            calls: latencies.len() as u64,
            ops: [(OpKind::Create, stats(&histogram))].into(),
            ..PhaseDone::default()
        }
    }

    fn clock(ahead: i64, uncertainty: u64) -> Clock {
        let offset = Offset { at: Nanos(0), ahead, uncertainty: Nanos(uncertainty) };
        Clock { before: offset, after: offset }
    }

    #[test]
    fn times_of_other_clocks_are_converted_and_the_skew_has_the_uncertainty_of_both() {
        // The second rank's clock is a second ahead; it began 300 ns after the first and ended 1,000 ns before it.
        let done = [done(5_000, 9_000, &[10, 20]), done(1_000_005_300, 1_000_008_000, &[30])];
        let clocks = [clock(0, 5), clock(1_000_000_000, 40)];
        let synced = [Some(Nanos(12_000)), None];
        let reports =
            PhaseOfRanks { name: "create", done: &done, clocks: &clocks, synced: &synced };
        let (phase, ranks, series) = merge(&reports);
        assert_eq!((ranks.skew_ns, ranks.skew_uncertainty_ns), (Nanos(300), Nanos(45)));
        assert_eq!((ranks.first_done_ns, ranks.last_done_ns), (Nanos(3_000), Nanos(4_000)));
        assert_eq!((phase.returned_ns, phase.synced_ns), (Nanos(4_000), Some(Nanos(7_000))));
        assert_eq!(ranks.ranks[1].clock_offset_ns, 1_000_000_000);
        let create = &phase.ops[&OpKind::Create];
        assert_eq!((create.count, create.total_ns, create.max_ns), (3, Nanos(60), Nanos(30)));
        assert_eq!(ranks.ranks.iter().map(|rank| rank.items).sum::<u64>(), 3);
        assert!(series.is_none(), "shorter than two intervals");
    }

    #[test]
    fn ops_over_time_are_those_of_all_ranks_and_none_is_lost() {
        let mut early = done(0, 50_000_000, &[1; 9]);
        early.timeline = (Nanos(10_000_000), vec![5, 4]);
        let mut late = done(30_000_000, 60_000_000, &[1; 3]);
        late.timeline = (Nanos(10_000_000), vec![1, 0, 2]);
        let done = [early, late];
        let clocks = [clock(0, 1), clock(0, 1)];
        let reports = PhaseOfRanks { name: "create", done: &done, clocks: &clocks, synced: &[] };
        let series = merge(&reports).2.unwrap();
        assert_eq!(series.ops, [5, 4, 0, 1, 0, 2]);
    }
}
