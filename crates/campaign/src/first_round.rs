//! The first trials of a run's configurations, from which a preliminary result is shown while the others run.

use std::collections::BTreeSet;
use std::time::Duration;

use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;
use fsdyno_report::counted;

use crate::time_left::Planned;

/// The time of a first round below which its result is not shown: the whole result follows soon. [OWN]
const MIN_ROUND: Duration = Duration::from_secs(15);

/// The trials of the first round.
pub struct FirstRound {
    /// Configurations without an ended or skipped trial; empty if there is only one round or one configuration.
    missing: BTreeSet<usize>,
    trials: Vec<Trial>,
}

impl FirstRound {
    /// Creates the first round of a run of these trials.
    pub fn new(planned: &[Planned]) -> FirstRound {
        let mut missing: BTreeSet<usize> = planned.iter().map(|trial| trial.cell).collect();
        if missing.len() < 2 || missing.len() == planned.len() {
            missing.clear();
        }
        FirstRound { missing, trials: Vec::new() }
    }

    /// Adds a trial that has ended, and returns the preliminary result after the last one of the round. `left` is the
    /// number of trials that have not ended yet.
    pub fn ended(
        &mut self,
        cell: usize,
        trial: &Trial,
        elapsed: Duration,
        left: usize,
    ) -> Option<String> {
        if !self.missing.remove(&cell) {
            return None;
        }
        if trial.outcome == Outcome::Ok {
            self.trials.push(trial.clone());
        }
        self.result(elapsed, left)
    }

    /// Records that a trial was not run after all, which completes its configuration's part of the round, and returns
    /// the preliminary result if the round is complete. `left` is the number of trials that have not ended yet.
    pub fn skipped(&mut self, cell: usize, elapsed: Duration, left: usize) -> Option<String> {
        self.missing.remove(&cell).then(|| self.result(elapsed, left)).flatten()
    }

    /// Returns the preliminary result if the round is complete.
    fn result(&mut self, elapsed: Duration, left: usize) -> Option<String> {
        if !self.missing.is_empty() {
            return None;
        }
        let trials = std::mem::take(&mut self.trials);
        let result = fsdyno_report::preliminary(&trials).filter(|_| elapsed >= MIN_ROUND)?;
        Some(format!(
            "fsdyno: preliminary, one trial of each, without intervals; {} to go: {result}",
            counted(left, "trial")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(cells: &[usize]) -> Vec<Planned> {
        cells
            .iter()
            .map(|cell| Planned { cell: *cell, ops: 1, expected: None, work: None })
            .collect()
    }

    /// The trials of a stored result, by row.
    fn trials() -> Vec<Trial> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/2026-11-26-mail");
        let trials = fsdyno_report::load([std::path::Path::new(folder)]).unwrap().trials;
        let first = |label: &str| {
            trials.iter().find(|it| it.plan.label == label && it.seed == 1).unwrap().clone()
        };
        ["ext4", "xfs", "btrfs"].map(first).into()
    }

    #[test]
    fn the_result_is_shown_once_after_the_first_trial_of_each_configuration() {
        let trials = trials();
        let mut round = FirstRound::new(&planned(&[0, 1, 2, 0, 1, 2, 0, 1, 2]));
        let minute = Duration::from_secs(60);
        assert_eq!(round.ended(1, &trials[1], minute, 8), None);
        assert_eq!(round.ended(1, &trials[1], minute, 7), None, "a second one, by another worker");
        assert_eq!(round.ended(0, &trials[0], minute, 6), None);
        let text = round.ended(2, &trials[2], minute, 5).unwrap();
        let start = "fsdyno: preliminary, one trial of each, without intervals; 5 trials to go: maildir deliver-4";
        assert!(text.starts_with(start), "{text}");
        let order = ["xfs ", "ext4 ", "btrfs "].map(|name| text.find(name).unwrap());
        assert!(order.is_sorted(), "{text}");
        assert_eq!(round.ended(0, &trials[0], minute, 4), None);
    }

    #[test]
    fn a_configuration_whose_first_trial_was_skipped_does_not_delay_the_result() {
        let trials = trials();
        let minute = Duration::from_secs(60);
        for skipped_last in [false, true] {
            let mut round = FirstRound::new(&planned(&[0, 1, 2, 0, 1, 2]));
            assert_eq!(round.ended(0, &trials[0], minute, 5), None);
            let text = if skipped_last {
                assert_eq!(round.ended(1, &trials[1], minute, 4), None);
                round.skipped(2, minute, 3)
            } else {
                assert_eq!(round.skipped(2, minute, 4), None);
                round.ended(1, &trials[1], minute, 3)
            };
            let text = text.unwrap();
            assert!(text.contains("3 trials to go") && !text.contains("btrfs"), "{text}");
            assert_eq!(round.skipped(2, minute, 2), None, "its second trial");
        }
    }

    #[test]
    fn a_short_round_a_single_one_and_a_single_configuration_have_no_preliminary_result() {
        let trials = trials();
        let result = |cells: &[usize], seconds| {
            let mut round = FirstRound::new(&planned(cells));
            let time = Duration::from_secs(seconds);
            [0, 1].into_iter().find_map(|cell| round.ended(cell, &trials[cell], time, 2))
        };
        assert!(result(&[0, 1, 0, 1], 60).is_some());
        assert_eq!(result(&[0, 1, 0, 1], 5), None);
        assert_eq!(result(&[0, 1], 60), None);
        assert_eq!(result(&[0, 0], 60), None);
    }
}
