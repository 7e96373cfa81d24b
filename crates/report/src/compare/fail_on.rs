//! The failures of a comparison, for CI.

use fsdyno_stats::compare::Verdict;

use super::{Compared, Row, Side, Unmatched};
use crate::number;

/// The results of a comparison that are failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailOn {
    /// A slower phase.
    #[default]
    Slower,
    /// Also a phase whose comparison did not decide whether it is slower.
    Undecided,
}

impl FailOn {
    /// Every value, with its name for `--fail-on` and its description.
    pub const ALL: &[(&str, &str, FailOn)] = &[
        ("slower", "A phase that is slower", FailOn::Slower),
        (
            "undecided",
            "Also a phase that is undecided or within the processor model's error, and one of BASE that NEW lacks",
            FailOn::Undecided,
        ),
    ];

    /// The word for the failure of a phase; `None` if its verdict is not a failure.
    pub(super) fn of_row(self, row: &Row) -> Option<&'static str> {
        match row.verdict() {
            Verdict::Slower => Some("slower"),
            Verdict::Undecided | Verdict::WithinError => {
                (self == FailOn::Undecided).then_some("undecided")
            }
            Verdict::Faster | Verdict::Same => None,
        }
    }

    /// Returns true if a cell or phase without a match is a failure.
    pub(super) fn is_failure(self, item: &Unmatched) -> bool {
        self == FailOn::Undecided && item.side == Side::Base
    }
}

impl Compared {
    /// The number of phases whose comparison did not decide whether they are slower, including the cells and phases of
    /// the base that the new result lacks.
    pub fn not_decided(&self) -> usize {
        self.undecided() + self.lacking()
    }

    fn undecided(&self) -> usize {
        self.count(Verdict::Undecided) + self.count(Verdict::WithinError)
    }

    fn lacking(&self) -> usize {
        self.unmatched.iter().filter(|item| item.side == Side::Base).count()
    }

    /// The sentence about what `--fail-on undecided` makes a failure; empty without it.
    pub(super) fn failure_sentence(&self) -> String {
        if self.fail_on == FailOn::Slower || self.not_decided() == 0 {
            return String::new();
        }
        let (undecided, lacking) = (self.undecided(), self.lacking());
        let parts = [
            (undecided, number::counted(undecided, "undecided phase")),
            (lacking, format!("{lacking} only in BASE")),
        ];
        let parts: Vec<String> =
            parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
        format!(" Failure because of --fail-on undecided: {}.", parts.join(", "))
    }
}
