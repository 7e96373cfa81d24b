//! The plan of a call: the call that replays an event of a recording.

use fsdyno_workload::memory_fs::Inode;
use fsdyno_workload::{Call as OpCall, FileSlot};

use crate::order::{Access, Resource};

/// An open file of the recording.
#[derive(Clone, Copy)]
pub struct Opened {
    /// Its slot.
    pub slot: FileSlot,
    /// The inode that it refers to.
    pub inode: Inode,
}

/// A resource that a call touches, and the kind of access.
pub type Touch = (Resource, Access);

/// A call of the replay.
pub struct Plan {
    /// The call.
    pub call: OpCall,
    /// Its first name.
    pub name: Vec<u8>,
    /// Its second name.
    pub other: Vec<u8>,
    /// The resources that it touches.
    pub touches: Vec<Touch>,
    /// The way its result is compared if it succeeds.
    pub compare: Compare,
}

/// The way in which the result of a successful call is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Only success is compared.
    Success,
    /// The returned number is compared.
    Number,
    /// Nothing is compared.
    Nothing,
}

/// The reason why a call is not replayed, as it appears in the name of the fact `skipped-REASON`.
pub type Skip = &'static str;

pub(crate) type Plans = Result<Vec<Plan>, Skip>;

/// Creates the plan of a call that has no names and touches `touches`.
pub(crate) fn plan(call: OpCall, touches: Vec<Touch>, compare: Compare) -> Plan {
    Plan { call, name: Vec::new(), other: Vec::new(), touches, compare }
}

/// The directory and the name by which a file was opened.
pub type Place = (Inode, Vec<u8>);
