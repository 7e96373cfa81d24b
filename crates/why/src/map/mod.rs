//! Maps of the structures in an image of a file system, made from the output of the file system's own tools.

mod btrfs;
mod ext;
mod reiserfs;
pub mod tool;
mod xfs;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;

use fsdyno_filesystem::{MapFormat, catalog};
use serde::{Deserialize, Serialize};

pub use tool::MapError;

/// A kind of structure in a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// The superblock and its copies.
    Superblock,
    /// Group descriptors, and space reserved for more of them (ext).
    GroupDescriptors,
    /// Bitmaps of blocks and inodes (ext, reiserfs).
    Bitmap,
    /// Tables of inodes (ext).
    InodeTable,
    /// Allocation group headers (xfs): superblock, agf, agi, agfl.
    AgHeader,
    /// Trees of free space (xfs).
    FreeSpaceTree,
    /// Trees of inodes (xfs).
    InodeTree,
    /// Trees of shared extents or of owners (xfs).
    OwnerTree,
    /// Chunks of inodes (xfs).
    InodeChunk,
    /// Directory blocks.
    Directory,
    /// Extended attributes and long symbolic links.
    Attribute,
    /// Extent blocks, indirect blocks, extent trees: the mapping of a file's blocks.
    Extents,
    /// The journal or log.
    Journal,
    /// File data.
    Data,
    /// The root, chunk and device trees (btrfs).
    RootTree,
    /// The tree of files and directories (btrfs, reiserfs).
    FsTree,
    /// The trees of extents and of free space (btrfs).
    ExtentTree,
    /// The tree of checksums (btrfs).
    ChecksumTree,
    /// The tree log, written by fsync (btrfs).
    LogTree,
    /// A tree block that was freed before the map was made (btrfs); its tree is unknown.
    FreedTree,
    /// The last block of the device, which is unused: a mount reads it to check that the device is as large as the
    /// superblock states (xfs, reiserfs).
    DeviceEnd,
    /// No block: a flush of the drive's cache.
    Flush,
}

impl Structure {
    /// All structures with their names in tables.
    pub const ALL: &[(Structure, &str)] = &[
        (Structure::Superblock, "superblock"),
        (Structure::GroupDescriptors, "group descriptors"),
        (Structure::Bitmap, "bitmap"),
        (Structure::InodeTable, "inode table"),
        (Structure::AgHeader, "AG header"),
        (Structure::FreeSpaceTree, "free-space tree"),
        (Structure::InodeTree, "inode tree"),
        (Structure::OwnerTree, "owner tree"),
        (Structure::InodeChunk, "inode chunk"),
        (Structure::Directory, "directory"),
        (Structure::Attribute, "attribute"),
        (Structure::Extents, "extent or indirect block"),
        (Structure::Journal, "journal"),
        (Structure::Data, "data"),
        (Structure::RootTree, "root, chunk and device tree"),
        (Structure::FsTree, "file tree"),
        (Structure::ExtentTree, "extent tree"),
        (Structure::ChecksumTree, "checksum tree"),
        (Structure::LogTree, "log tree"),
        (Structure::FreedTree, "tree block, freed since"),
        (Structure::DeviceEnd, "end of the device"),
        (Structure::Flush, "flush of the drive's cache"),
    ];

    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(structure, _)| *structure == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A range of bytes.
pub type Range = std::ops::Range<u64>;

/// The structures by range, in bytes from the start of the file system; ranges that are not listed are free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// Start → end and structure; ranges do not overlap.
    ranges: BTreeMap<u64, (u64, Structure)>,
}

impl Map {
    /// Reads the map of a file system from an image; `kind` is its name in the catalog. If its tools print block by
    /// block, only the ranges of `requested`, which must be in ascending order, are queried.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn read(kind: &str, image: &File, requested: &[Range]) -> Result<Map, MapError> {
        match catalog::get(kind).ok().and_then(|filesystem| filesystem.map) {
            Some(MapFormat::Ext) => ext::read(image),
            Some(MapFormat::Xfs) => xfs::read(image, requested),
            Some(MapFormat::Btrfs) => btrfs::read(image),
            Some(MapFormat::Reiserfs) => reiserfs::read(image),
            None => Err(MapError::Unsupported(kind.to_string())),
        }
    }

    /// Assigns a range to a structure, replacing earlier assignments.
    pub fn assign(&mut self, range: Range, structure: Structure) {
        if range.is_empty() {
            return;
        }
        self.clear(range.clone());
        self.ranges.insert(range.start, (range.end, structure));
    }

    /// Clears the structures assigned to a range.
    pub fn clear(&mut self, range: Range) {
        let Range { start, end } = range;
        if start >= end {
            return;
        }
        // A range that begins earlier and overlaps is cut short.
        if let Some((&start_before, &(range_end, structure))) =
            self.ranges.range(..start).next_back()
            && range_end > start
        {
            self.ranges.insert(start_before, (start, structure));
            if range_end > end {
                self.ranges.insert(end, (range_end, structure));
            }
        }
        let covered: Vec<(u64, u64, Structure)> = self
            .ranges
            .range(start..end)
            .map(|(&range_start, &(range_end, structure))| (range_start, range_end, structure))
            .collect();
        for (range_start, range_end, structure) in covered {
            self.ranges.remove(&range_start);
            if range_end > end {
                self.ranges.insert(end, (range_end, structure));
            }
        }
    }

    /// Returns the structure at a byte, and the end of the range for which the answer holds.
    pub fn at(&self, byte: u64) -> (Option<Structure>, u64) {
        if let Some((_, &(end, structure))) = self.ranges.range(..=byte).next_back()
            && byte < end
        {
            return (Some(structure), end);
        }
        let next = self.ranges.range(byte..).next().map_or(u64::MAX, |(start, _)| *start);
        (None, next)
    }

    /// Returns all ranges in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = (Range, Structure)> + '_ {
        self.ranges.iter().map(|(&start, &(end, structure))| (start..end, structure))
    }
}

/// Returns the first number in a text.
fn number(text: &str) -> Option<u64> {
    let text = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Parses `12-34` or `12`, both ends inclusive, as a half-open range of blocks.
fn blocks(text: &str) -> Option<Range> {
    let mut ends = text.trim().splitn(2, '-');
    let first = ends.next()?.trim().parse().ok()?;
    let last = match ends.next() {
        Some(last) => number(last)?,
        None => first,
    };
    Some(first..last.checked_add(1)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the map with a table of one row per byte.
        #[test]
        fn the_last_assignment_of_a_byte_counts(
            assignments in proptest::collection::vec((0u64..60, 0u64..20, 0usize..21), 0..30)
        ) {
            let mut map = Map::default();
            let mut table = [None; 100];
            for (start, length, index) in assignments {
                // One assignment in 21 clears a range instead.
                let structure = (index < 20).then(|| Structure::ALL[index].0);
                match structure {
                    Some(structure) => map.assign(start..start + length, structure),
                    None => map.clear(start..start + length),
                }
                table[start as usize..(start + length) as usize].fill(structure);
            }
            let mut offset = 0;
            while offset < 100 {
                let (structure, end) = map.at(offset);
                prop_assert!(end > offset);
                for byte in offset..end.min(100) {
                    prop_assert_eq!(structure, table[byte as usize]);
                }
                offset = end;
            }
        }
    }

    #[test]
    fn every_structure_has_a_unique_name() {
        let names: std::collections::BTreeSet<_> =
            Structure::ALL.iter().map(|(_, name)| name).collect();
        assert_eq!(names.len(), Structure::ALL.len());
        assert!(names.iter().all(|name| !name.is_empty()));
    }
}
