//! `fsdyno compare`: two stored results, cell by cell, with a verdict and an exit code.

use std::path::Path;

use fsdyno_record::Trial;
use fsdyno_report::compare::{self, Bisect, CompareOptions};
use fsdyno_report::{Style, load};

use crate::cli::Compare;
use crate::commands::report;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Compares two stored results.
pub fn run(typed: &Compare) -> Result<Exit, Failure> {
    let exit = compare_results(typed);
    if !typed.bisect {
        return exit;
    }
    // Any code but 0, 1 and 125 would end a bisection or, below 128, call the commit bad.
    exit.or_else(|failure| {
        output::complain(&format!("fsdyno: {failure}"));
        Ok(Exit::CannotTell)
    })
}

fn compare_results(typed: &Compare) -> Result<Exit, Failure> {
    let (base, new) = (read(&typed.base)?, read(&typed.new)?);
    let options = CompareOptions { metric: typed.metric, threshold: typed.threshold.0 };
    let compared = compare::compare(&base, &new, options)
        .map_err(|error| Failure::wrong(error.to_string()))?;
    let style = Style { color: output::colour(), width: output::width() };
    output::data(&compare::print(&compared, typed.format, style))?;
    if typed.bisect {
        return Ok(match compared.bisect() {
            Bisect::Good => Exit::Good,
            Bisect::Bad => Exit::VerdictNo,
            Bisect::CannotTell => Exit::CannotTell,
        });
    }
    if compared.new_failed() {
        return Ok(Exit::TrialFailed);
    }
    Ok(if compared.slower() { Exit::VerdictNo } else { Exit::Good })
}

/// The trials of one side that count, in the order of the tables.
fn read(path: &Path) -> Result<Vec<Trial>, Failure> {
    let loaded = load([path])?;
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let mut trials = loaded.trials;
    fsdyno_study::drop_superseded(&mut trials, &loaded.ends);
    report::in_order(&mut trials);
    Ok(trials)
}
