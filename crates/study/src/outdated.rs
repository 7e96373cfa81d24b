//! Stored trials that cannot be repeated, because this fsdyno forms other commands for their file system: a command
//! never comes from a file.

use std::collections::BTreeMap;

use fsdyno_filesystem::{Context, Spec, catalog, period};
use fsdyno_record::quote::short;
use fsdyno_record::{Plan, Trial};
use fsdyno_report::counted;
use fsdyno_venue::Commands;

/// A version line that is newer than every tool, so that the commands have all options of the catalog.
const NEWEST: &str = "tool 99.0";

/// The trials that cannot be repeated, by the difference of their commands.
#[derive(Debug, Default)]
pub struct Outdated {
    /// The difference of each plan, by its hash; `None` if its trials can be repeated.
    differences: BTreeMap<String, Option<String>>,
    trials: BTreeMap<String, Examples>,
}

/// Trials with one difference.
#[derive(Debug)]
struct Examples {
    /// The title of the first one.
    first: String,
    /// The fsdyno that stored it.
    program: String,
    count: usize,
}

impl Outdated {
    /// Returns true if a trial cannot be repeated, and counts it.
    pub fn has(&mut self, trial: &Trial, title: &str) -> bool {
        let plan = &trial.plan;
        let known = self.differences.entry(plan.hash.clone());
        let Some(difference) = known.or_insert_with(|| difference(plan)) else { return false };
        let first = || Examples { first: title.to_string(), program: trial.program(), count: 0 };
        self.trials.entry(difference.clone()).or_insert_with(first).count += 1;
        true
    }

    /// Returns a sentence for each difference.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |(difference, trials): (&String, &Examples)| {
            format!(
                "not repeated: {}, such as {}: {difference} (stored by fsdyno {}); a command never comes from a file: \
                 repeat them with that fsdyno, or run the study again",
                counted(trials.count, "trial"),
                trials.first,
                trials.program
            )
        };
        self.trials.iter().map(sentence).collect()
    }
}

/// Returns how the mkfs line of a trial in the lab differs from the one that this fsdyno forms; `None` if it does not. A
/// plan with another fault is refused when it is repeated.
fn difference(plan: &Plan) -> Option<String> {
    plan.lab()?;
    Commands::derive(plan).err()?;
    changed_arguments(plan)
}

/// Returns the arguments in which the stored mkfs line of a plan in the lab differs from that of this fsdyno.
fn changed_arguments(plan: &Plan) -> Option<String> {
    let stored = plan.filesystem.as_ref()?;
    let spec = Spec::parse(&stored.spec).ok()?;
    let kind = catalog::get(&spec.kind).ok()?;
    let period = stored.period.as_deref().map(period::get).transpose().ok()?;
    let size = plan.medium.size().unwrap_or_default();
    let settings = period.and_then(|period| period.settings_for(&spec.kind, size));
    let context = Context::of_lab(plan.medium.raid());
    // The plan does not have the version of its mkfs, which decides on some options.
    let lines = [None, Some(NEWEST)].into_iter().filter_map(|tool| {
        Some(kind.plan_for_period(&spec, context, tool, settings.as_ref()).ok()?.mkfs)
    });
    let changes = lines.map(|line| (without(&line, &stored.mkfs), without(&stored.mkfs, &line)));
    let (added, omitted) = changes.min_by_key(|(added, omitted)| added.len() + omitted.len())?;
    let parts =
        [("lacks", added, "which this fsdyno adds"), ("has", omitted, "which this fsdyno omits")];
    let parts = parts.into_iter().filter(|(_, arguments, _)| !arguments.is_empty());
    let parts: Vec<String> = parts
        .map(|(verb, arguments, which)| format!("{verb} {}, {which}", short(&arguments.join(" "))))
        .collect();
    (!parts.is_empty()).then(|| format!("its mkfs line {}", parts.join(", and ")))
}

/// Returns the arguments of a command that another one lacks; the parts of a list are arguments of their own.
fn without(command: &[String], other: &[String]) -> Vec<String> {
    let parts = |command: &[String]| -> Vec<String> {
        command.iter().flat_map(|word| word.split(',')).map(String::from).collect()
    };
    let other = parts(other);
    parts(command).into_iter().filter(|part| !other.contains(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a stored trial on ext4 in the lab.
    fn stored() -> Trial {
        let results = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../results/2026-11-22-guenter-2008/today/tarball"
        );
        let trials = fsdyno_report::load([results]).unwrap().trials;
        trials.into_iter().find(|trial| trial.plan.label == "ext4-256").unwrap()
    }

    /// Returns the trial with the commands of this fsdyno.
    fn current() -> Trial {
        let mut trial = stored();
        let plan = trial.plan.filesystem.as_mut().unwrap();
        let (spec, context) = (Spec::parse(&plan.spec).unwrap(), Context::Lab);
        let kind = catalog::get(&spec.kind).unwrap();
        *plan = kind.plan(&spec, context, Some(NEWEST)).unwrap();
        trial
    }

    fn difference_after(change: &dyn Fn(&mut Vec<String>)) -> Option<String> {
        let mut trial = current();
        change(&mut trial.plan.filesystem.as_mut().unwrap().mkfs);
        difference(&trial.plan)
    }

    fn replace(mkfs: &mut [String], from: &str, to: &str) {
        mkfs.iter_mut().for_each(|word| *word = word.replace(from, to));
    }

    #[test]
    fn the_arguments_that_differ_are_named() {
        assert_eq!(difference_after(&|_| ()), None);
        // It is an option of newer tools only: both lines are those of this fsdyno.
        let older_tool = |mkfs: &mut Vec<String>| replace(mkfs, ",assume_storage_prezeroed=1", "");
        assert_eq!(difference_after(&older_tool), None);
        let lacks = difference_after(&|mkfs| replace(mkfs, ",stripe_width=0", ""));
        let expected = "its mkfs line lacks stripe_width=0, which this fsdyno adds";
        assert_eq!(lacks.as_deref(), Some(expected));
        let has = difference_after(&|mkfs| replace(mkfs, "nodiscard", "nodiscard,old=1"));
        let expected = "its mkfs line has old=1, which this fsdyno omits";
        assert_eq!(has.as_deref(), Some(expected));
        let mut checked = current();
        checked.plan.filesystem.as_mut().unwrap().check.push("-x".into());
        assert_eq!(difference(&checked.plan), None, "it is refused when it is repeated");
        assert!(Commands::derive(&checked.plan).is_err());
    }

    #[test]
    fn a_stored_trial_of_an_older_program_is_counted_with_its_program() {
        let (trial, mut outdated) = (stored(), Outdated::default());
        assert!(outdated.has(&trial, "tarball as today, ext4, seed 1"));
        assert!(outdated.has(&trial, "tarball as today, ext4, seed 2"));
        assert!(!outdated.has(&Trial { plan: current().plan.with_hash(), ..trial }, "other"));
        let sentences = outdated.sentences();
        assert_eq!(sentences.len(), 1, "{sentences:?}");
        let start = "not repeated: 2 trials, such as tarball as today, ext4, seed 1: its mkfs line lacks \
                     stripe_width=0, which this fsdyno adds (stored by fsdyno 0.1.0";
        assert!(sentences[0].starts_with(start), "{sentences:?}");
    }
}
