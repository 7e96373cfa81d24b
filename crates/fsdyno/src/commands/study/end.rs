//! The end of a study: published tables beside measured ones, and what became of each claim.

use std::path::{Path, PathBuf};

use fsdyno_crash::Row;
use fsdyno_record::Trial;
use fsdyno_report::study::Beside;
use fsdyno_report::{Format, Style, study};
use fsdyno_study::file::StudyFile;
use fsdyno_study::judge::{RunResult, judge};

use fsdyno_why::Told;

use super::{archive, stored};
use crate::cli::Report;
use crate::commands::{charts, crash, report};
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// The folder of a study among results that are to be shown.
///
/// # Errors
/// One that stands beside others.
pub fn folder_of(results: &[PathBuf]) -> Result<Option<&Path>, Failure> {
    let found = results.iter().find(|path| path.join(stored::FILE).is_file());
    match (found, results.len()) {
        (Some(folder), 1) => Ok(Some(folder)),
        (Some(folder), _) => Err(Failure::wrong(format!(
            "'{0}' is the folder of a study, and is shown alone: fsdyno report '{0}'",
            folder.display()
        ))),
        (None, _) => Ok(None),
    }
}

/// `fsdyno report` of a study's folder.
///
/// # Errors
/// What cannot be read or written.
pub fn report(asked: &Report, folder: &Path) -> Result<Exit, Failure> {
    let (_, file) = stored::read(folder)?;
    asked.archive.as_deref().map_or(Ok(()), archive::check)?;
    let end = End::of(folder, &file)?;
    if end.trials.is_empty() {
        let shown = folder.display();
        return Err(Failure::wrong(format!("'{shown}' has no trial yet; run the study first")));
    }
    let baseline = asked.baseline.as_deref();
    report::check_baseline(baseline, end.trials.iter().map(|trial| trial.plan.label.as_str()))?;
    if let Some(path) = &asked.html {
        end.write_html(path, baseline)?;
    }
    if let Some(into) = &asked.charts {
        let series = report::drawn(&end.folders, &end.trials)?;
        let drawn = fsdyno_report::charts(&end.trials, &series, baseline);
        charts::write(into, &drawn)?;
        say(&format!("charts: {} in {}", drawn.len(), into.display()));
    }
    if let Some(into) = &asked.archive {
        let told =
            study::markdown(&end.judged) + &end.beside().text(Format::Markdown, Style::default());
        let kept = archive::Kept { title: &end.judged.title, told, page: end.html(baseline)? };
        archive::write((folder, into), &file, &kept)?;
    }
    end.print(asked.format, baseline)?;
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
    let written = end.write_html(&folder.join("report.html"), None);
    end.print(format, None)?;
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

/// What is there of a study, judged.
struct End {
    judged: study::Judged,
    trials: Vec<Trial>,
    folders: Vec<PathBuf>,
    /// What `fsdyno why` has kept beside them.
    told: Vec<Told>,
    /// What `fsdyno crash` found, if its folder lies in that of the study.
    crashed: Vec<Row>,
}

impl End {
    fn of(folder: &Path, file: &StudyFile) -> Result<End, Failure> {
        let results: Vec<RunResult> = stored::results(folder, file)?;
        let judged = judge(file, &results);
        let mut trials: Vec<Trial> = Vec::new();
        for result in results {
            trials.extend(result.trials);
        }
        let folders: Vec<PathBuf> =
            stored::folders(folder, file).into_iter().map(|(_, _, path)| path).collect();
        let told = folders.iter().flat_map(|path| or_say(report::told(&[path], &trials))).collect();
        let crashes = stored::crashes(folder).into_iter();
        let crashed =
            crashes.flat_map(|path| or_say(crash::read(&path.join(fsdyno_crash::FILE)))).collect();
        Ok(End { judged, trials, folders, told, crashed })
    }

    fn print(&self, format: Format, baseline: Option<&str>) -> Result<(), Failure> {
        let style = Style { color: output::colour(), width: output::width() };
        let with = |text: String| output::data(&(text + &self.beside().text(format, style)));
        match format {
            Format::Text => with(study::text(&self.judged, style)),
            Format::Mail => with(study::mail(&self.judged)),
            Format::Markdown => with(study::markdown(&self.judged)),
            Format::Json => output::data(&study::json(&self.judged)?),
            // The forms of records and of other programs have no place for claims.
            _ => report::print(&self.trials, baseline, format),
        }
    }

    fn write_html(&self, path: &Path, baseline: Option<&str>) -> Result<(), Failure> {
        report::write_file(path, self.html(baseline)?)?;
        say(&format!("report: {}", path.display()));
        Ok(())
    }

    /// What stands beside the trials, but for phases over time.
    fn beside(&self) -> Beside<'_> {
        Beside { told: &self.told, crashed: &self.crashed, ..Beside::default() }
    }

    /// The page. Of the phases over time only those that it draws are read into memory.
    fn html(&self, baseline: Option<&str>) -> Result<String, Failure> {
        let series = report::drawn(&self.folders, &self.trials)?;
        let beside = Beside { series: &series, ..self.beside() };
        Ok(fsdyno_report::study_page(&self.judged, &self.trials, beside, baseline)?)
    }
}
