//! An error in a study file: the problem, its position, and the remedy.

use std::fmt;

/// A position in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// The name of a study in errors: that of a user's file, or of a built-in study, which is not a file of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileName {
    /// The path of a file.
    Path(String),
    /// The name of a built-in study.
    BuiltIn(String),
}

impl FileName {
    /// Formats a position: `my.toml:27:1`, a form that editors accept, or `built-in study guenter-2008, line 27`.
    pub fn at(&self, spot: Spot) -> String {
        match self {
            FileName::Path(path) => format!("{path}:{}:{}", spot.line, spot.column),
            FileName::BuiltIn(_) => format!("{self}, line {}", spot.line),
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Path(path) => f.write_str(path),
            FileName::BuiltIn(name) => write!(f, "built-in study {name}"),
        }
    }
}

impl<T: AsRef<str> + ?Sized> From<&T> for FileName {
    fn from(path: &T) -> FileName {
        FileName::Path(path.as_ref().to_string())
    }
}

/// One error, displayed as `FILE:LINE:COLUMN: problem; remedy`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}; {remedy}", file.at(*spot))]
pub struct FileError {
    /// The study.
    pub file: FileName,
    /// Position of the error.
    pub spot: Spot,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}
