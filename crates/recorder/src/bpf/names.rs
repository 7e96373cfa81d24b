//! The names that a recording knows: those in the directories at its start, updated by the recorded calls.
//!
//! The records of the kernel arrive some time after the calls, when a path can no longer be looked up: the program may
//! have changed it. So the directories of the recorded trees are read before the start ([`super::read`]). Outside the
//! trees a name is looked up at its first use.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::hash::Map;
use crate::inode::{Info, Key, OwnFiles};

#[cfg(test)]
mod tests;

/// The device number in keys of objects created by recorded calls.
const MADE: u64 = u64::MAX;

/// The key of a directory that is not on a file system, such as one of procfs.
pub const OUTSIDE: Key = (MADE, 0);

/// Maximum number of directories above an object.
const MAX_DEPTH: usize = 4096;

/// The object that a name refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The object.
    pub(super) key: Key,
    /// CLOCK_MONOTONIC at the end of the call that created the name; 0 for a name that existed at the start.
    since: u64,
    /// The object that the name referred to before.
    former: Option<Key>,
}

/// The entries of a directory.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) by_name: HashMap<Rc<[u8]>, Slot>,
    /// The names in the order of readdir(3), until they are in the trace.
    pub(super) order: Vec<Rc<[u8]>>,
    /// True if all entries are known.
    pub(super) complete: bool,
}

/// An object.
#[derive(Debug)]
struct Object {
    info: Info,
    /// The directory in which the object has or had a name.
    parent: Key,
    name: Rc<[u8]>,
    /// The target of a symbolic link.
    target: Option<Box<[u8]>>,
    /// The entries of a directory.
    entries: Option<Box<Entries>>,
}

/// A resolved path: the directory of its last name, and the object of that name.
#[derive(Clone, Debug)]
pub struct Walked {
    /// The directory.
    pub dir: Key,
    /// The last name; None for the directory itself.
    pub name: Option<Vec<u8>>,
    /// The object.
    pub key: Option<Key>,
    /// The number of components after one that does not exist or is not a directory.
    pub beyond: u8,
    /// The number of symbolic links that were followed at the end of the path.
    pub links: u8,
}

/// The known names and objects.
pub struct Names {
    objects: Map<Key, Object>,
    /// The objects by device and inode number in the kernel, and the inverse map.
    of_kernel: Map<Key, Key>,
    in_kernel: Map<Key, Key>,
    /// The inodes in the kernel that may be several objects: each subvolume of btrfs has its own device number in
    /// stat(2), but all have the same one in the kernel.
    ambiguous: HashSet<Key>,
    made: u64,
    root: Key,
    /// The files of the trace, which are not part of a tree.
    pub(super) own: OwnFiles,
    /// The time of the start (CLOCK_REALTIME, seconds and nanoseconds): later objects are not in the initial tree.
    pub(super) start: (i64, i64),
    /// The number of names that were read.
    pub(super) count: usize,
    /// The time at which directories were last read.
    pub(super) read: (i64, i64),
}

/// Returns the attributes of an object as stat(2) returns them.
pub fn info(it: &std::fs::Metadata) -> Info {
    Info {
        key: (it.dev(), it.ino()),
        rdev: it.rdev(),
        size: it.size(),
        blocks: it.blocks(),
        mode: it.mode(),
        links: it.nlink() as u32,
    }
}

/// Returns the present time of the clock from which the kernel sets the times of files.
pub(super) fn current_time() -> (i64, i64) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

fn has_type(info: &Info, file_type: u32) -> bool {
    info.mode & libc::S_IFMT == file_type
}

impl Names {
    /// Creates an instance that knows only the root.
    ///
    /// # Errors
    /// The root cannot be read.
    pub fn new(own: OwnFiles) -> std::io::Result<Names> {
        let root = info(&std::fs::metadata("/")?);
        let mut names = Names {
            objects: Map::default(),
            of_kernel: Map::default(),
            in_kernel: Map::default(),
            ambiguous: HashSet::new(),
            made: 0,
            root: root.key,
            own,
            start: (i64::MAX, 0),
            count: 0,
            read: current_time(),
        };
        names.objects.insert(root.key, new_object(root, root.key, [].into(), None));
        Ok(names)
    }

    /// Begins the recording: objects created from now on are not in the initial tree.
    pub fn begin(&mut self) {
        self.start = current_time();
    }

    /// Waits until the creation times of new objects differ from the time of the start; they have the resolution of the
    /// kernel's tick. Gives up after 100 ms, in case the clock was set back.
    pub fn wait_for_tick(&self) {
        let begin = Instant::now();
        while current_time() <= self.start && begin.elapsed() < Duration::from_millis(100) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// True if the recording has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.start.0 != i64::MAX
    }

    /// Returns the root.
    pub fn root(&self) -> Key {
        self.root
    }

    /// Returns the attributes of an object.
    pub fn info(&self, key: Key) -> Option<Info> {
        self.objects.get(&key).map(|it| it.info)
    }

    /// True if the object is a directory.
    pub fn is_directory(&self, key: Key) -> bool {
        self.objects.get(&key).is_some_and(|it| has_type(&it.info, libc::S_IFDIR))
    }

    /// Returns the target of a symbolic link.
    pub fn target(&self, key: Key) -> Option<Box<[u8]>> {
        self.objects.get(&key)?.target.clone()
    }

    /// Returns the directory in which an object has or had a name, and that name. The root is its own directory.
    pub fn parent_and_name(&self, key: Key) -> Option<(Key, Rc<[u8]>)> {
        self.objects.get(&key).map(|it| (it.parent, it.name.clone()))
    }

    /// Returns an object and the directories above it, up to the root.
    pub fn above(&self, key: Key) -> impl Iterator<Item = Key> + '_ {
        let next = |key: &Key| self.objects.get(key).map(|it| it.parent).filter(|it| it != key);
        std::iter::successors(Some(key), next).take(MAX_DEPTH)
    }

    fn is_below(&self, key: Key, top: Key) -> bool {
        self.above(key).any(|it| it == top)
    }

    /// Returns the present path of an object, provided that no unrecorded program moved it.
    pub fn path(&self, key: Key) -> PathBuf {
        let all: Vec<Key> = self.above(key).collect();
        let names = all.iter().rev().filter_map(|key| self.objects.get(key));
        let mut path = PathBuf::from("/");
        path.extend(names.map(|it| Path::new(OsStr::from_bytes(&it.name))));
        path
    }

    /// Returns the device number of an object as stat(2) returns it; for an object created by a call, the device number
    /// of its directory.
    pub fn device(&self, key: Key) -> Option<u64> {
        self.above(key).map(|it| it.0).find(|device| *device != MADE)
    }

    /// Returns the entries of a directory.
    pub(super) fn entries(&self, dir: Key) -> Option<&Entries> {
        self.objects.get(&dir)?.entries.as_deref()
    }

    /// Returns the entries of a directory, to change them.
    pub(super) fn entries_mut(&mut self, dir: Key) -> Option<&mut Entries> {
        self.objects.get_mut(&dir)?.entries.as_deref_mut()
    }

    /// Returns the directories whose entries are all known.
    pub(super) fn complete_directories(&self) -> Vec<Key> {
        let complete = |it: &Object| it.entries.as_ref().is_some_and(|it| it.complete);
        self.objects.iter().filter(|(_, it)| complete(it)).map(|(key, _)| *key).collect()
    }

    /// Returns the object that a name referred to for a call that began at `begin`.
    pub fn known(&self, dir: Key, name: &[u8], begin: u64) -> Option<Key> {
        let slot = self.entries(dir)?.by_name.get(name)?;
        Some(slot.former.filter(|_| slot.since > begin).unwrap_or(slot.key))
    }

    /// True if a name was created by a call that ended after `begin`, and did not exist before.
    pub fn appeared_after(&self, dir: Key, name: &[u8], begin: u64) -> bool {
        let slot = self.entries(dir).and_then(|it| it.by_name.get(name));
        slot.is_some_and(|it| it.since > begin && it.former.is_none())
    }

    /// True if all entries of a directory are known, so that an unknown name does not exist.
    pub fn is_complete(&self, dir: Key) -> bool {
        self.entries(dir).is_some_and(|it| it.complete)
    }

    /// Adds a name of an object that existed at the start, or a name that an unrecorded program created.
    pub fn add(&mut self, dir: Key, name: &[u8], info: Info, path: &Path) -> Key {
        let is_link = has_type(&info, libc::S_IFLNK);
        let target = if is_link { std::fs::read_link(path).ok() } else { None };
        let target = target.map(|it| it.into_os_string().as_bytes().into());
        let shared: Rc<[u8]> = name.into();
        // A directory that appears below itself is a bind mount of a directory above.
        let mounted = self.is_directory(info.key) && self.is_below(dir, info.key);
        match self.objects.entry(info.key) {
            Entry::Vacant(it) => _ = it.insert(new_object(info, dir, shared.clone(), target)),
            Entry::Occupied(_) if mounted => {}
            Entry::Occupied(mut it) => it.get_mut().update(info, dir, shared.clone(), target),
        }
        self.put(dir, shared, info.key, 0);
        info.key
    }

    /// Adds an object that no longer has a name, under its last name.
    pub fn add_unnamed(&mut self, dir: Key, name: &[u8], info: Info) -> Key {
        self.objects.entry(info.key).or_insert_with(|| new_object(info, dir, name.into(), None));
        info.key
    }

    fn put(&mut self, dir: Key, name: Rc<[u8]>, key: Key, since: u64) {
        if let Some(dir) = self.entries_mut(dir) {
            let former = dir.by_name.get(&name).map(|it| it.key).filter(|_| since > 0);
            dir.by_name.insert(name, Slot { key, since, former });
        }
    }

    /// Adds an object created by a call that ended at `end`.
    pub fn make(
        &mut self,
        dir: Key,
        name: &[u8],
        key: Key,
        mode: u32,
        target: Option<&[u8]>,
        end: u64,
    ) {
        let info = Info { key, mode, links: 1, ..Info::default() };
        let name: Rc<[u8]> = name.into();
        let mut it = new_object(info, dir, name.clone(), target.map(Into::into));
        it.entries.iter_mut().for_each(|it| it.complete = true);
        self.objects.insert(key, it);
        self.put(dir, name, key, end);
    }

    /// Returns the key of a new object.
    pub fn fresh_key(&mut self) -> Key {
        self.made += 1;
        (MADE, self.made)
    }

    /// Adds a name of an existing object, created by a call that ended at `end`.
    pub fn link(&mut self, dir: Key, name: &[u8], key: Key, end: u64) {
        self.put(dir, name.into(), key, end);
        if let Some(it) = self.objects.get_mut(&key) {
            it.info.links += 1;
        }
    }

    /// Removes a name, unless it now refers to a different object.
    fn remove_entry(&mut self, dir: Key, name: &[u8], key: Key) {
        if let Some(dir) = self.entries_mut(dir) {
            if dir.by_name.get(name).is_some_and(|it| it.key == key) {
                dir.by_name.remove(name);
            }
        }
    }

    /// Removes the name of an object, unless the name now refers to a different object.
    pub fn remove(&mut self, dir: Key, name: &[u8], key: Key) {
        self.remove_entry(dir, name, key);
        let Some(it) = self.objects.get_mut(&key) else { return };
        it.info.links = it.info.links.saturating_sub(1);
        if it.info.links == 0 || has_type(&it.info, libc::S_IFDIR) {
            // A new file may reuse the inode number.
            self.objects.remove(&key);
            if let Some(kernel) = self.in_kernel.remove(&key) {
                self.of_kernel.remove(&kernel);
            }
        }
    }

    /// Moves an object from one name to another.
    pub fn rename(&mut self, from: (Key, &[u8]), to: (Key, &[u8]), key: Key, end: u64) {
        self.remove_entry(from.0, from.1, key);
        self.assign(to, key, end);
    }

    /// Exchanges the objects of two names.
    pub fn exchange(&mut self, one: (Key, &[u8]), other: (Key, &[u8]), keys: (Key, Key), end: u64) {
        self.assign(other, keys.0, end);
        self.assign(one, keys.1, end);
    }

    /// Makes a name refer to an existing object; from now on, this is the name of the object.
    fn assign(&mut self, (dir, name): (Key, &[u8]), key: Key, end: u64) {
        let name: Rc<[u8]> = name.into();
        self.put(dir, name.clone(), key, end);
        // A directory seems to move below itself if an unrecorded program has moved other directories.
        if self.is_below(dir, key) {
            return;
        }
        if let Some(it) = self.objects.get_mut(&key) {
            (it.parent, it.name) = (dir, name);
        }
    }

    /// Returns the object of an inode in the kernel; None if it is not known, or several are possible.
    pub fn of_kernel(&self, kernel: Key) -> Option<Key> {
        self.of_kernel.get(&kernel).copied().filter(|_| !self.ambiguous.contains(&kernel))
    }

    /// Records that an object is an inode in the kernel. Returns false if it was known as a different inode.
    pub fn set_kernel_inode(&mut self, key: Key, kernel: Key) -> bool {
        let before = self.in_kernel.insert(key, kernel);
        let other = self.of_kernel.insert(kernel, key).filter(|it| *it != key);
        if other.is_some_and(|it| self.objects.contains_key(&it) && self.differs(key, it, kernel)) {
            self.ambiguous.insert(kernel);
        }
        before.is_none_or(|before| before == kernel)
    }

    /// Returns the object opened by a call whose path leads to `key`, and false if `key` was a different inode before.
    pub fn opened(&mut self, key: Key, kernel: Key) -> (Key, bool) {
        match self.of_kernel.get(&kernel).copied() {
            Some(other) if other != key && !self.differs(key, other, kernel) => (other, true),
            _ => (key, self.set_kernel_inode(key, kernel)),
        }
    }

    /// True if the object of a path differs from the object that is known as an inode in the kernel, although both have
    /// the same inode number.
    fn differs(&self, key: Key, other: Key, kernel: Key) -> bool {
        let has_inode_number = |it: Key| it.0 == MADE || it.1 == kernel.1;
        let other_device = self.device(key) != self.device(other);
        has_inode_number(key) && if has_inode_number(other) { other_device } else { key.0 != MADE }
    }
}

impl Object {
    /// Updates an object that was found under a new name.
    fn update(&mut self, info: Info, parent: Key, name: Rc<[u8]>, target: Option<Box<[u8]>>) {
        if !has_type(&self.info, info.mode & libc::S_IFMT) {
            *self = new_object(info, parent, name, target);
            return;
        }
        // A file with several names keeps the attributes that were read with its first name.
        if info.links < 2 || self.entries.is_some() {
            self.info = info;
        }
        (self.parent, self.name) = (parent, name);
        self.target = target.or(self.target.take());
    }
}

fn new_object(info: Info, parent: Key, name: Rc<[u8]>, target: Option<Box<[u8]>>) -> Object {
    let entries = has_type(&info, libc::S_IFDIR).then(Box::default);
    Object { info, parent, name, target, entries }
}
