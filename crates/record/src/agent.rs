//! The contract between the main program and the agent, which are two files: how one starts the other, and the version
//! of what passes between them.

use std::os::fd::RawFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::FlatPlan;

/// The agent's file name; it is installed in the folder of the main program.
pub const NAME: &str = "fsdyno-agent";

/// The environment variable that names another agent.
pub const VARIABLE: &str = "FSDYNO_AGENT";

/// Version of what passes between the two: mailbox, job, report, [`Handover`]. To be raised with every change after
/// which one side would misread the other: a field that must not be overlooked, another meaning, another layout.
pub const PROTOCOL: u32 = 1;

/// The ELF section of an agent's file that holds its [`PROTOCOL`]: four bytes, little-endian.
pub const SECTION: &str = ".fsdyno.agent";

/// The argument in front of a [`Handover`] in JSON.
pub const HOST_ARGUMENT: &str = "--host";

/// The job that an agent receives: its plan is in the flat form, whose bytes a guest's results depend on.
pub type Job = crate::Job<FlatPlan>;

/// What a venue hands to the agent that it starts on a host: inherited descriptors by number, and names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The mailbox.
    pub mailbox: RawFd,
    /// The root of the trial, if that is a directory.
    pub root: Option<RawFd>,
    /// The workload's input, if it has one.
    pub input: Option<RawFd>,
    /// The devices to format: those of the file system, then that of its journal.
    pub devices: Vec<HandedDevice>,
    /// The array to make of them: `/dev/md119`.
    pub array: Option<PathBuf>,
    /// The number that UUIDs are drawn from on a device of this host; the venue draws from it too.
    pub uuids: Option<u64>,
}

/// A device that is handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedDevice {
    /// The descriptor that keeps it: the device itself, or the guard of a drive.
    pub fd: RawFd,
    /// Its node, which commands are given.
    pub path: PathBuf,
}
