//! `fsdyno compare`: compares two stored results cell by cell, or results by the values of an axis, with verdicts
//! and an exit code.

use fsdyno_axes::Axis;
use fsdyno_record::shell::quote;
use fsdyno_report::compare::{Bisect, CompareOptions, Compared};
use fsdyno_study::CompareRequest;

use crate::cli::{Compare, RANKS};
use crate::exit::{Exit, Failure};
use crate::output;

/// Compares two stored results, or the values of an axis in one.
pub fn run(args: &Compare) -> Result<Exit, Failure> {
    let exit = compare_results(args);
    if !args.bisect {
        return exit;
    }
    // Any exit code except 0, 1 and 125 would mark the commit bad or, from 128 on, end the bisection.
    exit.or_else(|failure| {
        output::write_stderr(&format!("fsdyno: {failure}"));
        Ok(Exit::Undecided)
    })
}

fn compare_results(args: &Compare) -> Result<Exit, Failure> {
    if args.bisect && args.by.is_some() {
        return Err(Failure::invalid_use(
            "--bisect is for two results: fsdyno compare BASE NEW --bisect; with --by the exit code is 1 if a step is \
             slower",
        ));
    }
    let compared = compare_requested(args)?;
    output::print(&compared, args.format)?;
    if args.bisect {
        return Ok(match compared.bisect() {
            Bisect::Good => Exit::Success,
            Bisect::Bad => Exit::NegativeVerdict,
            Bisect::Undecided => Exit::Undecided,
        });
    }
    if compared.new_failed() {
        return Ok(Exit::TrialFailed);
    }
    Ok(if compared.fails() { Exit::NegativeVerdict } else { Exit::Success })
}

fn compare_requested(args: &Compare) -> Result<Compared, Failure> {
    if args.by.as_deref() == Some(RANKS) {
        let results = [Some(&args.base), args.new.as_ref()].into_iter().flatten();
        let results: Vec<String> = results.map(|it| quote(&it.to_string_lossy())).collect();
        return Err(Failure::invalid_use(format!(
            "--by ranks: for rates over the number of ranks, their scaling and the knee: fsdyno show ranks {}",
            results.join(" ")
        )));
    }
    let (metric, threshold, fail_on) = (args.metric, args.threshold.0, args.fail_on);
    let request = CompareRequest {
        base: args.base.clone(),
        new: args.new.clone(),
        by: args.by.as_deref().and_then(Axis::of),
        phases: args.phases.clone(),
        explain: args.explain,
        options: CompareOptions { metric, threshold, fail_on },
    };
    fsdyno_study::compare(&request)
}
