//! The file system of the model: paths, the caches of names and inodes, dirty blocks and their write-back. Files are
//! empty; the model has only their names and inodes.
//!
//! As in Linux 2.4: a name that was found stays cached (dentry cache) until unmount; a change dirties blocks in memory;
//! every 5 s kupdate writes blocks that have been dirty for 30 s, in ascending order, while the caller continues;
//! memory never runs short, so bdflush is idle. An inode is copied into its block of the inode table only when
//! that block is written; the block is read first if it is not in the cache.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fsdyno_record::Nanos;

use crate::blocks::Blocks;
use crate::cost::{self, WorkCounts};
use crate::device::Device;
use crate::dirent;
use crate::find::{self, FindEntry, Variant};
use crate::volume::{Layout, NoSpace, ROOT, Volume};

/// The interval of kupdate, and the age at which it writes dirty blocks (bdf_prm of 2.4: 5 s and 30 s).
const KUPDATE_INTERVAL: Nanos = Nanos(5_000_000_000);
const DIRTY_EXPIRY: Nanos = Nanos(30_000_000_000);

/// The maximum number of links to an inode (EXT2_LINK_MAX).
const MAX_LINKS: u16 = 32_000;

/// A directory.
pub struct Directory {
    /// Inode of the parent.
    pub parent: u32,
    /// Blocks of the directory.
    pub blocks: Blocks,
    /// Addresses of the blocks on the volume.
    pub addresses: Vec<u64>,
    /// Search algorithm.
    pub find: Box<dyn FindEntry>,
    /// Number of links to it: its name, its own ".", and ".." of each subdirectory.
    pub links: u16,
}

/// The error of a call, as the kernel returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// ENOENT.
    Missing,
    /// EEXIST.
    Exists,
    /// ENOTDIR.
    NotDirectory,
    /// EISDIR.
    IsDirectory,
    /// ENOTEMPTY.
    NotEmpty,
    /// ENOSPC.
    NoSpace,
    /// EMLINK.
    Links,
}

impl From<NoSpace> for Error {
    fn from(_: NoSpace) -> Error {
        Error::NoSpace
    }
}

impl From<find::IndexFull> for Error {
    fn from(_: find::IndexFull) -> Error {
        Error::NoSpace
    }
}

/// A mounted volume.
pub struct Ext2 {
    variant: &'static Variant,
    seed: [u32; 4],
    /// Allocation of inodes and blocks.
    pub volume: Volume,
    /// Directories by inode.
    pub directories: BTreeMap<u32, Directory>,
    /// Inodes of files that exist.
    pub files: BTreeSet<u32>,
    device: Device,
    /// Processor time so far.
    pub cpu: Nanos,
    /// Counts of all searches so far.
    pub counts: WorkCounts,
    /// Dentry cache: directory and name → inode.
    names: HashMap<(u32, Vec<u8>), u32>,
    /// Inodes in memory.
    inodes: HashSet<u32>,
    /// Cached blocks of bitmaps and inode tables.
    cached: HashSet<u64>,
    /// Dirty blocks with the time of their first change.
    dirty: BTreeMap<u64, Nanos>,
    /// Next wake-up of kupdate.
    next_wakeup: Nanos,
}

impl Ext2 {
    /// Creates a mounted fresh volume, with nothing cached and nothing dirty; `phase` sets kupdate's first wake-up
    /// within its interval. `seed` is the directories' hash seed.
    pub fn new(
        variant: &'static Variant,
        layout: Layout,
        seed: [u32; 4],
        device: Device,
        phase: Nanos,
    ) -> Ext2 {
        let mut ext2 = Ext2 {
            variant,
            seed,
            volume: Volume::new(layout),
            directories: BTreeMap::new(),
            files: BTreeSet::new(),
            device,
            cpu: Nanos(0),
            counts: WorkCounts::default(),
            names: HashMap::new(),
            inodes: HashSet::new(),
            cached: HashSet::new(),
            dirty: BTreeMap::new(),
            next_wakeup: Nanos(phase.0 % KUPDATE_INTERVAL.0 + 1),
        };
        if let Ok(address) = ext2.volume.new_block(ROOT, None) {
            ext2.put_directory(ROOT, ROOT, address);
        }
        ext2.dirty.clear();
        ext2.drop_caches();
        ext2.counts = WorkCounts::default();
        ext2
    }

    /// Returns the hash seed.
    pub fn seed(&self) -> [u32; 4] {
        self.seed
    }

    /// Returns the device below the file system.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the search algorithm of the directories.
    pub fn variant(&self) -> &'static Variant {
        self.variant
    }

    fn put_directory(&mut self, inode: u32, parent: u32, address: u64) {
        let blocks = Blocks::new_directory(self.volume.layout.block_size as usize, inode, parent);
        let find = (self.variant.make)(self.seed);
        let directory = Directory { parent, blocks, addresses: vec![address], find, links: 2 };
        self.directories.insert(inode, directory);
    }

    /// Returns the inode to which a path below `dir` refers.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotDirectory`].
    pub fn resolve(&mut self, dir: u32, path: &[u8]) -> Result<u32, Error> {
        let mut inode = dir;
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            inode = self.lookup(inode, part)?.ok_or(Error::Missing)?;
        }
        Ok(inode)
    }

    /// Returns the directory of a path's last name, and that name.
    fn resolve_parent<'a>(&mut self, dir: u32, path: &'a [u8]) -> Result<(u32, &'a [u8]), Error> {
        match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => Ok((self.resolve(dir, &path[..slash])?, &path[slash + 1..])),
            None => Ok((dir, path)),
        }
    }

    /// Looks up a name in the dentry cache; if it is not cached, searches the directory.
    fn lookup(&mut self, dir: u32, name: &[u8]) -> Result<Option<u32>, Error> {
        let key = (dir, name.to_vec());
        if let Some(inode) = self.names.get(&key) {
            return Ok(Some(*inode));
        }
        let found = self.search(dir, name)?;
        if let Some((inode, _)) = found {
            self.names.insert(key, inode);
        }
        Ok(found.map(|(inode, _)| inode))
    }

    /// Searches a directory.
    fn search(&mut self, dir: u32, name: &[u8]) -> Result<Option<(u32, find::Location)>, Error> {
        self.with_directory(dir, |directory| {
            let found = directory.find.find(&mut directory.blocks, name)?;
            let entry = dirent::read(directory.blocks.bytes(found.block), found.offset);
            Some((entry.inode, found))
        })
    }

    /// Runs `work` on a directory and charges its cost directly: processor time, then the reads of blocks that were not
    /// in the cache.
    fn with_directory<T>(
        &mut self,
        dir: u32,
        work: impl FnOnce(&mut Directory) -> T,
    ) -> Result<T, Error> {
        let directory = self.directories.get_mut(&dir).ok_or(Error::NotDirectory)?;
        let before = directory.blocks.counts;
        let result = work(directory);
        let spent = directory.blocks.counts.since(&before);
        let missed = std::mem::take(&mut directory.blocks.missed);
        let changed = std::mem::take(&mut directory.blocks.changed);
        let mut last = directory.addresses.last().copied();
        while directory.addresses.len() < directory.blocks.count() {
            let address = self.volume.new_block(dir, last)?;
            directory.addresses.push(address);
            last = Some(address);
        }
        let address = |number: &usize| directory.addresses.get(*number).copied();
        let missed: Vec<u64> = missed.iter().filter_map(address).collect();
        let changed: BTreeSet<u64> = changed.iter().filter_map(address).collect();
        self.charge(spent);
        missed.into_iter().for_each(|block| self.device.read(block));
        changed.into_iter().for_each(|block| self.mark_dirty(block));
        Ok(result)
    }

    fn charge(&mut self, spent: WorkCounts) {
        self.counts.entries += spent.entries;
        self.counts.measured += spent.measured;
        self.counts.blocks += spent.blocks;
        self.counts.dirtied += spent.dirtied;
        self.counts.hashes += spent.hashes;
        self.counts.probes += spent.probes;
        self.counts.moved += spent.moved;
        self.compute(spent.time());
    }

    /// Advances the clock by processor time; kupdate runs meanwhile if due.
    pub fn compute(&mut self, time: Nanos) {
        self.cpu += time;
        self.device.pass(time);
        while self.next_wakeup <= self.device.now() {
            let cutoff = Nanos(self.next_wakeup.0.saturating_sub(DIRTY_EXPIRY.0));
            let due = self.dirty.iter().filter(|(_, since)| **since <= cutoff && cutoff.0 > 0);
            let due: Vec<u64> = due.map(|(block, _)| *block).collect();
            self.write_back(&due);
            self.next_wakeup += KUPDATE_INTERVAL;
        }
    }

    /// Writes dirty blocks in ascending order; blocks of inode tables that are not in the cache are read first.
    fn write_back(&mut self, blocks: &[u64]) {
        for block in blocks {
            if self.is_inode_table(*block) && self.cached.insert(*block) {
                self.device.read(*block);
            }
            self.dirty.remove(block);
        }
        self.device.write(blocks.iter().copied());
    }

    fn is_inode_table(&self, block: u64) -> bool {
        let (group, _) = self.volume.group_and_index(block);
        let first = self.volume.layout.inode_table(group);
        (first..first + self.volume.layout.table_blocks()).contains(&block)
    }

    fn mark_dirty(&mut self, block: u64) {
        self.dirty.entry(block).or_insert(self.device.now());
    }

    /// Looks up a block of metadata, and reads it from the device if it is not in the cache.
    fn load_metadata(&mut self, block: u64) {
        self.charge(WorkCounts { blocks: 1, ..WorkCounts::default() });
        if self.cached.insert(block) {
            self.device.read(block);
        }
    }

    /// Charges the allocation or release of an inode: changes its bitmap and its group's descriptor, and dirties the
    /// inode's own block.
    fn change_inode(&mut self, inode: u32) {
        let layout = self.volume.layout;
        let group = layout.group_of_inode(inode);
        let [bitmap, descriptor] = [layout.inode_bitmap(group), layout.block_of_descriptor(group)];
        self.load_metadata(bitmap);
        self.charge(WorkCounts { dirtied: 3, ..WorkCounts::default() });
        for block in [bitmap, descriptor, layout.first_block(), layout.block_of_inode(inode)] {
            self.mark_dirty(block);
        }
    }

    fn change_block(&mut self, block: u64) {
        let layout = self.volume.layout;
        let (group, _) = self.volume.group_and_index(block);
        self.load_metadata(layout.block_bitmap(group));
        for block in [layout.block_bitmap(group), layout.block_of_descriptor(group)] {
            self.mark_dirty(block);
        }
    }

    fn dirty_inode(&mut self, inode: u32) {
        self.mark_dirty(self.volume.layout.block_of_inode(inode));
    }

    /// Creates a file, as open(2) with O_CREAT does.
    ///
    /// # Errors
    /// The errors of open(2).
    pub fn create(&mut self, dir: u32, path: &[u8], exclusive: bool) -> Result<u32, Error> {
        self.compute(cost::CREATE);
        let (dir, name) = self.resolve_parent(dir, path)?;
        if let Some(inode) = self.lookup(dir, name)? {
            return if exclusive { Err(Error::Exists) } else { Ok(inode) };
        }
        let inode = self.volume.new_file(dir)?;
        self.link(dir, name, inode, dirent::FILE)?;
        self.files.insert(inode);
        Ok(inode)
    }

    fn link(&mut self, dir: u32, name: &[u8], inode: u32, kind: u8) -> Result<(), Error> {
        self.change_inode(inode);
        let old_count = self.directories.get(&dir).map_or(0, |directory| directory.addresses.len());
        self.with_directory(dir, |directory| {
            directory.find.add(&mut directory.blocks, inode, kind, name)
        })??;
        let new: Vec<u64> = self
            .directories
            .get(&dir)
            .map_or(Vec::new(), |directory| directory.addresses[old_count..].to_vec());
        new.into_iter().for_each(|block| self.change_block(block));
        self.dirty_inode(dir);
        self.inodes.insert(inode);
        self.names.insert((dir, name.to_vec()), inode);
        Ok(())
    }

    /// Creates a directory, as mkdir(2) does.
    ///
    /// # Errors
    /// The errors of mkdir(2).
    pub fn mkdir(&mut self, dir: u32, path: &[u8]) -> Result<u32, Error> {
        self.compute(cost::CREATE);
        let (dir, name) = self.resolve_parent(dir, path)?;
        if self.lookup(dir, name)?.is_some() {
            return Err(Error::Exists);
        }
        let links = self.directories.get(&dir).map_or(0, |directory| directory.links);
        if links >= MAX_LINKS {
            return Err(Error::Links);
        }
        let inode = self.volume.new_directory()?;
        let address = self.volume.new_block(inode, None)?;
        self.put_directory(inode, dir, address);
        self.with_directory(inode, |_| ())?;
        self.mark_dirty(address);
        self.change_block(address);
        self.link(dir, name, inode, dirent::DIRECTORY)?;
        self.directories.entry(dir).and_modify(|directory| directory.links += 1);
        Ok(inode)
    }

    /// Removes a file, as unlink(2) does: looks up the name, searches for it again, and removes it.
    ///
    /// # Errors
    /// The errors of unlink(2).
    pub fn unlink(&mut self, dir: u32, path: &[u8]) -> Result<(), Error> {
        self.compute(cost::UNLINK);
        let (dir, name) = self.resolve_parent(dir, path)?;
        let inode = self.lookup(dir, name)?.ok_or(Error::Missing)?;
        if self.directories.contains_key(&inode) {
            return Err(Error::IsDirectory);
        }
        self.remove_name(dir, name, inode)?;
        self.files.remove(&inode);
        self.volume.free_inode(inode, false);
        Ok(())
    }

    /// Removes a directory, as rmdir(2) does: checks that it is empty, and removes its name.
    ///
    /// # Errors
    /// The errors of rmdir(2).
    pub fn rmdir(&mut self, dir: u32, path: &[u8]) -> Result<(), Error> {
        self.compute(cost::UNLINK);
        let (dir, name) = self.resolve_parent(dir, path)?;
        let inode = self.lookup(dir, name)?.ok_or(Error::Missing)?;
        let has_entries = self.with_directory(inode, |directory| {
            (0..directory.blocks.count()).any(|number| {
                let block = directory.blocks.lookup(number);
                let used = dirent::entries(block).filter(|(_, entry)| entry.inode != 0);
                let used =
                    used.filter(|(_, entry)| entry.name != b"." && entry.name != b"..").count();
                used > 0
            })
        })?;
        if has_entries {
            return Err(Error::NotEmpty);
        }
        self.remove_name(dir, name, inode)?;
        self.directories.entry(dir).and_modify(|directory| directory.links -= 1);
        let addresses =
            self.directories.remove(&inode).map_or(Vec::new(), |directory| directory.addresses);
        for address in addresses {
            self.dirty.remove(&address);
            self.change_block(address);
            self.volume.free_block(address);
        }
        self.volume.free_inode(inode, true);
        Ok(())
    }

    /// Loads an inode and removes its name from a directory.
    fn remove_name(&mut self, dir: u32, name: &[u8], inode: u32) -> Result<(), Error> {
        self.load_inode(inode);
        let (_, found) = self.search(dir, name)?.ok_or(Error::Missing)?;
        self.with_directory(dir, |directory| find::remove(&mut directory.blocks, found))?;
        self.dirty_inode(dir);
        self.change_inode(inode);
        self.names.remove(&(dir, name.to_vec()));
        self.inodes.remove(&inode);
        Ok(())
    }

    fn load_inode(&mut self, inode: u32) {
        if self.inodes.insert(inode) {
            self.load_metadata(self.volume.layout.block_of_inode(inode));
        }
    }

    /// Looks up an inode, as stat(2) does, and open(2) of an existing file.
    ///
    /// # Errors
    /// The errors of stat(2).
    pub fn stat(&mut self, dir: u32, path: &[u8]) -> Result<u32, Error> {
        self.compute(cost::STAT);
        let inode = self.resolve(dir, path)?;
        self.load_inode(inode);
        Ok(inode)
    }

    /// Writes all dirty blocks and waits for them.
    pub fn sync(&mut self) {
        let blocks: Vec<u64> = self.dirty.keys().copied().collect();
        self.write_back(&blocks);
        self.device.drain();
    }

    /// Flushes the disk's own cache.
    pub fn flush_device(&mut self) {
        self.device.flush();
    }

    /// Returns the number of dirty blocks.
    pub fn dirty_blocks(&self) -> u64 {
        self.dirty.len() as u64
    }

    /// Unmounts and mounts the volume: drops all caches.
    pub fn remount(&mut self) {
        self.sync();
        self.drop_caches();
        // ext2_read_super reads the superblock, the descriptors, and the root's inode.
        let layout = self.volume.layout;
        let first = layout.first_block();
        for block in first..=first + layout.descriptor_blocks() {
            self.device.read(block);
        }
        self.load_inode(ROOT);
    }

    fn drop_caches(&mut self) {
        self.names.clear();
        self.inodes.clear();
        self.cached.clear();
        for directory in self.directories.values_mut() {
            directory.blocks.forget();
            directory.find.forget();
            directory.blocks.missed.clear();
            directory.blocks.changed.clear();
        }
    }
}
