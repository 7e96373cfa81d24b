//! The output of a study: published tables next to measured ones, and a verdict on each claim.

use std::ops::Range;
use std::path::{Path, PathBuf};

use fsdyno_campaign::notes::say;
use fsdyno_campaign::{Failure, charts, crash, files, results, store};
use fsdyno_crash::Row;
use fsdyno_record::Trial;
use fsdyno_report::study::{Extras, Judged, NotRun, Results};
use fsdyno_report::{Basis, Format, Part, Style, Trials};
use fsdyno_why::StoredExplanation;

use crate::file::{StudyFile, Variant};
use crate::judge::{RunResult, judge};
use crate::{archive, full_scale, stored};

/// Reports and omits a sidecar file that is unreadable: no claim depends on it.
fn read_or_omit<T>(read: Result<Vec<T>, Failure>) -> Vec<T> {
    read.unwrap_or_else(|failure| {
        say(&format!("fsdyno: omitted: {failure}"));
        Vec::new()
    })
}

/// One run in one variant (and on one kernel of a timeline), with the range of its trials.
struct StoredRun {
    run: String,
    variant: Variant,
    kernel: Option<String>,
    trials: Range<usize>,
}

/// Returns the conditions of the study that have no trials.
fn conditions_without_trials(file: &StudyFile, judged: &Judged) -> Vec<NotRun> {
    let describe = |variant: &Variant| variant.words().to_string();
    let has_run = |conditions: &String| {
        judged.variants.iter().any(|variant| variant.conditions == *conditions)
    };
    let missing = file.variants().into_iter().filter(|variant| !has_run(&describe(variant)));
    let not_run = missing.map(|variant| {
        let reason =
            "No trials are stored: they were not selected (--as), not run yet, or removed.";
        NotRun { conditions: describe(&variant), why: reason.into() }
    });
    not_run.collect()
}

/// The stored trials of a study, judged, with their sidecars.
pub struct StudyResult {
    judged: Judged,
    trials: Vec<Trial>,
    runs: Vec<StoredRun>,
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

impl StudyResult {
    /// Reads and judges the stored trials of a folder.
    ///
    /// # Errors
    /// A file that is unreadable.
    pub fn of(folder: &Path, file: &StudyFile) -> Result<StudyResult, Failure> {
        let results: Vec<RunResult> = stored::results(folder, file)?;
        let mut judged = judge(file, &results);
        full_scale::add_full_scale_verdicts(&mut judged);
        let not_run = conditions_without_trials(file, &judged);
        let (mut trials, mut runs): (Vec<Trial>, Vec<StoredRun>) = Default::default();
        for RunResult { run, variant, kernel, trials: own, .. } in results {
            let from = trials.len();
            trials.extend(own);
            runs.push(StoredRun { run, variant, kernel, trials: from..trials.len() });
        }
        let (mut explanations, mut places, mut folders) = (Vec::new(), Vec::new(), Vec::new());
        for (run, variant, path) in stored::folders(folder, file) {
            explanations.extend(read_or_omit(results::explanations(&[&path], &trials)));
            places.resize(explanations.len(), format!("{} {}", run.name, variant.words()));
            folders.push(path);
        }
        let crashes = stored::crashes(folder).into_iter();
        let crashed = crashes
            .flat_map(|path| read_or_omit(crash::stored::read(&path.join(fsdyno_crash::ROWS_FILE))))
            .collect();
        Ok(StudyResult { judged, trials, runs, folders, explanations, places, not_run, crashed })
    }

    /// Returns true if no trial is stored.
    pub fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }

    /// Checks that a baseline is among the labels.
    ///
    /// # Errors
    /// An unknown label.
    pub fn check_baseline(&self, baseline: Option<&str>) -> Result<(), Failure> {
        results::check_baseline(baseline, self.trials.iter().map(|trial| trial.plan.label.as_str()))
    }

    /// Prints the flags of the trials if the format does not contain them.
    pub fn say_flags(&self, format: Format) {
        results::say_flags(&self.trials, format);
    }

    /// Writes each chart as a file, and with `png` also as a PNG.
    ///
    /// # Errors
    /// A file that is unreadable or unwritable.
    pub fn charts(&self, into: &Path, png: bool, basis: Basis<'_>) -> Result<(), Failure> {
        let series = results::drawn(&self.folders, &self.trials)?;
        let mut drawn = fsdyno_report::factor_charts(&self.judged);
        drawn.extend(fsdyno_report::published_charts(&self.judged));
        drawn.extend(fsdyno_report::charts(&self.trials, &series, basis));
        charts::write(into, &drawn, png)?;
        say(&format!("charts: {} in {}", drawn.len(), into.display()));
        Ok(())
    }

    /// Archives the study in one folder to another folder.
    ///
    /// # Errors
    /// A file that is unreadable or unwritable.
    pub fn archive(
        &self,
        (folder, into): (&Path, &Path),
        file: &StudyFile,
        basis: Basis<'_>,
    ) -> Result<(), Failure> {
        let text = self.render(Format::Markdown, Style::default(), basis)?;
        let output = archive::Output { title: &self.judged.title, text, page: self.html(basis)? };
        archive::write((folder, into), file, &output)
    }

    /// Writes the report into the folder of the study.
    ///
    /// # Errors
    /// A file that is unreadable or unwritable.
    pub fn write_page(&self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join(store::PAGE);
        files::write_file(&path, self.html(None.into())?)?;
        say(&format!("report: {}", path.display()));
        Ok(())
    }

    /// Returns the output in a format.
    ///
    /// # Errors
    /// A format that does not exist for a study.
    pub fn render(
        &self,
        format: Format,
        style: Style,
        basis: Basis<'_>,
    ) -> Result<String, Failure> {
        let parts = self.parts();
        let records = Trials { trials: &self.trials, parts: &parts, basis };
        let results = Results { judged: &self.judged, extras: self.extras(), records };
        Ok(format.write(&results, style)?)
    }

    fn parts(&self) -> Vec<Part<'_>> {
        let parts = self.runs.iter().map(|stored| Part {
            run: &stored.run,
            variant: stored.variant.name(),
            kernel: stored.kernel.as_deref(),
            trials: self.trials.get(stored.trials.clone()).unwrap_or_default(),
        });
        parts.collect()
    }

    /// Returns the sidecars of the trials, except series.
    fn extras(&self) -> Extras<'_> {
        Extras {
            explanations: &self.explanations,
            places: &self.places,
            crashed: &self.crashed,
            not_run: &self.not_run,
            ..Extras::default()
        }
    }

    /// Returns the report as HTML. Only the series that it draws are read into memory.
    ///
    /// # Errors
    /// A file that is unreadable.
    pub fn html(&self, basis: Basis<'_>) -> Result<String, Failure> {
        let series = results::drawn(&self.folders, &self.trials)?;
        let extras = Extras { series: &series, ..self.extras() };
        Ok(fsdyno_report::study_page(&self.judged, &self.trials, extras, basis)?)
    }
}
