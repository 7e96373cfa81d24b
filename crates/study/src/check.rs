//! Repeats short trials of a stored study and compares the results.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsdyno_campaign::notes::say;
use fsdyno_campaign::{Exit, Failure, rerun, stop};
use fsdyno_record::build::{self, Build};
use fsdyno_record::trial::Outcome;
use fsdyno_record::{Nanos, Trial};
use fsdyno_report::{counted, percent};
use fsdyno_venue::{Identity, LabVenue, ModelVenue, Venue, Watch};

use crate::file::StudyFile;
use crate::outdated::Outdated;
use crate::repetition::{Repetition, TOLERANCE};
use crate::request::StudyRequest;
use crate::runs::check_names;
use crate::stored;

/// A stored trial, and its title in the output.
struct StoredTrial {
    title: String,
    trial: Trial,
}

/// Repeats the `count` shortest trials of a stored study, and prints a line for each; returns the worst exit code of
/// these trials. Trials whose commands this fsdyno no longer forms are named and not repeated.
///
/// # Errors
/// A folder that is not a study's or has no reproducible trial; a missing requirement.
pub fn run(
    study: &StudyRequest,
    count: usize,
    build: Option<&Build>,
    print: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let folder = Path::new(&study.study);
    if !folder.join(stored::FILE).is_file() {
        return Err(Failure::invalid_use(format!(
            "'{}' has no {}; --check needs the folder of a study, such as results/2026-11-22-guenter-2008",
            folder.display(),
            stored::FILE
        )));
    }
    let (_, file) = stored::read(folder)?;
    check_names(study, &file)?;
    let (total, selected, outdated) = shortest(folder, &file, study, count)?;
    for line in outdated.sentences() {
        print(&format!("{line}\n"))?;
    }
    let elapsed = selected.iter().map(|stored| stored.trial.host.elapsed_ns.0);
    let elapsed = elapsed.fold(0, u64::saturating_add);
    say(&format!(
        "fsdyno: repeating the shortest {} of {}, which took {} when they were stored",
        counted(selected.len(), "trial"),
        total,
        Nanos(elapsed)
    ));
    let stop = stop::flag()?;
    let venues = Venues::of(&selected, study, &stop)?;
    // A trial that is not repeated has not been confirmed.
    let mut exit = match outdated.sentences().is_empty() {
        true => Exit::Success,
        false => Exit::NegativeVerdict,
    };
    for stored in &selected {
        let (line, trial_exit) = venues.check(stored, build, &stop)?;
        print(&format!("{}: {line}\n", stored.title))?;
        exit = worse(exit, trial_exit);
    }
    Ok(exit)
}

/// Returns the worse of two exit codes: a failed trial is worse than one that differs.
fn worse(a: Exit, b: Exit) -> Exit {
    if b as u8 > a as u8 { b } else { a }
}

/// Returns the number of selected reproducible trials of the study, the shortest of them by the stored host time, and
/// those that cannot be repeated, which are not among them.
fn shortest(
    folder: &Path,
    file: &StudyFile,
    study: &StudyRequest,
    count: usize,
) -> Result<(usize, Vec<StoredTrial>, Outdated), Failure> {
    let selects = |names: &[String], name: &String| names.is_empty() || names.contains(name);
    let mut found = Vec::new();
    for result in stored::results(folder, file)? {
        let (run, variant) = (&result.run, result.variant);
        if !selects(&study.only, run) || study.variant.is_some_and(|only| only != variant) {
            continue;
        }
        let is_reproducible =
            |trial: &Trial| trial.outcome == Outcome::Ok && trial.is_bit_identical();
        for trial in result.trials.into_iter().filter(is_reproducible) {
            if selects(&study.fs, &trial.plan.label) {
                let (label, seed) = (&trial.plan.label, trial.seed);
                let title = format!("{run} {}, {label}, seed {seed}", variant.words());
                found.push(StoredTrial { title, trial });
            }
        }
    }
    if found.is_empty() {
        return Err(Failure::invalid_use(format!(
            "'{}' has no selected trial in the lab or the model that succeeded; other trials are not reproducible",
            folder.display()
        )));
    }
    let mut outdated = Outdated::default();
    found.retain(|stored| !outdated.has(&stored.trial, &stored.title));
    if found.is_empty() {
        let sentences = outdated.sentences().join("; ");
        return Err(Failure::invalid_use(format!("'{}': {sentences}", folder.display())));
    }
    found.sort_by_key(|stored| stored.trial.host.elapsed_ns);
    let total = found.len();
    found.truncate(count);
    Ok((total, found, outdated))
}

/// The venues of the trials: the model, and the lab if a trial needs it.
struct Venues(Option<LabVenue>);

impl Venues {
    fn of(
        selected: &[StoredTrial],
        study: &StudyRequest,
        stop: &Arc<AtomicBool>,
    ) -> Result<Venues, Failure> {
        let trials =
            selected.iter().map(|stored| &stored.trial).filter(|trial| trial.plan.lab().is_some());
        if trials.clone().next().is_none() {
            return Ok(Venues(None));
        }
        rerun::find_venue(trials, &study.kernels, stop).map(|venue| Venues(Some(venue)))
    }

    fn venue(&self, trial: &Trial) -> &dyn Venue {
        match (trial.plan.in_lab(), &self.0) {
            (true, Some(lab)) => lab,
            _ => &ModelVenue,
        }
    }

    /// Repeats a trial. Returns the result as text and as an exit code.
    fn check(
        &self,
        stored: &StoredTrial,
        build: Option<&Build>,
        stop: &AtomicBool,
    ) -> Result<(String, Exit), Failure> {
        let trial = &stored.trial;
        let repeated = self.venue(trial).run(&rerun::job(trial), &mut |_| {
            if stop.load(Ordering::Relaxed) { Watch::Stop } else { Watch::GoOn }
        })?;
        let differing = repeated
            .identity
            .as_ref()
            .map_or_else(Vec::new, |identity| lab_changes(identity, trial));
        if repeated.report.outcome != Outcome::Ok {
            let reason = repeated.report.reason.unwrap_or_default();
            return Ok((
                format!("failed: {reason}{}", lab_difference(trial, build, &differing)),
                Exit::TrialFailed,
            ));
        }
        let repetition = Repetition::of(&trial.measured, &repeated.report.measured);
        Ok(verdict(&repetition, (trial, build), &differing))
    }
}

/// Returns the components of the lab identity that differ. There are none for the same lab.
fn lab_changes(identity: &Identity, trial: &Trial) -> Vec<String> {
    match Some(&identity.lab_id) == trial.lab_id.as_ref() {
        true => Vec::new(),
        false => rerun::differing_components(identity, trial),
    }
}

/// Returns the verdict on a repeated trial.
fn verdict(
    repetition: &Repetition,
    (trial, build): (&Trial, Option<&Build>),
    differing: &[String],
) -> (String, Exit) {
    let (sentence, exit) = match repetition {
        Repetition::Identical => ("bit-identical".to_string(), Exit::Success),
        // Under one lab identity, trials are bit-identical.
        other if differing.is_empty() => {
            let difference = match other {
                Repetition::Different(difference) => difference.clone(),
                _ => "not bit-identical to the stored trial".into(),
            };
            return (format!("DIFFERENT under one lab identity: {difference}"), Exit::TrialFailed);
        }
        Repetition::Same(fraction) => {
            (format!("same requests, times within {}", round_up(*fraction)), Exit::Success)
        }
        Repetition::Different(difference) => {
            (format!("DIFFERENT: {difference}"), Exit::NegativeVerdict)
        }
    };
    (format!("{sentence}{}", lab_difference(trial, build, differing)), exit)
}

/// Formats a fraction as a percentage, rounded up.
fn round_up(fraction: f64) -> String {
    percent((fraction * 1e4).ceil().clamp(1.0, TOLERANCE * 1e4) / 1e4)
}

/// Describes how this lab differs from that of the stored trial, and names the fsdyno version of each.
fn lab_difference(trial: &Trial, build: Option<&Build>, differing: &[String]) -> String {
    if differing.is_empty() {
        return String::new();
    }
    let program = build::program(env!("CARGO_PKG_VERSION"), build);
    let stored_program = match &trial.host.build {
        Some(_) => trial.program(),
        None => format!("{} of an unknown commit", trial.version),
    };
    format!(
        "; lab identity differs in {} (stored by fsdyno {stored_program}, this is {program})",
        differing.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Trial {
        let results = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../results/2026-11-22-phillips-2001/as-it-stands/model-reverse"
        );
        fsdyno_report::load([results]).unwrap().trials.remove(0)
    }

    #[test]
    fn the_verdict_names_what_is_reproduced_and_how_the_lab_identity_differs() {
        let trial = stored();
        let summary = |repetition, differ: &[&str]| {
            let differ: Vec<String> = differ.iter().map(ToString::to_string).collect();
            verdict(&repetition, (&trial, None), &differ)
        };
        assert_eq!(
            summary(Repetition::Identical, &[]),
            ("bit-identical".to_string(), Exit::Success)
        );
        let (text, exit) = summary(Repetition::Same(0.00032), &["agent", "initramfs"]);
        let expected_start = "same requests, times within 0.04 %; lab identity differs in agent, initramfs (stored by \
                     fsdyno 0.1.0 of an unknown commit, this is ";
        assert!(text.starts_with(expected_start) && exit == Exit::Success, "{text}");
        let (text, exit) = summary(Repetition::Different("more".into()), &["kernel"]);
        assert!(text.starts_with("DIFFERENT: more; lab identity differs in kernel"), "{text}");
        assert_eq!(exit, Exit::NegativeVerdict);
        // Any difference under one lab identity is a fault of the lab.
        for other in [Repetition::Same(0.0), Repetition::Different("more".into())] {
            let (text, exit) = summary(other, &[]);
            assert!(text.starts_with("DIFFERENT under one lab identity: "), "{text}");
            assert_eq!(exit, Exit::TrialFailed);
        }
    }
}
