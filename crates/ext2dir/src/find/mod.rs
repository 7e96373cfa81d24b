//! The three ext2 directory search algorithms that were compared in 2001, one file each.

pub mod cached;
pub mod classic;
pub mod indexed;

use crate::blocks::Blocks;
use crate::dirent;

/// The location of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of the block in the directory.
    pub block: usize,
    /// The offset of the entry's first byte in the block.
    pub offset: usize,
}

/// The error returned if a directory's index is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFull;

/// An algorithm that finds and adds entries, with its state for one directory.
pub trait FindEntry: Send {
    /// Searches for a name.
    fn find(&mut self, blocks: &mut Blocks, name: &[u8]) -> Option<Location>;

    /// Adds a new name.
    ///
    /// # Errors
    /// [`IndexFull`] if the index is full.
    fn add(
        &mut self,
        blocks: &mut Blocks,
        inode: u32,
        kind: u8,
        name: &[u8],
    ) -> Result<(), IndexFull>;

    /// Drops state that is not on disk, as an unmount does.
    fn forget(&mut self) {}

    /// Initializes the state from the disk; `index` is true if the directory has an index.
    fn on_mount(&mut self, _index: bool) {}

    /// Returns true if the directory has an index on disk.
    fn has_index(&self) -> bool {
        false
    }
}

/// A variant of the model, as named by `--fs`.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The name.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// Creates the search state of a new directory.
    pub make: fn(seed: [u32; 4]) -> Box<dyn FindEntry>,
    /// True if directories may have an index (dir_index).
    pub index: bool,
}

/// All variants, in the order of the table of 2001.
pub const ALL: &[Variant] = &[classic::VARIANT, cached::VARIANT, indexed::VARIANT];

/// Returns the variant with this name, if any.
pub fn by_name(name: &str) -> Option<&'static Variant> {
    ALL.iter().find(|variant| variant.name == name)
}

/// Scans all blocks from `start` on, wrapping around after the last block.
fn scan(blocks: &mut Blocks, start: usize, name: &[u8]) -> Option<Location> {
    let count = blocks.count();
    let start = if start < count { start } else { 0 };
    for step in 0..count {
        let block = (start + step) % count;
        let scan = dirent::find(blocks.lookup(block), name);
        blocks.counts.entries += scan.entries;
        if let Some(offset) = scan.offset {
            return Some(Location { block, offset });
        }
    }
    None
}

/// Puts a name into the first free space, from the first block on; the name of each entry passed is compared too, in
/// case the new name already exists (ext2_add_link).
fn add_anywhere(blocks: &mut Blocks, inode: u32, kind: u8, name: &[u8]) {
    let mut block = 0;
    loop {
        if block == blocks.count() {
            blocks.append();
        }
        if add_to(blocks, block, inode, kind, name) {
            return;
        }
        block += 1;
    }
}

/// Puts a name into a block; returns false if the block lacks space.
fn add_to(blocks: &mut Blocks, block: usize, inode: u32, kind: u8, name: &[u8]) -> bool {
    let space = dirent::find_space(blocks.lookup(block), name);
    blocks.counts.entries += space.entries;
    blocks.counts.measured += space.entries;
    let Some(offset) = space.offset else { return false };
    blocks.change(block, |bytes| dirent::insert(bytes, offset, inode, kind, name));
    true
}

/// Removes a found entry.
pub fn remove(blocks: &mut Blocks, found: Location) {
    let passed = blocks.change(found.block, |bytes| dirent::remove(bytes, found.offset));
    blocks.counts.measured += passed.unwrap_or(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_one_row_for_each_file_of_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/find");
        let files = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<String> = files
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "mod.rs")
            .map(|name| format!("{}-ext2", name.trim_end_matches(".rs")))
            .collect();
        let mut names: Vec<&str> = ALL.iter().map(|variant| variant.name).collect();
        files.sort();
        names.sort_unstable();
        assert_eq!(files, names, "each search algorithm needs one file and one row in ALL");
    }
}
