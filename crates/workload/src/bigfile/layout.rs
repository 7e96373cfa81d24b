//! The layout of the file, and the order in which its units are accessed.

use crate::contents::VERSION_STRIDE;
use crate::op::Payload;
use crate::permutation::Permutation;
use crate::workload::Share;

/// The file's name.
pub const NAME: &[u8] = b"big";

/// Version of a block at its first write.
pub const WRITTEN: u64 = 1;
/// Version of a block when it is overwritten.
pub const REWRITTEN: u64 = 2;
/// Version of a unit after a random write.
pub const RANDOM: u64 = 3;

/// The file, its blocks and its units.
#[derive(Debug)]
pub struct Layout {
    /// Length of the file in bytes.
    pub size: u64,
    /// Bytes per sequential write.
    pub block: u64,
    /// Bytes per random read or write.
    pub unit: u64,
    /// Number of random reads.
    pub reads: u64,
    /// Number of random writes.
    pub writes: u64,
    /// Number of random writes by a thread between two fsyncs, or zero for no fsync.
    pub fsync: u64,
    /// True if the file is created before the first phase.
    pub prebuilt: bool,
    /// The order in which units are read.
    pub read_order: Permutation,
    /// The order in which units are written.
    pub write_order: Permutation,
}

impl Layout {
    /// Returns the number of blocks, including a shorter last one.
    pub fn blocks(&self) -> u64 {
        self.size.div_ceil(self.block)
    }

    /// Returns the content of version `version` at `offset`, in a file of `block`-byte blocks, up to the end of the
    /// block or of the file. `offset` must be below the size.
    pub fn payload(&self, version: u64, block: u64, offset: u64) -> Payload {
        let (index, offset_in_block) = (offset / block, offset % block);
        let length = (block - offset_in_block).min(self.size - offset) as u32;
        Payload { id: VERSION_STRIDE * version + index, offset: offset_in_block, length }
    }

    /// Returns true if the random writes reach the unit at `offset`.
    pub fn is_randomly_written(&self, offset: u64) -> bool {
        let unit = offset / self.unit;
        let units = self.write_order.length();
        unit < units && self.write_order.index_of(unit) < self.writes
    }

    /// Returns the number of fsyncs among the random writes of a rank.
    pub fn fsyncs(&self, share: Share) -> u64 {
        items_of_rank(self.writes, share).checked_div(self.fsync).unwrap_or(0)
    }
}

/// Returns the number of items out of `total` that a rank gets: every `ranks`-th, starting at the rank's own number.
pub fn items_of_rank(total: u64, share: Share) -> u64 {
    let ranks = u64::from(share.ranks);
    total / ranks + u64::from(u64::from(share.rank) < total % ranks)
}
