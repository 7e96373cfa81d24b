//! Finds contradictions within a printed table: between times, counts and rates that belong together.
//!
//! Every number is treated as the range of values that it may stand for (`range`), and only numbers that no runs could
//! have produced are a contradiction: a table without contradictions is not necessarily right, but a table with one is
//! wrong somewhere. The runs themselves need not be known.
//!
//! - `sample` checks a mean with its deviation, extremes, number of runs and clock resolution;
//! - `rate` checks a time with the rate of the same work, and cells that count the same work;
//! - `relation` checks quotients, sums and limits.

pub mod range;
pub mod rate;
pub mod relation;
pub mod sample;

pub use range::{Range, parse_rounded, parse_truncated};
pub use rate::{Agreement, Cell, agreed_count, check_cells};
pub use relation::{check_at_most, check_equal};
pub use sample::{Divisor, Sample, check_sample};

/// The rule that a contradiction breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// No runs whose results are whole units can have this mean (`sample`).
    MeanOfUnits,
    /// No runs whose results are whole units and have this mean can have this deviation (`sample`).
    DeviationOfUnits,
    /// The mean lies outside the extremes (`sample`).
    MeanOutside,
    /// The deviation is too large or too small for the extremes, or for the mean (`sample`).
    DeviationAndRange,
    /// Time and rate of a cell fit no amount of work (`rate`).
    TimeAndRate,
    /// All times are equal, but the rates are not (`rate`).
    EqualTimes,
    /// The work that a cell's time and rate imply differs from that of the other cells (`rate`).
    OtherCount,
    /// A quotient or a sum does not equal the result of its parts (`relation`).
    NotEqual,
    /// A part is more than the whole, or a rate more than its limit (`relation`).
    MoreThanWhole,
}

/// Printed numbers that cannot all be right.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradiction {
    /// The name of the table cell, as given by the caller.
    pub name: String,
    /// The broken rule.
    pub rule: Rule,
    /// The printed number and why it is impossible, in one sentence.
    pub message: String,
}

impl std::fmt::Display for Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}
