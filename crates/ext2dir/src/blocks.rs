//! The blocks of one directory, and what is noted of whoever looks at them.

use crate::cost::Ledger;
use crate::dirent;

/// One block.
#[derive(Clone, Debug)]
struct Block {
    bytes: Vec<u8>,
    /// Whether it is in the page cache; one that is not has to come from the device.
    cached: bool,
}

/// The blocks of a directory by their number in it.
#[derive(Clone, Debug)]
pub struct Blocks {
    size: usize,
    blocks: Vec<Block>,
    /// What all looks at them came to.
    pub ledger: Ledger,
    /// Blocks that were not in the cache, in the order in which they were looked at.
    pub missed: Vec<usize>,
    /// Blocks that were changed.
    pub changed: Vec<usize>,
}

impl Blocks {
    /// No blocks yet, of `size` bytes each.
    pub fn new(size: usize) -> Blocks {
        let (blocks, missed, changed) = Default::default();
        Blocks { size, blocks, ledger: Ledger::default(), missed, changed }
    }

    /// The blocks of a new directory: one, with itself and its parent.
    pub fn of_new(size: usize, own: u32, parent: u32) -> Blocks {
        let mut blocks = Blocks::new(size);
        blocks.append();
        blocks.change(0, |block| {
            dirent::write(block, 0, 12, own, dirent::DIRECTORY, b".");
            dirent::write(block, 12, size - 12, parent, dirent::DIRECTORY, b"..");
        });
        blocks
    }

    /// Bytes of a block.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Looks block `number` up; nothing for one that is not there.
    pub fn look(&mut self, number: usize) -> &[u8] {
        self.ledger.blocks += 1;
        let Some(block) = self.blocks.get_mut(number) else { return &[] };
        if !block.cached {
            block.cached = true;
            self.missed.push(number);
        }
        &block.bytes
    }

    /// Changes a block that has been looked up.
    pub fn change<T>(&mut self, number: usize, change: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let block = self.blocks.get_mut(number)?;
        self.ledger.dirtied += 1;
        self.changed.push(number);
        Some(change(&mut block.bytes))
    }

    /// A new block at the end, empty and in the cache; its number.
    pub fn append(&mut self) -> usize {
        self.ledger.blocks += 1;
        self.blocks.push(Block { bytes: dirent::empty(self.size), cached: true });
        self.blocks.len() - 1
    }

    /// The bytes of a block, without a look that counts.
    pub fn bytes(&self, number: usize) -> &[u8] {
        self.blocks.get(number).map_or(&[], |block| &block.bytes)
    }

    /// Nothing is in the cache any more.
    pub fn forget(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.cached = false);
    }
}
