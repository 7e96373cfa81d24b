//! Where things lie: block groups with their bitmaps and inode tables, as mke2fs of 2001 laid them
//! out, and who gets which inode and block, as ext2 of 2001 gave them.
//!
//! Every group begins with a copy of superblock and descriptors (no sparse_super). There is an inode
//! for each 4 KiB, and inodes have 128 bytes: mke2fs's defaults then [MEM].

use std::collections::BTreeSet;

/// Bytes of an inode.
pub const INODE: u64 = 128;

/// Bytes of a group's descriptor.
pub const DESCRIPTOR: u64 = 32;

/// Bytes of a volume for each of its inodes.
const BYTES_PER_INODE: u64 = 4096;

/// The first inode that is not reserved.
pub const FIRST_INODE: u32 = 11;

/// The root's inode.
pub const ROOT: u32 = 2;

/// There is no inode or block left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace;

/// The fixed numbers of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a block: 1024, 2048 or 4096.
    pub block_size: u64,
    /// Groups, all of full size.
    pub groups: u64,
}

impl Layout {
    /// The layout of a volume of so many bytes; what is left of a last group is not used.
    pub fn new(block_size: u64, bytes: u64) -> Layout {
        let group = block_size * 8 * block_size;
        let first = if block_size == 1024 { block_size } else { 0 };
        Layout { block_size, groups: (bytes.saturating_sub(first) / group).max(1) }
    }

    /// The block in which the superblock lies.
    pub fn first_block(&self) -> u64 {
        u64::from(self.block_size == 1024)
    }

    /// Blocks of a group: as many as a bitmap of one block has bits.
    pub fn blocks_per_group(&self) -> u64 {
        8 * self.block_size
    }

    /// Inodes of a group.
    pub fn inodes_per_group(&self) -> u64 {
        self.blocks_per_group() * self.block_size / BYTES_PER_INODE
    }

    /// Blocks of all groups, and the boot block where there is one.
    pub fn blocks(&self) -> u64 {
        self.first_block() + self.groups * self.blocks_per_group()
    }

    /// The first block of a group.
    pub fn group_start(&self, group: u64) -> u64 {
        self.first_block() + group * self.blocks_per_group()
    }

    /// Blocks that all descriptors take.
    pub fn descriptor_blocks(&self) -> u64 {
        (self.groups * DESCRIPTOR).div_ceil(self.block_size)
    }

    /// The bitmap of a group's blocks.
    pub fn block_bitmap(&self, group: u64) -> u64 {
        self.group_start(group) + 1 + self.descriptor_blocks()
    }

    /// The bitmap of a group's inodes.
    pub fn inode_bitmap(&self, group: u64) -> u64 {
        self.block_bitmap(group) + 1
    }

    /// The first block of a group's inodes.
    pub fn inode_table(&self, group: u64) -> u64 {
        self.inode_bitmap(group) + 1
    }

    /// Blocks of a group's inodes.
    pub fn table_blocks(&self) -> u64 {
        (self.inodes_per_group() * INODE).div_ceil(self.block_size)
    }

    /// Blocks at the start of a group that hold no data.
    pub fn overhead(&self) -> u64 {
        3 + self.descriptor_blocks() + self.table_blocks()
    }

    /// The group of an inode.
    pub fn group_of_inode(&self, inode: u32) -> u64 {
        u64::from(inode - 1) / self.inodes_per_group()
    }

    /// The block that an inode lies in.
    pub fn block_of_inode(&self, inode: u32) -> u64 {
        let index = u64::from(inode - 1) % self.inodes_per_group();
        self.inode_table(self.group_of_inode(inode)) + index * INODE / self.block_size
    }

    /// The block in which a group's descriptor lies, the first copy.
    pub fn block_of_descriptor(&self, group: u64) -> u64 {
        self.first_block() + 1 + group * DESCRIPTOR / self.block_size
    }
}

/// What is free of one kind in one group: below the mark all is taken but what was given back.
#[derive(Clone, Debug, Default)]
struct Free {
    mark: u64,
    back: BTreeSet<u64>,
    size: u64,
}

impl Free {
    fn left(&self) -> u64 {
        self.size - self.mark + self.back.len() as u64
    }

    /// The first that is free from `goal` on, else the first of all.
    fn take(&mut self, goal: u64) -> Option<u64> {
        if let Some(first) = self.back.range(goal.min(self.mark)..).next().copied() {
            self.back.remove(&first);
            return Some(first);
        }
        if self.mark < self.size {
            self.mark += 1;
            return Some(self.mark - 1);
        }
        self.back.pop_first()
    }

    fn give_back(&mut self, one: u64) {
        self.back.insert(one);
    }
}

#[derive(Clone, Debug)]
struct Group {
    inodes: Free,
    blocks: Free,
    directories: u64,
}

/// Who has what.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Where things lie.
    pub layout: Layout,
    groups: Vec<Group>,
}

impl Volume {
    /// A volume as mke2fs left it, but for its root's block.
    pub fn new(layout: Layout) -> Volume {
        let free = |mark, size| Free { mark, size, ..Free::default() };
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

    /// An inode for a directory: in the group with the most free blocks of those with at least the
    /// mean of free inodes (ext2_new_inode before Orlov).
    ///
    /// # Errors
    /// [`NoSpace`].
    pub fn new_directory(&mut self) -> Result<u32, NoSpace> {
        let total: u64 = self.groups.iter().map(|group| group.inodes.left()).sum();
        let mean = total / self.groups.len() as u64;
        let mut best: Option<usize> = None;
        for (number, group) in self.groups.iter().enumerate() {
            let good = group.inodes.left() > 0 && group.inodes.left() >= mean;
            if good && best.is_none_or(|best| group.blocks.left() > self.groups[best].blocks.left())
            {
                best = Some(number);
            }
        }
        let group = best.ok_or(NoSpace)?;
        self.groups[group].directories += 1;
        self.take_inode(group).ok_or(NoSpace)
    }

    /// An inode for a file: in its directory's group, else in the next one that has any.
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

    /// Gives an inode back.
    pub fn free_inode(&mut self, inode: u32, directory: bool) {
        let group = self.layout.group_of_inode(inode);
        let index = u64::from(inode - 1) % self.layout.inodes_per_group();
        if let Some(group) = self.groups.get_mut(group as usize) {
            group.inodes.give_back(index);
            group.directories -= u64::from(directory);
        }
    }

    /// A block for an inode, behind `last` where there is one.
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
            if let Some(block) = self.groups.get_mut(group).and_then(|it| it.blocks.take(goal)) {
                return Ok(start + block);
            }
        }
        Err(NoSpace)
    }

    /// Gives a block back.
    pub fn free_block(&mut self, block: u64) {
        let (group, index) = self.place(block);
        if let Some(group) = self.groups.get_mut(group as usize) {
            group.blocks.give_back(index);
        }
    }

    /// The group of a block, and its number there.
    pub fn place(&self, block: u64) -> (u64, u64) {
        let block = block - self.layout.first_block();
        (block / self.layout.blocks_per_group(), block % self.layout.blocks_per_group())
    }

    /// Of a group: free blocks, free inodes, directories.
    pub fn account(&self, group: u64) -> (u64, u64, u64) {
        self.groups.get(group as usize).map_or((0, 0, 0), |group| {
            (group.blocks.left(), group.inodes.left(), group.directories)
        })
    }

    /// The bits of a group's bitmap of blocks, or of inodes: what is taken, and all behind its end.
    pub fn bitmap(&self, group: u64, inodes: bool) -> Vec<u8> {
        let mut bits = vec![0; self.layout.block_size as usize];
        let Some(group) = self.groups.get(group as usize) else { return bits };
        let free = if inodes { &group.inodes } else { &group.blocks };
        let taken = (0..free.mark).filter(|at| !free.back.contains(at));
        for at in taken.chain(free.size..8 * self.layout.block_size) {
            bits[at as usize / 8] |= 1 << (at % 8);
        }
        bits
    }
}
