//! Computes the number of repeats of a two-stage rule from its pilot: a pure function of the stored trials, so
//! that a run stopped between the stages continues unchanged.

use fsdyno_record::trial::{Outcome, Phase};
use fsdyno_record::{Repeats, Trial};
use fsdyno_report::seconds;
use fsdyno_stats::plan::{PILOT, Rule, Total};

use crate::matrix_request::Cell;

/// Creates the rule, with the first seed of its trials.
pub fn rule(width_ppm: u32, at_most: u32, first_seed: u64) -> Repeats {
    Repeats { width_ppm, pilot: PILOT.min(at_most), at_most, first_seed, wanted: None }
}

/// The decision made from the pilot.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Total number of repeats.
    pub total: Total,
    /// The cell and phase with the largest scatter: `dirops create on ext4`.
    pub by: String,
}

/// Returns the number of repeats, computed from the pilot's trials for the cell and phase that need the most. Uses
/// the time until durable, or until returned if a trial of the cell lacks it.
///
/// `None` if no phase of any cell has two successful trials in the pilot, or if every time is zero.
pub fn decide(rule: &Repeats, cells: &[Cell], stored: &[Trial]) -> Option<Decision> {
    let two_stage = Rule::TwoStage { half_width: rule.half_width(), cap: rule.at_most };
    let mut largest: Option<Decision> = None;
    for cell in cells {
        let pilot = pilot_of(rule, cell, stored);
        for (phase, values) in phases(&pilot) {
            let Some(total) = two_stage.total(&[values]) else { continue };
            if largest.as_ref().is_none_or(|largest| total.wanted > largest.total.wanted) {
                let plan = &cell.plan;
                let by = format!("{} {phase} on {}", plan.workload.name, plan.label);
                largest = Some(Decision { total, by });
            }
        }
    }
    largest
}

/// Refuses trials stored under a different rule: the number that a rule computes is valid only if it is the only rule
/// applied.
///
/// # Errors
/// The rule of the stored trials, as a sentence.
pub fn check_rule(rule: Option<&Repeats>, stored: &[Trial]) -> Result<(), String> {
    let executed = stored.iter().filter(|trial| trial.outcome != Outcome::Skipped);
    for trial in executed {
        let stored_rule = trial.repeats.as_ref();
        let is_same = match (rule, stored_rule) {
            (None, None) => true,
            (Some(rule), Some(stored_rule)) => rule.is_same_rule(stored_rule),
            _ => false,
        };
        if !is_same {
            let describe = |rule: Option<&Repeats>| match rule {
                Some(rule) => {
                    format!("{} --seed {}", rule.command_line_arguments(), rule.first_seed)
                }
                None => "a fixed number of repeats (--repeat)".to_string(),
            };
            return Err(format!(
                "the trials in this folder ran under {}, and this command requests {}: the number of \
                 repeats must be fixed before the results are known; request the same, or give --out a new folder",
                describe(stored_rule),
                describe(rule)
            ));
        }
    }
    Ok(())
}

/// Returns the pilot's successful trials of a cell in the order of their seeds, each seed once.
fn pilot_of<'a>(rule: &Repeats, cell: &Cell, stored: &'a [Trial]) -> Vec<&'a Trial> {
    let is_pilot = |trial: &&Trial| {
        (&trial.plan.hash, &trial.plan.label) == (&cell.plan.hash, &cell.plan.label)
            && trial.outcome == Outcome::Ok
            && rule.is_pilot(trial.seed)
    };
    let mut pilot: Vec<&Trial> = stored.iter().filter(is_pilot).collect();
    pilot.sort_by_key(|trial| trial.seed);
    pilot.dedup_by_key(|trial| trial.seed);
    pilot
}

/// Returns the times, in seconds, of each phase that all of the trials have.
fn phases<'a>(trials: &[&'a Trial]) -> Vec<(&'a str, Vec<f64>)> {
    let Some(first) = trials.first() else { return Vec::new() };
    let found = |trial: &'a Trial, name: &str| -> Option<&'a Phase> {
        trial.measured.phases.iter().find(|phase| phase.name == name)
    };
    let phase_times = |name: &'a str| {
        let phases: Option<Vec<&Phase>> = trials.iter().map(|trial| found(trial, name)).collect();
        let phases = phases?;
        let durable = phases.iter().all(|phase| phase.durable_ns.is_some());
        Some((name, phases.iter().map(|phase| seconds::seconds(phase, durable)).collect()))
    };
    first.measured.phases.iter().filter_map(|phase| phase_times(&phase.name)).collect()
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Nanos;

    use super::*;
    use crate::store::tests::trial as stored_trial;

    fn trial(seed: u64, outcome: Outcome) -> Trial {
        Trial { seed, ..stored_trial(&format!("t-{seed}"), outcome) }
    }

    fn cell(label: &str) -> Cell {
        let mut plan = trial(1, Outcome::Ok).plan;
        plan.label = label.into();
        let (needs, phases) = Default::default();
        Cell { row: 0, plan, needs, phases, skip: None, deadline: Nanos(1) }
    }

    fn pilot_trial(label: &str, seed: u64, durable: Option<u64>) -> Trial {
        let mut trial = trial(seed, Outcome::Ok);
        trial.plan.label = label.into();
        trial.repeats = Some(rule(20_000, 100, 1));
        let phase = Phase {
            name: "create".into(),
            returned_ns: Nanos(1_000_000_000),
            durable_ns: durable.map(Nanos),
            ..Phase::default()
        };
        trial.measured.phases = vec![phase];
        trial
    }

    #[test]
    fn the_pilot_of_the_row_with_the_largest_scatter_decides_for_all_rows() {
        let (calm, wild) = (cell("calm"), cell("wild"));
        let mut stored = Vec::new();
        for seed in 1..=5 {
            stored.push(pilot_trial("calm", seed, Some(1_000_000_000 + seed)));
            stored.push(pilot_trial("wild", seed, Some(1_000_000_000 + seed * 20_000_000)));
        }
        let rule = rule(20_000, 100, 1);
        let decision = decide(&rule, &[calm.clone(), wild.clone()], &stored).unwrap();
        assert_eq!(decision.by, "dirops create on wild");
        // Logarithms of 1.02 to 1.10: standard deviation s = 0.0298, t = 2.776, d = 0.0198.
        assert_eq!(decision.total.n, 18);
        assert_eq!(decide(&rule, std::slice::from_ref(&calm), &stored).unwrap().total.n, 5);
        stored.extend((6..30).map(|seed| pilot_trial("wild", seed, Some(seed * 1_000_000_000))));
        assert_eq!(decide(&rule, &[calm, wild.clone()], &stored), Some(decision));
        let cut = Repeats { at_most: 9, ..rule };
        let total = decide(&cut, &[wild], &stored).unwrap().total;
        assert_eq!((total.n, total.wanted, total.reached), (9, 18, false));
    }

    #[test]
    fn without_a_time_until_durable_the_time_until_returned_decides_and_one_trial_decides_nothing()
    {
        let rule = rule(20_000, 100, 1);
        let cells = [cell("a")];
        let mut stored = vec![pilot_trial("a", 1, Some(5))];
        assert_eq!(decide(&rule, &cells, &stored), None);
        stored.push(pilot_trial("a", 2, None));
        assert_eq!(decide(&rule, &cells, &stored).unwrap().total.n, 5);
        assert_eq!(decide(&rule, &[], &stored), None);
    }

    #[test]
    fn trials_of_a_different_rule_in_one_folder_are_refused() {
        let stored = [pilot_trial("a", 1, Some(5))];
        let same = rule(20_000, 100, 1);
        assert_eq!(check_rule(Some(&same), &stored), Ok(()));
        assert_eq!(check_rule(None, &[]), Ok(()));
        for other in [None, Some(rule(10_000, 100, 1)), Some(rule(20_000, 100, 2))] {
            let error = check_rule(other.as_ref(), &stored).unwrap_err();
            assert!(error.contains("--width 2% --at-most 100"), "{error}");
        }
        let fixed = [trial(1, Outcome::Ok)];
        let error = check_rule(Some(&same), &fixed).unwrap_err();
        assert!(error.contains("under a fixed number of repeats"), "{error}");
    }
}
