//! The study runs of a request: resolved, checked, and run one after the other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use fsdyno_campaign::boots::missing as missing_snapshots;
use fsdyno_campaign::experiment::{open, skipped};
use fsdyno_campaign::labs::Mode;
use fsdyno_campaign::notes::say;
use fsdyno_campaign::speed::{Estimate, Speeds};
use fsdyno_campaign::{Exit, Failure, Session, Store, Summary, Venues, dry_run, leftovers, target};
use fsdyno_record::suggest;
use fsdyno_report::counted;
use serde_json::{Value, json};

use crate::file::{self, StudyFile};
use crate::named::{built_in, find_study};
use crate::request::StudyRequest;
use crate::so_far::SoFar;
use crate::study_run::{self, StudyRun, selects};
use crate::{seeds, stored};

/// The study runs of a request.
pub struct Runs {
    request: StudyRequest,
    text: String,
    /// The study, at the requested scale.
    pub file: StudyFile,
    /// The result folder.
    pub folder: PathBuf,
    runs: Vec<StudyRun>,
}

/// The trials that a request would run.
pub struct Planned {
    /// The output as text.
    pub text: String,
    /// The output as JSON: a value for each run.
    pub values: Vec<Value>,
    /// The first requirement that this host lacks.
    pub missing: Option<Failure>,
}

impl Runs {
    /// Resolves a request, and checks all of it and its folder.
    ///
    /// # Errors
    /// The first value that is invalid, with its position in the study file; a folder with other results.
    pub fn resolve(request: StudyRequest) -> Result<Runs, Failure> {
        let (text, file) = find_study(&request.study)?;
        check_names(&request, &file)?;
        if let Some(cpu) = &request.cpu {
            fsdyno_processor::parse(cpu)
                .map_err(|error| Failure::invalid_use(format!("--cpu: {error}")))?;
        }
        let file = file.scaled(request.scale.unwrap_or(file.scale), &request.only)?;
        let folder = request.out.clone().unwrap_or_else(|| {
            let name = Path::new(&request.study).file_stem().unwrap_or_default();
            target::default_folder(&format!("study-{}", name.to_string_lossy()))
        });
        let runs = study_run::resolve(&request, &file, &folder)?;
        stored::check(&folder, &text, &file)?;
        report_ignored_options(&request, &runs);
        Ok(Runs { request, text, file, folder, runs })
    }

    /// Checks that this process may create the requested devices.
    ///
    /// # Errors
    /// A missing permission or tool.
    pub fn check_permission(&self) -> Result<(), Failure> {
        self.runs.iter().try_for_each(|run| {
            target::check_permission(&run.experiment.requests)
                .map_err(|failure| run.locate(failure))
        })
    }

    /// Runs all study runs until one fails or the user stops them; the failure of a run is returned along with the
    /// summary of the trials before it.
    ///
    /// # Errors
    /// A missing requirement, before anything runs.
    pub fn measure(
        &mut self,
        session: &Session<'_>,
    ) -> Result<(Summary, Option<Failure>), Failure> {
        leftovers::report();
        // The requirements of all runs are checked before the first one begins.
        let mut venues = Vec::new();
        for run in &mut self.runs {
            venues.push(prepare(run, session, Mode::Run)?.0);
        }
        report_skipped(&self.runs);
        stored::create_or_resume(&self.folder, &self.text, &self.file)?;
        let source = (self.folder.as_path(), &self.file);
        let (sum, failed) = measure_all(&self.runs, &venues, session, source);
        if failed.is_some() {
            return Ok((sum, failed));
        }
        Ok(match seeds::run(&self.request, source, &self.runs, &venues, session) {
            Ok(more) => (sum.plus(more), None),
            Err(failure) => (sum, Some(failure)),
        })
    }

    /// Describes the trials that would run.
    ///
    /// # Errors
    /// The first error that a run would report before its first trial, except for missing requirements.
    pub fn plan(&mut self, session: &Session<'_>) -> Result<Planned, Failure> {
        let mut missing = None;
        let (mut text, mut values) = (String::new(), Vec::new());
        let mut guests = BTreeSet::new();
        for run in &mut self.runs {
            target::check_permission(&run.experiment.requests)
                .map_err(|failure| run.locate(failure))?;
            match prepare(run, session, Mode::Dry) {
                Ok((venues, failure)) => {
                    guests.extend(missing_snapshots(run.experiment.cells.iter(), &venues));
                    missing = missing.or(failure.filter(|failure| failure.exit == Exit::Missing));
                }
                Err(failure) if failure.exit == Exit::Missing => {
                    missing = missing.or(Some(failure));
                }
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
        report_skipped(&self.runs);
        let trials: usize = self.runs.iter().map(StudyRun::trials).sum();
        let (trials, count) = (counted(trials, "trial"), counted(self.runs.len(), "run"));
        let seed_note = seeds::dry_run_note(&self.request, &self.runs).unwrap_or_default();
        let time = match estimate(&self.runs) {
            Some(estimate) => {
                format!("time: {}", estimate.with_boots(Speeds::load().boots(guests.len())))
            }
            None => "time: not known before the first such trial on this machine".into(),
        };
        let text = format!("{text}{trials} in {count}\n{time}\n{seed_note}");
        Ok(Planned { text, values, missing })
    }
}

/// Notes the options that do not apply to runs outside the lab.
fn report_ignored_options(study: &StudyRequest, runs: &[StudyRun]) {
    let outside = study_run::outside_lab(runs);
    for (option, is_given) in
        [("--kernel", !study.kernels.is_empty()), ("--cpu", study.cpu.is_some())]
    {
        if is_given && !outside.is_empty() {
            say(&format!("fsdyno: {option} does not apply to {}", outside.join(", ")));
        }
    }
}

/// Runs the study runs, one after the other, until all have run, one fails, or the user stops them.
fn measure_all(
    runs: &[StudyRun],
    venues: &[Venues],
    session: &Session<'_>,
    (folder, file): (&Path, &StudyFile),
) -> (Summary, Option<Failure>) {
    let mut sum = Summary::default();
    let mut so_far = SoFar::new(folder, file);
    let count = runs.len();
    let is_stopped = || session.stop.load(Ordering::Relaxed);
    for (index, (run, venues)) in runs.iter().zip(venues).enumerate() {
        if is_stopped() {
            sum.left += run.trials();
            continue;
        }
        say(&format!("fsdyno: study run {} of {count}: {}", index + 1, run.title()));
        let begin = Instant::now();
        match measure(run, venues, session) {
            Ok(summary) => sum = sum.plus(summary),
            Err(failure) => return (sum, Some(run.locate(failure))),
        }
        // After the last run, all verdicts are shown.
        if index + 1 < count && !is_stopped() {
            so_far.say(begin.elapsed());
        }
    }
    (sum, None)
}

/// Finds the requirements of a study run. If none of its trials can run, they are stored as skipped, and other runs
/// continue.
fn prepare(
    run: &mut StudyRun,
    session: &Session<'_>,
    mode: Mode,
) -> Result<(Venues, Option<Failure>), Failure> {
    let (folder, rows) = (run.folder.clone(), run.rows.clone());
    let found = Store::read_trials(&folder).map_err(Failure::from).and_then(|stored| {
        let selected = |label: &str| selects(&rows, label);
        run.experiment.prepare_selected_venues(&folder, &stored, session, mode, &selected)
    });
    found.map_err(|failure| run.locate(failure))
}

/// Reports the skipped file systems of all runs, each once, with the reason.
fn report_skipped(runs: &[StudyRun]) {
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
    run.experiment.run_schedule(venues, &run.experiment.schedule(), &mut store, session)
}

/// Estimates the time of all trials on this machine, if trials of each kind have run here.
fn estimate(runs: &[StudyRun]) -> Option<Estimate> {
    let speeds = Speeds::load();
    let run_estimate = |run: &StudyRun| {
        let schedule = run.experiment.schedule();
        let cells = schedule.iter().filter_map(|slot| run.experiment.cells.get(slot.cell));
        speeds.estimate(cells, usize::from(run.experiment.spec.jobs))
    };
    let estimates: Option<Vec<Estimate>> = runs.iter().map(run_estimate).collect();
    let sum = |a: Estimate, b: Estimate| Estimate {
        time: a.time + b.time,
        trials: a.trials.min(b.trials),
        same_work: a.same_work && b.same_work,
        boots: a.boots + b.boots,
    };
    estimates?.into_iter().reduce(sum)
}

/// Estimates the time of a study that comes with fsdyno, if possible, as if no snapshot of a guest had been made yet.
pub fn time_of(name: &str) -> Option<Estimate> {
    let runs =
        study_run::resolve(&StudyRequest::of(name), &built_in(name).ok()?, Path::new("unused"))
            .ok()?;
    let estimate = estimate(&runs)?;
    let guests: BTreeSet<String> =
        runs.iter().flat_map(|run| run.experiment.needed_snapshots()).collect();
    Some(estimate.with_boots(Speeds::load().boots(guests.len())))
}

/// Checks that the study has the runs and conditions that are given with --only and --as.
pub(crate) fn check_names(study: &StudyRequest, file: &StudyFile) -> Result<(), Failure> {
    let names: Vec<&str> = file.runs.iter().map(|run| run.name.as_str()).collect();
    for (index, only) in study.only.iter().enumerate() {
        if !names.contains(&only.as_str()) {
            let hint = suggest::hint(only, names);
            return Err(Failure::invalid_use(format!(
                "--only {only}: the study has no such run; {hint}"
            )));
        }
        if study.only[..index].contains(only) {
            return Err(Failure::invalid_use(format!("--only {only} is given twice")));
        }
    }
    let is_selected = |run: &&file::Run| {
        let by_name = study.only.is_empty() || study.only.contains(&run.name);
        by_name && study.variant.is_none_or(|variant| run.serves(variant).is_some())
    };
    match file.runs.iter().any(|run| is_selected(&run)) {
        true => Ok(()),
        false => {
            let variant = study.variant.map(|variant| variant.name()).unwrap_or_default();
            Err(Failure::invalid_use(format!(
                "--as {variant}: no selected run has these conditions"
            )))
        }
    }
}
