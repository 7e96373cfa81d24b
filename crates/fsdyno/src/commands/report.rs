//! `fsdyno report`: prints stored results as a table or data, or writes them as one HTML file.

use std::path::Path;

use fsdyno_campaign::results::{self, check_baseline, drawn};
use fsdyno_campaign::{crash, tune};
use fsdyno_record::Trial;
use fsdyno_report::{Basis, Format};
use fsdyno_study::stored;

use crate::cli::Report;
use crate::commands::page::write_page;
use crate::commands::study;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Reports stored results.
pub fn run(report: &Report) -> Result<Exit, Failure> {
    if let Some(folder) = stored::folder_of(&report.results)? {
        return study::report(report, folder);
    }
    if report.archive.is_some() {
        let message =
            "--archive is for the folder of a study (written by fsdyno study, with a study.toml)";
        return Err(Failure::invalid_use(message));
    }
    if let [folder] = report.results.as_slice()
        && let Some(tuned) = tune::stored(folder)?
    {
        if let Some(path) = &report.html
            && write_page(path, &fsdyno_report::tune_html(&tuned)?)?
        {
            return Ok(Exit::Success);
        }
        output::print(&tuned, report.format)?;
        return Ok(Exit::Success);
    }
    if let Some(rows) = crash::stored::stored(&report.results)? {
        return super::crash::report(report, &rows);
    }
    crash::stored::refuse_lone_findings(&report.results)?;
    let trials = results::load(&report.results)?;
    let baseline = report.baseline.as_deref();
    check_baseline(baseline, trials.iter().map(|trial| trial.plan.label.as_str()))?;
    let basis = report.comparison.basis(baseline);
    if let Some(folder) = &report.charts {
        let series = drawn(&report.results, &trials)?;
        let charts = fsdyno_report::charts(&trials, &series, basis);
        fsdyno_campaign::charts::write(folder, &charts, report.png)?;
        say(&format!("charts: {} in {}", charts.len(), folder.display()));
    }
    if let Some(path) = &report.html {
        if write_page(path, &results::page(&report.results, &trials, basis)?)? {
            return Ok(Exit::Success);
        }
    }
    print(&trials, basis, report.format)?;
    Ok(Exit::Success)
}

/// Prints the table of a result folder, and writes the report into the folder.
pub fn show(
    folder: &Path,
    trials: &[Trial],
    basis: Basis<'_>,
    format: Format,
) -> Result<(), Failure> {
    // The table is shown even if the report cannot be written.
    let written = results::write_page(folder, trials, basis);
    print(trials, basis, format)?;
    say(&format!("report: {}", written?.display()));
    Ok(())
}

/// Prints the table in a format.
fn print(trials: &[Trial], basis: Basis<'_>, format: Format) -> Result<(), Failure> {
    output::write_data(&fsdyno_report::table(trials, basis, format, output::style())?)?;
    results::say_flags(trials, format);
    Ok(())
}
