//! The compiled form of a recording: a flat format that `fsdyno-replay` creates on the host and that is read in place.
//!
//! It consists of a table of sections, then the sections. Ops are 68 bytes each and are grouped by rank; names are in
//! one table of strings; a tree is a table of nodes sorted by path. All numbers are little-endian. The form is
//! compiled from a trace for each run and never stored, so it needs no compatibility between versions; a reader checks
//! all bounds nevertheless.

mod compiled;

use std::collections::BTreeMap;

use fsdyno_record::OpKind;

use crate::op::Name;

pub use compiled::Compiled;

/// The first bytes of the compiled form.
pub const MAGIC: &[u8; 8] = b"fsdyno-r";

/// Size of an op in bytes.
pub const OP_SIZE: usize = 68;
/// Size in bytes of a point that an op waits for.
pub const WAIT_SIZE: usize = 8;
/// Size in bytes of a row of the table of ranks.
pub const RANK_SIZE: usize = 16;
/// Size in bytes of a node of a tree.
pub const NODE_SIZE: usize = 40;
/// Size in bytes of a piece of a file.
pub const PIECE_SIZE: usize = 32;

/// Maximum length of a path in bytes, excluding the directory in which each copy of the tree is created.
pub const MAX_PATH: usize = Name::CAPACITY - 32;

/// A part of the compiled form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Facts as text, one per line.
    Facts,
    /// Strings: two bytes of length, then the bytes.
    Strings,
    /// Ops that create the initial tree.
    Initial,
    /// For each rank, the index of its first op and the number of its ops.
    Ranks,
    /// The ops of all ranks.
    Ops,
    /// Points that ops wait for.
    Waits,
    /// Nodes of the initial tree, sorted by path.
    Before,
    /// Nodes of the final tree, sorted by path.
    After,
    /// Pieces of files of both trees.
    Pieces,
    /// Points at which a phase can begin.
    Boundaries,
}

/// Number of sections.
pub const SECTIONS: usize = 10;

/// Number of bytes before the first section.
pub const HEADER_SIZE: usize = 8 + SECTIONS * 16;

/// The expected outcome of an op: success.
pub const EXPECT_SUCCESS: u8 = 0;

/// The expected outcome of an op: the error number in `result`.
pub const EXPECT_ERRNO: u8 = 1;

/// The expected outcome of an op: the result in `result`.
pub const EXPECT_RESULT: u8 = 2;

/// The expected outcome of an op: anything.
pub const EXPECT_ANY: u8 = 3;

/// An op of the compiled form; `code` determines the meaning of the other fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpRecord {
    /// The call.
    pub code: u8,
    /// Expected outcome: [`EXPECT_SUCCESS`] or another constant with that prefix.
    pub expect: u8,
    /// Class of contents; [`ZEROS`] for zeros.
    pub class: u8,
    /// 1 if the op waits for points, else 0.
    pub waits: u8,
    /// Slot of the file.
    pub file: u16,
    /// Slot of the directory of `name`, or of the source file of a copy.
    pub dir: u16,
    /// Slot of the directory of `second_name`.
    pub to: u16,
    /// Rank of the previous call in the recording.
    pub before_rank: u16,
    /// Number of ops of that rank up to and including that call.
    pub before_ops: u32,
    /// Offset of the name in the section of strings.
    pub name: u32,
    /// Offset of the second name in the section of strings.
    pub second_name: u32,
    /// Index in the section of waits of the first point that the op waits for.
    pub first_wait: u32,
    /// An offset in bytes.
    pub offset: u64,
    /// A length, or an offset in a source or in a content, in bytes.
    pub length: u64,
    /// The expected result or error number.
    pub result: u64,
    /// Number of the content to write, or flags of an open.
    pub content: u32,
    /// A mode, or a number of bytes.
    pub number: u32,
    /// Processor time before the op; see [`encode_time`].
    pub compute: u32,
    /// Wall time before the op; see [`encode_time`].
    pub wall: u32,
}

/// The class of zeros.
pub const ZEROS: u8 = 255;

/// Encodes a time for a record: in nanoseconds below 2^31, else in microseconds with the highest bit set, up to 35
/// minutes.
pub fn encode_time(nanoseconds: u64) -> u32 {
    match nanoseconds {
        0..0x8000_0000 => nanoseconds as u32,
        long => 1 << 31 | (long / 1000).min(0x7fff_ffff) as u32,
    }
}

/// Decodes the result of [`encode_time`] to nanoseconds.
pub fn decode_time(time: u32) -> u64 {
    match time >> 31 {
        0 => u64::from(time),
        _ => u64::from(time & 0x7fff_ffff) * 1000,
    }
}

impl OpRecord {
    /// Returns the record as bytes.
    pub fn bytes(&self) -> [u8; OP_SIZE] {
        let mut out = [0; OP_SIZE];
        let mut start = 0;
        let mut append = |bytes: &[u8]| {
            out[start..start + bytes.len()].copy_from_slice(bytes);
            start += bytes.len();
        };
        append(&[self.code, self.expect, self.class, self.waits]);
        for number in [self.file, self.dir, self.to, self.before_rank] {
            append(&number.to_le_bytes());
        }
        for number in [self.before_ops, self.name, self.second_name, self.first_wait] {
            append(&number.to_le_bytes());
        }
        for number in [self.offset, self.length, self.result] {
            append(&number.to_le_bytes());
        }
        for number in [self.content, self.number, self.compute, self.wall] {
            append(&number.to_le_bytes());
        }
        out
    }

    /// Reads the record from its bytes.
    #[inline]
    pub fn read(bytes: &[u8; OP_SIZE]) -> OpRecord {
        let short = |index: usize| u16::from_le_bytes([bytes[index], bytes[index + 1]]);
        let word = |index: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[index + k]));
        let long = |index: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[index + k]));
        OpRecord {
            code: bytes[0],
            expect: bytes[1],
            class: bytes[2],
            waits: bytes[3],
            file: short(4),
            dir: short(6),
            to: short(8),
            before_rank: short(10),
            before_ops: word(12),
            name: word(16),
            second_name: word(20),
            first_wait: word(24),
            offset: long(28),
            length: long(36),
            result: long(44),
            content: word(52),
            number: word(56),
            compute: word(60),
            wall: word(64),
        }
    }
}

/// A node of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeNode {
    /// Offset of its path in the section of strings.
    pub path: u32,
    /// Kind: 0 for a directory, 1 for a file, 2 for a symbolic link.
    pub kind: u32,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// Number of its names.
    pub links: u32,
    /// Number of its inode, which all names of a file share.
    pub group: u32,
    /// Offset of a symbolic link's target in the section of strings.
    pub target: u32,
    /// Index of its first piece.
    pub first_piece: u32,
    /// Number of its pieces.
    pub pieces: u32,
}

impl TreeNode {
    /// Returns the node as bytes.
    pub fn bytes(&self) -> [u8; NODE_SIZE] {
        let mut out = [0; NODE_SIZE];
        let words = [
            self.path,
            self.kind,
            self.size as u32,
            (self.size >> 32) as u32,
            self.mode,
            self.links,
            self.group,
            self.target,
            self.first_piece,
            self.pieces,
        ];
        for (index, word) in words.into_iter().enumerate() {
            out[4 * index..4 * index + 4].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    fn read(bytes: &[u8]) -> TreeNode {
        let word = |index: usize| {
            u32::from_le_bytes(std::array::from_fn(|k| {
                bytes.get(4 * index + k).copied().unwrap_or(0)
            }))
        };
        TreeNode {
            path: word(0),
            kind: word(1),
            size: u64::from(word(2)) | u64::from(word(3)) << 32,
            mode: word(4),
            links: word(5),
            group: word(6),
            target: word(7),
            first_piece: word(8),
            pieces: word(9),
        }
    }
}

/// A point at which a phase can begin: the number of ops that each rank has made before it, and the number of ops of
/// each kind.
#[derive(Clone, Copy, Debug)]
pub struct Boundary<'a> {
    bytes: &'a [u8],
}

impl Boundary<'_> {
    /// Returns the size in bytes of a boundary with this many ranks.
    pub fn length(ranks: usize) -> usize {
        8 + 4 * ranks + 8 * OpKind::ALL.len()
    }

    /// Encodes a boundary.
    pub fn bytes(is_mark: bool, name: u32, ops: &[u32], counts: &BTreeMap<OpKind, u64>) -> Vec<u8> {
        let mut out = Vec::with_capacity(Boundary::length(ops.len()));
        out.extend_from_slice(&u32::from(is_mark).to_le_bytes());
        out.extend_from_slice(&name.to_le_bytes());
        ops.iter().for_each(|ops| out.extend_from_slice(&ops.to_le_bytes()));
        let count = |kind| counts.get(kind).copied().unwrap_or(0);
        OpKind::ALL.iter().for_each(|kind| out.extend_from_slice(&count(kind).to_le_bytes()));
        out
    }

    fn word(&self, offset: usize) -> u32 {
        let bytes = self.bytes.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    /// Returns true for a mark of the program, false for a command that it started.
    pub fn is_mark(&self) -> bool {
        self.word(0) == 1
    }

    /// Returns the offset of its name in the section of strings.
    pub fn name(&self) -> u32 {
        self.word(4)
    }

    /// Returns the number of ops of a rank before the boundary.
    #[inline]
    pub fn ops(&self, rank: u32) -> u32 {
        self.word(8 + 4 * rank as usize)
    }

    /// Returns the number of ops of each kind before the boundary.
    pub fn counts(&self) -> BTreeMap<OpKind, u64> {
        let from = self.bytes.len().saturating_sub(8 * OpKind::ALL.len());
        let count = |index: usize| {
            u64::from(self.word(from + 8 * index))
                | u64::from(self.word(from + 8 * index + 4)) << 32
        };
        (0..).zip(OpKind::ALL).map(|(index, kind)| (*kind, count(index))).collect()
    }
}

/// Returns true if a path, or the target of a link, stays below the directory in which it begins: it is relative, not
/// empty, and has no `..` and no NUL.
pub fn stays_below(path: &[u8]) -> bool {
    !path.is_empty()
        && path[0] != b'/'
        && !path.contains(&0)
        && path.split(|byte| *byte == b'/').all(|part| part != b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_and_a_node_are_read_as_written() {
        let record = OpRecord {
            code: 7,
            expect: 2,
            class: 3,
            waits: 1,
            file: 500,
            dir: 6,
            to: 7,
            before_rank: 300,
            before_ops: 70_000,
            name: 80_000,
            second_name: 90_000,
            first_wait: 100_000,
            offset: 1 << 40,
            length: 1 << 41,
            result: 1 << 42,
            content: 110_000,
            number: 120_000,
            compute: 130_000,
            wall: 140_000,
        };
        assert_eq!(OpRecord::read(&record.bytes()), record);
        let node = TreeNode {
            path: 1,
            kind: 2,
            size: 1 << 40,
            mode: 3,
            links: 4,
            group: 5,
            target: 6,
            first_piece: 7,
            pieces: 8,
        };
        assert_eq!(TreeNode::read(&node.bytes()), node);
    }

    #[test]
    fn long_times_are_rounded_down_to_microseconds() {
        for exact in [0, 1, 0x7fff_ffff] {
            assert_eq!(decode_time(encode_time(exact)), exact);
        }
        assert_eq!(decode_time(encode_time(60_123_456_789)), 60_123_456_000);
        assert_eq!(decode_time(encode_time(u64::MAX)), 0x7fff_ffff * 1000);
    }

    #[test]
    fn paths_that_could_leave_their_directory_are_recognized() {
        for path in ["a", "a/b", ".", "a/./b", "..a", "a..", "x/...", "a//b"] {
            assert!(stays_below(path.as_bytes()), "{path}");
        }
        for path in ["", "/", "/a", "..", "../a", "a/..", "a/../b", "a\0b"] {
            assert!(!stays_below(path.as_bytes()), "{path}");
        }
    }
}
