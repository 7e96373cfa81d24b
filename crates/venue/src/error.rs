//! The errors of venues.

use std::path::{Path, PathBuf};

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
    #[error("failed to {action}{}: {source}", quoted(.path))]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file, folder or program; `None` for a process or a file without a name.
        path: Option<PathBuf>,
        /// The error of the kernel.
        source: std::io::Error,
    },
}

/// Returns ` 'PATH'`, or nothing without a path.
fn quoted(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!(" '{}'", path.display())).unwrap_or_default()
}

impl VenueError {
    /// Returns the error of a system call on a file, folder or program: `failed to open the directory '/x': ...`.
    pub(crate) fn io(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> VenueError + Clone {
        let path = Some(path.to_path_buf());
        move |source| VenueError::Io { action, path, source }
    }

    /// Returns the error of a system call on a process, or on a file without a name.
    pub(crate) fn io_without_path(
        action: &'static str,
    ) -> impl FnOnce(std::io::Error) -> VenueError + Clone {
        move |source| VenueError::Io { action, path: None, source }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_system_call_names_the_operation_the_path_and_the_reason() {
        let error = || std::io::Error::from_raw_os_error(28);
        let with_path = VenueError::io("write the request log", Path::new("/x/a.log"))(error());
        assert_eq!(
            with_path.to_string(),
            "failed to write the request log '/x/a.log': No space left on device (os error 28)"
        );
        let without = VenueError::io_without_path("wait for the agent")(error());
        assert!(without.to_string().starts_with("failed to wait for the agent: No space"));
    }
}
