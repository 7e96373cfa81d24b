//! A tree of the compiled form, as the expected tree after a phase.

use crate::op::Payload;
use crate::replay::format::{Compiled, Section, TreeNode};
use crate::replay::source::copy_directory;
use crate::workload::{Expected, ExpectedKind, Links, Tree};

/// The nodes of one section, once for each copy.
pub struct FlatTree<'a> {
    compiled: &'a Compiled,
    section: Section,
    copies: u32,
    directories: u64,
}

impl<'a> FlatTree<'a> {
    /// Creates the tree in `section`, in `copies` copies.
    pub fn new(compiled: &'a Compiled, section: Section, copies: u32) -> FlatTree<'a> {
        let nodes = 0..compiled.node_count(section);
        let directories =
            nodes.filter(|index| compiled.node(section, *index).kind == 0).count() as u64;
        FlatTree { compiled, section, copies, directories }
    }

    /// Returns the number of the copy that contains a path and the rest of the path, or `None` if no copy contains it.
    fn split_copy<'p>(&self, path: &'p [u8]) -> Option<(u32, &'p [u8])> {
        if self.copies == 1 {
            return Some((0, path));
        }
        let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
        let (directory, rest) = path.split_at(end);
        let number = std::str::from_utf8(directory.strip_prefix(b"copy")?).ok()?;
        let copy = number.parse().ok().filter(|copy| *copy < self.copies)?;
        let mut canonical = Vec::new();
        copy_directory(copy, &mut canonical);
        let is_canonical = canonical.strip_suffix(b"/") == Some(directory);
        is_canonical.then(|| (copy, rest.strip_prefix(b"/").unwrap_or_default()))
    }

    fn find_node(&self, path: &[u8]) -> Option<TreeNode> {
        let (mut from, mut to) = (0, self.compiled.node_count(self.section));
        while from < to {
            let middle = (from + to) / 2;
            let node = self.compiled.node(self.section, middle);
            match self.compiled.string(node.path).cmp(path) {
                std::cmp::Ordering::Equal => return Some(node),
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        None
    }
}

impl Tree for FlatTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let (copy, path) = self.split_copy(path)?;
        if path.is_empty() {
            return Some(Expected::DIRECTORY);
        }
        let node = self.find_node(path)?;
        let kind = match node.kind {
            0 => ExpectedKind::Directory,
            1 => ExpectedKind::Pieces(node.size),
            _ => ExpectedKind::Symlink,
        };
        let group = u64::from(copy) << 32 | u64::from(node.group);
        let count = u64::from(node.links);
        Some(Expected {
            kind,
            mode: (node.kind != 2).then_some(node.mode),
            mtime: None,
            links: (node.kind != 0 && count > 1).then_some(Links { group, count }),
        })
    }

    fn files(&self) -> u64 {
        let nodes = self.compiled.node_count(self.section) as u64;
        (nodes - self.directories) * u64::from(self.copies)
    }

    fn directories(&self) -> u64 {
        let root = if self.copies > 1 { 1 } else { 0 };
        (self.directories + root) * u64::from(self.copies)
    }

    fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        let node = self.find_node(self.split_copy(path)?.1)?;
        let (mut from, mut to) = (0, node.pieces as usize);
        let piece_at = |index: usize| self.compiled.piece(node.first_piece as usize + index);
        // Finds the last piece that begins at or before the offset.
        while from < to {
            let middle = (from + to) / 2;
            if piece_at(middle)[0] <= offset {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        let hole = |end: u64| {
            let length = end.saturating_sub(offset).min(u32::MAX.into()) as u32;
            Some(Payload::zeros(offset, length))
        };
        let next = if from < node.pieces as usize { piece_at(from)[0] } else { node.size };
        let Some(index) = from.checked_sub(1) else { return hole(next) };
        let [start, id, content_offset, length] = piece_at(index);
        let skipped = offset - start;
        if skipped >= length {
            return hole(next);
        }
        let length = (length - skipped).min(u32::MAX.into()) as u32;
        Some(Payload { id, offset: content_offset + skipped, length })
    }

    fn target(&self, path: &[u8]) -> Option<Vec<u8>> {
        let node = self.find_node(self.split_copy(path)?.1).filter(|node| node.kind == 2)?;
        Some(self.compiled.string(node.target).to_vec())
    }
}
