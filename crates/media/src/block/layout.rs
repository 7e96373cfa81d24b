//! The layout of a drive.

use fsdyno_record::Bytes;

/// The number of the partition for the file system.
pub const DATA: u32 = 1;

/// The number of the partition that is held open and contains the mark.
pub const GUARD: u32 = 2;

/// The alignment of partitioning tools, and the space that they leave free at both ends.
const MIB: u64 = 1 << 20;

/// The first byte of the file system's partition.
pub const DATA_START: u64 = MIB;

/// The minimum size of a drive: hardly any file system of the catalog fits on a smaller one.
pub const MIN_DRIVE_SIZE: Bytes = Bytes(16 * MIB);

/// Sectors before the first mebibyte at which partitioning tools start a first partition: a GPT's first free
/// sector (34) and macOS's (40), DOS's second track (63), and the alignments of cards and early flash drives.
const EARLY_STARTS: [u64; 8] = [34, 40, 63, 64, 128, 256, 512, 1024];

/// The last mebibyte that is checked as a start. Every mebibyte from the first to this one is checked: sectors
/// 2048, 4096, 8192, 32768 (after a reserved partition of Windows) and further ones.
const LAST_START: u64 = 32;

/// A range of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub start: Bytes,
    /// The length.
    pub size: Bytes,
}

/// A partition in the kernel's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPart {
    /// The name, such as sdb1.
    pub name: String,
    /// The number on the drive.
    pub number: u32,
    /// The device number.
    pub device: u64,
    /// The range.
    pub part: Part,
}

/// The parts of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first mebibyte.
    pub guard: Part,
    /// The range between the first and the last mebibyte.
    pub data: Part,
}

impl Layout {
    /// Returns the layout of a drive of this size.
    pub fn of(size: Bytes) -> Layout {
        let data = size.0.saturating_sub(2 * MIB) / MIB * MIB;
        Layout {
            guard: Part { start: Bytes(0), size: Bytes(MIB) },
            data: Part { start: Bytes(DATA_START), size: Bytes(data) },
        }
    }

    /// Returns the other possible starts of a first partition whose table was lost; on a drive that fsdyno has used,
    /// only those before the data part, whose contents are fsdyno's own.
    pub fn other_starts(&self, used: bool) -> impl Iterator<Item = Part> {
        let end = self.data.start.0 + self.data.size.0;
        let early = EARLY_STARTS.into_iter().map(|sector| sector * 512);
        let late = (2..=LAST_START).map(|number| number * MIB).filter(move |_| !used);
        let starts = early.chain(late).take_while(move |start| start + MIB < end);
        starts.map(move |start| Part { start: Bytes(start), size: Bytes(end - start) })
    }

    /// Reports whether a partition of the kernel is one of these parts.
    pub fn contains(&self, part: &KernelPart) -> bool {
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
    fn a_lost_partition_is_searched_at_the_starts_of_partitioning_tools() {
        let layout = Layout::of(MIN_DRIVE_SIZE);
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
    fn the_parts_do_not_overlap_and_leave_the_end_free() {
        for size in [MIN_DRIVE_SIZE.0, MIN_DRIVE_SIZE.0 + 512, (1 << 40) + 7 * 512] {
            let layout = Layout::of(Bytes(size));
            assert_eq!(layout.guard.start.0 + layout.guard.size.0, layout.data.start.0);
            let end = layout.data.start.0 + layout.data.size.0;
            assert!(end <= size - MIB && end > size - 3 * MIB, "{size}: {end}");
        }
    }
}
