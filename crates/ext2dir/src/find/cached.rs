//! Ext2 of 2.4.13: a search begins at the block where the last one found its entry (i_dir_start_lookup). A search that
//! finds nothing leaves that block unchanged, and adding a name does not use it.

use super::{FindEntry, IndexFull, Location, Variant, add_anywhere, scan};
use crate::blocks::Blocks;

/// The variant of 2.4.13.
pub const VARIANT: Variant = Variant {
    name: "cached-ext2",
    about: "ext2 of Linux 2.4.13: a search begins at the block where the last one found its entry",
    make: |_| Box::new(Cached { start: 0 }),
    index: false,
};

/// The cached start of the search.
#[derive(Clone, Copy, Debug)]
struct Cached {
    start: usize,
}

impl FindEntry for Cached {
    fn find(&mut self, blocks: &mut Blocks, name: &[u8]) -> Option<Location> {
        let found = scan(blocks, self.start, name)?;
        self.start = found.block;
        Some(found)
    }

    fn add(
        &mut self,
        blocks: &mut Blocks,
        inode: u32,
        kind: u8,
        name: &[u8],
    ) -> Result<(), IndexFull> {
        add_anywhere(blocks, inode, kind, name);
        Ok(())
    }

    /// Resets the start, which exists only in the in-memory inode.
    fn forget(&mut self) {
        self.start = 0;
    }
}
