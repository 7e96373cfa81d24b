//! The tree that the first phase finds, and the comparison of replayed calls with their recording, over all ranks.

use std::collections::BTreeMap;

use fsdyno_record::{Bytes, OpKind};
use fsdyno_workload::GapKind;

use super::collect::Watch;
use super::course::Course;
use super::trial::trial_failure;
use super::{GroupError, State};
use crate::messages::{FromRank, PhaseDone, Replayed, ToRank};

/// Maximum number of notes on the differences of a phase.
const MAX_NOTES: usize = 20;

impl State {
    /// Has each rank create the initial tree of its first phase, untimed; then another rank verifies it.
    pub(super) fn prefill(
        &mut self,
        course: &mut Course<'_>,
        watch: Watch<'_>,
    ) -> Result<(), GroupError> {
        if course.work.prefill().is_none() || !course.has_calls() {
            return Ok(());
        }
        let before = space_used(course)?;
        self.tell(&ToRank::Prefill);
        let made = self.collect(
            "while it made the tree of the first phase",
            course.deadline,
            watch,
            &|answer| match answer {
                FromRank::Prefilled { calls } => Some(calls),
                _ => None,
            },
        )?;
        self.step(course, GapKind::Drop, watch)?;
        let after = space_used(course)?;
        let mut calls: BTreeMap<OpKind, u64> = BTreeMap::new();
        for (kind, count) in made.into_iter().flatten() {
            *calls.entry(kind).or_default() += count;
        }
        let calls: Vec<String> =
            calls.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        course.notes.push(format!(
            "the initial tree of the first phase was created outside the timed phases (calls of all ranks: {}); \
             the file system used {before} before and {after} after",
            calls.join(", ")
        ));
        self.verify(course, None, watch)
    }

    /// Adds to the results how the ranks' calls differed from the recording.
    ///
    /// # Errors
    /// A difference that fails the trial.
    pub(super) fn judge(
        &self,
        course: &mut Course<'_>,
        index: usize,
        done: &[PhaseDone],
    ) -> Result<(), GroupError> {
        let judged: Vec<&Replayed> = done.iter().filter_map(|one| one.replayed.as_ref()).collect();
        if let Some(report) = &mut course.replay {
            report.differing += judged.iter().map(|one| one.differing).sum::<u64>();
        }
        let phase = match course.phases.len() {
            1 => String::new(),
            _ => format!("phase {}: ", course.phases[index].name),
        };
        course.notes.extend(notes(&judged).into_iter().map(|note| format!("{phase}{note}")));
        let mut failed = (0..).zip(&judged).filter_map(|(rank, one): (usize, _)| {
            Some((self.peers.get(rank)?, one.failure.as_ref()?))
        });
        let Some((peer, why)) = failed.next() else { return Ok(()) };
        let more = match failed.count() {
            0 => String::new(),
            1 => "; another rank has such differences, too".to_string(),
            more => format!("; {more} other ranks have such differences, too"),
        };
        Err(GroupError::Failed(format!("{}: {phase}{why}{more}", peer.name())))
    }
}

fn space_used(course: &Course<'_>) -> Result<Bytes, GroupError> {
    let space = rustix::fs::fstatvfs(course.trial.root).map_err(trial_failure)?;
    Ok(Bytes(space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize))
}

/// Returns the notes of all ranks: each text once, with the ranks that reported it.
fn notes(judged: &[&Replayed]) -> Vec<String> {
    let mut texts: Vec<(&String, Vec<usize>)> = Vec::new();
    for (rank, one) in judged.iter().enumerate() {
        for note in &one.notes {
            match texts.iter_mut().find(|(text, _)| *text == note) {
                Some((_, ranks)) => ranks.push(rank),
                None => texts.push((note, vec![rank])),
            }
        }
    }
    let more = texts.len().saturating_sub(MAX_NOTES);
    texts.truncate(MAX_NOTES);
    let mut notes: Vec<String> = texts
        .iter()
        .map(|(text, ranks)| format!("{}: {text}", describe_ranks(ranks, judged.len())))
        .collect();
    if more > 0 {
        notes.push(format!("and {more} more notes on differences"));
    }
    notes
}

/// Names some of `all` ranks.
fn describe_ranks(ranks: &[usize], all: usize) -> String {
    const SHOWN: usize = 4;
    if ranks.len() == all && all > 1 {
        return format!("each of {all} ranks");
    }
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(ToString::to_string).collect();
    let s = if ranks.len() == 1 { "" } else { "s" };
    match ranks.len().saturating_sub(SHOWN) {
        0 => format!("rank{s} {}", shown.join(", ")),
        more => format!("ranks {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_several_ranks_is_written_once_with_their_numbers() {
        let replayed = |notes: &[&str]| {
            let notes = notes.iter().map(ToString::to_string).collect();
            Replayed { notes, ..Replayed::default() }
        };
        let (same, other) = (replayed(&["equal"]), replayed(&["equal", "3 reads differ"]));
        assert_eq!(
            notes(&[&same, &other, &other]),
            ["each of 3 ranks: equal", "ranks 1, 2: 3 reads differ"]
        );
        assert_eq!(notes(&[&same]), ["rank 0: equal"]);
        assert_eq!(describe_ranks(&[0, 1, 2, 3, 4, 6], 9), "ranks 0, 1, 2, 3 and 2 more");
        let many: Vec<String> = (0..30).map(|number| number.to_string()).collect();
        let many = replayed(&many.iter().map(String::as_str).collect::<Vec<_>>());
        let notes = notes(&[&many]);
        assert_eq!((notes.len(), notes[20].as_str()), (21, "and 10 more notes on differences"));
    }
}
