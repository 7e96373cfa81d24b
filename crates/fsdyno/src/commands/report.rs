//! `fsdyno report`: stored results as a table, as data, as one HTML file.

use std::path::Path;

use fsdyno_record::Trial;
use fsdyno_report::{Options, Style};

use crate::cli::{Format, Report};
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Shows stored results.
pub fn run(report: &Report) -> Result<Exit, Failure> {
    let loaded = fsdyno_report::load(&report.results)?;
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let trials = fsdyno_study::without_superseded(&loaded.trials);
    if let Some(path) = &report.html {
        write_html(path, &trials)?;
        say(&format!("report: {}", path.display()));
    }
    print(&trials, report.format)?;
    Ok(Exit::Good)
}

/// Prints the table in the format that was asked for.
pub fn print(trials: &[Trial], format: Format) -> Result<(), Failure> {
    // Where the report lies is said on stderr: stdout is for data.
    let style = Style { color: output::colour(), width: output::width(), report: None };
    let format = match format {
        Format::Text => fsdyno_report::Format::Text,
        Format::Mail => fsdyno_report::Format::Mail,
        Format::Json => fsdyno_report::Format::Json,
        Format::Csv => fsdyno_report::Format::Csv,
        Format::Markdown => fsdyno_report::Format::Markdown,
    };
    output::data(&fsdyno_report::table(trials, format, style)?)
}

/// Writes the report as one HTML file.
pub fn write_html(path: &Path, trials: &[Trial]) -> Result<(), Failure> {
    let html = fsdyno_report::html(trials, &Options::default())?;
    std::fs::write(path, html)
        .map_err(|error| Failure::wrong(format!("failed to write '{}': {error}", path.display())))
}
