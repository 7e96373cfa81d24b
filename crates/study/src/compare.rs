//! Compares stored results, each of which may be the folder of a study: two with each other, or one along an axis.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fsdyno_axes::Axis;
use fsdyno_campaign::about::find;
use fsdyno_campaign::results::load;
use fsdyno_campaign::{Failure, drop_superseded, explain, phase_name, stop};
use fsdyno_record::Trial;
use fsdyno_record::shell::quote;
use fsdyno_report::compare::{self, CompareOptions, Compared};

use crate::stored::trials;

/// The request of a comparison.
#[derive(Clone)]
pub struct CompareRequest {
    /// The baseline: the path or the name of a result.
    pub base: PathBuf,
    /// The result to compare with it; along an axis, a second result whose trials belong to the same comparison.
    pub new: Option<PathBuf>,
    /// The axis whose values are compared, each with the next one, if not two results.
    pub by: Option<&'static Axis>,
    /// The phases that are compared; all if empty.
    pub phases: Vec<String>,
    /// The number of the largest steps along an axis for which the function behind each is named.
    pub explain: Option<u32>,
    /// The time that is compared, and the smallest difference that matters.
    pub options: CompareOptions,
}

/// Compares two results, or the values of an axis.
///
/// # Errors
/// A result that is unreadable; an unknown phase; results without common conditions; a trial that cannot be explained.
pub fn compare(request: &CompareRequest) -> Result<Compared, Failure> {
    let options = request.options;
    match (request.by, &request.new) {
        (Some(axis), _) => compare_by(request, axis),
        (None, _) if request.explain.is_some() => Err(Failure::invalid_use(
            "--explain needs --by AXIS: it explains the steps of one result",
        )),
        (None, Some(new)) => {
            let mut sides = [load(&[find(&request.base)?])?, load(&[find(new)?])?];
            select_phases(&request.phases, &mut sides)?;
            Ok(compare::compare(&sides[0], &sides[1], options)?)
        }
        (None, None) => Err(missing_result(request)?),
    }
}

/// Returns the failure for only one result; it names the axes along which its trials can be compared.
fn missing_result(request: &CompareRequest) -> Result<Failure, Failure> {
    let axes = compare::axes_with_steps(&trials(&find(&request.base)?)?);
    let options: Vec<String> = axes.into_iter().map(|axis| format!("--by {}", axis.key)).collect();
    let base = quote(&request.base.to_string_lossy());
    Ok(Failure::invalid_use(match options.is_empty() {
        true => format!("there is only one result; give a second one: fsdyno compare {base} NEW"),
        false => format!(
            "there is only one result; give a second one, or compare the trials within it: fsdyno compare \
             {base} {}",
            options.join(" or ")
        ),
    }))
}

/// Compares the values of an axis and, if requested, names the functions behind the largest steps.
fn compare_by(request: &CompareRequest, axis: &'static Axis) -> Result<Compared, Failure> {
    let base = find(&request.base)?;
    let mut all = trials(&base)?;
    if let Some(new) = &request.new {
        let new = find(new)?;
        if base.canonicalize().is_ok_and(|base| new.canonicalize().is_ok_and(|new| new == base)) {
            return Err(Failure::invalid_use(format!(
                "BASE and NEW are the same result; to compare the trials within it: fsdyno compare {} --by {}",
                quote(&request.base.to_string_lossy()),
                axis.key
            )));
        }
        add_trials(&mut all, trials(&new)?);
    }
    let mut selected = [all.clone()];
    select_phases(&request.phases, &mut selected)?;
    let mut compared = compare::compare_by(&selected[0], axis, request.options)?;
    if let Some(count) = request.explain {
        explain::steps(&mut compared, &all, axis, count as usize, &stop::flag()?)?;
    }
    Ok(compared)
}

/// Removes all phases except these, unless none are given. A phase may be given by an alias.
///
/// # Errors
/// A phase that no trial has.
fn select_phases(phases: &[String], results: &mut [Vec<Trial>]) -> Result<(), Failure> {
    if phases.is_empty() {
        return Ok(());
    }
    let all: Vec<Trial> = results.iter().flatten().cloned().collect();
    let known = phase_name::of_trials(&all);
    let mut selected = BTreeSet::new();
    for name in phases {
        selected.extend(phase_name::resolve("--phase", name, &known)?);
    }
    for trial in results.iter_mut().flatten() {
        trial.measured.phases.retain(|phase| selected.contains(&phase.name));
    }
    Ok(())
}

/// Adds the trials of another result, without copies of trials that are in both.
fn add_trials(all: &mut Vec<Trial>, mut new: Vec<Trial>) {
    let known: BTreeSet<_> = all.iter().map(Trial::identity).collect();
    // Copies of a trial in the lab count once anyway.
    new.retain(|trial| trial.is_bit_identical() || !known.contains(&trial.identity()));
    let ends = [all.len(), all.len() + new.len()];
    all.extend(new);
    drop_superseded(all, &ends);
}
