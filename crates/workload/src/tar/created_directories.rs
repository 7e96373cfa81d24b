//! The directories that an extraction has created.

/// A bit per directory, set once the directory has been created.
#[derive(Clone, Debug)]
pub(super) struct CreatedDirectories(Vec<u64>);

impl CreatedDirectories {
    /// Returns the set for that many directories, none of which has been created.
    pub(super) fn new(directories: u64) -> CreatedDirectories {
        CreatedDirectories(vec![0; directories.div_ceil(64) as usize])
    }

    /// Marks a directory as created; returns true if it already was.
    #[inline]
    pub(super) fn mark_created(&mut self, directory: u64) -> bool {
        let bit = 1 << (directory % 64);
        match self.0.get_mut((directory / 64) as usize) {
            Some(word) => {
                let exists = *word & bit != 0;
                *word |= bit;
                exists
            }
            None => false,
        }
    }

    /// Reports whether a directory has been created.
    pub(super) fn contains(&self, directory: u64) -> bool {
        self.0.get((directory / 64) as usize).is_some_and(|word| word >> (directory % 64) & 1 != 0)
    }

    /// Returns the number of directories created.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
