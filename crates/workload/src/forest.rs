//! Synthetic source trees: directories of uneven depth and file count, with file sizes distributed like those of source
//! files.

use fsdyno_record::seed::{self, mix};

use crate::numbered::Numbered;
use crate::op::Name;

/// Maximum depth of a directory below the tree's top directory.
pub const MAX_DEPTH: u32 = 8;

/// Percentage of directories that contain a subdirectory, by depth; the resulting mean depth is about 3, as in kernel
/// trees.
const NESTING_PERCENT: [u64; MAX_DEPTH as usize + 1] = [100, 65, 45, 35, 25, 15, 10, 5, 0];

/// The directories of a tree, numbered in walking order, parents first; the tree's top directory is 0. Takes eight
/// bytes per directory.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Each directory's parent; directory 0 is its own parent.
    parents: Vec<u32>,
    /// The number of each directory's first file, followed by the total number of files.
    first_files: Vec<u32>,
}

impl Shape {
    /// Draws a tree of `directories` (at least one) and `files` from `seed`.
    pub fn new(directories: u32, files: u32, seed: u64) -> Shape {
        let mut draws = seed::stream(seed, "directories");
        let (mut parents, mut ancestors) = (vec![0], vec![0]);
        for directory in 1..directories {
            let depth = ancestors.len() - 1;
            if draws.below(100) >= NESTING_PERCENT[depth] {
                // A sibling of the last directory or of one of its ancestors; near ancestors are more likely.
                let up = draws.below(depth as u64).max(draws.below(depth as u64));
                ancestors.truncate(1 + up as usize);
            }
            parents.push(ancestors.last().copied().unwrap_or(0));
            ancestors.push(directory);
        }
        // Files are distributed by weights over eight octaves: most directories hold few files, some very many.
        let weights: Vec<u64> =
            parents.iter().map(|_| (1 << draws.below(8)) + draws.below(4)).collect();
        let total_weight: u64 = weights.iter().sum();
        let mut weight_before = 0;
        let starts = weights.iter().map(|weight| {
            let first = u128::from(files) * u128::from(weight_before) / u128::from(total_weight);
            weight_before += weight;
            first as u32
        });
        let mut first_files: Vec<u32> = starts.collect();
        first_files.push(files);
        Shape { parents, first_files }
    }

    /// Returns the number of directories, including the tree's top directory.
    pub fn directories(&self) -> u32 {
        self.parents.len() as u32
    }

    /// Returns the number of files.
    pub fn files(&self) -> u32 {
        self.first_files.last().copied().unwrap_or(0)
    }

    /// Returns the parent of a directory; directory 0 is its own parent.
    pub fn parent(&self, directory: u32) -> u32 {
        self.parents.get(directory as usize).copied().unwrap_or(0)
    }

    /// Returns the numbers of the files in a directory.
    pub fn files_of(&self, directory: u32) -> std::ops::Range<u32> {
        let first = |index: u32| self.first_files.get(index as usize).copied().unwrap_or(0);
        first(directory)..first(directory + 1)
    }

    /// Returns the directory of a file.
    pub fn directory_of(&self, file: u32) -> u32 {
        (self.first_files.partition_point(|first| *first <= file) as u32).saturating_sub(1)
    }

    /// Iterates over a directory and all its ancestors, deepest first, excluding the tree's top directory.
    pub fn ancestors(&self, start: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(start), |child| Some(self.parent(*child)))
            .take_while(|directory| *directory > 0)
    }
}

/// An entry of one of the trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForestEntry {
    /// A directory, by number; 0 is the tree's top directory.
    Directory(u32),
    /// A file, by number.
    File(u32),
}

/// Trees of the same shape in one directory, with the names of all their entries: `tree0/d007/d012/f0345`.
#[derive(Clone, Debug)]
pub struct Forest {
    /// Number of trees.
    pub trees: u64,
    /// The shape of each tree.
    pub shape: Shape,
    tree_names: Numbered,
    directory_names: Numbered,
    file_names: Numbered,
}

impl Forest {
    /// Creates `trees` trees of a shape.
    pub fn new(trees: u64, shape: Shape) -> Forest {
        Forest {
            trees,
            tree_names: Numbered::for_count("tree", trees),
            directory_names: Numbered::for_count("d", shape.directories().into()),
            file_names: Numbered::for_count("f", shape.files().into()),
            shape,
        }
    }

    /// Returns the number of files in all trees.
    pub fn files(&self) -> u64 {
        self.trees * u64::from(self.shape.files())
    }

    /// Returns the number of directories in all trees.
    pub fn directories(&self) -> u64 {
        self.trees * u64::from(self.shape.directories())
    }

    /// Returns the length of the longest name in bytes.
    pub fn longest_name(&self) -> usize {
        let last = |names: &Numbered, count: u64| names.length_of(count.saturating_sub(1));
        last(&self.file_names, self.shape.files().into())
            .max(last(&self.directory_names, self.shape.directories().into()))
            .max(last(&self.tree_names, self.trees))
    }

    /// Appends the path of an entry of a tree.
    pub fn push(&self, name: &mut Name, tree: u64, entry: ForestEntry) {
        self.tree_names.push(name, tree);
        let (directory, file) = match entry {
            ForestEntry::Directory(directory) => (directory, None),
            ForestEntry::File(file) => (self.shape.directory_of(file), Some(file)),
        };
        let mut ancestors = [0; MAX_DEPTH as usize];
        let slots_with_ancestors = ancestors.iter_mut().zip(self.shape.ancestors(directory));
        let depth = slots_with_ancestors.map(|(slot, directory)| *slot = directory).count();
        for directory in ancestors[..depth].iter().rev() {
            name.push(b"/");
            self.directory_names.push(name, u64::from(*directory));
        }
        if let Some(file) = file {
            name.push(b"/");
            self.file_names.push(name, u64::from(file));
        }
    }

    /// Returns the tree and the entry at `path`, or `None` if there is no such path.
    pub fn parse(&self, path: &[u8]) -> Option<(u64, ForestEntry)> {
        let mut parts = path.split(|byte| *byte == b'/');
        let tree = self.tree_names.parse(parts.next()?).filter(|tree| *tree < self.trees)?;
        let number = |names: &Numbered, part: &[u8], count: u32| {
            let number = u32::try_from(names.parse(part)?).ok()?;
            (number < count).then_some(number)
        };
        // The last part determines the candidate entry; its whole path must then match.
        let entry = match parts.next_back() {
            None => ForestEntry::Directory(0),
            Some(part) => match number(&self.file_names, part, self.shape.files()) {
                Some(file) => ForestEntry::File(file),
                None => {
                    let directories = self.shape.directories();
                    ForestEntry::Directory(number(&self.directory_names, part, directories)?)
                }
            },
        };
        let mut expected = Name::default();
        self.push(&mut expected, tree, entry);
        (expected.as_bytes() == path).then_some((tree, entry))
    }
}

/// Median of the sizes in bytes.
const MEDIAN: u64 = 5072;
/// Octaves per unit of the sum of draws, in 65,536ths: 1.25 / ln 2 octaves per standard deviation, which is sqrt(8/12)
/// of a unit.
const OCTAVES_PER_UNIT: i64 = 144_750;

/// Draws the size of file `number` in bytes from `seed`: approximately log-normal, with a median of 5,072 bytes and a
/// standard deviation of the natural logarithm of 1.25, so the mean is 10.9 KB. A size is at least 11 bytes and at
/// most 2.3 MB.
///
/// The exponent is a sum of eight uniform draws, whose distribution is nearly normal (Irwin and Hall), and all
/// arithmetic is in integers, so that every machine computes the same sizes.
pub fn size_of(number: u64, seed: u64) -> u64 {
    let draws = [0, 1].map(|half| mix(mix(number ^ seed).wrapping_add(half)));
    let words = draws.iter().flat_map(|draw| [0, 16, 32, 48].map(|shift| (draw >> shift) & 0xffff));
    let sum = words.sum::<u64>() as i64 - 4 * 65_536;
    let exponent = (sum * OCTAVES_PER_UNIT) >> 16;
    let (whole, part) = (exponent >> 16, (exponent & 0xffff) as u64);
    // Two to the power of the fraction, within 0.3 %: 1 + f (0.6565 + 0.3435 f).
    let factor = 65_536 + ((part * (43_024 + ((22_512 * part) >> 16))) >> 16);
    let scaled = (MEDIAN * factor) >> 8;
    if whole >= 0 { (scaled << whole) >> 8 } else { (scaled >> -whole) >> 8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_file_has_one_directory_and_every_directory_a_parent_before_it(
            (directories, files) in (1u32..400, 0u32..2000), seed: u64,
        ) {
            let shape = Shape::new(directories, files, seed);
            prop_assert_eq!((shape.directories(), shape.files()), (directories, files));
            let mut next = 0;
            for directory in 0..directories {
                prop_assert!(directory == 0 || shape.parent(directory) < directory);
                prop_assert!(shape.ancestors(directory).count() <= MAX_DEPTH as usize);
                for file in shape.files_of(directory) {
                    prop_assert_eq!(file, next);
                    prop_assert_eq!(shape.directory_of(file), directory);
                    next += 1;
                }
                // Walked in order: the parent is the last directory or lies above it.
                let parent = shape.parent(directory);
                let last = directory.saturating_sub(1);
                prop_assert!(parent == 0 || shape.ancestors(last).any(|above| above == parent));
            }
            prop_assert_eq!(next, files);
        }
    }

    #[test]
    fn every_path_has_one_entry_that_is_found_again() {
        let forest = Forest::new(3, Shape::new(40, 300, 9));
        let mut paths = std::collections::BTreeSet::new();
        let entries = || (0..40).map(ForestEntry::Directory).chain((0..300).map(ForestEntry::File));
        for (tree, entry) in (0..3).flat_map(|tree| entries().map(move |entry| (tree, entry))) {
            let mut name = Name::default();
            forest.push(&mut name, tree, entry);
            assert_eq!(forest.parse(name.as_bytes()), Some((tree, entry)));
            assert!(paths.insert(name.display()), "{name:?}");
        }
        assert!(paths.contains("tree2"));
        for invalid in ["", "tree3", "tree0/", "tree0/d40", "tree0/x/d01", "tree0/f300", "d01"] {
            assert_eq!(forest.parse(invalid.as_bytes()), None, "{invalid}");
        }
    }

    #[test]
    fn three_trees_of_20000_files_are_655_mb_and_distributed_as_stated() {
        let mut sizes: Vec<u64> = (0..60_000).map(|number| size_of(number, 7)).collect();
        let total: u64 = sizes.iter().sum();
        // The standard deviation of the total is 0.8 % of it.
        assert!((640_000_000..670_000_000).contains(&total), "{total}");
        sizes.sort_unstable();
        // Quantiles of the log-normal: the median times e^(1.25 z).
        for (share, expected) in
            [(0.05, 649.0), (0.25, 2183.0), (0.5, 5072.0), (0.75, 11_785.0), (0.95, 39_638.0)]
        {
            let found = sizes[(60_000.0 * share) as usize] as f64;
            assert!((found / expected - 1.0).abs() < 0.05, "{share}: {found}, not {expected}");
        }
        assert!(sizes[0] >= 11 && sizes[59_999] <= 2_400_000, "{} {}", sizes[0], sizes[59_999]);
    }

    #[test]
    fn a_tree_is_about_as_deep_as_a_kernel_tree_and_its_directories_are_filled_unevenly() {
        let shape = Shape::new(1200, 20_000, 1);
        let depths: usize = (0..1200).map(|directory| shape.ancestors(directory).count()).sum();
        assert!((2.5..5.0).contains(&(depths as f64 / 1200.0)), "{depths}");
        let mut file_counts: Vec<usize> = (0..1200).map(|d| shape.files_of(d).len()).collect();
        file_counts.sort_unstable();
        assert!(
            file_counts[600] < 12 && file_counts[1199] > 50,
            "{} {}",
            file_counts[600],
            file_counts[1199]
        );
    }
}
