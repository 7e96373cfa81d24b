//! Comparison of two results: `fsdyno compare BASE NEW`.
//!
//! [`cells`] matches the cells of both results, [`rows`] compares the phases of each pair of cells, and [`differences`]
//! lists other differences; the other modules are the output formats.

mod cells;
mod data;
mod differences;
mod document;
mod fail_on;
mod junit;
mod mail;
mod rows;
mod words;

use std::collections::BTreeSet;

use fsdyno_axes::along;
use fsdyno_axes::subject::Subject;
use fsdyno_axes::{AXES, Axis};
use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;
use fsdyno_stats::compare::Verdict;

pub(crate) use data::ComparedJson;

pub use cells::{Step, conditions, without_spec};
pub use differences::Difference;
pub use fail_on::FailOn;
pub use rows::{ExplainedStep, Mark, Metric, Row};
pub(crate) use words::{change, effect, interval, n, value, verdict};

use cells::{Cell, Matched, Pair};

use crate::error::ReportError;
use crate::number::sanitize;
use crate::table::{Document, Output, Rows, SpecialFormat};

/// The default of `--threshold`: 3 %.
pub const DEFAULT_THRESHOLD: f64 = 0.03;

/// The options of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct CompareOptions {
    /// The requested metric.
    pub metric: Metric,
    /// The smallest difference that matters, relative: 0.03 is 3 %.
    pub threshold: f64,
    /// What counts as a failure.
    pub fail_on: FailOn,
}

/// The comparison of two results.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The axis whose values are compared, if both sides are from one result.
    pub axis_key: Option<&'static str>,
    /// The requested metric.
    pub metric: Metric,
    /// The smallest difference that matters, relative.
    pub threshold: f64,
    /// What counts as a failure.
    pub fail_on: FailOn,
    /// A row for each phase of each pair of cells, in the order of the base.
    pub rows: Vec<Row>,
    /// Other differences.
    pub differences: Vec<Difference>,
    /// Unmatched cells and phases.
    pub unmatched: Vec<Unmatched>,
    /// Failed and skipped trials.
    pub unfinished: Vec<Unfinished>,
}

/// One of the two results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The base.
    Base,
    /// The new result.
    New,
}

impl Side {
    /// The name of the side in messages.
    pub fn name(self) -> &'static str {
        match self {
            Side::Base => "BASE",
            Side::New => "NEW",
        }
    }
}

/// A cell or phase that only one side has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The side that has the cell or phase.
    pub side: Side,
    /// The name of the cell or phase.
    pub name: String,
}

/// A trial that failed or was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The side that the trial belongs to.
    pub side: Side,
    /// The trial's value on the compared axis, if both sides are from one result and it has one.
    pub value: Option<String>,
    /// The cell of the trial.
    pub cell: String,
    /// The seed of the trial.
    pub seed: u64,
    /// True if the trial failed, false if it was skipped.
    pub failed: bool,
    /// The recorded reason.
    pub reason: String,
}

/// The result of a bisection step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bisect {
    /// No phase takes longer by more than the threshold.
    Good,
    /// Some phase takes longer by more than the threshold.
    Bad,
    /// The trials do not decide.
    Undecided,
}

/// The reason why nothing could be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing to compare: {0}")]
pub struct NothingInCommon(String);

/// Compares two results. The rows follow the order of `base`: pass the trials in the user's order, without
/// superseded trials.
///
/// # Errors
/// No cell of one result has a match in the other; or no pair has successful trials on both sides, although no trial of
/// the new result failed.
pub fn compare(
    base: &[Trial],
    new: &[Trial],
    options: CompareOptions,
) -> Result<Compared, NothingInCommon> {
    let Matched { pairs, base_unmatched, new_unmatched } = cells::match_cells(base, new);
    if pairs.is_empty() {
        let sides = [(Side::Base, &base_unmatched), (Side::New, &new_unmatched)].map(list_cells);
        return Err(NothingInCommon(format!(
            "no cell of one result has the same conditions as a cell of the other; {}; {}",
            sides[0], sides[1]
        )));
    }
    let (rows, mut unmatched) = rows::rows(&pairs, options);
    for (side, cells) in [(Side::Base, &base_unmatched), (Side::New, &new_unmatched)] {
        unmatched.extend(cells.iter().map(|cell| Unmatched { side, name: cell.name.clone() }));
    }
    let mut unfinished = Vec::new();
    let base_cells = pairs.iter().map(|pair| &pair.base).chain(&base_unmatched);
    let new_cells = pairs.iter().map(|pair| &pair.new).chain(&new_unmatched);
    base_cells.for_each(|cell| unfinished.extend(unfinished_of(Side::Base, cell)));
    new_cells.for_each(|cell| unfinished.extend(unfinished_of(Side::New, cell)));
    build_comparison(None, options, (rows, &pairs), unmatched, unfinished)
}

/// Compares the cells of one result that differ only in one axis, each with the cell of the next value.
///
/// # Errors
/// No two cells differ in this axis alone, or no step has successful trials on both sides and no trial of a new
/// side failed.
pub fn compare_by(
    trials: &[Trial],
    axis: &'static Axis,
    options: CompareOptions,
) -> Result<Compared, NothingInCommon> {
    let Matched { pairs, new_unmatched, .. } = cells::match_steps(trials, axis);
    if pairs.is_empty() {
        return Err(NothingInCommon(no_step(trials, axis)));
    }
    let (rows, mut unmatched) = rows::rows(&pairs, options);
    let side = Side::New;
    unmatched.extend(new_unmatched.iter().map(|cell| Unmatched { side, name: cell.title() }));
    let mut unfinished: Vec<Unfinished> = Vec::new();
    let sides = pairs.iter().flat_map(|pair| [(Side::Base, &pair.base), (Side::New, &pair.new)]);
    // A cell in the middle is the new side of one step and the base of the next.
    let mut known = BTreeSet::new();
    let mut sides: Vec<_> = sides.chain(new_unmatched.iter().map(|cell| (side, cell))).collect();
    sides.sort_by_key(|(side, _)| *side == Side::Base);
    for (side, cell) in sides {
        if known.insert(cell.trials.first().map(|trial| std::ptr::from_ref(*trial))) {
            unfinished.extend(unfinished_of(side, cell));
        }
    }
    build_comparison(Some(axis.key), options, (rows, &pairs), unmatched, unfinished)
}

/// Returns the axes along which these trials have steps.
pub fn axes_with_steps(trials: &[Trial]) -> Vec<&'static Axis> {
    let has_steps = |axis: &&'static Axis| !cells::match_steps(trials, axis).pairs.is_empty();
    AXES.iter().filter(has_steps).collect()
}

/// For every step along an axis, its name ([`Row::group`]) and one trial of each side: those with the lowest seed that
/// succeeded on both sides.
pub fn sides_of_steps<'a>(
    trials: &'a [Trial],
    axis: &'static Axis,
) -> Vec<(String, [&'a Trial; 2])> {
    let pairs = cells::match_steps(trials, axis).pairs;
    let sides = pairs.iter().filter_map(|pair| {
        let partner_of = |base: &'a Trial| pair.new.successful().find(|new| new.seed == base.seed);
        let both = pair.base.successful().filter_map(|base| Some([base, partner_of(base)?]));
        Some((pair.title(), both.min_by_key(|[base, _]| base.seed)?))
    });
    sides.collect()
}

/// The reason why trials have no step along an axis.
fn no_step(trials: &[Trial], axis: &Axis) -> String {
    let subjects: Vec<Subject<'_>> = trials.iter().map(Into::into).collect();
    let differing: Vec<&str> = along::differing(&subjects);
    let others = match differing.iter().filter(|key| **key != axis.key).copied().collect::<Vec<_>>()
    {
        keys if keys.is_empty() => "they do not differ in any other axis".into(),
        keys => format!("they differ in {}", keys.join(", ")),
    };
    let first = subjects.first().and_then(|subject| axis.words(subject));
    match (differing.contains(&axis.key), first) {
        (true, _) => format!("no two trials differ in {} alone; {others}", axis.key),
        (false, Some(value)) => format!("all trials have the same {}, {value}; {others}", axis.key),
        (false, None) => format!("no trial has a {}; {others}", axis.key),
    }
}

/// The comparison, or the reason why it has no rows.
fn build_comparison(
    axis_key: Option<&'static str>,
    CompareOptions { metric, threshold, fail_on }: CompareOptions,
    (rows, pairs): (Vec<Row>, &[Pair<'_>]),
    unmatched: Vec<Unmatched>,
    unfinished: Vec<Unfinished>,
) -> Result<Compared, NothingInCommon> {
    let differences = differences::differences(pairs);
    let comparison =
        Compared { axis_key, metric, threshold, fail_on, rows, differences, unmatched, unfinished };
    if !comparison.rows.is_empty() || comparison.new_failed() {
        return Ok(comparison);
    }
    let reason = comparison.unfinished.first().map_or(String::new(), |first| {
        let side = first.value.as_deref().unwrap_or(first.side.name());
        format!("; {side}, seed {}: {}", first.seed, sanitize(&first.reason))
    });
    Err(NothingInCommon(format!("no phase succeeded on both sides under equal conditions{reason}")))
}

/// The maximum number of cells listed for a side if none has a match.
const MAX_LISTED: usize = 6;

fn list_cells((side, cells): (Side, &Vec<Cell<'_>>)) -> String {
    if cells.is_empty() {
        return format!("{} has no trial", side.name());
    }
    let mut names: Vec<&str> =
        cells.iter().take(MAX_LISTED).map(|cell| cell.name.as_str()).collect();
    let more = format!("and {} more", cells.len().saturating_sub(MAX_LISTED));
    if cells.len() > MAX_LISTED {
        names.push(&more);
    }
    format!("{} has {}", side.name(), names.join("; "))
}

fn unfinished_of(side: Side, cell: &Cell<'_>) -> Vec<Unfinished> {
    let unfinished = cell.trials.iter().filter(|trial| trial.outcome != Outcome::Ok);
    unfinished
        .map(|trial| Unfinished {
            side,
            value: cell.value.clone(),
            cell: cell.name.clone(),
            seed: trial.seed,
            failed: trial.outcome == Outcome::Failed,
            reason: trial.reason.as_deref().unwrap_or("no reason was recorded").trim().to_string(),
        })
        .collect()
}

impl Compared {
    /// The number of rows with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    /// Returns true if some phase is slower.
    pub fn slower(&self) -> bool {
        self.count(Verdict::Slower) > 0
    }

    /// Returns true if the comparison is a failure: some phase is slower or, if requested, not decided.
    pub fn fails(&self) -> bool {
        self.slower() || (self.fail_on == FailOn::Undecided && self.not_decided() > 0)
    }

    /// Returns true if a trial of the new result failed.
    pub fn new_failed(&self) -> bool {
        self.unfinished.iter().any(|trial| trial.side == Side::New && trial.failed)
    }

    /// The result for a bisection: bad if some phase certainly takes longer by more than the threshold; good only if
    /// it is certain that no phase of any cell of the base does.
    pub fn bisect(&self) -> Bisect {
        let regressed: Vec<Option<bool>> = self.rows.iter().map(Row::regressed).collect();
        let new_lacks_some = self.unmatched.iter().any(|item| item.side == Side::Base);
        if regressed.contains(&Some(true)) {
            Bisect::Bad
        } else if regressed.is_empty()
            || regressed.contains(&None)
            || new_lacks_some
            || self.new_failed()
        {
            Bisect::Undecided
        } else {
            Bisect::Good
        }
    }
}

impl Output for Compared {
    fn document(&self) -> Document {
        document::document(self)
    }

    fn mail(&self) -> Document {
        mail::document(self)
    }

    fn rows(&self, out: &mut dyn Rows) {
        data::rows(self, out);
    }

    fn json(&self) -> Result<String, ReportError> {
        data::json(self)
    }

    fn special(&self, format: SpecialFormat) -> Option<Result<String, ReportError>> {
        (format == SpecialFormat::Junit).then(|| Ok(junit::junit(self)))
    }
}

#[cfg(test)]
mod tests;
