//! `fsdyno compare`: compares two stored results cell by cell, with verdicts and an exit code.

use std::path::Path;

use fsdyno_record::Trial;
use fsdyno_report::compare::{self, Bisect, CompareOptions};
use fsdyno_report::load;

use crate::cli::Compare;
use crate::exit::{Exit, Failure};
use crate::output::{self, say};

/// Compares two stored results.
pub fn run(args: &Compare) -> Result<Exit, Failure> {
    let exit = compare_results(args);
    if !args.bisect {
        return exit;
    }
    // Any exit code but 0, 1 and 125 would end the bisection or, below 128, mark the commit bad.
    exit.or_else(|failure| {
        output::complain(&format!("fsdyno: {failure}"));
        Ok(Exit::Undecided)
    })
}

fn compare_results(args: &Compare) -> Result<Exit, Failure> {
    let (base, new) = (read(&args.base)?, read(&args.new)?);
    let options = CompareOptions { metric: args.metric, threshold: args.threshold.0 };
    let compared = compare::compare(&base, &new, options)
        .map_err(|error| Failure::wrong(error.to_string()))?;
    output::print(&compared, args.format)?;
    if args.bisect {
        return Ok(match compared.bisect() {
            Bisect::Good => Exit::Good,
            Bisect::Bad => Exit::VerdictNo,
            Bisect::CannotTell => Exit::Undecided,
        });
    }
    if compared.new_failed() {
        return Ok(Exit::TrialFailed);
    }
    Ok(if compared.slower() { Exit::VerdictNo } else { Exit::Good })
}

/// Loads the trials of one side that are not superseded, in the order of the tables.
fn read(path: &Path) -> Result<Vec<Trial>, Failure> {
    let loaded = load([path])?;
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let mut trials = loaded.trials;
    fsdyno_campaign::drop_superseded(&mut trials, &loaded.ends);
    fsdyno_campaign::results::in_order(&mut trials);
    Ok(trials)
}
