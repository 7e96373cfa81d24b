//! `fsdyno study`: runs the study runs one after the other, and judges the claims.

mod args;
mod check;
mod end;
mod seeds;
mod study_run;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use fsdyno_campaign::speed::{Estimate, Speeds};
use fsdyno_campaign::{Store, Summary};
use fsdyno_record::suggest;
use fsdyno_report::{Format, counted};
use fsdyno_study::file::{StudyFile, catalog, read_text};
use fsdyno_study::stored;
use serde_json::json;

pub use args::Study;
pub use end::{folder_of, report};
use study_run::{StudyRun, selects};

use crate::cli::{Cli, Command};
use crate::exit::{Exit, Failure};
use crate::output::{self, say};
use crate::{session, stop};
use fsdyno_campaign::experiment::{open, skipped};
use fsdyno_campaign::labs::{self, Mode};
use fsdyno_campaign::target;
use fsdyno_campaign::{Session, Venues, dry_run, leftovers};

/// Runs the command.
pub fn run(study: &Study) -> Result<Exit, Failure> {
    if let Some(count) = study.check {
        return check::run(study, count as usize);
    }
    if let Some(kernels) = labs::expand_kernels(&study.kernels)? {
        return run(&Study { kernels, ..study.clone() });
    }
    let (text, file) = named(&study.study)?;
    check_names(study, &file)?;
    if let Some(cpu) = &study.cpu {
        fsdyno_processor::parse(cpu).map_err(|error| Failure::wrong(format!("--cpu: {error}")))?;
    }
    let file = file
        .scaled(study.scale.unwrap_or(file.scale))
        .map_err(|error| Failure::wrong(error.to_string()))?;
    let folder = study.out.clone().unwrap_or_else(|| {
        let name = Path::new(&study.study).file_stem().unwrap_or_default().to_string_lossy();
        target::default_folder(&format!("study-{name}"))
    });
    let mut runs = study_run::resolve(study, &file, &folder)?;
    stored::check(&folder, &text, &file)?;
    say_outside_lab(study, &runs);
    if study.dry_run {
        return dry(study, runs);
    }
    for run in &runs {
        target::check_permission(&run.experiment.requests)
            .map_err(|failure| run.locate(failure))?;
    }
    let stop = stop::flag()?;
    let command = session::command();
    let session = session::of(&stop, &command);
    leftovers::offer();
    // The requirements of all runs are checked before the first one begins.
    let mut venues = Vec::new();
    for run in &mut runs {
        venues.push(ready(run, &session, Mode::Run)?.0);
    }
    say_skipped(&runs);
    stored::claim(&folder, &text, &file)?;
    let (mut sum, mut failed) = measure_all(&runs, &venues, &session, &stop);
    if failed.is_none() {
        match seeds::run(study, (&folder, &file), &runs, &venues, &session) {
            Ok(summary) => sum = sum.and(summary),
            Err(failure) => failed = Some(failure),
        }
    }
    // The stored trials are shown even after a failure, which is returned first.
    let shown = end::show(&folder, &file, study.format);
    if let Some(failure) = failed {
        return Err(failure);
    }
    shown?;
    Ok(session::exit(&stop, &sum, &folder))
}

/// Notes the options that do not apply to runs outside of the lab.
fn say_outside_lab(study: &Study, runs: &[StudyRun]) {
    let outside = study_run::outside_lab(runs);
    for (option, given) in [("--kernel", !study.kernels.is_empty()), ("--cpu", study.cpu.is_some())]
    {
        if given && !outside.is_empty() {
            say(&format!("fsdyno: {option} does not apply to {}", outside.join(", ")));
        }
    }
}

/// Runs the study runs, one after the other, until all have run, one fails, or the user stops them.
fn measure_all(
    runs: &[StudyRun],
    venues: &[Venues],
    session: &Session<'_>,
    stop: &AtomicBool,
) -> (Summary, Option<Failure>) {
    let mut sum = Summary::default();
    let count = runs.len();
    for (at, (run, venues)) in runs.iter().zip(venues).enumerate() {
        if stop.load(Ordering::Relaxed) {
            sum.left += run.trials();
            continue;
        }
        say(&format!("fsdyno: study run {} of {count}: {}", at + 1, run.title()));
        match measure(run, venues, session) {
            Ok(summary) => sum = sum.and(summary),
            Err(failure) => return (sum, Some(run.locate(failure))),
        }
    }
    (sum, None)
}

/// Finds the requirements of a study run. If none of its trials can run, they are stored as skipped, and other runs
/// continue.
fn ready(
    run: &mut StudyRun,
    session: &Session<'_>,
    mode: Mode,
) -> Result<(Venues, Option<Failure>), Failure> {
    let (folder, rows) = (run.folder.clone(), run.rows.clone());
    let found = Store::look(&folder).map_err(Failure::from).and_then(|stored| {
        let selected = |label: &str| selects(&rows, label);
        run.experiment.ready_selected(&folder, &stored, session, mode, &selected)
    });
    found.map_err(|failure| run.locate(failure))
}

/// Reports the skipped file systems of all runs, each once, with the reason.
fn say_skipped(runs: &[StudyRun]) {
    let mut reported: Vec<String> = Vec::new();
    for line in runs.iter().flat_map(|run| skipped(&run.experiment.cells)) {
        if !reported.contains(&line) {
            say(&line);
            reported.push(line);
        }
    }
}

fn measure(run: &StudyRun, venues: &Venues, session: &Session<'_>) -> Result<Summary, Failure> {
    let mut store = open(&run.folder)?;
    run.experiment.go(venues, &run.experiment.schedule(), &mut store, session)
}

/// Prints what would run, and last any requirement that this host lacks.
fn dry(study: &Study, mut runs: Vec<StudyRun>) -> Result<Exit, Failure> {
    if !matches!(study.format, Format::Text | Format::Json) {
        return Err(Failure::wrong("--dry-run takes --format text or json"));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let command = session::command();
    let session = session::of(&stop, &command);
    let mut missing = None;
    let (mut text, mut values) = (String::new(), Vec::new());
    for run in &mut runs {
        target::check_permission(&run.experiment.requests)
            .map_err(|failure| run.locate(failure))?;
        match ready(run, &session, Mode::Dry) {
            Ok((_, none)) => {
                let lacks = none.filter(|failure| failure.exit == Exit::Missing);
                missing = missing.or(lacks);
            }
            Err(failure) if failure.exit == Exit::Missing => missing = missing.or(Some(failure)),
            Err(failure) => return Err(failure),
        }
        let schedule = run.experiment.schedule();
        let drives = dry_run::Drives::new();
        let mut value = dry_run::value(&run.experiment.cells, &schedule, &drives);
        value["run"] = json!(run.name);
        value["as"] = json!(run.variant.name());
        values.push(value);
        text.push_str(&format!("{}:\n", run.title()));
        text.push_str(&dry_run::text(&run.experiment.cells, &schedule, &drives));
        text.push('\n');
    }
    say_skipped(&runs);
    match study.format {
        Format::Json => output::json(&values)?,
        _ => {
            let trials: usize = runs.iter().map(StudyRun::trials).sum();
            let (trials, count) = (counted(trials, "trial"), counted(runs.len(), "run"));
            let more = seeds::dry(study, &runs).unwrap_or_default();
            let time = match estimate(&runs) {
                Some(estimate) => format!("time: {estimate}"),
                None => "time: not known before the first such trial on this machine".into(),
            };
            output::data(&format!("{text}{trials} in {count}\n{time}\n{more}"))?;
        }
    }
    missing.map_or(Ok(Exit::Good), Err)
}

/// The time of all trials on this machine, if trials of each kind ran here.
fn estimate(runs: &[StudyRun]) -> Option<Estimate> {
    let speeds = Speeds::load();
    let of_run = |run: &StudyRun| {
        let schedule = run.experiment.schedule();
        let cells = schedule.iter().filter_map(|slot| run.experiment.cells.get(slot.cell));
        speeds.estimate(cells, usize::from(run.experiment.spec.jobs))
    };
    let all: Option<Vec<Estimate>> = runs.iter().map(of_run).collect();
    let sum = |a: Estimate, b: Estimate| Estimate {
        time: a.time + b.time,
        trials: a.trials.min(b.trials),
    };
    all?.into_iter().reduce(sum)
}

/// The time of a study that comes with fsdyno, if it is known.
pub fn time_of(name: &str) -> Option<Estimate> {
    let words = ["fsdyno", "study", name];
    let Ok(Cli { command: Command::Study(study), .. }) = Cli::try_parse_from(words) else {
        return None;
    };
    let runs = study_run::resolve(&study, &built_in(name).ok()?, Path::new("unused")).ok()?;
    estimate(&runs)
}

/// Reads and parses a study: one that comes with fsdyno, or a study file.
///
/// # Errors
/// An unknown name, or an invalid study file.
pub fn named(name: &str) -> Result<(String, StudyFile), Failure> {
    let folder = Path::new(name);
    if catalog::text(name).is_err() && folder.join(stored::FILE).is_file() {
        return Err(Failure::wrong(format!(
            "'{0}' is the folder of a study; to report it: fsdyno report {0}; to repeat some trials: --check N; to \
             repeat all of it: fsdyno study {0}/{1}",
            folder.display(),
            stored::FILE
        )));
    }
    let own = name.contains('/') || name.ends_with(".toml");
    if !own {
        let text = catalog::text(name).map_err(|error| Failure::wrong(error.to_string()))?;
        return Ok((text.to_string(), built_in(name)?));
    }
    let text = read_text(name).map_err(|error| Failure::wrong(error.to_string()))?;
    let file = StudyFile::parse(name, &text).map_err(|error| Failure::wrong(error.to_string()))?;
    Ok((text, file))
}

/// Parses a study that comes with fsdyno.
///
/// # Errors
/// An unknown name.
pub fn built_in(name: &str) -> Result<StudyFile, Failure> {
    let text = catalog::text(name).map_err(|error| Failure::wrong(error.to_string()))?;
    StudyFile::parse(catalog::file_name(name), text)
        .map_err(|error| Failure::wrong(error.to_string()))
}

/// Checks that the study has the runs and conditions given with --only and --as.
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
            return Err(Failure::wrong(format!("--only {only} is given twice")));
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
            Err(Failure::wrong(format!("--as {variant}: no selected run has these conditions")))
        }
    }
}
