//! `fsdyno show series RESULT`: prints the phases of a result over time.

use fsdyno_campaign::results;
use fsdyno_report::OverTime;

use crate::cli::Show;
use crate::commands::stored_trials::trials_of;
use crate::exit::{Exit, Failure};
use crate::output;

/// Prints the series of a result folder.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    let trials = trials_of(&show.name)?;
    let series = results::over_time(&[&show.name], &trials)?;
    let style = output::style();
    output::print(&OverTime { series: &series, trials: &trials, style }, show.format)?;
    Ok(Exit::Good)
}
