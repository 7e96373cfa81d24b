//! The request log: each request of a disk, its arrival, and its response time.
//!
//! In the guest, a disk's server always writes it to host memory ([`region`]), so that a request to
//! keep it does not change results. The host converts it to a file of a third of its size
//! ([`file`]). On request, the bytes are logged too ([`data`]).

pub mod data;
pub mod file;
pub mod region;

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::Stage;

use crate::disk::Action;

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Arrival time: when the request's header was read, on the guest's clock.
    pub arrived: Nanos,
    /// Response time of the model, including the wait behind other requests; 0 if untimed.
    /// The server's own delay is not included.
    pub response: Nanos,
    /// The kind of request.
    pub action: Action,
    /// The first sector on the disk, in units of 512 bytes, including the partition's start.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// True if a write had to be persisted before completion (FUA).
    pub fua: bool,
    /// True if it completed immediately, outside the model (mkfs, verification).
    pub untimed: bool,
    /// True if it completed with an error.
    pub failed: bool,
    /// Index of the guest's disk; [`region::Writer`] replaces it with its own.
    pub disk: u8,
    /// Stage of the trial at arrival.
    pub stage: Stage,
    /// The current or last phase, from 0.
    pub phase: u16,
}

const FUA: u8 = 1 << 2;
const UNTIMED: u8 = 1 << 3;
const FAILED: u8 = 1 << 4;
/// Defined bits of the flags; the two lowest are the action.
const KNOWN: u8 = 3 | FUA | UNTIMED | FAILED;

impl Entry {
    /// Returns the action and flags in one byte.
    fn flags(&self) -> u8 {
        let action = match self.action {
            Action::Read => 0,
            Action::Write => 1,
            Action::Flush => 2,
            Action::Trim => 3,
        };
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        action | bit(self.fua, FUA) | bit(self.untimed, UNTIMED) | bit(self.failed, FAILED)
    }

    fn set_flags(&mut self, flags: u8) {
        self.action = match flags & 3 {
            0 => Action::Read,
            1 => Action::Write,
            2 => Action::Flush,
            _ => Action::Trim,
        };
        self.fua = flags & FUA != 0;
        self.untimed = flags & UNTIMED != 0;
        self.failed = flags & FAILED != 0;
    }
}

/// An entry with all fields zero.
const BLANK: Entry = Entry {
    arrived: Nanos(0),
    response: Nanos(0),
    action: Action::Read,
    sector: 0,
    sectors: 0,
    fua: false,
    untimed: false,
    failed: false,
    disk: 0,
    stage: Stage::Starting,
    phase: 0,
};
