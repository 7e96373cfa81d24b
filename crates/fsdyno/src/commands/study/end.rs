//! The end of a study: published tables beside measured ones, and what became of each claim.

use std::ops::Range;
use std::path::{Path, PathBuf};

use fsdyno_crash::Row;
use fsdyno_record::Trial;
use fsdyno_report::study::{Extras, Judged, NotRun};
use fsdyno_report::{Basis, Format, Part, Style, study};
use fsdyno_study::file::{StudyFile, Variant};
use fsdyno_study::full_scale;
use fsdyno_study::judge::{RunResult, judge};

use fsdyno_why::StoredExplanation;

use super::{archive, stored};
use crate::cli::Report;
use crate::commands::{charts, crash, report};
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// The folder of a study among results that are to be shown.
///
/// # Errors
/// One that stands beside others, or has lost the study's file.
pub fn folder_of(results: &[PathBuf]) -> Result<Option<&Path>, Failure> {
    let found = results.iter().find(|path| path.join(stored::FILE).is_file());
    match (found, results.len()) {
        (Some(folder), 1) => Ok(Some(folder)),
        (Some(folder), _) => Err(Failure::wrong(format!(
            "'{0}' is the folder of a study, and is shown alone: fsdyno report '{0}'",
            folder.display()
        ))),
        (None, _) => match results.iter().find_map(|path| Some((path, stored::orphan(path)?))) {
            Some((folder, run)) => Err(Failure::wrong(format!(
                "'{}' is laid out as the folder of a study, and its {} is missing: put it back, or show one run by \
                 itself: fsdyno report '{}'",
                folder.display(),
                stored::FILE,
                run.display()
            ))),
            None => Ok(None),
        },
    }
}

/// `fsdyno report` of a study's folder.
///
/// # Errors
/// What cannot be read or written.
pub fn report(asked: &Report, folder: &Path) -> Result<Exit, Failure> {
    let (_, file) = stored::read(folder)?;
    asked.archive.as_deref().map_or(Ok(()), |into| archive::check(folder, into))?;
    let end = End::of(folder, &file)?;
    if end.trials.is_empty() {
        let shown = folder.display();
        return Err(Failure::wrong(format!("'{shown}' has no trial yet; run the study first")));
    }
    let baseline = asked.baseline.as_deref();
    report::check_baseline(baseline, end.trials.iter().map(|trial| trial.plan.label.as_str()))?;
    let basis = asked.least.basis(baseline);
    if let Some(into) = &asked.charts {
        let series = report::drawn(&end.folders, &end.trials)?;
        let drawn = fsdyno_report::charts(&end.trials, &series, basis);
        charts::write(into, &drawn)?;
        say(&format!("charts: {} in {}", drawn.len(), into.display()));
    }
    if let Some(into) = &asked.archive {
        let told = end.whole(Format::Markdown, Style::default(), study::markdown(&end.judged));
        let kept = archive::Kept { title: &end.judged.title, told, page: end.html(basis)? };
        archive::write((folder, into), &file, &kept)?;
    }
    if let Some(path) = &asked.html
        && report::page_instead(path, &end.html(basis)?)?
    {
        return Ok(Exit::Good);
    }
    end.print(asked.format, basis)?;
    Ok(Exit::Good)
}

/// Judges what is there, prints it, and writes the page; nothing where no trial is there yet.
///
/// # Errors
/// What cannot be read or written.
pub fn show(folder: &Path, file: &StudyFile, format: Format) -> Result<(), Failure> {
    let end = End::of(folder, file)?;
    if end.trials.is_empty() {
        return Ok(());
    }
    let written = end.write_html(&folder.join(fsdyno_study::store::PAGE), None.into());
    end.print(format, None.into())?;
    written
}

/// What was read of a file beside the trials. Nothing is judged by it, and so one that cannot be read is told of and
/// left out.
fn or_say<T>(read: Result<Vec<T>, Failure>) -> Vec<T> {
    read.unwrap_or_else(|failure| {
        say(&format!("fsdyno: left out: {failure}"));
        Vec::new()
    })
}

/// One run in one variant (and on one kernel of a timeline): which of all trials are its own.
struct Ran {
    run: String,
    variant: Variant,
    kernel: Option<String>,
    trials: Range<usize>,
}

/// The conditions that the study has and of which no trial is there.
fn not_run(file: &StudyFile, judged: &Judged) -> Vec<NotRun> {
    let words = |variant: &Variant| variant.words().to_string();
    let is_there = |words: &String| judged.variants.iter().any(|it| it.conditions == *words);
    let missing = file.variants().into_iter().filter(|variant| !is_there(&words(variant)));
    let told = missing.map(|variant| {
        let own = file.runs.iter().filter(|run| run.has(variant));
        let places: Vec<String> =
            own.map(|run| format!("{}/{}", variant.name(), run.name)).collect();
        let why = format!(
            "No trial is in {}: it was not run yet, or that was taken away.",
            places.join(" or ")
        );
        NotRun { conditions: words(&variant), why }
    });
    told.collect()
}

/// What is there of a study, judged.
struct End {
    judged: Judged,
    trials: Vec<Trial>,
    ran: Vec<Ran>,
    folders: Vec<PathBuf>,
    /// What `fsdyno why` has kept beside them.
    told: Vec<StoredExplanation>,
    /// Of which run and variant each of that is.
    places: Vec<String>,
    /// The conditions that nothing is there of.
    not_run: Vec<NotRun>,
    /// What `fsdyno crash` found, if its folder lies in that of the study.
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
        let (mut told, mut places, mut folders) = (Vec::new(), Vec::new(), Vec::new());
        for (run, variant, path) in stored::folders(folder, file) {
            told.extend(or_say(report::told(&[&path], &trials)));
            places.resize(told.len(), format!("{} {}", run.name, variant.words()));
            folders.push(path);
        }
        let crashes = stored::crashes(folder).into_iter();
        let crashed =
            crashes.flat_map(|path| or_say(crash::read(&path.join(fsdyno_crash::FILE)))).collect();
        Ok(End { judged, trials, ran, folders, told, places, not_run, crashed })
    }

    fn print(&self, format: Format, basis: Basis<'_>) -> Result<(), Failure> {
        let style = Style { color: output::colour(), width: output::width() };
        let with = |text: String| output::data(&self.whole(format, style, text));
        match format {
            Format::Text => with(study::text(&self.judged, style)),
            Format::Mail => with(study::mail(&self.judged)),
            Format::Markdown => with(study::markdown(&self.judged)),
            Format::Json => output::data(&study::json(&self.judged, self.extras())?),
            // The forms of records and of other programs have no place for claims.
            _ => match fsdyno_report::table_of_parts(&self.parts(), basis, format) {
                Some(table) => output::data(&table),
                None => report::print(&self.trials, basis, format),
            },
        }
    }

    /// A study's end in a format, with all that stands before and behind it.
    fn whole(&self, format: Format, style: Style, text: String) -> String {
        let extras = self.extras();
        extras.head(format, style) + &text + &extras.text(format, style)
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
        report::write_file(path, self.html(basis)?)?;
        say(&format!("report: {}", path.display()));
        Ok(())
    }

    /// The additions to the trials, without series over time.
    fn extras(&self) -> Extras<'_> {
        Extras {
            explanations: &self.told,
            places: &self.places,
            crashed: &self.crashed,
            not_run: &self.not_run,
            ..Extras::default()
        }
    }

    /// The page. Of the phases over time only those that it draws are read into memory.
    fn html(&self, basis: Basis<'_>) -> Result<String, Failure> {
        let series = report::drawn(&self.folders, &self.trials)?;
        let extras = Extras { series: &series, ..self.extras() };
        Ok(fsdyno_report::study_page(&self.judged, &self.trials, extras, basis)?)
    }
}
