//! The blocks of one directory, with counts of their use.

use crate::cost::WorkCounts;
use crate::dirent;

/// A block of a directory.
#[derive(Clone, Debug)]
struct Block {
    bytes: Vec<u8>,
    /// True if the block is in the page cache; otherwise it must be read from the device.
    cached: bool,
}

/// The blocks of a directory, in order.
#[derive(Clone, Debug)]
pub struct Blocks {
    size: usize,
    blocks: Vec<Block>,
    /// Counts of all work on the blocks.
    pub counts: WorkCounts,
    /// Blocks that were not in the cache, in order of lookup.
    pub missed: Vec<usize>,
    /// Changed blocks.
    pub changed: Vec<usize>,
}

impl Blocks {
    /// Creates an empty list of blocks of `size` bytes each.
    pub fn new(size: usize) -> Blocks {
        let (blocks, missed, changed) = Default::default();
        Blocks { size, blocks, counts: WorkCounts::default(), missed, changed }
    }

    /// Creates the blocks of a new directory with this inode: one block, with "." and "..".
    pub fn new_directory(size: usize, inode: u32, parent: u32) -> Blocks {
        let mut blocks = Blocks::new(size);
        blocks.append();
        blocks.change(0, |block| {
            dirent::write(block, 0, 12, inode, dirent::DIRECTORY, b".");
            dirent::write(block, 12, size - 12, parent, dirent::DIRECTORY, b"..");
        });
        blocks
    }

    /// Returns the block size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of blocks.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Looks up block `number`; returns an empty slice if there is no such block.
    pub fn lookup(&mut self, number: usize) -> &[u8] {
        self.counts.blocks += 1;
        let Some(block) = self.blocks.get_mut(number) else { return &[] };
        if !block.cached {
            block.cached = true;
            self.missed.push(number);
        }
        &block.bytes
    }

    /// Changes a block after its lookup.
    pub fn change<T>(&mut self, number: usize, change: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let block = self.blocks.get_mut(number)?;
        self.counts.dirtied += 1;
        self.changed.push(number);
        Some(change(&mut block.bytes))
    }

    /// Appends an empty block, which is in the cache; returns its number.
    pub fn append(&mut self) -> usize {
        self.counts.blocks += 1;
        self.blocks.push(Block { bytes: dirent::empty(self.size), cached: true });
        self.blocks.len() - 1
    }

    /// Returns the bytes of a block, without counting a lookup.
    pub fn bytes(&self, number: usize) -> &[u8] {
        self.blocks.get(number).map_or(&[], |block| &block.bytes)
    }

    /// Drops all blocks from the cache.
    pub fn forget(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.cached = false);
    }
}
