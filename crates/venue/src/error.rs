//! Why a venue has no report of a trial.

use fsdyno_media::MediaError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum VenueError {
    /// The directory cannot be used.
    #[error(transparent)]
    Medium(#[from] MediaError),
    /// Something is needed that is not there; the message holds the command that brings it.
    #[error("{0}")]
    Missing(String),
    /// It is not run: the message says what about it is wrong.
    #[error("{0}")]
    Refused(String),
    /// The trial ended without a report; the message holds the last lines it left.
    #[error("{0}")]
    Died(String),
    /// It was stopped on request. Nothing of it is left, and it leaves no record.
    #[error("the trial was stopped")]
    Stopped,
    /// A system call around the trial failed.
    #[error("{what}: {source}")]
    Io {
        /// The attempt.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl VenueError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> VenueError {
        move |source| VenueError::Io { what, source }
    }
}
