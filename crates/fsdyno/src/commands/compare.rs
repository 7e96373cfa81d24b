//! `fsdyno compare`: compares two stored results cell by cell, or results by the values of an axis, with verdicts
//! and an exit code.

use std::collections::BTreeSet;
use std::path::Path;

use fsdyno_axes::Axis;
use fsdyno_campaign::about::find;
use fsdyno_campaign::results::load;
use fsdyno_campaign::{drop_superseded, explain, stop};
use fsdyno_record::Trial;
use fsdyno_record::shell::quote;
use fsdyno_report::compare::{self, Bisect, CompareOptions, Compared};
use fsdyno_study::stored;

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
    Ok(if compared.slower() { Exit::NegativeVerdict } else { Exit::Success })
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
    let options = CompareOptions { metric: args.metric, threshold: args.threshold.0 };
    let axis = args.by.as_deref().and_then(Axis::of);
    if axis.is_none() && args.explain.is_some() {
        return Err(Failure::invalid_use(
            "--explain needs --by AXIS: it explains the steps of one result",
        ));
    }
    let compared = match (axis, &args.new) {
        (Some(axis), _) => return compared_by(args, axis, options),
        (None, Some(new)) => {
            compare::compare(&load(&[find(&args.base)?])?, &load(&[find(new)?])?, options)
        }
        (None, None) => return Err(missing_result(args)?),
    };
    Ok(compared?)
}

/// Returns the failure for a command with only one result; it names the axes along which its trials can be compared.
fn missing_result(args: &Compare) -> Result<Failure, Failure> {
    let options: Vec<String> = compare::axes_with_steps(&load_trials(&find(&args.base)?)?)
        .into_iter()
        .map(|axis| format!("--by {}", axis.key))
        .collect();
    let base = args.base.display();
    Ok(Failure::invalid_use(match options.is_empty() {
        true => format!("one result is compared with nothing: fsdyno compare '{base}' NEW"),
        false => format!(
            "one result: give a second one, or compare the trials within '{base}' with {}",
            options.join(" or ")
        ),
    }))
}

/// Compares the values of an axis and, if requested, names the functions behind the largest steps.
fn compared_by(
    args: &Compare,
    axis: &'static Axis,
    options: CompareOptions,
) -> Result<Compared, Failure> {
    let base = find(&args.base)?;
    let mut trials = load_trials(&base)?;
    if let Some(new) = &args.new {
        let new = find(new)?;
        if base.canonicalize().is_ok_and(|base| new.canonicalize().is_ok_and(|new| new == base)) {
            return Err(Failure::invalid_use(format!(
                "BASE and NEW are the same result; to compare the trials within it: fsdyno compare {} --by {}",
                quote(&args.base.to_string_lossy()),
                axis.key
            )));
        }
        add_trials(&mut trials, load_trials(&new)?);
    }
    let mut compared = compare::compare_by(&trials, axis, options)?;
    if let Some(count) = args.explain {
        explain::steps(&mut compared, &trials, axis, count as usize, &stop::flag()?)?;
    }
    Ok(compared)
}

/// Adds the trials of another result, without copies of trials that are in both.
fn add_trials(trials: &mut Vec<Trial>, new: Vec<Trial>) {
    let ends = [trials.len(), trials.len() + new.len()];
    trials.extend(new);
    drop_superseded(trials, &ends);
    let mut known = BTreeSet::new();
    // Copies of a trial in the lab count once anyway.
    let counts: Vec<bool> =
        trials.iter().map(|it| it.is_bit_identical() || known.insert(it.identity())).collect();
    let mut counts = counts.into_iter();
    trials.retain(|_| counts.next().unwrap_or(true));
}

/// Loads the trials of a result, or of all runs of a study.
fn load_trials(path: &Path) -> Result<Vec<Trial>, Failure> {
    if !path.join(stored::FILE).is_file() {
        return load(&[path]);
    }
    let (_, file) = stored::read(path)?;
    let results = stored::results(path, &file)?;
    Ok(results.into_iter().flat_map(|result| result.trials).collect())
}
