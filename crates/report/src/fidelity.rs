//! The fidelity of replays: the part of each recording that is replayed, and what limits a ranking, in sentences.

use std::collections::BTreeMap;

use fsdyno_record::trial::{Outcome, ReplayReport};
use fsdyno_record::{OpKind, Trial};

use crate::number::{count, counted, percent, sanitize};

/// The maximum number of reasons that are listed.
const MAX_REASONS: usize = 3;

/// Calls that not every file system supports, by the op that replays them.
const OPTIONAL_OPS: &[(OpKind, &str)] =
    &[(OpKind::CopyRange, "copy_file_range"), (OpKind::Fallocate, "fallocate")];

/// Calls that not every file system supports, by the beginning of the reason for which they are omitted or changed.
const OPTIONAL_CALLS: &[(&str, &str)] = &[
    ("reflinks ", "reflinks (FICLONE)"),
    ("fallocates of a mode ", "fallocate"),
    ("opens of files without a name", "O_TMPFILE"),
];

/// The minimum share of the time between calls that is worth a sentence about rankings. [OWN]
const MIN_THINK: f64 = 0.1;

/// Sentences for each combination of a recording and replay settings.
pub fn sentences(trials: &[Trial]) -> Vec<String> {
    let mut groups: BTreeMap<&BTreeMap<String, String>, Vec<(&Trial, &ReplayReport)>> =
        BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.outcome == Outcome::Ok) {
        if let Some(replay) = &trial.conditions.replay {
            groups.entry(&trial.plan.workload.params).or_default().push((trial, replay));
        }
    }
    let of_group = |group: &Vec<(&Trial, &ReplayReport)>| {
        [Some(sentence(group)), optional_calls(group), ranking(group)].into_iter().flatten()
    };
    groups.values().flat_map(of_group).collect()
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

/// The calls whose success depended on the recorded file system, in a sentence.
fn optional_calls(group: &[(&Trial, &ReplayReport)]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    let (trial, replay) = group.first()?;
    let omitted = OPTIONAL_CALLS
        .iter()
        .filter(|(reason, _)| replay.left_out.keys().any(|of_call| of_call.starts_with(reason)));
    let has_op = |kind: OpKind| {
        let mut phases = trial.measured.phases.iter();
        phases.any(|phase| phase.ops.get(&kind).is_some_and(|op| op.count > 0))
    };
    let made = OPTIONAL_OPS.iter().filter(|(kind, _)| has_op(*kind));
    for name in omitted.map(|(_, name)| *name).chain(made.map(|(_, name)| *name)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| {
        format!(
            "The recording has calls that depend on the file system: {}. On another type than the recorded one, the \
             program itself may make other calls.",
            names.join(", ")
        )
    })
}

/// The meaning of a difference in the time of calls for the whole, in a sentence.
fn ranking(group: &[(&Trial, &ReplayReport)]) -> Option<String> {
    let share = think_share(group).filter(|share| *share >= MIN_THINK)?;
    Some(format!(
        "Calls are {} of the threads' time in the replay: calls that take 10 % longer make the whole about {} longer.",
        percent(1.0 - share),
        percent(0.1 * (1.0 - share))
    ))
}

fn think(group: &[(&Trial, &ReplayReport)]) -> Option<String> {
    let share = think_share(group)?;
    Some(format!("the time between calls is {} of the threads' time", percent(share)))
}

/// The share of the threads' time that is spent between calls, over all trials; `None` if there is no such time.
fn think_share(group: &[(&Trial, &ReplayReport)]) -> Option<f64> {
    let phases = || group.iter().flat_map(|(trial, _)| &trial.measured.phases);
    let think: u64 = phases().map(|phase| phase.think_ns.0).sum();
    let calls: u64 = phases().flat_map(|phase| phase.ops.values()).map(|op| op.total_ns.0).sum();
    let total = (think + calls) as f64;
    (think > 0 && total > 0.0).then(|| think as f64 / total)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::{Bytes, Nanos};

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
    fn calls_that_depend_on_the_file_system_are_named() {
        const BEGIN: &str = "The recording has calls that depend on the file system";
        assert!(!sentence_with(|_| {}).contains(BEGIN));
        let text = sentence_with(|replay| {
            let reasons = [
                "reflinks which are replayed by copy_file_range",
                "fallocates of a mode without a replay",
                "opens of files without a name",
            ];
            replay.left_out = reasons.map(|reason| (reason.to_string(), 1)).into();
        });
        assert!(text.contains(": reflinks (FICLONE), fallocate, O_TMPFILE. On another"), "{text}");
        let mut trials = fixture::trials();
        trials.truncate(1);
        trials[0].conditions.replay = Some(ReplayReport::default());
        let phase = &mut trials[0].measured.phases[0];
        let stats = phase.ops.values().next().unwrap().clone();
        phase.ops.insert(OpKind::CopyRange, stats);
        let text = sentences(&trials).concat();
        assert!(text.contains(&format!("{BEGIN}: copy_file_range. On")), "{text}");
    }

    #[test]
    fn the_part_of_the_calls_in_the_whole_time_is_explained() {
        let mut trials = fixture::trials();
        trials.truncate(1);
        trials[0].conditions.replay = Some(ReplayReport::default());
        trials[0].measured.phases.truncate(1);
        let phase = &mut trials[0].measured.phases[0];
        let calls: u64 = phase.ops.values().map(|op| op.total_ns.0).sum();
        for (part, expected) in [(4, false), (150, true)] {
            trials[0].measured.phases[0].think_ns = Nanos(calls * part / 100);
            let text = sentences(&trials).concat();
            assert!(text.contains("the time between calls is"), "{text}");
            let ranking = "Calls are 40 % of the threads' time in the replay: calls that take 10 % longer make the \
                           whole about 4.0 % longer.";
            assert_eq!(text.contains(ranking), expected, "{text}");
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
