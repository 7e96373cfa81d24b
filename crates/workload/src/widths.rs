//! The shape of a regular tree: the number of subdirectories per directory at each level.

use std::fmt;
use std::str::FromStr;

use fsdyno_record::Count;

/// Maximum number of levels of a tree.
const MAX_LEVELS: usize = 5;
/// Maximum number of directories in a directory.
const MAX_WIDTH: u64 = 1_000_000;
/// Maximum number of directories at the last level; more would be a typing error.
const MAX_LEAVES: u64 = 500_000_000;

/// Numbers of directories per directory, the top level first.
///
/// The leaves are numbered from left to right; those below one directory have consecutive numbers, so
/// that paths are computed by division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widths(Vec<u64>);

impl Widths {
    /// Returns the one to five widths, each at least one.
    pub fn widths(&self) -> &[u64] {
        &self.0
    }

    /// Returns the number of levels of directories.
    pub fn levels(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of leaves below one directory of a level; 0 is the top level.
    pub fn leaves_below(&self, level: usize) -> u64 {
        self.0.iter().skip(level + 1).product()
    }

    /// Returns the number of directories without subdirectories.
    pub fn leaves(&self) -> u64 {
        self.0.iter().product()
    }

    /// Returns the total number of directories.
    pub fn directories(&self) -> u64 {
        let levels = self.0.iter().scan(1, |count, width| {
            *count *= width;
            Some(*count)
        });
        levels.sum()
    }
}

impl FromStr for Widths {
    type Err = ();

    /// Parses `30/30/30`; refuses trees of more than 500,000,000 leaves.
    fn from_str(text: &str) -> Result<Widths, ()> {
        let width = |text: &str| {
            let width = text.parse().ok().map(|Count(width)| width);
            width.filter(|width| (1..=MAX_WIDTH).contains(width)).ok_or(())
        };
        let widths: Vec<u64> = text.split('/').map(width).collect::<Result<_, ()>>()?;
        let leaves = widths.iter().try_fold(1u64, |product, width| product.checked_mul(*width));
        let fits = widths.len() <= MAX_LEVELS && leaves.is_some_and(|leaves| leaves <= MAX_LEAVES);
        if fits { Ok(Widths(widths)) } else { Err(()) }
    }
}

impl fmt::Display for Widths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&widths.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_leaves_are_counted_over_all_levels() {
        let widths: Widths = "30/30/030".parse().unwrap();
        assert_eq!(widths.to_string(), "30/30/30");
        assert_eq!((widths.leaves(), widths.directories()), (27_000, 27_930));
        assert_eq!([0, 1, 2].map(|level| widths.leaves_below(level)), [900, 30, 1]);
        assert_eq!("7".parse::<Widths>().unwrap().directories(), 7);
    }

    #[test]
    fn invalid_and_too_large_trees_are_refused() {
        for invalid in
            ["", "/", "3/", "0/3", "3x3", "1/1/1/1/1/1", "-1", "+1", "1000001", "99999/99999"]
        {
            assert_eq!(invalid.parse::<Widths>(), Err(()), "{invalid}");
        }
    }
}
