//! Exit statuses of child processes.

use std::fmt;

use rustix::process::WaitStatus;

/// The way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// An exit by itself, with this code.
    Exited(i32),
    /// An end by this signal.
    Killed(i32),
    /// No end: the process is stopped.
    Stopped,
}

impl ExitStatus {
    /// Exit code zero.
    pub const SUCCESS: ExitStatus = ExitStatus::Exited(0);
}

impl From<WaitStatus> for ExitStatus {
    fn from(status: WaitStatus) -> ExitStatus {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => ExitStatus::Exited(code),
            (_, Some(signal)) => ExitStatus::Killed(signal),
            _ => ExitStatus::Stopped,
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitStatus::Exited(code) => write!(f, "exit code {code}"),
            ExitStatus::Killed(signal) => write!(f, "killed by signal {signal}"),
            ExitStatus::Stopped => f.write_str("stopped"),
        }
    }
}
