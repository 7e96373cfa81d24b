//! `fsdyno study`: a study's runs, one after the other, and what came of its claims.

mod archive;
mod args;
mod check;
mod end;
mod leg;
mod seeds;
mod stored;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsdyno_record::suggest;
use fsdyno_report::{Format, counted};
use fsdyno_study::file::{StudyFile, catalog, read_text};
use fsdyno_study::{Store, Summary};
use serde_json::json;

pub use args::Study;
pub use end::{folder_of, report};
use leg::Leg;

use crate::commands::run::{again, found, go, open, skipped};
use crate::commands::{clean, dry_run, repeats};
use crate::exit::{Exit, Failure};
use crate::output::{self, say};
use crate::place::{self, Mode};
use crate::stop;
use crate::venues::Venues;

/// Does what was asked.
pub fn run(study: &Study) -> Result<Exit, Failure> {
    if let Some(count) = study.check {
        return check::run(study, count as usize);
    }
    let (text, file) = named(&study.study)?;
    check_names(study, &file)?;
    let file = file
        .scaled(study.scale.unwrap_or(file.scale))
        .map_err(|error| Failure::wrong(error.to_string()))?;
    let folder = study.out.clone().unwrap_or_else(|| {
        let name = Path::new(&study.study).file_stem().unwrap_or_default().to_string_lossy();
        place::default_folder(&format!("study-{name}"))
    });
    let mut legs = leg::legs(study, &file, &folder)?;
    stored::check(&folder, &text, &file)?;
    let outside = leg::outside(&legs);
    if !study.kernels.is_empty() && !outside.is_empty() {
        say(&format!("fsdyno: the kernel does not matter to {}", outside.join(", ")));
    }
    if study.dry_run {
        return dry(study, legs);
    }
    for leg in &legs {
        place::allowed(&leg.asked).map_err(|failure| leg.told(failure))?;
    }
    let stop = stop::flag()?;
    clean::offer();
    // All that any run needs is looked for before the first one begins.
    let mut venues = Vec::new();
    for leg in &mut legs {
        venues.push(ready(leg, &stop, Mode::Run)?.0);
    }
    say_skipped(&legs);
    stored::claim(&folder, &text, &file)?;
    let mut sum = Summary::default();
    let mut failed = None;
    let count = legs.len();
    for (at, (leg, venues)) in legs.iter().zip(&venues).enumerate() {
        if stop.load(Ordering::Relaxed) {
            sum.left += leg.trials();
            continue;
        }
        say(&format!("fsdyno: run {} of {count}: {}", at + 1, leg.called()));
        match measure(leg, venues, &stop) {
            Ok(summary) => sum = sum.and(summary),
            Err(failure) => {
                failed = Some(leg.told(failure));
                break;
            }
        }
    }
    if failed.is_none() {
        match seeds::run(study, (&folder, &file), &legs, &venues, &stop) {
            Ok(summary) => sum = sum.and(summary),
            Err(failure) => failed = Some(failure),
        }
    }
    // What is there is shown, however it ended; why it ended is the first thing to tell.
    let shown = end::show(&folder, &file, study.format);
    if let Some(failure) = failed {
        return Err(failure);
    }
    shown?;
    if stop.load(Ordering::Relaxed) && sum.left > 0 {
        say(&format!(
            "fsdyno: stopped with {} of {} to go; go on with:\n  {}",
            sum.left,
            counted(sum.trials(), "trial"),
            again(&folder)
        ));
        return Ok(Exit::Stopped);
    }
    Ok(if sum.failed > 0 { Exit::TrialFailed } else { Exit::Good })
}

/// Finds what a leg needs. One in which nothing can run stops no other: its trials are stored as skipped.
fn ready(
    leg: &mut Leg,
    stop: &Arc<AtomicBool>,
    mode: Mode,
) -> Result<(Venues, Option<Failure>), Failure> {
    let asked = leg.asked.clone();
    let mut cells = std::mem::take(&mut leg.cells);
    let found = Store::look(&leg.folder).map_err(Failure::from).and_then(|stored| {
        let is_asked = |label: &str| leg.takes(label);
        found(&leg.run, asked, &mut cells, &leg.folder, &stored, (stop, mode), &is_asked)
    });
    leg.cells = cells;
    found.map_err(|failure| leg.told(failure))
}

/// What is skipped in any leg, once, with its reason.
fn say_skipped(legs: &[Leg]) {
    let mut said: Vec<String> = Vec::new();
    for line in legs.iter().flat_map(|leg| skipped(&leg.cells)) {
        if !said.contains(&line) {
            say(&line);
            said.push(line);
        }
    }
}

fn measure(leg: &Leg, venues: &Venues, stop: &AtomicBool) -> Result<Summary, Failure> {
    let mut store = open(&leg.folder)?;
    let schedule = repeats::first(&leg.run, None, leg.cells.len());
    go(&leg.run, venues, &leg.cells, &schedule, &mut store, stop)
}

/// Says what would be run; where this host lacks something, that is told in the end.
fn dry(study: &Study, mut legs: Vec<Leg>) -> Result<Exit, Failure> {
    if !matches!(study.format, Format::Text | Format::Json) {
        return Err(Failure::wrong("--dry-run takes --format text or json"));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut missing = None;
    let (mut text, mut values) = (String::new(), Vec::new());
    for leg in &mut legs {
        place::allowed(&leg.asked).map_err(|failure| leg.told(failure))?;
        match ready(leg, &stop, Mode::Dry) {
            Ok((_, none)) => {
                let lacks = none.filter(|failure| failure.exit == Exit::Missing);
                missing = missing.or(lacks);
            }
            Err(failure) if failure.exit == Exit::Missing => missing = missing.or(Some(failure)),
            Err(failure) => return Err(failure),
        }
        let schedule = repeats::first(&leg.run, None, leg.cells.len());
        let drives = dry_run::Drives::new();
        let mut value = dry_run::value(&leg.cells, &schedule, &drives);
        value["run"] = json!(leg.name);
        value["as"] = json!(leg.variant.name());
        values.push(value);
        text.push_str(&format!("{}:\n", leg.called()));
        text.push_str(&dry_run::text(&leg.cells, &schedule, &drives));
        text.push('\n');
    }
    say_skipped(&legs);
    match study.format {
        Format::Json => output::json(&values)?,
        _ => {
            let trials: usize = legs.iter().map(Leg::trials).sum();
            let (trials, runs) = (counted(trials, "trial"), counted(legs.len(), "run"));
            let more = seeds::dry(study, &legs).unwrap_or_default();
            output::data(&format!("{text}{trials} in {runs}\n{more}"))?;
        }
    }
    missing.map_or(Ok(Exit::Good), Err)
}

/// The text of a study, and what it says: one that comes with fsdyno, or the user's own.
///
/// # Errors
/// That there is none of this name, or what is wrong with it.
pub fn named(typed: &str) -> Result<(String, StudyFile), Failure> {
    let folder = Path::new(typed);
    if catalog::text(typed).is_err() && folder.join(stored::FILE).is_file() {
        return Err(Failure::wrong(format!(
            "'{0}' is the folder of a study; show it with fsdyno report {0}, run trials of it again with --check N, or \
             all of it with fsdyno study {0}/{1}",
            folder.display(),
            stored::FILE
        )));
    }
    let own = typed.contains('/') || typed.ends_with(".toml");
    if !own {
        let text = catalog::text(typed).map_err(|error| Failure::wrong(error.to_string()))?;
        return Ok((text.to_string(), built_in(typed)?));
    }
    let text = read_text(typed).map_err(|error| Failure::wrong(error.to_string()))?;
    let file = StudyFile::parse(typed, &text).map_err(|error| Failure::wrong(error.to_string()))?;
    Ok((text, file))
}

/// A study that comes with fsdyno.
///
/// # Errors
/// That there is none of this name.
pub fn built_in(name: &str) -> Result<StudyFile, Failure> {
    let text = catalog::text(name).map_err(|error| Failure::wrong(error.to_string()))?;
    StudyFile::parse(catalog::file_name(name), text)
        .map_err(|error| Failure::wrong(error.to_string()))
}

/// Whether the runs and the conditions that were typed are some of the study's.
fn check_names(study: &Study, file: &StudyFile) -> Result<(), Failure> {
    let names: Vec<&str> = file.runs.iter().map(|run| run.name.as_str()).collect();
    for (at, only) in study.only.iter().enumerate() {
        if !names.contains(&only.as_str()) {
            let hint = suggest::hint(only, names);
            return Err(Failure::wrong(format!(
                "--only {only}: the study has no such run; {hint}"
            )));
        }
        if study.only[..at].contains(only) {
            return Err(Failure::wrong(format!("--only names {only} twice")));
        }
    }
    let has = |run: &&fsdyno_study::file::Run| {
        let wanted = study.only.is_empty() || study.only.contains(&run.name);
        wanted && study.variant.is_none_or(|variant| run.serves(variant).is_some())
    };
    match file.runs.iter().any(|run| has(&run)) {
        true => Ok(()),
        false => {
            let variant = study.variant.map(|it| it.name()).unwrap_or_default();
            Err(Failure::wrong(format!("--as {variant}: no run that is asked for is run so")))
        }
    }
}
