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
    fn the_parts_do_not_overlap_and_leave_the_end_alone() {
        for size in [LEAST.0, LEAST.0 + 512, (1 << 40) + 7 * 512] {
            let layout = Layout::of(Bytes(size));
            assert_eq!(layout.guard.start.0 + layout.guard.size.0, layout.data.start.0);
            let end = layout.data.start.0 + layout.data.size.0;
            assert!(end <= size - MIB && end > size - 3 * MIB, "{size}: {end}");
        }
    }
}
