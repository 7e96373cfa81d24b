//! The results of a guest: a finished run, or its state after a power cut.

use std::fs::File;
use std::time::Duration;

use fsdyno_record::Bytes;
use fsdyno_record::mailbox::Progress;
use fsdyno_record::stages::Stages;

/// The decision of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// The guest continues.
    GoOn,
    /// The guest is killed; the run fails with [`RunError::Stopped`].
    Stop,
}

/// A run that ended with a report.
#[derive(Debug)]
pub struct Finished {
    /// The agent's report from the mailbox.
    pub report: Vec<u8>,
    /// Host time from the start of QEMU to the report.
    pub elapsed: Duration,
    /// Host time from the start of QEMU to the start of the first phase.
    pub first_op: Option<Duration>,
    /// Host time by stage.
    pub stages: Stages,
    /// The CPU time of QEMU.
    pub cpu: Option<Duration>,
    /// The peak memory of QEMU, including the touched pages of the disks.
    pub memory: Option<Bytes>,
    /// The space that the disks take on the host.
    pub stored: Bytes,
    /// The progress of the trial at its report.
    pub progress: Progress,
    /// The final contents of the disks.
    pub disks: Vec<File>,
    /// The log of the requests to the disks.
    pub log: Option<File>,
    /// The last lines of the guest's console.
    pub console: Vec<String>,
}

/// The state of a guest after a power cut.
#[derive(Debug)]
pub struct Cut {
    /// The progress of the trial.
    pub progress: Progress,
    /// The contents of the disks.
    pub disks: Vec<File>,
    /// The log of the requests to the disks.
    pub log: Option<File>,
}
