//! The fidelity of replays: the part of each recording that is replayed, in a sentence.

use std::collections::BTreeMap;

use fsdyno_record::Trial;
use fsdyno_record::trial::{Outcome, ReplayReport};

use crate::number::{count, counted, percent, sanitize};

/// The maximum number of reasons that are listed.
const MAX_REASONS: usize = 3;

/// One sentence for each combination of a recording and replay settings.
pub fn sentences(trials: &[Trial]) -> Vec<String> {
    let mut groups: BTreeMap<&BTreeMap<String, String>, Vec<(&Trial, &ReplayReport)>> =
        BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.outcome == Outcome::Ok) {
        if let Some(replay) = &trial.conditions.replay {
            groups.entry(&trial.plan.workload.params).or_default().push((trial, replay));
        }
    }
    groups.values().map(|group| sentence(group)).collect()
}

/// The meaning of phases that do not end with a sync.
const UNSYNCED: &str = "only the last phase is synced, because the program continues: an earlier phase has no durable time, and \
     data that it leaves in memory is written in the phases after it";

fn sentence(group: &[(&Trial, &ReplayReport)]) -> String {
    let Some((_, replay)) = group.first() else { return String::new() };
    let part = replay.replayed as f64 / replay.calls.max(1) as f64;
    let mut parts = vec![format!(
        "{} of {} recorded calls are replayed ({}{})",
        count(replay.replayed),
        count(replay.calls),
        percent(part),
        reasons(replay)
    )];
    parts.push(match (replay.threads, replay.order.as_str()) {
        (0 | 1, _) => "one thread, in the recorded order".to_string(),
        (threads, "total") => format!("{threads} threads, all calls in the recorded order"),
        (threads, "none") => format!("{threads} threads, in no order"),
        (threads, _) => format!(
            "{threads} threads, in the recorded order where calls share a file or a name ({} wait for another thread)",
            count(replay.waiting)
        ),
    });
    parts.extend(think(group));
    if group
        .iter()
        .any(|(trial, _)| trial.measured.phases.iter().any(|phase| phase.synced_ns.is_none()))
    {
        parts.push(UNSYNCED.to_string());
    }
    if replay.mapped.0 > 0 {
        parts.push(format!(
            "{} of files were mapped into memory{}",
            replay.mapped,
            match replay.stored.0 {
                0 => String::new(),
                stored => format!(
                    ", where stores are replayed as {} of writes, {} of all bytes written",
                    replay.stored,
                    percent(stored as f64 / replay.written.0.max(stored) as f64)
                ),
            }
        ));
    }
    let differing = group.iter().filter(|(_, replay)| replay.differing > 0);
    let rows: Vec<String> = differing
        .map(|(trial, replay)| {
            format!("{} on {}", count(replay.differing), sanitize(&trial.plan.label))
        })
        .collect();
    parts.push(match rows.len() {
        0 => "every result was as recorded".to_string(),
        _ => format!("results that differ: {}", rows.join(", ")),
    });
    format!("Fidelity of the replay: {}.", parts.join("; "))
}

/// The most frequent reasons why calls are omitted.
fn reasons(replay: &ReplayReport) -> String {
    if replay.replayed == replay.calls {
        return String::new();
    }
    let mut reasons: Vec<(&String, u64)> =
        replay.left_out.iter().map(|(reason, count)| (reason, *count)).collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = reasons.len().saturating_sub(MAX_REASONS);
    let listed = reasons.iter().take(MAX_REASONS);
    let mut listed: Vec<String> =
        listed.map(|(reason, number)| format!("{} {}", count(*number), sanitize(reason))).collect();
    if more > 0 {
        listed.push(format!("and {}", counted(more, "more reason")));
    }
    if listed.is_empty() { String::new() } else { format!("; not: {}", listed.join(", ")) }
}

/// The share of the threads' time that is processor time between calls, over all trials.
fn think(group: &[(&Trial, &ReplayReport)]) -> Option<String> {
    let phases = || group.iter().flat_map(|(trial, _)| &trial.measured.phases);
    let think: u64 = phases().map(|phase| phase.think_ns.0).sum();
    let calls: u64 = phases().flat_map(|phase| phase.ops.values()).map(|op| op.total_ns.0).sum();
    let total = (think + calls) as f64;
    (think > 0 && total > 0.0).then(|| {
        format!("the time between calls is {} of the threads' time", percent(think as f64 / total))
    })
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;

    use super::*;
    use crate::fixture;

    fn sentence_with(change: impl Fn(&mut ReplayReport)) -> String {
        let mut trials = fixture::trials();
        trials.truncate(1);
        let mut replay = ReplayReport {
            calls: 200,
            replayed: 150,
            left_out: [("locks".to_string(), 30), ("mknods".to_string(), 20)].into(),
            threads: 3,
            order: "resource".into(),
            waiting: 7,
            mapped: Bytes(8192),
            stored: Bytes(4096),
            written: Bytes(8192),
            ..ReplayReport::default()
        };
        change(&mut replay);
        trials[0].outcome = Outcome::Ok;
        trials[0].conditions.replay = Some(replay);
        sentences(&trials).concat()
    }

    #[test]
    fn the_replayed_part_of_a_recording_is_reported() {
        let text = sentence_with(|_| {});
        for part in [
            "150 of 200 recorded calls are replayed (75 %; not: 30 locks, 20 mknods)",
            "3 threads, in the recorded order where calls share a file or a name (7 wait",
            "8 KiB of files were mapped into memory, where stores are replayed as 4 KiB of writes, 50 %",
            "every result was as recorded",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn phases_without_a_sync_are_explained() {
        assert!(!sentence_with(|_| {}).contains(UNSYNCED));
        let mut trials = fixture::trials();
        trials.truncate(1);
        trials[0].conditions.replay = Some(ReplayReport::default());
        trials[0].measured.phases[0].synced_ns = None;
        let text = sentences(&trials).concat();
        assert!(text.contains(UNSYNCED), "{text}");
    }

    #[test]
    fn results_that_differ_are_counted_and_a_whole_replay_has_no_reasons() {
        let text = sentence_with(|replay| (replay.differing, replay.replayed) = (5, 200));
        assert!(text.contains("replayed (100 %);") && text.contains("differ: 5 on "), "{text}");
    }
}
