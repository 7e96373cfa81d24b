//! Exit codes, and the failures that lead to them.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::{MatrixError, MergeError, RunError, ShareError, StoreError};
use fsdyno_disk::fit::FitError;
use fsdyno_lab::LabError;
use fsdyno_media::{BlockError, MediaError, ProbeError};
use fsdyno_report::{LoadError, ReportError};
use fsdyno_venue::VenueError;

/// The exit code of a command. [`HELP`] describes them to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Good = 0,
    /// A verdict says no: something became slower.
    VerdictNo = 1,
    /// The request is invalid, or impossible with the folder or directory given.
    WrongUse = 2,
    /// Something needed is missing.
    Missing = 3,
    /// At least one trial failed, or its result could not be written.
    TrialFailed = 4,
    /// A bisection step is undecided.
    Undecided = 125,
    /// Stopped by Ctrl-C or SIGTERM.
    Stopped = 130,
}

/// The part of `fsdyno --help` about exit codes.
pub const HELP: &str = "\
Exit codes:
  0    success
  1    a verdict is negative: a phase is slower, a guarantee was violated
  2    invalid use: an unknown name, an invalid value, an unusable folder
  3    a requirement is missing; the message gives the command that installs it
  4    a trial failed (its record has the reason), or two records of one trial
       in one lab differ, or the disk with the results is full or broken
  125  compare --bisect is undecided
  130  stopped by Ctrl-C or SIGTERM; finished trials are kept
'record' ends with the code of its command";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The error of a command: one line for the user, and the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The message: what is wrong, and what would be right.
    pub message: String,
}

impl Failure {
    /// An invalid request.
    pub fn wrong(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::WrongUse, message: message.into() }
    }

    /// A file or folder that could not be written, created or read.
    pub fn io(attempt: &str, path: &Path, error: &io::Error) -> Failure {
        let message = format!("failed to {attempt} '{}': {error}", path.display());
        Failure { exit: of_io(error), message }
    }
}

/// The exit code for an I/O error: a full or broken disk is not an invalid request.
fn of_io(error: &io::Error) -> Exit {
    use rustix::io::Errno;
    // By number: a file beyond a limit of fsdyno has the kind of EFBIG, too, and is not a fault of the disk.
    const BROKEN: [Errno; 4] = [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::FBIG];
    match Errno::from_io_error(error).is_some_and(|errno| BROKEN.contains(&errno)) {
        true => Exit::TrialFailed,
        false => Exit::WrongUse,
    }
}

impl From<MatrixError> for Failure {
    fn from(error: MatrixError) -> Failure {
        Failure::wrong(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let exit = match &error {
            StoreError::Io { source, .. } => of_io(source),
            _ => Exit::WrongUse,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl From<ShareError> for Failure {
    fn from(error: ShareError) -> Failure {
        let exit = match &error {
            ShareError::Io { source, .. } => of_io(source),
            _ => Exit::WrongUse,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl From<MergeError> for Failure {
    fn from(error: MergeError) -> Failure {
        let exit = match error {
            MergeError::Differs { .. } => Exit::TrialFailed,
            MergeError::Share(error) => return error.into(),
            MergeError::Store(error) => return error.into(),
            MergeError::Log { ref source, .. } => of_io(source),
            _ => Exit::WrongUse,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl From<MediaError> for Failure {
    fn from(error: MediaError) -> Failure {
        let exit = match error {
            MediaError::NeedsRoot(_) | MediaError::NoLoops(_) => Exit::Missing,
            MediaError::Io { ref source, .. } => of_io(source),
            MediaError::Block(error) => return error.into(),
            _ => Exit::WrongUse,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl From<BlockError> for Failure {
    fn from(error: BlockError) -> Failure {
        let exit = match error {
            BlockError::NotAllowed(_) | BlockError::NoTool(_) => Exit::Missing,
            _ => Exit::WrongUse,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Failure {
        let exit = match error {
            ProbeError::NotAllowed(_) => Exit::Missing,
            _ => Exit::WrongUse,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl From<FitError> for Failure {
    fn from(error: FitError) -> Failure {
        Failure::wrong(error.to_string())
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        Failure::wrong(format!("failed to {error}"))
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Failure {
        Failure::wrong(format!("failed to {error}"))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        let exit = match error {
            RunError::Missing(_) => Exit::Missing,
            RunError::Store(error) => return error.into(),
            RunError::OtherLab { .. }
            | RunError::OtherGround { .. }
            | RunError::OtherClock { .. } => Exit::WrongUse,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl From<VenueError> for Failure {
    fn from(error: VenueError) -> Failure {
        let exit = match error {
            VenueError::Missing(_) => Exit::Missing,
            VenueError::Refused(_) => Exit::WrongUse,
            VenueError::Stopped => Exit::Stopped,
            VenueError::Medium(error) => return error.into(),
            VenueError::Died(_) | VenueError::Io { .. } => Exit::TrialFailed,
        };
        Failure { exit, message: error.to_string() }
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        let exit = if error.is_missing() { Exit::Missing } else { Exit::WrongUse };
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        Failure { exit, message: format!("failed to {error}{hint}") }
    }
}
