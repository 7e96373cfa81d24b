//! How an entry is found: the three ways of 2001, one file each.

pub mod cached;
pub mod classic;
pub mod indexed;

use crate::blocks::Blocks;
use crate::dirent;

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The block, by its number in the directory.
    pub block: usize,
    /// Its first byte there.
    pub offset: usize,
}

/// A directory has no room for one more index block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// One way to find and to add entries; a directory has one of its own.
pub trait FindEntry: Send {
    /// Looks for a name.
    fn find(&mut self, blocks: &mut Blocks, name: &[u8]) -> Option<Found>;

    /// Adds a name that is not there.
    ///
    /// # Errors
    /// [`Full`], where an index can hold no more.
    fn add(&mut self, blocks: &mut Blocks, inode: u32, kind: u8, name: &[u8]) -> Result<(), Full>;

    /// What is not on the disk is forgotten, as an unmount does.
    fn forget(&mut self) {}

    /// The directory comes from the disk, with an index or without.
    fn mounted(&mut self, _index: bool) {}

    /// Whether the directory has an index on disk.
    fn has_index(&self) -> bool {
        false
    }
}

/// One of the three, as `--fs` names it.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// A new directory's.
    pub make: fn(seed: [u32; 4]) -> Box<dyn FindEntry>,
    /// Whether directories may have an index (dir_index).
    pub index: bool,
}

/// All three, in the order of the table of 2001.
pub const ALL: &[Variant] = &[classic::VARIANT, cached::VARIANT, indexed::VARIANT];

/// The variant of this name.
pub fn named(name: &str) -> Option<&'static Variant> {
    ALL.iter().find(|variant| variant.name == name)
}

/// Looks through all blocks from `start` on, past the last one to the first.
fn scan(blocks: &mut Blocks, start: usize, name: &[u8]) -> Option<Found> {
    let count = blocks.count();
    let start = if start < count { start } else { 0 };
    for step in 0..count {
        let block = (start + step) % count;
        let looked = dirent::find(blocks.look(block), name);
        blocks.ledger.entries += looked.entries;
        if let Some(offset) = looked.at {
            return Some(Found { block, offset });
        }
    }
    None
}

/// Puts a name into the first room that there is, from the first block on; each entry on the way is
/// compared too, lest the name be there (ext2_add_link).
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

/// Puts a name into a block; whether it had room.
fn add_to(blocks: &mut Blocks, block: usize, inode: u32, kind: u8, name: &[u8]) -> bool {
    let room = dirent::find_room(blocks.look(block), name);
    blocks.ledger.entries += room.entries;
    blocks.ledger.measured += room.entries;
    let Some(offset) = room.at else { return false };
    blocks.change(block, |bytes| dirent::insert(bytes, offset, inode, kind, name));
    true
}

/// Removes an entry that has been found.
pub fn remove(blocks: &mut Blocks, found: Found) {
    let walked = blocks.change(found.block, |bytes| dirent::remove(bytes, found.offset));
    blocks.ledger.measured += walked.unwrap_or(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_here_is_in_the_table_and_the_table_has_no_other() {
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
        assert_eq!(files, names, "a way to find an entry is one file and one row of ALL");
    }
}
