//! What is wrong in a study file, where, and what would be right.

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The line, from 1.
    pub line: usize,
    /// The character in it, from 1.
    pub column: usize,
}

/// One mistake, as `FILE:LINE:COLUMN: what is wrong; what would be right`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{}:{}: {problem}; {right}", spot.line, spot.column)]
pub struct FileError {
    /// The file as it was named.
    pub file: String,
    /// Where in it.
    pub spot: Spot,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub right: String,
}
