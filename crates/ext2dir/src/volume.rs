//! Layout and allocation: block groups with their bitmaps and inode tables, as mke2fs of 2001 laid them out, and the
//! allocation of inodes and blocks in ext2 of 2001.
//!
//! Every group begins with a copy of the superblock and the descriptors (no sparse_super). There is one inode per 4
//! KiB, and inodes have 128 bytes: mke2fs's defaults at the time [MEM].

use std::collections::BTreeSet;

/// Size of an inode in bytes.
pub const INODE: u64 = 128;

/// Size of a group's descriptor in bytes.
pub const DESCRIPTOR: u64 = 32;

/// Bytes of a volume per inode.
const BYTES_PER_INODE: u64 = 4096;

/// The first inode that is not reserved.
pub const FIRST_INODE: u32 = 11;

/// The inode number of the root directory.
pub const ROOT: u32 = 2;

/// The error returned if no inode or block is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace;

/// The parameters of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Block size in bytes: 1024, 2048 or 4096.
    pub block_size: u64,
    /// Number of groups, all of full size.
    pub groups: u64,
}

impl Layout {
    /// Returns the layout of a volume of `bytes`; a partial last group is not used.
    pub fn new(block_size: u64, bytes: u64) -> Layout {
        let group_size = block_size * 8 * block_size;
        let boot_block = if block_size == 1024 { block_size } else { 0 };
        Layout { block_size, groups: (bytes.saturating_sub(boot_block) / group_size).max(1) }
    }

    /// Returns the block of the superblock.
    pub fn first_block(&self) -> u64 {
        u64::from(self.block_size == 1024)
    }

    /// Returns the number of blocks in a group: one per bit of a one-block bitmap.
    pub fn blocks_per_group(&self) -> u64 {
        8 * self.block_size
    }

    /// Returns the number of inodes in a group.
    pub fn inodes_per_group(&self) -> u64 {
        self.blocks_per_group() * self.block_size / BYTES_PER_INODE
    }

    /// Returns the number of blocks in all groups and the boot block, if any.
    pub fn blocks(&self) -> u64 {
        self.first_block() + self.groups * self.blocks_per_group()
    }

    /// Returns the first block of a group.
    pub fn group_start(&self, group: u64) -> u64 {
        self.first_block() + group * self.blocks_per_group()
    }

    /// Returns the number of blocks with descriptors.
    pub fn descriptor_blocks(&self) -> u64 {
        (self.groups * DESCRIPTOR).div_ceil(self.block_size)
    }

    /// Returns the block with the bitmap of a group's blocks.
    pub fn block_bitmap(&self, group: u64) -> u64 {
        self.group_start(group) + 1 + self.descriptor_blocks()
    }

    /// Returns the block with the bitmap of a group's inodes.
    pub fn inode_bitmap(&self, group: u64) -> u64 {
        self.block_bitmap(group) + 1
    }

    /// Returns the first block of a group's inode table.
    pub fn inode_table(&self, group: u64) -> u64 {
        self.inode_bitmap(group) + 1
    }

    /// Returns the number of blocks in a group's inode table.
    pub fn table_blocks(&self) -> u64 {
        (self.inodes_per_group() * INODE).div_ceil(self.block_size)
    }

    /// Returns the number of blocks at the start of a group that hold no data.
    pub fn overhead(&self) -> u64 {
        3 + self.descriptor_blocks() + self.table_blocks()
    }

    /// Returns the group of an inode.
    pub fn group_of_inode(&self, inode: u32) -> u64 {
        u64::from(inode - 1) / self.inodes_per_group()
    }

    /// Returns the block that contains an inode.
    pub fn block_of_inode(&self, inode: u32) -> u64 {
        let index = u64::from(inode - 1) % self.inodes_per_group();
        self.inode_table(self.group_of_inode(inode)) + index * INODE / self.block_size
    }

    /// Returns the block with a group's descriptor, in the first copy.
    pub fn block_of_descriptor(&self, group: u64) -> u64 {
        self.first_block() + 1 + group * DESCRIPTOR / self.block_size
    }
}

/// Free inodes or blocks of one group: all from `next_unused` on, and the released ones below it.
#[derive(Clone, Debug, Default)]
struct FreeSet {
    next_unused: u64,
    released: BTreeSet<u64>,
    size: u64,
}

impl FreeSet {
    fn count(&self) -> u64 {
        self.size - self.next_unused + self.released.len() as u64
    }

    /// Allocates the first free number from `goal` on, or else the lowest free number.
    fn take(&mut self, goal: u64) -> Option<u64> {
        if let Some(first) = self.released.range(goal.min(self.next_unused)..).next().copied() {
            self.released.remove(&first);
            return Some(first);
        }
        if self.next_unused < self.size {
            self.next_unused += 1;
            return Some(self.next_unused - 1);
        }
        self.released.pop_first()
    }

    fn release(&mut self, number: u64) {
        self.released.insert(number);
    }
}

#[derive(Clone, Debug)]
struct Group {
    inodes: FreeSet,
    blocks: FreeSet,
    directories: u64,
}

/// The allocation of inodes and blocks of a volume.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The layout.
    pub layout: Layout,
    groups: Vec<Group>,
}

impl Volume {
    /// Creates a volume as made by mke2fs, except for the root's block.
    pub fn new(layout: Layout) -> Volume {
        let free = |next_unused, size| FreeSet { next_unused, size, ..FreeSet::default() };
        let group = |number: u64| Group {
            inodes: free(
                if number == 0 { u64::from(FIRST_INODE) - 1 } else { 0 },
                layout.inodes_per_group(),
            ),
            blocks: free(layout.overhead(), layout.blocks_per_group()),
            directories: 0,
        };
        Volume { layout, groups: (0..layout.groups).map(group).collect() }
    }

    /// Allocates an inode for a directory: in the group with the most free blocks among those with at least the mean
    /// number of free inodes (ext2_new_inode before Orlov).
    ///
    /// # Errors
    /// [`NoSpace`].
    pub fn new_directory(&mut self) -> Result<u32, NoSpace> {
        let total: u64 = self.groups.iter().map(|group| group.inodes.count()).sum();
        let mean = total / self.groups.len() as u64;
        let mut candidate: Option<usize> = None;
        for (number, group) in self.groups.iter().enumerate() {
            let is_eligible = group.inodes.count() > 0 && group.inodes.count() >= mean;
            if is_eligible
                && candidate.is_none_or(|candidate| {
                    group.blocks.count() > self.groups[candidate].blocks.count()
                })
            {
                candidate = Some(number);
            }
        }
        let group = candidate.ok_or(NoSpace)?;
        self.groups[group].directories += 1;
        self.take_inode(group).ok_or(NoSpace)
    }

    /// Allocates an inode for a file: in its directory's group, or else in the next group with a free inode.
    ///
    /// # Errors
    /// [`NoSpace`].
    pub fn new_file(&mut self, parent: u32) -> Result<u32, NoSpace> {
        let first = self.layout.group_of_inode(parent) as usize;
        let count = self.groups.len();
        (0..count).find_map(|step| self.take_inode((first + step) % count)).ok_or(NoSpace)
    }

    fn take_inode(&mut self, group: usize) -> Option<u32> {
        let index = self.groups.get_mut(group)?.inodes.take(0)?;
        Some((group as u64 * self.layout.inodes_per_group() + index + 1) as u32)
    }

    /// Frees an inode.
    pub fn free_inode(&mut self, inode: u32, directory: bool) {
        let group = self.layout.group_of_inode(inode);
        let index = u64::from(inode - 1) % self.layout.inodes_per_group();
        if let Some(group) = self.groups.get_mut(group as usize) {
            group.inodes.release(index);
            group.directories -= u64::from(directory);
        }
    }

    /// Allocates a block for an inode, after `last` if given.
    ///
    /// # Errors
    /// [`NoSpace`].
    pub fn new_block(&mut self, inode: u32, last: Option<u64>) -> Result<u64, NoSpace> {
        let count = self.groups.len();
        let start = |group: usize| self.layout.group_start(group as u64);
        let (first, goal) = match last {
            Some(last) => {
                let group = (last - self.layout.first_block()) / self.layout.blocks_per_group();
                (group as usize, last + 1 - start(group as usize))
            }
            None => (self.layout.group_of_inode(inode) as usize, 0),
        };
        for step in 0..count {
            let group = (first + step) % count;
            let goal = if step == 0 { goal } else { 0 };
            let start = self.layout.group_start(group as u64);
            if let Some(block) =
                self.groups.get_mut(group).and_then(|group| group.blocks.take(goal))
            {
                return Ok(start + block);
            }
        }
        Err(NoSpace)
    }

    /// Frees a block.
    pub fn free_block(&mut self, block: u64) {
        let (group, index) = self.group_and_index(block);
        if let Some(group) = self.groups.get_mut(group as usize) {
            group.blocks.release(index);
        }
    }

    /// Returns the group of a block, and its index in the group.
    pub fn group_and_index(&self, block: u64) -> (u64, u64) {
        let block = block - self.layout.first_block();
        (block / self.layout.blocks_per_group(), block % self.layout.blocks_per_group())
    }

    /// Returns the numbers of free blocks, free inodes, and directories in a group.
    pub fn group_counts(&self, group: u64) -> (u64, u64, u64) {
        self.groups.get(group as usize).map_or((0, 0, 0), |group| {
            (group.blocks.count(), group.inodes.count(), group.directories)
        })
    }

    /// Returns a group's bitmap of blocks or of inodes; bits beyond its end are set.
    pub fn bitmap(&self, group: u64, inodes: bool) -> Vec<u8> {
        let mut bits = vec![0; self.layout.block_size as usize];
        let Some(group) = self.groups.get(group as usize) else { return bits };
        let free = if inodes { &group.inodes } else { &group.blocks };
        let in_use = (0..free.next_unused).filter(|index| !free.released.contains(index));
        for index in in_use.chain(free.size..8 * self.layout.block_size) {
            bits[index as usize / 8] |= 1 << (index % 8);
        }
        bits
    }
}
