//! Counts of the model's work and their assumed costs, which make up all of its processor time.
//!
//! One instruction takes one nanosecond, as in the lab, which is about a CPU of 2001 to 2006. No cost was fitted to a
//! published table.

use fsdyno_record::Nanos;

/// Counts of the work of searching and changing a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// Entries whose names were compared.
    pub entries: u64,
    /// Entries whose lengths were examined, or that were skipped, to find free space or the preceding entry.
    pub measured: u64,
    /// Block lookups in the cache.
    pub blocks: u64,
    /// Changes of blocks.
    pub dirtied: u64,
    /// Hashes of names.
    pub hashes: u64,
    /// Comparisons of hashes in an index.
    pub probes: u64,
    /// Entries that were moved when a block was split.
    pub moved: u64,
}

/// The cost of comparing the name of one entry: length, inode, the bytes up to the first that differs (five in a
/// numbered name of eight), and the step to the next entry. Estimate: about 25 instructions of ext2_find_entry with
/// ext2_match and an inline memcmp.
pub const ENTRY: Nanos = Nanos(25);

/// The cost of measuring one entry: its needed and its actual length. Estimate: about 10 instructions.
pub const MEASURE: Nanos = Nanos(10);

/// The cost of looking up a block in the page cache and releasing it (ext2_get_page, ext2_put_page). Estimate: about
/// 150 instructions.
pub const BLOCK: Nanos = Nanos(150);

/// The cost of changing a block: marking it, its inode and times. Estimate: about 300 instructions.
pub const DIRTY: Nanos = Nanos(300);

/// The cost of half-MD4 of a name of up to 32 bytes: 24 steps of 8 to 10 instructions. Estimate.
pub const HASH: Nanos = Nanos(250);

/// The cost of one comparison in an index. Estimate.
pub const PROBE: Nanos = Nanos(8);

/// The cost of moving one entry in a split: sorting it by hash (about 8 comparisons) and copying it. Estimate.
pub const MOVE: Nanos = Nanos(100);

/// The cost of a call, excluding the search: the system call, the path, the dentry, the inode in memory. Measured in
/// the lab on tmpfs, whose directories are not searched (create and close 19.3 us, stat 4.0, unlink 9.4; Linux 6.1, one
/// instruction per nanosecond). The split between create and close is an estimate; mkdir and rmdir are assumed to cost
/// the same as create and unlink, and opening a directory the same as stat.
pub const CREATE: Nanos = Nanos(17_300);
/// See [`CREATE`].
pub const CLOSE: Nanos = Nanos(2_000);
/// See [`CREATE`].
pub const STAT: Nanos = Nanos(4_000);
/// See [`CREATE`].
pub const UNLINK: Nanos = Nanos(9_400);

impl WorkCounts {
    /// Returns the processor time of all counts.
    pub fn time(&self) -> Nanos {
        let costs = [
            (self.entries, ENTRY),
            (self.measured, MEASURE),
            (self.blocks, BLOCK),
            (self.dirtied, DIRTY),
            (self.hashes, HASH),
            (self.probes, PROBE),
            (self.moved, MOVE),
        ];
        Nanos(costs.iter().map(|(count, cost)| count * cost.0).sum())
    }

    /// Returns the counts by name, as a phase records them.
    pub fn by_name(&self) -> [(&'static str, u64); 7] {
        [
            ("entries examined", self.entries),
            ("entries measured", self.measured),
            ("blocks looked up", self.blocks),
            ("blocks dirtied", self.dirtied),
            ("hashes", self.hashes),
            ("index probes", self.probes),
            ("entries moved", self.moved),
        ]
    }

    /// Returns the increase of the counts since `earlier`.
    pub fn since(&self, earlier: &WorkCounts) -> WorkCounts {
        WorkCounts {
            entries: self.entries - earlier.entries,
            measured: self.measured - earlier.measured,
            blocks: self.blocks - earlier.blocks,
            dirtied: self.dirtied - earlier.dirtied,
            hashes: self.hashes - earlier.hashes,
            probes: self.probes - earlier.probes,
            moved: self.moved - earlier.moved,
        }
    }
}
