//! Ext2 before 2001: every search begins at the first block of the directory.

use super::{FindEntry, IndexFull, Location, Variant, add_anywhere, scan};
use crate::blocks::Blocks;

/// The variant before 2001.
pub const VARIANT: Variant = Variant {
    name: "classic-ext2",
    about: "ext2 before 2001: every search begins at the directory's first block",
    make: |_| Box::new(Classic),
    index: false,
};

/// A search without state.
#[derive(Clone, Copy, Debug)]
struct Classic;

impl FindEntry for Classic {
    fn find(&mut self, blocks: &mut Blocks, name: &[u8]) -> Option<Location> {
        scan(blocks, 0, name)
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
}
