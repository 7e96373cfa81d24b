//! The errors of recording and importing.

use std::io;
use std::path::PathBuf;

use fsdyno_trace::TraceError;
use thiserror::Error;

/// A recording or import that failed.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The command does not run.
    #[error("cannot run '{command}': {error}")]
    Command {
        /// Its first word.
        command: String,
        /// The reason.
        error: io::Error,
    },
    /// A tree is no directory.
    #[error("--tree {}: {error}", .path.display())]
    Tree {
        /// Its path.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The host has no memory for the code inside programs.
    #[error("no memory can be shared with programs: {0}; --how ptrace needs none")]
    Inside(io::Error),
    /// The kernel refuses ptrace or seccomp.
    #[error("cannot trace the command: {0}")]
    Trace(io::Error),
    /// The trace was not written.
    #[error("the trace cannot be written: {0}")]
    Write(#[from] TraceError),
    /// A file to import is wrong.
    #[error("line {line}: {problem}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// The mistake.
        problem: String,
    },
    /// A file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
}
