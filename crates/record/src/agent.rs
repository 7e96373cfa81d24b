//! The interface between the main program and the agent, a separate executable: how one starts the other, and the
//! version of the data that they exchange.

use std::os::fd::RawFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::FlatPlan;

/// The agent's file name; it is installed in the folder of the main program.
pub const NAME: &str = "fsdyno-agent";

/// The environment variable with the path of a different agent to use.
pub const VARIABLE: &str = "FSDYNO_AGENT";

/// Version of the data that the two exchange: mailbox, job, report, [`Handover`]. Raise it with every change after
/// which one side would misread the other: a field that must not be ignored, a new meaning, a new layout.
pub const PROTOCOL: u32 = 1;

/// The ELF section of an agent's file that contains its [`PROTOCOL`]: four bytes, little-endian.
pub const SECTION: &str = ".fsdyno.agent";

/// The argument in front of a [`Handover`] in JSON.
pub const HOST_ARGUMENT: &str = "--host";

/// The job that an agent receives: its plan is in the flat form, on whose bytes a guest's results depend.
pub type Job = crate::Job<FlatPlan>;

/// The data that a venue passes to the agent that it starts on a host: inherited descriptors by number, and names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The mailbox.
    pub mailbox: RawFd,
    /// The root of the trial, if that is a directory.
    pub root: Option<RawFd>,
    /// The workload's input, if it has one.
    pub input: Option<RawFd>,
    /// The devices to format: those of the file system, then that of its journal.
    pub devices: Vec<InheritedDevice>,
    /// The array to create from them: `/dev/md119`.
    pub array: Option<PathBuf>,
    /// The number from which UUIDs are drawn for a device of this host; the venue draws from it, too.
    pub uuids: Option<u64>,
}

/// A device whose descriptor is inherited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedDevice {
    /// The inherited descriptor: of the device itself, or of the guard of a drive.
    pub fd: RawFd,
    /// The path of its node, as an argument for commands.
    pub path: PathBuf,
}
