//! The errors of recording and importing.

use std::io;
use std::path::PathBuf;

use fsdyno_trace::TraceError;
use thiserror::Error;

/// A recording or import that failed.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The command cannot be run.
    #[error("cannot run '{command}': {error}")]
    Command {
        /// The first word of the command.
        command: String,
        /// The reason.
        error: io::Error,
    },
    /// A tree is not a directory, or cannot be read.
    #[error("--tree {}: {error}", .path.display())]
    Tree {
        /// The path of the tree.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The host cannot provide memory for the code injected into programs.
    #[error("no memory can be shared with programs: {0}; --how ptrace needs none")]
    Inside(io::Error),
    /// The kernel rejects ptrace or seccomp.
    #[error("cannot trace the command: {0}")]
    Trace(io::Error),
    /// The kernel's BPF does not suffice, or the kernel rejects its use.
    #[error(
        "cannot record by BPF: {0}; it needs root, or the capabilities CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, and Linux 5.8 \
         or later with CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF; without --pid, --how auto needs neither"
    )]
    Bpf(io::Error),
    /// The ring was full; the trace ends before the first lost record.
    #[error("{0} records were lost: the ring buffer was full, or a BPF program could not run")]
    Lost(u64),
    /// A process does not exist, or its directories cannot be read.
    #[error("process {pid} cannot be recorded: {error}")]
    Process {
        /// The process ID.
        pid: libc::pid_t,
        /// The reason.
        error: io::Error,
    },
    /// The trace could not be written.
    #[error("the trace cannot be written: {0}")]
    Write(#[from] TraceError),
    /// A line of a file to import is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// The line number, from 1.
        line: u64,
        /// The error in the line.
        problem: String,
    },
    /// A file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
}
