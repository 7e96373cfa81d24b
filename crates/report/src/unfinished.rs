//! Failed and skipped trials, as every output lists them.

use fsdyno_axes::naming::RowNames;
use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;

use crate::number::sanitize;
use crate::table::Failure;

/// The failed and skipped trials; those of one row with the same reason share an entry.
pub fn unfinished(trials: &[Trial]) -> Vec<Failure> {
    let mut groups: Vec<(Outcome, String, &str, Vec<String>)> = Vec::new();
    let names = RowNames::of(trials);
    for trial in trials.iter().filter(|trial| trial.outcome != Outcome::Ok) {
        let what = format!("{} on {}", names.workload(trial), names.row(trial));
        let reason = trial.reason.as_deref().unwrap_or("no reason was recorded").trim();
        let seed = trial.seed.to_string();
        let same = |group: &&mut (Outcome, String, &str, Vec<String>)| {
            (group.0, &group.1, group.2) == (trial.outcome, &what, reason)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.3.push(seed),
            None => groups.push((trial.outcome, what, reason, vec![seed])),
        }
    }
    let listed = |(outcome, what, reason, seeds): (Outcome, String, &str, Vec<String>)| {
        let outcome = if outcome == Outcome::Skipped { "skipped" } else { "failed" };
        let seed = if seeds.len() > 1 { "seeds" } else { "seed" };
        let what = sanitize(&format!("{what}, {seed} {}", seeds.join(", ")));
        Failure { outcome, what, reason: reason.to_string() }
    };
    groups.into_iter().map(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn trials_skipped_for_one_reason_under_every_seed_are_listed_once() {
        let skipped = fixture::with_failures().pop().unwrap();
        let trials: Vec<Trial> = (1..=3).map(|seed| Trial { seed, ..skipped.clone() }).collect();
        let listed = unfinished(&trials);
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].what, "dirops on reiserfs, seeds 1, 2, 3");
    }
}
