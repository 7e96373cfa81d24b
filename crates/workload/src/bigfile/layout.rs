//! The layout of the file, and the order in which its units are accessed.

use crate::contents::VERSION;
use crate::op::Payload;
use crate::permutation::Permutation;
use crate::workload::Share;

/// The file's name.
pub const NAME: &[u8] = b"big";

/// The version of a block that is written first.
pub const WRITTEN: u64 = 1;
/// The version of a block that overwrites it.
pub const REWRITTEN: u64 = 2;
/// The version of a unit that is written at random.
pub const RANDOM: u64 = 3;

/// The file, its blocks and its units.
#[derive(Debug)]
pub struct Layout {
    /// Its length in bytes.
    pub size: u64,
    /// Bytes of each write from the beginning to the end.
    pub block: u64,
    /// Bytes of each random read and write.
    pub unit: u64,
    /// Number of random reads.
    pub reads: u64,
    /// Number of random writes.
    pub writes: u64,
    /// Number of random writes of a thread between two fsyncs; zero is no fsync.
    pub fsync: u64,
    /// The file is created before the first phase.
    pub offline: bool,
    /// The order in which units are read.
    pub read_order: Permutation,
    /// The order in which units are written.
    pub write_order: Permutation,
}

impl Layout {
    /// Number of blocks, including a shorter last one.
    pub fn blocks(&self) -> u64 {
        self.size.div_ceil(self.block)
    }

    /// The content of `version` of blocks of `of` bytes from `offset` on, to the end of the block
    /// or of the file. `offset` is below the size.
    pub fn payload(&self, version: u64, of: u64, offset: u64) -> Payload {
        let (block, within) = (offset / of, offset % of);
        let length = (of - within).min(self.size - offset) as u32;
        Payload { id: VERSION * version + block, offset: within, length }
    }

    /// Returns true if the random writes reach the unit at `offset`.
    pub fn is_randomly_written(&self, offset: u64) -> bool {
        let unit = offset / self.unit;
        let units = self.write_order.length();
        unit < units && self.write_order.index_of(unit) < self.writes
    }

    /// Number of fsyncs among the random writes of a rank.
    pub fn fsyncs(&self, share: Share) -> u64 {
        of_rank(self.writes, share).checked_div(self.fsync).unwrap_or(0)
    }
}

/// The number of `all` that fall to a rank: every `ranks`th, from its own number on.
pub fn of_rank(all: u64, share: Share) -> u64 {
    let ranks = u64::from(share.ranks);
    all / ranks + u64::from(u64::from(share.rank) < all % ranks)
}
