//! Which part of a drive is what.

use fsdyno_record::Bytes;

/// The number of the part that a file system gets.
pub const DATA: u32 = 1;

/// The number of the part that is held, with the mark in it.
pub const GUARD: u32 = 2;

/// What partitioning tools align to, and keep free at both ends.
const MIB: u64 = 1 << 20;

/// The first byte of the part that a file system gets.
pub const DATA_START: u64 = MIB;

/// The smallest drive that is taken: no file system of the catalog fits a smaller one well.
pub const LEAST: Bytes = Bytes(16 * MIB);

/// Sectors at which partitioning tools begin a first partition, before the first mebibyte: a GPT's first free
/// sector (34) and macOS's (40), DOS's second track (63), and what cards and early flash drives are aligned to.
const EARLY_STARTS: [u64; 8] = [34, 40, 63, 64, 128, 256, 512, 1024];

/// From the first mebibyte on every mebibyte is one, up to this one: sectors 2048, 4096, 8192, 32768 (behind a
/// reserved partition of Windows) and so on.
const LAST_START: u64 = 32;

/// A stretch of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its first byte.
    pub start: Bytes,
    /// Its length.
    pub size: Bytes,
}

/// The parts of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first mebibyte.
    pub guard: Part,
    /// All between the first and the last mebibyte.
    pub data: Part,
}

impl Layout {
    /// That of a drive of this size.
    pub fn of(size: Bytes) -> Layout {
        let data = size.0.saturating_sub(2 * MIB) / MIB * MIB;
        Layout {
            guard: Part { start: Bytes(0), size: Bytes(MIB) },
            data: Part { start: Bytes(DATA_START), size: Bytes(data) },
        }
    }

    /// Where else than at the data a first partition may begin whose table was lost; on a drive that fsdyno has
    /// used, whose data is its own, before the data alone.
    pub fn other_starts(&self, used: bool) -> impl Iterator<Item = Part> {
        let end = self.data.start.0 + self.data.size.0;
        let early = EARLY_STARTS.into_iter().map(|sector| sector * 512);
        let late = (2..=LAST_START).map(|number| number * MIB).filter(move |_| !used);
        let starts = early.chain(late).take_while(move |start| start + MIB < end);
        starts.map(move |start| Part { start: Bytes(start), size: Bytes(end - start) })
    }

    /// Whether a partition that the kernel knows is one of these.
    pub fn has(&self, part: &super::drive::KernelPart) -> bool {
        match part.number {
            DATA => part.part == self.data,
            GUARD => part.part == self.guard,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_partition_is_looked_for_where_tools_begin_one() {
        let layout = Layout::of(LEAST);
        let starts = |used| -> Vec<u64> {
            layout.other_starts(used).map(|part| part.start.0 / 512).collect()
        };
        assert_eq!(starts(true), EARLY_STARTS);
        assert!(
            [63, 4096, 8192, 14 * 2048 - 2048].iter().all(|start| starts(false).contains(start))
        );
        let end = layout.data.start.0 + layout.data.size.0;
        assert!(layout.other_starts(false).all(|part| part.start.0 + part.size.0 == end));
        let large = Layout::of(Bytes(1 << 40));
        assert_eq!(large.other_starts(false).last().map(|part| part.start.0), Some(32 * MIB));
    }

    #[test]
    fn the_parts_do_not_overlap_and_leave_the_end_alone() {
        for size in [LEAST.0, LEAST.0 + 512, (1 << 40) + 7 * 512] {
            let layout = Layout::of(Bytes(size));
            assert_eq!(layout.guard.start.0 + layout.guard.size.0, layout.data.start.0);
            let end = layout.data.start.0 + layout.data.size.0;
            assert!(end <= size - MIB && end > size - 3 * MIB, "{size}: {end}");
        }
    }
}
