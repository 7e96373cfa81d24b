//! `fsdyno show series RESULT`: prints the phases of a result over time.

use fsdyno_campaign::results;
use fsdyno_report::OverTime;

use crate::cli::Show;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Prints the series of a result folder.
pub fn run(show: &Show) -> Result<Exit, Failure> {
    let loaded = fsdyno_report::load([&show.name])?;
    let mut trials = fsdyno_campaign::without_superseded(&loaded.trials);
    results::in_order(&mut trials);
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let series = results::over_time(&[&show.name], &trials)?;
    let style = output::style();
    output::print(&OverTime { series: &series, trials: &trials, style }, show.format)?;
    Ok(Exit::Good)
}
