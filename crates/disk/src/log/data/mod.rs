//! The data log: all changes to a disk's content, in order, with the bytes of every write.
//!
//! A disk's server writes it ([`writer`]) on request, in addition to the request log; normal trials
//! do not write it, since copying costs CPU time in the guest. [`reader`] reads it back and rebuilds
//! the disk's visible and persisted content as of any time.
//!
//! The region begins with a header of one block: magic, version, end offset, number of events, of completed
//! requests and of lost events, capacity of the disk. The events follow, 32 bytes each:
//!
//! | word | content |
//! |---|---|
//! | 0 | time on the guest's clock, in nanoseconds |
//! | 1 | sectors (32 bits), kind (8), flags (8) |
//! | 2 | the first sector on the disk |
//! | 3 | for a write: number of bytes that follow; for a reply: number of its request's event, from 1 |
//!
//! After a write's event comes a table with 16 bits for each block of 4 KiB that it touches (the
//! byte that fills it, or [`RAW`]), padded to 8 bytes, and then the bytes of the raw blocks,
//! padded in the same way. A block of one repeated byte thus takes no further space.

pub mod reader;
pub mod writer;

use fsdyno_record::Nanos;

pub use reader::DataLog;
pub use writer::Writer;

const MAGIC: u64 = u64::from_le_bytes(*b"fsdynodt");
const VERSION: u64 = 1;
/// Size of the header in bytes.
const HEADER: u64 = 4096;
/// Size of an event in bytes, excluding the bytes that follow it.
const EVENT: u64 = 32;
/// Code in the table of a write for a block whose bytes follow uncompressed.
const RAW: u16 = 0xffff;
const BLOCK: u64 = 4096;
const SECTOR: u64 = crate::SECTOR;

/// Size of the region, which holds the data log and, after it, the other logs of such a trial; the region's
/// file is sparse.
pub const REGION: u64 = fsdyno_record::acks::REGION;
/// Maximum size of the data log in the region.
pub const SIZE: u64 = fsdyno_record::acks::OFFSET;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A write has arrived completely; it is visible from this event on.
    Write,
    /// Cached sectors are persisted, as visible at this time.
    Persist,
    /// All cached sectors are persisted.
    PersistAll,
    /// The whole blocks of 4 KiB within the range are discarded, on the medium too.
    Trim,
    /// A flush has arrived.
    Flush,
    /// A request completed; completions are in the order of the request log.
    Reply,
}

impl EventKind {
    const ALL: [EventKind; 6] = [
        EventKind::Write,
        EventKind::Persist,
        EventKind::PersistAll,
        EventKind::Trim,
        EventKind::Flush,
        EventKind::Reply,
    ];
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time on the guest's clock.
    pub at: Nanos,
    /// The kind of event.
    pub kind: EventKind,
    /// True if the request, a write or flush, has the FUA flag.
    pub fua: bool,
    /// True if it is outside the model's time (mkfs, verification), and hence persisted immediately.
    pub untimed: bool,
    /// The first sector on the disk, including the partition's start.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// For a reply to a write, a flush or a trim: index of the request's event, from 0.
    pub request: Option<u32>,
    /// Offset of its bytes in the region.
    offset: u64,
}

const FUA: u8 = 1;
const UNTIMED: u8 = 2;

impl Event {
    /// Returns one past its last sector.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors.into())
    }
}

/// Returns the number of blocks that a range of bytes touches.
fn blocks(offset: u64, length: u64) -> u64 {
    (offset + length).div_ceil(BLOCK) - offset / BLOCK
}

#[cfg(test)]
mod tests;
