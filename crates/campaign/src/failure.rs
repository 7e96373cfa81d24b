//! Exit codes, and the failures that lead to them.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::{MatrixError, MergeError, RunError, ShareError, StoreError};
use fsdyno_disk::fit::FitError;
use fsdyno_filesystem::period::Unknown as UnknownPeriod;
use fsdyno_lab::LabError;
use fsdyno_machine::MachineError;
use fsdyno_media::{BlockError, MediaError, ProbeError};
use fsdyno_processor::ProcessorError;
use fsdyno_recorder::RecordError;
use fsdyno_report::compare::NothingInCommon;
use fsdyno_report::{LoadError, ReportError};
use fsdyno_tune::SpaceError;
use fsdyno_venue::VenueError;
use fsdyno_workload::ParamError;
use fsdyno_workload::workloads::UnknownWorkload;

/// The exit code of a command. [`HELP`] lists the codes for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Success = 0,
    /// A negative verdict: a phase is slower (or undecided, if requested), or a guarantee was violated.
    NegativeVerdict = 1,
    /// The request is invalid, or impossible with the folder or directory given.
    InvalidUse = 2,
    /// A requirement is missing.
    Missing = 3,
    /// A trial failed, two records of one trial differ, or a result could not be written.
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
  1    a verdict is negative: a phase is slower (or undecided, with compare
       --fail-on undecided), or a guarantee was violated
  2    invalid use: an unknown name, an invalid value, an unusable folder
  3    a requirement is missing; the message gives the command that installs it
  4    a trial failed (its record has the reason), or two records of one trial
       in one lab differ, or the disk with the results is full or broken
  125  compare --bisect is undecided
  130  stopped by Ctrl-C or SIGTERM; finished trials are kept
'record' exits with the code of its command";

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
    /// The message: what is wrong, and what would be valid.
    pub message: String,
}

impl Failure {
    /// Creates the failure of an invalid request.
    pub fn invalid_use(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::InvalidUse, message: message.into() }
    }

    /// Creates the failure for a file or folder that could not be written, created or read.
    pub fn io(attempt: &str, path: &Path, error: &io::Error) -> Failure {
        let message = format!("failed to {attempt} '{}': {error}", path.display());
        Failure { exit: io_exit(error), message }
    }
}

/// Returns the exit code for an I/O error: a full or broken disk is not an invalid request.
fn io_exit(error: &io::Error) -> Exit {
    use rustix::io::Errno;
    // By errno, not by ErrorKind: a file larger than a limit of fsdyno has the same kind as EFBIG, although the disk is
    // sound.
    const BROKEN: [Errno; 4] = [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::FBIG];
    match Errno::from_io_error(error).is_some_and(|errno| BROKEN.contains(&errno)) {
        true => Exit::TrialFailed,
        false => Exit::InvalidUse,
    }
}

/// Converts error types to [`Failure`]: the message is the error's own, and the expression is the exit code.
macro_rules! failures {
    ($($error:ty: |$it:pat_param| $exit:expr;)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                let $it = &error;
                Failure { exit: $exit, message: error.to_string() }
            }
        }
    )*};
}

failures! {
    MatrixError: |_| Exit::InvalidUse;
    FitError: |_| Exit::InvalidUse;
    MachineError: |_| Exit::InvalidUse;
    ProcessorError: |_| Exit::InvalidUse;
    SpaceError: |_| Exit::InvalidUse;
    ParamError: |_| Exit::InvalidUse;
    UnknownWorkload: |_| Exit::InvalidUse;
    UnknownPeriod: |_| Exit::InvalidUse;
    NothingInCommon: |_| Exit::InvalidUse;
    StoreError: |it| store_exit(it);
    ShareError: |it| share_exit(it);
    MergeError: |it| match it {
        MergeError::Differs { .. } => Exit::TrialFailed,
        MergeError::Share(error) => share_exit(error),
        MergeError::Store(error) => store_exit(error),
        MergeError::Log { source, .. } => io_exit(source),
        _ => Exit::InvalidUse,
    };
    MediaError: |it| media_exit(it);
    BlockError: |it| block_exit(it);
    ProbeError: |it| match it {
        ProbeError::NotAllowed(_) => Exit::Missing,
        _ => Exit::InvalidUse,
    };
    RecordError: |it| match it {
        RecordError::Trace(_) | RecordError::Inside(_) | RecordError::Bpf(_) => Exit::Missing,
        RecordError::Write(_) => Exit::TrialFailed,
        _ => Exit::InvalidUse,
    };
    RunError: |it| match it {
        RunError::Missing(_) => Exit::Missing,
        RunError::Store(error) => store_exit(error),
        RunError::OtherLab { .. } | RunError::OtherFingerprint { .. } | RunError::OtherClock { .. } => {
            Exit::InvalidUse
        }
    };
    VenueError: |it| match it {
        VenueError::Missing(_) => Exit::Missing,
        VenueError::Refused(_) => Exit::InvalidUse,
        VenueError::Stopped => Exit::Stopped,
        VenueError::Medium(error) => media_exit(error),
        VenueError::Failed(_) | VenueError::Io { .. } => Exit::TrialFailed,
    };
}

fn store_exit(error: &StoreError) -> Exit {
    match error {
        StoreError::Io { source, .. } => io_exit(source),
        _ => Exit::InvalidUse,
    }
}

fn share_exit(error: &ShareError) -> Exit {
    match error {
        ShareError::Io(error) => store_exit(error),
        _ => Exit::InvalidUse,
    }
}

fn media_exit(error: &MediaError) -> Exit {
    match error {
        MediaError::NeedsRoot(_) | MediaError::NoLoops(_) => Exit::Missing,
        MediaError::Io { source, .. } => io_exit(source),
        MediaError::Block(error) => block_exit(error),
        _ => Exit::InvalidUse,
    }
}

fn block_exit(error: &BlockError) -> Exit {
    match error {
        BlockError::NotAllowed(_) | BlockError::NoTool(_) => Exit::Missing,
        _ => Exit::InvalidUse,
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        Failure::invalid_use(format!("failed to {error}"))
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Failure {
        Failure::invalid_use(format!("failed to {error}"))
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        let exit = if error.is_missing() { Exit::Missing } else { Exit::InvalidUse };
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        Failure { exit, message: format!("failed to {error}{hint}") }
    }
}
