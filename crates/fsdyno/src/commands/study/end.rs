//! The output of a study: published tables next to measured ones, and a verdict on each claim.

use std::ops::Range;
use std::path::{Path, PathBuf};

use fsdyno_campaign::{files, results};
use fsdyno_crash::Row;
use fsdyno_record::Trial;
use fsdyno_report::study::{Extras, Judged, NotRun, Results};
use fsdyno_report::{Basis, Format, Part, Style, Trials};
use fsdyno_study::file::{StudyFile, Variant};
use fsdyno_study::full_scale;
use fsdyno_study::judge::{RunResult, judge};

use fsdyno_why::StoredExplanation;

use crate::cli::Report;
use crate::commands::page::write_page;
use crate::commands::{crash, report};
use crate::exit::{Exit, Failure};
use crate::output::{self, say};
use fsdyno_campaign::charts;
use fsdyno_study::{archive, stored};

/// Returns the study's folder if the results are one.
///
/// # Errors
/// A study's folder among other results, or one without its study file.
pub fn folder_of(results: &[PathBuf]) -> Result<Option<&Path>, Failure> {
    let found = results.iter().find(|path| path.join(stored::FILE).is_file());
    match (found, results.len()) {
        (Some(folder), 1) => Ok(Some(folder)),
        (Some(folder), _) => Err(Failure::wrong(format!(
            "'{0}' is the folder of a study; report it alone: fsdyno report '{0}'",
            folder.display()
        ))),
        (None, _) => match results.iter().find_map(|path| Some((path, stored::orphan(path)?))) {
            Some((folder, run)) => Err(Failure::wrong(format!(
                "'{}' looks like the folder of a study, and its {} is missing; restore it, or report one run: fsdyno \
                 report '{}'",
                folder.display(),
                stored::FILE,
                run.display()
            ))),
            None => Ok(None),
        },
    }
}

/// Runs `fsdyno report` for a study's folder.
///
/// # Errors
/// A file that is unreadable or unwritable.
pub fn report(args: &Report, folder: &Path) -> Result<Exit, Failure> {
    let (_, file) = stored::read(folder)?;
    args.archive.as_deref().map_or(Ok(()), |into| archive::check(folder, into))?;
    let end = End::of(folder, &file)?;
    if end.trials.is_empty() {
        let shown = folder.display();
        return Err(Failure::wrong(format!("'{shown}' has no trials; run the study first")));
    }
    let baseline = args.baseline.as_deref();
    results::check_baseline(baseline, end.trials.iter().map(|trial| trial.plan.label.as_str()))?;
    let basis = args.least.basis(baseline);
    if let Some(into) = &args.charts {
        let series = results::drawn(&end.folders, &end.trials)?;
        let mut drawn = fsdyno_report::factor_charts(&end.judged);
        drawn.extend(fsdyno_report::published_charts(&end.judged));
        drawn.extend(fsdyno_report::charts(&end.trials, &series, basis));
        charts::write(into, &drawn, args.png)?;
        say(&format!("charts: {} in {}", drawn.len(), into.display()));
    }
    if let Some(into) = &args.archive {
        let text = end.written(Format::Markdown, Style::default(), basis)?;
        let output = archive::Output { title: &end.judged.title, text, page: end.html(basis)? };
        archive::write((folder, into), &file, &output)?;
    }
    if let Some(path) = &args.html
        && write_page(path, &end.html(basis)?)?
    {
        return Ok(Exit::Good);
    }
    end.print(args.format, basis)?;
    Ok(Exit::Good)
}

/// Judges the stored trials, prints the verdicts, and writes the report; does nothing without trials.
///
/// # Errors
/// A file that is unreadable or unwritable.
pub fn show(folder: &Path, file: &StudyFile, format: Format) -> Result<(), Failure> {
    let end = End::of(folder, file)?;
    if end.trials.is_empty() {
        return Ok(());
    }
    let written = end.write_html(&folder.join(fsdyno_campaign::store::PAGE), None.into());
    end.print(format, None.into())?;
    written
}

/// Reports and omits a sidecar file that is unreadable: no claim depends on it.
fn or_omit<T>(read: Result<Vec<T>, Failure>) -> Vec<T> {
    read.unwrap_or_else(|failure| {
        say(&format!("fsdyno: omitted: {failure}"));
        Vec::new()
    })
}

/// One run in one variant (and on one kernel of a timeline), with the range of its trials.
struct Ran {
    run: String,
    variant: Variant,
    kernel: Option<String>,
    trials: Range<usize>,
}

/// The conditions of the study without trials.
fn not_run(file: &StudyFile, judged: &Judged) -> Vec<NotRun> {
    let words = |variant: &Variant| variant.words().to_string();
    let has_run = |words: &String| judged.variants.iter().any(|it| it.conditions == *words);
    let missing = file.variants().into_iter().filter(|variant| !has_run(&words(variant)));
    let not_run = missing.map(|variant| {
        let own = file.runs.iter().filter(|run| run.has(variant));
        let places: Vec<String> =
            own.map(|run| format!("{}/{}", variant.name(), run.name)).collect();
        let why = format!("{} has no trials: not run yet, or removed.", places.join(" or "));
        NotRun { conditions: words(&variant), why }
    });
    not_run.collect()
}

/// The stored trials of a study, judged, with their sidecars.
struct End {
    judged: Judged,
    trials: Vec<Trial>,
    ran: Vec<Ran>,
    folders: Vec<PathBuf>,
    /// The stored explanations of `fsdyno why`.
    explanations: Vec<StoredExplanation>,
    /// The run and variant of each explanation.
    places: Vec<String>,
    /// The conditions without trials.
    not_run: Vec<NotRun>,
    /// The rows of `fsdyno crash`, if its folder is in that of the study.
    crashed: Vec<Row>,
}

impl End {
    fn of(folder: &Path, file: &StudyFile) -> Result<End, Failure> {
        let results: Vec<RunResult> = stored::results(folder, file)?;
        let mut judged = judge(file, &results);
        full_scale::put_next_to(&mut judged);
        let not_run = not_run(file, &judged);
        let (mut trials, mut ran): (Vec<Trial>, Vec<Ran>) = Default::default();
        for RunResult { run, variant, kernel, trials: own, .. } in results {
            let from = trials.len();
            trials.extend(own);
            ran.push(Ran { run, variant, kernel, trials: from..trials.len() });
        }
        let (mut explanations, mut places, mut folders) = (Vec::new(), Vec::new(), Vec::new());
        for (run, variant, path) in stored::folders(folder, file) {
            explanations.extend(or_omit(results::explanations(&[&path], &trials)));
            places.resize(explanations.len(), format!("{} {}", run.name, variant.words()));
            folders.push(path);
        }
        let crashes = stored::crashes(folder).into_iter();
        let crashed =
            crashes.flat_map(|path| or_omit(crash::read(&path.join(fsdyno_crash::FILE)))).collect();
        Ok(End { judged, trials, ran, folders, explanations, places, not_run, crashed })
    }

    fn print(&self, format: Format, basis: Basis<'_>) -> Result<(), Failure> {
        output::data(&self.written(format, output::style(), basis)?)?;
        report::say_verdicts(&self.trials, format);
        Ok(())
    }

    fn written(&self, format: Format, style: Style, basis: Basis<'_>) -> Result<String, Failure> {
        let parts = self.parts();
        let records = Trials { trials: &self.trials, parts: &parts, basis };
        let results = Results { judged: &self.judged, extras: self.extras(), records };
        Ok(format.write(&results, style)?)
    }

    fn parts(&self) -> Vec<Part<'_>> {
        let parts = self.ran.iter().map(|ran| Part {
            run: &ran.run,
            variant: ran.variant.name(),
            kernel: ran.kernel.as_deref(),
            trials: self.trials.get(ran.trials.clone()).unwrap_or_default(),
        });
        parts.collect()
    }

    fn write_html(&self, path: &Path, basis: Basis<'_>) -> Result<(), Failure> {
        files::write_file(path, self.html(basis)?)?;
        say(&format!("report: {}", path.display()));
        Ok(())
    }

    /// The sidecars of the trials, except series.
    fn extras(&self) -> Extras<'_> {
        Extras {
            explanations: &self.explanations,
            places: &self.places,
            crashed: &self.crashed,
            not_run: &self.not_run,
            ..Extras::default()
        }
    }

    /// The report. Only the series that it draws are read into memory.
    fn html(&self, basis: Basis<'_>) -> Result<String, Failure> {
        let series = results::drawn(&self.folders, &self.trials)?;
        let extras = Extras { series: &series, ..self.extras() };
        Ok(fsdyno_report::study_page(&self.judged, &self.trials, extras, basis)?)
    }
}
