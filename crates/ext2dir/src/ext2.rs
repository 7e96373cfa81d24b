//! The file system of the model: paths, the caches of names and inodes, what is dirty and when it is
//! written. Files are empty; only their names and inodes are there.
//!
//! As in Linux 2.4: a name that was found stays known (dentry cache) until the unmount; a change
//! dirties blocks in memory; kupdate looks every 5 s for what has been dirty for 30 s and writes it,
//! in ascending order, while the caller goes on; memory is never short, so bdflush has nothing to do.
//! An inode is put into its block of the table only when that is written, and the block is read first
//! if it is not in the cache.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fsdyno_record::Nanos;

use crate::blocks::Blocks;
use crate::cost::{self, Ledger};
use crate::device::Device;
use crate::dirent;
use crate::find::{self, FindEntry, Variant};
use crate::volume::{Layout, NoSpace, ROOT, Volume};

/// How often kupdate wakes, and how old dirty blocks have to be (bdf_prm of 2.4: 5 s and 30 s).
const KUPDATE: Nanos = Nanos(5_000_000_000);
const OLD: Nanos = Nanos(30_000_000_000);

/// Links that an inode can have (EXT2_LINK_MAX).
const MOST_LINKS: u16 = 32_000;

/// A directory.
pub struct Directory {
    /// Its parent's inode.
    pub parent: u32,
    /// Its blocks.
    pub blocks: Blocks,
    /// Where they lie on the volume.
    pub places: Vec<u64>,
    /// How it is searched.
    pub find: Box<dyn FindEntry>,
    /// Links to it: its name, its own dot, one from each directory in it.
    pub links: u16,
}

/// Why a call failed, as the kernel says it.
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

impl From<find::Full> for Error {
    fn from(_: find::Full) -> Error {
        Error::NoSpace
    }
}

/// A mounted volume.
pub struct Ext2 {
    variant: &'static Variant,
    seed: [u32; 4],
    /// Who has what.
    pub volume: Volume,
    /// Directories by inode.
    pub directories: BTreeMap<u32, Directory>,
    /// Inodes of files that exist.
    pub files: BTreeSet<u32>,
    device: Device,
    /// Processor time so far.
    pub cpu: Nanos,
    /// What all searches came to so far.
    pub ledger: Ledger,
    /// Names that are known: directory and name → inode.
    names: HashMap<(u32, Vec<u8>), u32>,
    /// Inodes in memory.
    inodes: HashSet<u32>,
    /// Blocks of bitmaps and inode tables in the cache.
    cached: HashSet<u64>,
    /// Dirty blocks, and since when.
    dirty: BTreeMap<u64, Nanos>,
    /// When kupdate wakes next.
    wakes: Nanos,
}

impl Ext2 {
    /// A fresh volume, mounted, with nothing in the cache and nothing dirty; kupdate wakes at a moment
    /// of its 5 s that `phase` says. `seed` is the directories' hash seed.
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
            ledger: Ledger::default(),
            names: HashMap::new(),
            inodes: HashSet::new(),
            cached: HashSet::new(),
            dirty: BTreeMap::new(),
            wakes: Nanos(phase.0 % KUPDATE.0 + 1),
        };
        if let Ok(place) = ext2.volume.new_block(ROOT, None) {
            ext2.put_directory(ROOT, ROOT, place);
        }
        ext2.dirty.clear();
        ext2.forget();
        ext2.ledger = Ledger::default();
        ext2
    }

    /// The hash seed.
    pub fn seed(&self) -> [u32; 4] {
        self.seed
    }

    /// The device below.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How its directories are searched.
    pub fn variant(&self) -> &'static Variant {
        self.variant
    }

    fn put_directory(&mut self, inode: u32, parent: u32, place: u64) {
        let blocks = Blocks::of_new(self.volume.layout.block_size as usize, inode, parent);
        let find = (self.variant.make)(self.seed);
        let directory = Directory { parent, blocks, places: vec![place], find, links: 2 };
        self.directories.insert(inode, directory);
    }

    /// The inode of a name below `dir`, by a path with slashes.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotDirectory`].
    pub fn path(&mut self, dir: u32, path: &[u8]) -> Result<u32, Error> {
        let mut at = dir;
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            at = self.lookup(at, part)?.ok_or(Error::Missing)?;
        }
        Ok(at)
    }

    /// The directory of a path's last name, and that name.
    fn parent<'a>(&mut self, dir: u32, path: &'a [u8]) -> Result<(u32, &'a [u8]), Error> {
        match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => Ok((self.path(dir, &path[..at])?, &path[at + 1..])),
            None => Ok((dir, path)),
        }
    }

    /// A name in a directory: known, or searched for.
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
    fn search(&mut self, dir: u32, name: &[u8]) -> Result<Option<(u32, find::Found)>, Error> {
        self.within(dir, |directory| {
            let found = directory.find.find(&mut directory.blocks, name)?;
            let entry = dirent::read(directory.blocks.bytes(found.block), found.offset);
            Some((entry.inode, found))
        })
    }

    /// Works on a directory; what that came to is paid at once: processor time, then the blocks that
    /// were not in the cache.
    fn within<T>(&mut self, dir: u32, work: impl FnOnce(&mut Directory) -> T) -> Result<T, Error> {
        let directory = self.directories.get_mut(&dir).ok_or(Error::NotDirectory)?;
        let before = directory.blocks.ledger;
        let done = work(directory);
        let spent = directory.blocks.ledger.since(&before);
        let missed = std::mem::take(&mut directory.blocks.missed);
        let changed = std::mem::take(&mut directory.blocks.changed);
        let mut last = directory.places.last().copied();
        while directory.places.len() < directory.blocks.count() {
            let place = self.volume.new_block(dir, last)?;
            directory.places.push(place);
            last = Some(place);
        }
        let place = |number: &usize| directory.places.get(*number).copied();
        let missed: Vec<u64> = missed.iter().filter_map(place).collect();
        let changed: BTreeSet<u64> = changed.iter().filter_map(place).collect();
        self.spend(spent);
        missed.into_iter().for_each(|block| self.device.read(block));
        changed.into_iter().for_each(|block| self.mark(block));
        Ok(done)
    }

    fn spend(&mut self, spent: Ledger) {
        self.ledger.entries += spent.entries;
        self.ledger.measured += spent.measured;
        self.ledger.blocks += spent.blocks;
        self.ledger.dirtied += spent.dirtied;
        self.ledger.hashes += spent.hashes;
        self.ledger.probes += spent.probes;
        self.ledger.moved += spent.moved;
        self.compute(spent.time());
    }

    /// The caller computes; kupdate wakes meanwhile if it is time.
    pub fn compute(&mut self, time: Nanos) {
        self.cpu += time;
        self.device.pass(time);
        while self.wakes <= self.device.now() {
            let old = Nanos(self.wakes.0.saturating_sub(OLD.0));
            let due = self.dirty.iter().filter(|(_, since)| **since <= old && old.0 > 0);
            let due: Vec<u64> = due.map(|(block, _)| *block).collect();
            self.write_back(&due);
            self.wakes += KUPDATE;
        }
    }

    /// Writes dirty blocks in ascending order; those of inode tables that are not in the cache are
    /// read before.
    fn write_back(&mut self, blocks: &[u64]) {
        for block in blocks {
            if self.is_table(*block) && self.cached.insert(*block) {
                self.device.read(*block);
            }
            self.dirty.remove(block);
        }
        self.device.write(blocks.iter().copied());
    }

    fn is_table(&self, block: u64) -> bool {
        let (group, _) = self.volume.place(block);
        let first = self.volume.layout.inode_table(group);
        (first..first + self.volume.layout.table_blocks()).contains(&block)
    }

    fn mark(&mut self, block: u64) {
        self.dirty.entry(block).or_insert(self.device.now());
    }

    /// Looks up a block of metadata, from the device if it is not in the cache.
    fn metadata(&mut self, block: u64) {
        self.spend(Ledger { blocks: 1, ..Ledger::default() });
        if self.cached.insert(block) {
            self.device.read(block);
        }
    }

    /// What taking or giving back an inode costs: its bitmap and its group's descriptor are changed,
    /// and its own block will be.
    fn change_inode(&mut self, inode: u32) {
        let layout = self.volume.layout;
        let group = layout.group_of_inode(inode);
        let [bitmap, descriptor] = [layout.inode_bitmap(group), layout.block_of_descriptor(group)];
        self.metadata(bitmap);
        self.spend(Ledger { dirtied: 3, ..Ledger::default() });
        for block in [bitmap, descriptor, layout.first_block(), layout.block_of_inode(inode)] {
            self.mark(block);
        }
    }

    fn change_block(&mut self, block: u64) {
        let layout = self.volume.layout;
        let (group, _) = self.volume.place(block);
        self.metadata(layout.block_bitmap(group));
        for block in [layout.block_bitmap(group), layout.block_of_descriptor(group)] {
            self.mark(block);
        }
    }

    fn touch_inode(&mut self, inode: u32) {
        self.mark(self.volume.layout.block_of_inode(inode));
    }

    /// open(2) with O_CREAT.
    ///
    /// # Errors
    /// As open(2).
    pub fn create(&mut self, dir: u32, path: &[u8], exclusive: bool) -> Result<u32, Error> {
        self.compute(cost::CREATE);
        let (dir, name) = self.parent(dir, path)?;
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
        let before = self.directories.get(&dir).map_or(0, |it| it.places.len());
        self.within(dir, |it| it.find.add(&mut it.blocks, inode, kind, name))??;
        let new: Vec<u64> =
            self.directories.get(&dir).map_or(Vec::new(), |it| it.places[before..].to_vec());
        new.into_iter().for_each(|block| self.change_block(block));
        self.touch_inode(dir);
        self.inodes.insert(inode);
        self.names.insert((dir, name.to_vec()), inode);
        Ok(())
    }

    /// mkdir(2).
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn mkdir(&mut self, dir: u32, path: &[u8]) -> Result<u32, Error> {
        self.compute(cost::CREATE);
        let (dir, name) = self.parent(dir, path)?;
        if self.lookup(dir, name)?.is_some() {
            return Err(Error::Exists);
        }
        let links = self.directories.get(&dir).map_or(0, |it| it.links);
        if links >= MOST_LINKS {
            return Err(Error::Links);
        }
        let inode = self.volume.new_directory()?;
        let place = self.volume.new_block(inode, None)?;
        self.put_directory(inode, dir, place);
        self.within(inode, |_| ())?;
        self.mark(place);
        self.change_block(place);
        self.link(dir, name, inode, dirent::DIRECTORY)?;
        self.directories.entry(dir).and_modify(|it| it.links += 1);
        Ok(inode)
    }

    /// unlink(2): the name is looked up, searched for again, and taken out.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn unlink(&mut self, dir: u32, path: &[u8]) -> Result<(), Error> {
        self.compute(cost::UNLINK);
        let (dir, name) = self.parent(dir, path)?;
        let inode = self.lookup(dir, name)?.ok_or(Error::Missing)?;
        if self.directories.contains_key(&inode) {
            return Err(Error::IsDirectory);
        }
        self.take_out(dir, name, inode)?;
        self.files.remove(&inode);
        self.volume.free_inode(inode, false);
        Ok(())
    }

    /// rmdir(2): its blocks are searched for an entry.
    ///
    /// # Errors
    /// As rmdir(2).
    pub fn rmdir(&mut self, dir: u32, path: &[u8]) -> Result<(), Error> {
        self.compute(cost::UNLINK);
        let (dir, name) = self.parent(dir, path)?;
        let inode = self.lookup(dir, name)?.ok_or(Error::Missing)?;
        let used = self.within(inode, |it| {
            (0..it.blocks.count()).any(|number| {
                let block = it.blocks.look(number);
                let used = dirent::each(block).filter(|(_, entry)| entry.inode != 0);
                let used =
                    used.filter(|(_, entry)| entry.name != b"." && entry.name != b"..").count();
                used > 0
            })
        })?;
        if used {
            return Err(Error::NotEmpty);
        }
        self.take_out(dir, name, inode)?;
        self.directories.entry(dir).and_modify(|it| it.links -= 1);
        let places = self.directories.remove(&inode).map_or(Vec::new(), |it| it.places);
        for place in places {
            self.dirty.remove(&place);
            self.change_block(place);
            self.volume.free_block(place);
        }
        self.volume.free_inode(inode, true);
        Ok(())
    }

    /// Takes a name out of a directory, whose inode comes into memory for it.
    fn take_out(&mut self, dir: u32, name: &[u8], inode: u32) -> Result<(), Error> {
        self.need_inode(inode);
        let (_, found) = self.search(dir, name)?.ok_or(Error::Missing)?;
        self.within(dir, |it| find::remove(&mut it.blocks, found))?;
        self.touch_inode(dir);
        self.change_inode(inode);
        self.names.remove(&(dir, name.to_vec()));
        self.inodes.remove(&inode);
        Ok(())
    }

    fn need_inode(&mut self, inode: u32) {
        if self.inodes.insert(inode) {
            self.metadata(self.volume.layout.block_of_inode(inode));
        }
    }

    /// stat(2), and open(2) of what is there.
    ///
    /// # Errors
    /// As stat(2).
    pub fn stat(&mut self, dir: u32, path: &[u8]) -> Result<u32, Error> {
        self.compute(cost::STAT);
        let inode = self.path(dir, path)?;
        self.need_inode(inode);
        Ok(inode)
    }

    /// Writes all that is dirty and waits for it.
    pub fn sync(&mut self) {
        let blocks: Vec<u64> = self.dirty.keys().copied().collect();
        self.write_back(&blocks);
        self.device.drain();
    }

    /// The disk's own cache is emptied.
    pub fn flush_device(&mut self) {
        self.device.flush();
    }

    /// Blocks that are dirty.
    pub fn dirty_blocks(&self) -> u64 {
        self.dirty.len() as u64
    }

    /// An unmount and a mount: nothing is known any more that is not on the disk.
    pub fn remount(&mut self) {
        self.sync();
        self.forget();
        // ext2_read_super reads the superblock, the descriptors, and the root's inode.
        let layout = self.volume.layout;
        let first = layout.first_block();
        for block in first..=first + layout.descriptor_blocks() {
            self.device.read(block);
        }
        self.need_inode(ROOT);
    }

    fn forget(&mut self) {
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
