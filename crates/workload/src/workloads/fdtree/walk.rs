//! The walk through the tree in the order of the script.

use super::{Fdtree, ROOT};
use crate::op::Name;

/// A position in the walk through the tree; the path itself is in the op, which is rewritten in
/// place.
pub(super) struct Walk<'a> {
    pub(super) work: &'a Fdtree,
    /// Path length and number of the child that was taken, for each directory above this one.
    ancestors: Vec<(usize, u64)>,
    /// Length of this directory's path, or zero before the start.
    length: usize,
    /// The number of the next file or directory of this directory, counting down; 0 if there is none.
    pub(super) k: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(work: &'a Fdtree) -> Walk<'a> {
        Walk { work, ancestors: Vec::with_capacity(work.levels), length: 0, k: 0 }
    }

    fn level(&self) -> usize {
        self.work.levels - self.ancestors.len()
    }

    /// Enters the root and returns true if the walk has not begun.
    fn start(&mut self, name: &mut Name) -> bool {
        let is_new = self.length == 0;
        if is_new {
            name.clear();
            name.push(ROOT);
            self.length = ROOT.len();
        }
        is_new
    }

    /// Writes the name of file or directory `k` of this directory.
    #[inline]
    fn write_child_name(&self, name: &mut Name, letter: &[u8], k: u64) {
        name.truncate(self.length);
        name.push(b"/L");
        name.push_number(self.level() as u64, 1);
        name.push(letter);
        name.push_number(k, 1);
    }

    fn descend(&mut self, name: &mut Name, k: u64) {
        self.write_child_name(name, b"D", k);
        self.ancestors.push((self.length, k));
        self.length = name.as_bytes().len();
    }

    /// Ascends to the parent; returns the number of the child from which it came, or `None` at the root.
    fn ascend(&mut self) -> Option<u64> {
        let (length, k) = self.ancestors.pop()?;
        self.length = length;
        Some(k)
    }

    /// Returns the number of this directory in walk order from the root.
    pub(super) fn number(&self) -> u64 {
        let steps = self.ancestors.iter().enumerate();
        steps.map(|(depth, (_, k))| self.work.child_distance(self.work.levels - depth, *k)).sum()
    }

    /// Moves to the next directory, parents before children and the last child first; returns false
    /// at the end.
    fn next_directory(&mut self, name: &mut Name) -> bool {
        if self.level() > 0 {
            self.descend(name, self.work.dirs);
            return true;
        }
        while let Some(k) = self.ascend() {
            if k > 1 {
                self.descend(name, k - 1);
                return true;
            }
        }
        false
    }

    /// Descends through last children to the deepest directory that has subdirectories.
    fn descend_to_lowest_parent(&mut self, name: &mut Name) {
        while self.level() > 1 {
            self.descend(name, self.work.dirs);
        }
    }

    /// Writes the name of the next file: first those in a directory, then those in the directories below it. Returns
    /// true if it is the first file of its directory, or `None` at the end.
    pub(super) fn next_file(&mut self, name: &mut Name) -> Option<bool> {
        let is_first = self.k == 0;
        if is_first {
            if !self.start(name) && !self.next_directory(name) {
                return None;
            }
            self.k = self.work.files;
        }
        self.write_child_name(name, b"F", self.k);
        self.k -= 1;
        Some(is_first)
    }

    /// Writes the name of the next directory to create: the root, the directories of a node, then those below.
    pub(super) fn next_directory_to_create(&mut self, name: &mut Name) -> bool {
        if self.start(name) {
            self.k = self.work.dirs;
            return true;
        }
        while self.k == 0 || self.level() == 0 {
            if !self.next_directory(name) {
                return false;
            }
            self.k = self.work.dirs;
        }
        self.write_child_name(name, b"D", self.k);
        self.k -= 1;
        true
    }

    /// Writes the name of the next directory to remove: those of a node after everything below them, and the root
    /// last. Returns true if it is the first directory that a process of the script removes, or `None` when only the
    /// root remains.
    pub(super) fn next_directory_to_remove(&mut self, name: &mut Name) -> Option<bool> {
        let is_first = self.k == 0;
        if is_first {
            if self.work.levels == 0 {
                self.start(name);
                return None;
            }
            if self.start(name) {
                self.descend_to_lowest_parent(name);
            } else {
                let k = self.ascend()?;
                if k > 1 {
                    self.descend(name, k - 1);
                    self.descend_to_lowest_parent(name);
                }
            }
            self.k = self.work.dirs;
        }
        self.write_child_name(name, b"D", self.k);
        self.k -= 1;
        Some(is_first)
    }
}
