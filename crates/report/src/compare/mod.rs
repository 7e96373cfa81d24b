//! Two results compared: `fsdyno compare BASE NEW`.
//!
//! [`cells`] finds which cell belongs to which, [`rows`] compares the phases of each pair,
//! [`differences`] names what differs beside them; the other files are what people and programs read.

mod cells;
mod data;
mod differences;
mod junit;
mod rows;
mod text;
mod words;

use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;
use fsdyno_stats::compare::Verdict;

pub use cells::{conditions, without_spec};
pub use differences::Difference;
pub use rows::{Mark, Metric, Row};

use cells::{Cell, Matched};

use crate::number::clean;
use crate::table::Style;

/// What is compared, and from which difference on it matters.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The measure.
    pub metric: Metric,
    /// The least difference that matters, relative: 0.03 is 3 %.
    pub threshold: f64,
}

/// Two results compared.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What was asked.
    pub metric: Metric,
    /// The least difference that matters, relative.
    pub threshold: f64,
    /// A row for each phase of each pair of cells, in the order of the base.
    pub rows: Vec<Row>,
    /// What differs beside them.
    pub differences: Vec<Difference>,
    /// What has no partner, each in a sentence.
    pub alone: Vec<Alone>,
    /// Trials that did not end well.
    pub unfinished: Vec<Unfinished>,
}

/// Which of the two results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is measured against.
    Base,
    /// What is measured.
    New,
}

impl Side {
    /// Its word in messages.
    pub fn name(self) -> &'static str {
        match self {
            Side::Base => "BASE",
            Side::New => "NEW",
        }
    }
}

/// A cell, or a phase of one, that only one side has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alone {
    /// Which side has it.
    pub side: Side,
    /// What it is.
    pub what: String,
}

/// A trial that failed or was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Which side it is of.
    pub side: Side,
    /// Its cell.
    pub cell: String,
    /// Its seed.
    pub seed: u64,
    /// Whether it failed; else it was skipped.
    pub failed: bool,
    /// Why, as it was recorded.
    pub reason: String,
}

/// How a step of a bisection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bisect {
    /// No phase takes longer by more than the threshold.
    Good,
    /// Some phase does.
    Bad,
    /// The trials do not tell.
    CannotTell,
}

/// Why nothing could be compared: what each side has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing to compare: {0}")]
pub struct NothingInCommon(String);

/// Compares two results. A caller that wants the user's order hands the trials in that order, and
/// leaves out those that a later trial superseded.
///
/// # Errors
/// No cell of one has a partner in the other, or no pair has trials of both sides that ended well and
/// nothing has failed.
pub fn compare(base: &[Trial], new: &[Trial], wanted: Wanted) -> Result<Compared, NothingInCommon> {
    let Matched { pairs, base_alone, new_alone } = cells::matched(base, new);
    if pairs.is_empty() {
        let sides = [(Side::Base, &base_alone), (Side::New, &new_alone)].map(has);
        return Err(NothingInCommon(format!(
            "no cell of one has the conditions of a cell of the other; {}; {}",
            sides[0], sides[1]
        )));
    }
    let (rows, mut alone) = rows::rows(&pairs, wanted);
    for (side, cells) in [(Side::Base, &base_alone), (Side::New, &new_alone)] {
        alone.extend(cells.iter().map(|cell| Alone { side, what: cell.name.clone() }));
    }
    let mut unfinished = Vec::new();
    let bases = pairs.iter().map(|pair| &pair.base).chain(&base_alone);
    let news = pairs.iter().map(|pair| &pair.new).chain(&new_alone);
    bases.for_each(|cell| unfinished.extend(unfinished_of(Side::Base, cell)));
    news.for_each(|cell| unfinished.extend(unfinished_of(Side::New, cell)));
    let compared = Compared {
        metric: wanted.metric,
        threshold: wanted.threshold,
        rows,
        differences: differences::differences(&pairs),
        alone,
        unfinished,
    };
    if compared.rows.is_empty() && !compared.new_failed() {
        let why = compared.unfinished.first().map_or(String::new(), |first| {
            format!("; {}, seed {}: {}", first.side.name(), first.seed, clean(&first.reason))
        });
        return Err(NothingInCommon(format!(
            "no phase of equal conditions ended well on both sides{why}"
        )));
    }
    Ok(compared)
}

/// How many cells are named where none has a partner.
const NAMED: usize = 6;

fn has((side, cells): (Side, &Vec<Cell<'_>>)) -> String {
    if cells.is_empty() {
        return format!("{} has no trial", side.name());
    }
    let mut names: Vec<&str> = cells.iter().take(NAMED).map(|cell| cell.name.as_str()).collect();
    let more = format!("and {} more", cells.len().saturating_sub(NAMED));
    if cells.len() > NAMED {
        names.push(&more);
    }
    format!("{} has {}", side.name(), names.join("; "))
}

fn unfinished_of(side: Side, cell: &Cell<'_>) -> Vec<Unfinished> {
    let bad = cell.trials.iter().filter(|trial| trial.outcome != Outcome::Ok);
    bad.map(|trial| Unfinished {
        side,
        cell: cell.name.clone(),
        seed: trial.seed,
        failed: trial.outcome == Outcome::Failed,
        reason: trial.reason.as_deref().unwrap_or("no reason was recorded").trim().to_string(),
    })
    .collect()
}

impl Compared {
    /// How many rows have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    /// Whether some phase is slower.
    pub fn slower(&self) -> bool {
        self.count(Verdict::Slower) > 0
    }

    /// Whether a trial of the new result failed.
    pub fn new_failed(&self) -> bool {
        self.unfinished.iter().any(|trial| trial.side == Side::New && trial.failed)
    }

    /// What a bisection wants to know: bad if some phase certainly takes longer by more than the
    /// threshold; good only if every phase of every cell of the base certainly does not.
    pub fn bisect(&self) -> Bisect {
        let regressed: Vec<Option<bool>> = self.rows.iter().map(Row::regressed).collect();
        let lacks = self.alone.iter().any(|alone| alone.side == Side::Base);
        if regressed.contains(&Some(true)) {
            Bisect::Bad
        } else if regressed.is_empty() || regressed.contains(&None) || lacks || self.new_failed() {
            Bisect::CannotTell
        } else {
            Bisect::Good
        }
    }
}

/// How a comparison is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns as wide as the terminal.
    Text,
    /// Aligned columns in 72 columns of plain ASCII.
    Mail,
    /// One object.
    Json,
    /// Pipe tables.
    Markdown,
    /// A test case for each cell and phase.
    Junit,
    /// A line for each cell and phase.
    Csv,
}

impl Format {
    /// Every format, with the name that `--format` takes and what it is.
    pub const ALL: &[(&str, &str, Format)] = &[
        ("text", "A table for a terminal", Format::Text),
        ("mail", "A table of 72 columns for a mailing list", Format::Mail),
        ("json", "Every number, for programs", Format::Json),
        ("markdown", "A table for an issue tracker", Format::Markdown),
        ("junit", "A test case for each cell and phase, for CI", Format::Junit),
        ("csv", "A line for each cell and phase", Format::Csv),
    ];
}

/// A comparison in a format; ends in a newline.
pub fn print(compared: &Compared, format: Format, style: Style) -> String {
    match format {
        Format::Text => text::text(compared, style),
        Format::Mail => text::mail(compared),
        Format::Json => data::json(compared),
        Format::Markdown => text::markdown(compared),
        Format::Junit => junit::junit(compared),
        Format::Csv => data::csv(compared),
    }
}

#[cfg(test)]
mod tests;
