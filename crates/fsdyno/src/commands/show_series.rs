//! `fsdyno show series RESULT`: prints the phases of a result over time.

use fsdyno_report::{Style, series_csv, series_text};

use crate::cli::{Show, ShowFormat};
use crate::commands::report;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Prints the series of a result folder.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    let loaded = fsdyno_report::load([&show.name])?;
    let mut trials = fsdyno_study::without_superseded(&loaded.trials);
    report::in_order(&mut trials);
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let series = report::over_time(&[&show.name], &trials)?;
    match show.format {
        ShowFormat::Json => output::json(&series)?,
        ShowFormat::Csv => output::data(&series_csv(&series, &trials))?,
        ShowFormat::Text => {
            let style = Style { color: output::colour(), width: output::width() };
            output::data(&series_text(&series, &trials, style))?;
        }
    }
    Ok(Exit::Good)
}
