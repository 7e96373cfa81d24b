//! The error of a spec: problem, column and hint.

use std::fmt;

/// An invalid spec: one line with the problem, its column and a hint.
///
/// It completes "failed to read the spec '...': "; the caller exits with 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The problem, quoting the text.
    pub problem: String,
    /// The column of the problem, in characters from 1; `None` if the grammar is valid.
    pub column: Option<usize>,
    /// The hint: what would be valid.
    pub hint: String,
}

impl SpecError {
    /// Creates a grammar error at a column counted from 1.
    pub(crate) fn at(column: usize, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        SpecError { problem: problem.into(), column: Some(column), hint: hint.into() }
    }

    /// Creates an error in a spec with valid grammar.
    pub(crate) fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        SpecError { problem: problem.into(), column: None, hint: hint.into() }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "{} at column {column}; {}", self.problem, self.hint),
            None => write!(f, "{}; {}", self.problem, self.hint),
        }
    }
}

impl std::error::Error for SpecError {}
