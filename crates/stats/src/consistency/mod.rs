//! Contradictions within a printed table: between times, counts and rates that belong together.
//!
//! Every number is taken for all that it may stand for (`range`: what was rounded, or cut), and only what
//! no runs could have given is called a contradiction: a table without alarm need not be right, but
//! one with an alarm is wrong somewhere. The runs themselves need not be known.
//!
//! - `sample`: a mean with its deviation, extremes, number of runs and clock;
//! - `rate`: a time beside the rate of the same work, and cells that count the same;
//! - `relation`: quotients, sums and limits.

pub mod range;
pub mod rate;
pub mod relation;
pub mod sample;

pub use range::{Range, cut, printed};
pub use rate::{Agreement, Cell, agreed_count, check_cells};
pub use relation::{at_most, equal};
pub use sample::{Divisor, Sample, check_sample};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The mean of so many whole units cannot be that (`sample`).
    MeanOfUnits,
    /// The deviation of so many whole units with that mean cannot be that (`sample`).
    DeviationOfUnits,
    /// The mean lies outside the extremes (`sample`).
    MeanOutside,
    /// The deviation is too large or too small for the extremes or the mean (`sample`).
    DeviationAndRange,
    /// Time and rate of a cell fit no amount of work (`rate`).
    TimeAndRate,
    /// All times are equal and the rates are not (`rate`).
    EqualTimes,
    /// The work that a cell's time and rate tell of is not that of the others (`rate`).
    OtherCount,
    /// A quotient or a sum is not what its parts make (`relation`).
    NotEqual,
    /// A part is more than the whole, or a rate more than its limit (`relation`).
    MoreThanWhole,
}

/// Numbers that cannot stand beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradiction {
    /// The cell, as the caller named it.
    pub place: String,
    /// What is broken.
    pub rule: Rule,
    /// What is printed and why it cannot be, in one sentence.
    pub says: String,
}

impl std::fmt::Display for Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.says)
    }
}
