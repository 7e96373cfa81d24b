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
    /// The kernel has no BPF that suffices, or refuses it.
    #[error(
        "cannot record by BPF: {0}; it needs root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, and Linux 5.8 \
         or later with CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF; without --pid, --how auto needs neither"
    )]
    Bpf(io::Error),
    /// The ring was full, so that the trace ends there.
    #[error("{0} records of the kernel were lost, since its ring was full")]
    Lost(u64),
    /// A process is gone, or hides its directories.
    #[error("process {pid} cannot be recorded: {error}")]
    Process {
        /// Its number.
        pid: libc::pid_t,
        /// The reason.
        error: io::Error,
    },
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
