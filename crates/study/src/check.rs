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
use crate::repetition::{Repetition, TOLERANCE};
use crate::request::StudyRequest;
use crate::runs::check_names;
use crate::stored;

/// A trial, and its name in its study.
struct Stored {
    title: String,
    trial: Trial,
}

/// Repeats the `count` shortest trials of a stored study, and prints a line for each; returns the worst exit code of
/// these trials.
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
    let (all, chosen) = cheapest(folder, &file, study, count)?;
    let took: u64 = chosen.iter().map(|it| it.trial.host.elapsed_ns.0).sum();
    say(&format!(
        "fsdyno: repeating the shortest {} of {}, which took {} when they were stored",
        counted(chosen.len(), "trial"),
        all,
        Nanos(took)
    ));
    let stop = stop::flag()?;
    let venues = Venues::of(&chosen, study, &stop)?;
    let mut exit = Exit::Success;
    for stored in &chosen {
        let (line, one) = venues.check(stored, build, &stop)?;
        print(&format!("{}: {line}\n", stored.title))?;
        exit = worse(exit, one);
    }
    Ok(exit)
}

/// Returns the worse of two exit codes: a failed trial is worse than one that differs.
fn worse(one: Exit, other: Exit) -> Exit {
    if other as u8 > one as u8 { other } else { one }
}

/// Returns the number of selected reproducible trials of the study, and the shortest of them by the stored host time.
fn cheapest(
    folder: &Path,
    file: &StudyFile,
    study: &StudyRequest,
    count: usize,
) -> Result<(usize, Vec<Stored>), Failure> {
    let takes = |names: &[String], name: &String| names.is_empty() || names.contains(name);
    let mut all = Vec::new();
    for result in stored::results(folder, file)? {
        let (run, variant) = (&result.run, result.variant);
        if !takes(&study.only, run) || study.variant.is_some_and(|it| it != variant) {
            continue;
        }
        let repeats = |trial: &Trial| trial.outcome == Outcome::Ok && trial.is_bit_identical();
        for trial in result.trials.into_iter().filter(repeats) {
            if takes(&study.fs, &trial.plan.label) {
                let (label, seed) = (&trial.plan.label, trial.seed);
                let title = format!("{run} {}, {label}, seed {seed}", variant.words());
                all.push(Stored { title, trial });
            }
        }
    }
    if all.is_empty() {
        return Err(Failure::invalid_use(format!(
            "'{}' has no selected trial of the lab or the model that succeeded; others are not reproducible",
            folder.display()
        )));
    }
    all.sort_by_key(|it| it.trial.host.elapsed_ns);
    let found = all.len();
    all.truncate(count);
    Ok((found, all))
}

/// The venues of the trials: the model, and the lab if a trial needs it.
struct Venues(Option<LabVenue>);

impl Venues {
    fn of(
        chosen: &[Stored],
        study: &StudyRequest,
        stop: &Arc<AtomicBool>,
    ) -> Result<Venues, Failure> {
        let trials = chosen.iter().map(|it| &it.trial).filter(|trial| trial.plan.lab().is_some());
        if trials.clone().next().is_none() {
            return Ok(Venues(None));
        }
        rerun::venue(trials, &study.kernels, stop).map(|venue| Venues(Some(venue)))
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
        stored: &Stored,
        build: Option<&Build>,
        stop: &AtomicBool,
    ) -> Result<(String, Exit), Failure> {
        let trial = &stored.trial;
        let ran = self.venue(trial).run(&rerun::job(trial), &mut |_| {
            if stop.load(Ordering::Relaxed) { Watch::Stop } else { Watch::GoOn }
        })?;
        let differ = ran.identity.as_ref().map_or_else(Vec::new, |here| differing(here, trial));
        if ran.report.outcome != Outcome::Ok {
            let reason = ran.report.reason.unwrap_or_default();
            return Ok((
                format!("failed: {reason}{}", because(trial, build, &differ)),
                Exit::TrialFailed,
            ));
        }
        let repetition = Repetition::of(&trial.measured, &ran.report.measured);
        Ok(verdict(&repetition, (trial, build), &differ))
    }
}

/// Returns the components of the lab identity that differ; none for the same lab.
fn differing(here: &Identity, trial: &Trial) -> Vec<String> {
    match Some(&here.lab_id) == trial.lab_id.as_ref() {
        true => Vec::new(),
        false => rerun::differing_components(here, trial),
    }
}

/// Returns the verdict on a repeated trial.
fn verdict(
    repetition: &Repetition,
    (trial, build): (&Trial, Option<&Build>),
    differ: &[String],
) -> (String, Exit) {
    let (words, exit) = match repetition {
        Repetition::Identical => ("bit-identical".to_string(), Exit::Success),
        // Under one lab identity, trials are bit-identical.
        other if differ.is_empty() => {
            let how = match other {
                Repetition::Different(how) => how.clone(),
                _ => "not bit-identical to the stored trial".into(),
            };
            return (format!("DIFFERENT under one lab identity: {how}"), Exit::TrialFailed);
        }
        Repetition::Same(part) => {
            (format!("same requests, times within {}", at_most(*part)), Exit::Success)
        }
        Repetition::Different(how) => (format!("DIFFERENT: {how}"), Exit::NegativeVerdict),
    };
    (format!("{words}{}", because(trial, build, differ)), exit)
}

/// Formats a fraction as a percentage, rounded up.
fn at_most(part: f64) -> String {
    percent((part * 1e4).ceil().clamp(1.0, TOLERANCE * 1e4) / 1e4)
}

/// Describes how this lab differs from that of the stored trial, and names the fsdyno version of each.
fn because(trial: &Trial, build: Option<&Build>, differ: &[String]) -> String {
    if differ.is_empty() {
        return String::new();
    }
    let here = build::program(env!("CARGO_PKG_VERSION"), build);
    let there = match &trial.host.build {
        Some(_) => trial.program(),
        None => format!("{} of an unknown commit", trial.version),
    };
    format!(
        "; lab identity differs in {} (stored by fsdyno {there}, this is {here})",
        differ.join(", ")
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
        let of = |repetition, differ: &[&str]| {
            let differ: Vec<String> = differ.iter().map(ToString::to_string).collect();
            verdict(&repetition, (&trial, None), &differ)
        };
        assert_eq!(of(Repetition::Identical, &[]), ("bit-identical".to_string(), Exit::Success));
        let (text, exit) = of(Repetition::Same(0.00032), &["agent", "initramfs"]);
        let begin = "same requests, times within 0.04 %; lab identity differs in agent, initramfs (stored by \
                     fsdyno 0.1.0 of an unknown commit, this is ";
        assert!(text.starts_with(begin) && exit == Exit::Success, "{text}");
        let (text, exit) = of(Repetition::Different("more".into()), &["kernel"]);
        assert!(text.starts_with("DIFFERENT: more; lab identity differs in kernel"), "{text}");
        assert_eq!(exit, Exit::NegativeVerdict);
        // Any difference under one lab identity is a fault of the lab.
        for other in [Repetition::Same(0.0), Repetition::Different("more".into())] {
            let (text, exit) = of(other, &[]);
            assert!(text.starts_with("DIFFERENT under one lab identity: "), "{text}");
            assert_eq!(exit, Exit::TrialFailed);
        }
    }
}
