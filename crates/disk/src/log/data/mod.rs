//! The log of bytes: all that happened to what a disk holds, in the order in which it happened, with
//! the bytes of every write.
//!
//! A disk's server writes it ([`writer`]) where a trial asks for it, beside the log of requests; it
//! is no part of a usual trial, for the copies take processor time of the guest. [`reader`] reads
//! it back and rebuilds what the disk held at any moment, as it answered and as its medium was.
//!
//! The region begins with a block of header: magic, version, the place of the end, events, requests
//! answered, lost events, capacity of the disk. Then come the events, each of 32 bytes:
//!
//! | word | what |
//! |---|---|
//! | 0 | when, on the guest's clock, in nanoseconds |
//! | 1 | sectors (32 bits), kind (8), flags (8) |
//! | 2 | the first sector on the disk |
//! | 3 | of a write: bytes of what follows; of an answer: the event that it answers, from 1 |
//!
//! After a write's event comes a table with 16 bits for each block of 4 KiB that it touches (the
//! byte that fills it, or [`RAW`]), padded to 8 bytes, and then the bytes of those that are raw,
//! padded likewise. A block that holds one byte repeated so takes no room.

pub mod reader;
pub mod writer;

use fsdyno_record::Nanos;

pub use reader::DataLog;
pub use writer::Writer;

const MAGIC: u64 = u64::from_le_bytes(*b"fsdynodt");
const VERSION: u64 = 1;
/// Bytes of the header.
const HEADER: u64 = 4096;
/// Bytes of an event without what follows it.
const EVENT: u64 = 32;
/// In the table of a write: the block's bytes follow as they are.
const RAW: u16 = 0xffff;
const BLOCK: u64 = 4096;
const SECTOR: u64 = crate::SECTOR;

/// Bytes of the region that holds bytes and, behind them, what else such a trial tells; the file
/// behind it is sparse.
pub const REGION: u64 = fsdyno_record::acks::REGION;
/// Bytes of it that the log of bytes may take.
pub const SIZE: u64 = fsdyno_record::acks::OFFSET;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A write came in whole: from now on it is what the drive answers.
    Write,
    /// Sectors that were cached are on the medium from now on, as the drive would answer them now.
    Land,
    /// All that was cached is on the medium.
    LandAll,
    /// The whole blocks of 4 KiB within are forgotten, on the medium too.
    Trim,
    /// A flush came in.
    Flush,
    /// A request was answered; requests are answered in the order of the log of requests.
    Answer,
}

impl What {
    const ALL: [What; 6] =
        [What::Write, What::Land, What::LandAll, What::Trim, What::Flush, What::Answer];
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on the guest's clock.
    pub at: Nanos,
    /// What happened.
    pub what: What,
    /// Of a write or flush: the request has FUA.
    pub fua: bool,
    /// Outside the model's time (mkfs, verification): on the medium at once.
    pub untimed: bool,
    /// The first sector on the disk, the partition's start in it.
    pub sector: u64,
    /// How many.
    pub sectors: u32,
    /// Of an answer to a write, a flush or a trim: which event brought the request, from 0.
    pub of: Option<u32>,
    /// Where in the region its bytes begin.
    place: u64,
}

const FUA: u8 = 1;
const UNTIMED: u8 = 2;

impl Event {
    /// One past its last sector.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors.into())
    }
}

/// How many blocks a range of bytes touches.
fn blocks(offset: u64, length: u64) -> u64 {
    (offset + length).div_ceil(BLOCK) - offset / BLOCK
}

#[cfg(test)]
mod tests;
