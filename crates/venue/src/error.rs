//! The errors of venues.

use fsdyno_lab::{LabError, RunError};
use fsdyno_media::MediaError;

/// The reason why a venue has no report of a trial.
#[derive(Debug, thiserror::Error)]
pub enum VenueError {
    /// The directory cannot be used.
    #[error(transparent)]
    Medium(#[from] MediaError),
    /// Something is missing; the message names the command that installs it.
    #[error("{0}")]
    Missing(String),
    /// The trial is not run; the message gives the reason.
    #[error("{0}")]
    Refused(String),
    /// The trial ended without a report; the message contains the last lines of its output.
    #[error("{0}")]
    Failed(String),
    /// The trial was stopped on request; it was cleaned up and leaves no record.
    #[error("the trial was stopped")]
    Stopped,
    /// A system call around the trial failed.
    #[error("failed to {action}: {source}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The error of the kernel.
        source: std::io::Error,
    },
}

impl VenueError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> VenueError {
        move |source| VenueError::Io { action, source }
    }
}

/// Converts an error of the lab, including its hint.
pub(crate) fn from_lab(error: LabError) -> VenueError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    VenueError::Missing(format!("failed to {error}{hint}"))
}

pub(crate) fn from_run(error: RunError) -> VenueError {
    match error {
        RunError::Stopped => VenueError::Stopped,
        error => {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            VenueError::Failed(format!("failed to {error}{hint}"))
        }
    }
}
