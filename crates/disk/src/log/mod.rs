//! The log of requests: what was asked of a disk, when, and how long the disk took.
//!
//! In the guest a disk's server writes it into memory of the host ([`region`]), always, so that
//! whether it is kept changes no digit. The host makes a file of it that is a third as large
//! ([`file`]). Where a trial asks for it, the bytes are logged too ([`data`]).

pub mod data;
pub mod file;
pub mod region;

use fsdyno_record::Nanos;
use fsdyno_record::mailbox::Stage;

use crate::disk::Action;

/// One request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When its header was read, on the guest's clock.
    pub arrived: Nanos,
    /// From then until the model was done with it, its wait behind others among it; 0 for an untimed
    /// one. What the server itself was
    /// late with the answer is not in it.
    pub response: Nanos,
    /// What was asked.
    pub action: Action,
    /// The first sector on the disk, in units of 512 bytes; the partition's start is in it.
    pub sector: u64,
    /// How many sectors.
    pub sectors: u32,
    /// For a write: it had to be on the medium when it was answered.
    pub fua: bool,
    /// It was answered at once (mkfs, verification), outside the model.
    pub untimed: bool,
    /// It was answered with an error.
    pub failed: bool,
    /// Which of the guest's disks; [`region::Writer`] puts its own here.
    pub disk: u8,
    /// Where the trial was when it arrived.
    pub stage: Stage,
    /// In or after which phase, from 0.
    pub phase: u16,
}

const FUA: u8 = 1 << 2;
const UNTIMED: u8 = 1 << 3;
const FAILED: u8 = 1 << 4;
/// Bits of the flags that have a meaning; the lowest two are the action.
const KNOWN: u8 = 3 | FUA | UNTIMED | FAILED;

impl Entry {
    /// Action and flags in one byte.
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

/// An entry to be filled in.
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
