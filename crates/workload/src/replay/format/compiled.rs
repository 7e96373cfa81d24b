//! A compiled recording, read in place.

use std::collections::BTreeMap;

use fsdyno_record::OpKind;

use super::{
    Boundary, MAGIC, NODE_SIZE, OP_SIZE, PIECE_SIZE, RANK_SIZE, SECTIONS, Section, TreeNode,
    WAIT_SIZE, stays_below,
};
use crate::input::Input;

/// A compiled recording, read in place from its input.
#[derive(Clone, Debug)]
pub struct Compiled {
    input: Input,
    sections: [(usize, usize); SECTIONS],
    /// The facts by name.
    facts: BTreeMap<String, String>,
}

impl Compiled {
    /// Opens a compiled recording after checking the bounds of its sections and all strings.
    ///
    /// # Errors
    /// The mistake, as text that fits after a path.
    pub fn new(input: &Input) -> Result<Compiled, String> {
        let bytes = input.bytes();
        if bytes.get(..8) != Some(MAGIC) {
            return Err("is not a trace compiled for replay".to_string());
        }
        let number = |offset: usize| {
            let bytes = bytes.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
            usize::try_from(bytes.map_or(u64::MAX, u64::from_le_bytes)).unwrap_or(usize::MAX)
        };
        let mut sections = [(0, 0); SECTIONS];
        for (index, section) in sections.iter_mut().enumerate() {
            let (start, length) = (number(8 + 16 * index), number(16 + 16 * index));
            let end = start.checked_add(length).filter(|end| *end <= bytes.len());
            *section = (start, end.ok_or("has a section that ends past its end")?);
        }
        let mut compiled = Compiled { input: input.clone(), sections, facts: BTreeMap::new() };
        compiled.check_strings()?;
        let facts = String::from_utf8_lossy(compiled.section(Section::Facts)).into_owned();
        let pairs = facts.lines().filter_map(|line| line.split_once(' '));
        compiled.facts = pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Ok(compiled)
    }

    /// Checks that no string leads out of the directory in which it is used: strings are not absolute and have no `..`.
    /// Targets of symbolic links are strings too, so every path of the replay stays below the trial's root, in whatever
    /// order the calls are made.
    fn check_strings(&self) -> Result<(), String> {
        let strings = self.section(Section::Strings);
        let mut offset = 0;
        while offset < strings.len() {
            let text = self.string(offset as u32);
            let stored = strings
                .get(offset..offset + 2)
                .map_or(0, |bytes| usize::from(bytes[0]) | usize::from(bytes[1]) << 8);
            if stored != text.len() || !stays_below(text) {
                return Err(format!(
                    "has the path '{}', which could lead out of the trial's directory",
                    String::from_utf8_lossy(text).escape_debug()
                ));
            }
            offset += 2 + stored;
        }
        Ok(())
    }

    /// Returns the bytes of a section.
    pub fn section(&self, section: Section) -> &[u8] {
        let (from, end) = self.sections[section as usize];
        self.input.bytes().get(from..end).unwrap_or_default()
    }

    /// Returns a fact as text, or empty if it is missing.
    pub fn text(&self, fact: &str) -> &str {
        self.facts.get(fact).map_or("", String::as_str)
    }

    /// Returns a fact as a number; 0 if it is missing.
    pub fn number(&self, fact: &str) -> u64 {
        self.text(fact).parse().unwrap_or(0)
    }

    /// Returns all facts.
    pub fn facts(&self) -> &BTreeMap<String, String> {
        &self.facts
    }

    /// Returns the number of calls of each kind.
    pub fn counts(&self) -> BTreeMap<OpKind, u64> {
        let kinds = OpKind::ALL.iter();
        let count = |kind: &OpKind| (*kind, self.number(&format!("count-{kind}")));
        kinds.map(count).filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the string at this offset.
    #[inline]
    pub fn string(&self, offset: u32) -> &[u8] {
        let strings = self.section(Section::Strings);
        let offset = offset as usize;
        let length = match strings.get(offset..offset + 2) {
            Some(bytes) => usize::from(bytes[0]) | usize::from(bytes[1]) << 8,
            None => 0,
        };
        strings.get(offset + 2..offset + 2 + length).unwrap_or_default()
    }

    /// Returns the number of ranks.
    pub fn rank_count(&self) -> u32 {
        (self.section(Section::Ranks).len() / RANK_SIZE) as u32
    }

    /// Returns the ops of a rank.
    pub fn rank_ops(&self, rank: u32) -> &[u8] {
        let ranks = self.section(Section::Ranks);
        let offset = rank as usize * RANK_SIZE;
        let long = |offset: usize| {
            let bytes = ranks.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes) as usize
        };
        let (first, count) =
            (long(offset).saturating_mul(OP_SIZE), long(offset + 8).saturating_mul(OP_SIZE));
        let ops = self.section(Section::Ops);
        ops.get(first..first.saturating_add(count)).unwrap_or_default()
    }

    /// Returns the point with this index that an op waits for: a rank, a number of its ops, and true for the last point
    /// of an op.
    #[inline]
    pub fn wait_point(&self, index: u32) -> (u16, u32, bool) {
        let offset = index as usize * WAIT_SIZE;
        match self.section(Section::Waits).get(offset..offset + WAIT_SIZE) {
            Some(bytes) => (
                u16::from_le_bytes([bytes[0], bytes[1]]),
                u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
                bytes[2] != 0,
            ),
            None => (0, 0, true),
        }
    }

    /// Returns the points at which a phase can begin.
    pub fn boundaries(&self) -> impl Iterator<Item = Boundary<'_>> {
        let length = Boundary::length(self.rank_count() as usize);
        self.section(Section::Boundaries).chunks_exact(length).map(|bytes| Boundary { bytes })
    }

    /// Returns the number of nodes of a tree.
    pub fn node_count(&self, tree: Section) -> usize {
        self.section(tree).len() / NODE_SIZE
    }

    /// Returns a node of a tree.
    pub fn node(&self, tree: Section, index: usize) -> TreeNode {
        TreeNode::read(self.section(tree).get(index * NODE_SIZE..).unwrap_or_default())
    }

    /// Returns a piece of a file: offset in the file, content, offset in the content, and length.
    pub fn piece(&self, piece: usize) -> [u64; 4] {
        let bytes = self.section(Section::Pieces).get(piece * PIECE_SIZE..).unwrap_or_default();
        let long = |index: usize| {
            u64::from_le_bytes(std::array::from_fn(|k| {
                bytes.get(8 * index + k).copied().unwrap_or(0)
            }))
        };
        std::array::from_fn(long)
    }
}
