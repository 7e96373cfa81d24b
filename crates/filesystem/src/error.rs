//! What is wrong with a spec, where, and what would be right.

use std::fmt;

/// A spec that cannot be meant: one line with the problem, its place and the way out.
///
/// It reads as the end of "failed to read the spec '...': "; the caller exits with 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// What is wrong, naming what was typed.
    pub problem: String,
    /// Character of the spec, from 1, where it is wrong; none where the grammar is right and the
    /// meaning is not.
    pub column: Option<usize>,
    /// What would be right.
    pub hint: String,
}

impl SpecError {
    /// A mistake in the grammar, at a column counted from 1.
    pub(crate) fn at(column: usize, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        SpecError { problem: problem.into(), column: Some(column), hint: hint.into() }
    }

    /// A mistake in the meaning.
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
