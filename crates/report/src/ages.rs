//! Pairs of rows that differ only in the age of their file system.

use std::collections::BTreeMap;

use fsdyno_record::Trial;
use fsdyno_record::plan::Plan;

use crate::baseline::compare;
use crate::measure::Measure;
use crate::model::{Pair, Row};

/// All pairs; the pairs of one fresh row are adjacent.
pub fn pairs(rows: &[Row<'_>], measure: Measure, least: f64) -> Vec<Pair> {
    let first_trials = || rows.iter().map(|row| row.trials.first().map(|(trial, _)| *trial));
    let is_aged: Vec<bool> =
        first_trials().map(|trial| trial.is_some_and(|trial| trial.plan.age().is_some())).collect();
    if !is_aged.contains(&true) {
        return Vec::new();
    }
    let keys: Vec<_> = first_trials().map(|trial| trial.map(key)).collect();
    let mut pairs = Vec::new();
    for fresh in (0..rows.len()).filter(|row| !is_aged[*row]) {
        let is_partner = |row: &usize| is_aged[*row] && keys[*row] == keys[fresh];
        for aged in (0..rows.len()).filter(is_partner) {
            let Some((comparison, _)) = compare(&rows[fresh], &rows[aged], measure, least) else {
                continue;
            };
            let is_row_comparison = rows[aged].base == Some(fresh);
            pairs.push(Pair { fresh, aged, comparison, is_row_comparison });
        }
    }
    pairs
}

/// The key that the two rows of a pair share: the plan without the age, and the lab or the host. The lab's snapshot is
/// ignored, because it belongs to the guest of one file system.
fn key(trial: &Trial) -> (Plan, BTreeMap<&str, &str>, &str, &str) {
    let parts = trial.lab.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let conditions = &trial.conditions;
    let lab = parts.filter(|(name, _)| *name != "snapshot").collect();
    (without_age(&trial.plan), lab, &conditions.kernel, &conditions.cpu)
}

/// The plan of the same trial on a fresh file system; labels may differ, because they name the age.
fn without_age(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.hash.clear();
    plan.label.clear();
    if let Some(filesystem) = &mut plan.filesystem {
        filesystem.age = None;
    }
    plan
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Nanos;
    use fsdyno_stats::compare::Verdict;

    use super::*;
    use crate::{fixture, view};

    #[test]
    fn pairs_differ_in_age_and_in_nothing_else() {
        let mut trials = fixture::fresh_and_aged();
        let pairs = |trials: &[Trial]| view::sections(trials, None)[0].aged.len();
        assert_eq!(pairs(&trials), 3);
        trials.iter_mut().for_each(|trial| trial.conditions.kernel = "6.1".into());
        let aged = |trials: &mut Vec<Trial>, change: fn(&mut Trial)| {
            trials.iter_mut().filter(|trial| trial.plan.age().is_some()).for_each(change);
        };
        let mut elsewhere = trials.clone();
        aged(&mut elsewhere, |trial| trial.conditions.kernel = "6.12".into());
        assert_eq!((pairs(&trials), pairs(&elsewhere)), (3, 0));
        aged(&mut trials, |trial| trial.plan.threads = 7);
        assert_eq!(pairs(&trials), 0);
    }

    #[test]
    fn the_p_values_of_pairs_are_adjusted_with_all_others_of_the_report() {
        let mut trials = fixture::fresh_and_aged();
        for trial in &mut trials {
            let aged = u64::from(trial.plan.age().is_some());
            for phase in &mut trial.measured.phases {
                let ns = 1_000_000_000 + aged * (20_000_000 + trial.seed * 6_000_000);
                phase.durable_ns = Some(Nanos(ns));
            }
        }
        let sections = view::sections(&trials, None);
        let pair = sections[0].aged[0];
        let (p, raised) = (pair.comparison.p.unwrap(), pair.comparison.p_in_table.unwrap());
        assert!(p < 0.05 && raised > 0.05, "{p} {raised}");
        assert_eq!(pair.comparison.verdict, Verdict::Undecided);
    }
}
