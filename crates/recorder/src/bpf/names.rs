//! The names that a recording knows: those in the directories at its start, updated by the recorded calls.
//!
//! The records of the kernel arrive some time after the calls, when a path can no longer be looked up: the program may
//! have changed it. So the directories of the recorded trees are read before the start. Outside the trees a name is
//! looked up at its first use.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::hash::Map;
use crate::inode::{Info, Key};

/// The device number in keys of objects that recorded calls made.
const MADE: u64 = u64::MAX;

/// Maximum number of names that are read before the start.
const MAX_NAMES: usize = 2_000_000;

/// The object that a name refers to.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The object.
    pub key: Key,
    /// CLOCK_MONOTONIC at the end of the call that made the name; 0 for a name from before the start.
    since: u64,
    /// The object that the name referred to before.
    former: Option<Key>,
}

/// The entries of a directory.
#[derive(Debug, Default)]
struct Entries {
    by_name: HashMap<Box<[u8]>, Slot>,
    /// The names in the order of readdir(3), until they are in the trace.
    order: Vec<Box<[u8]>>,
    /// True if all entries are known.
    complete: bool,
}

/// An object.
#[derive(Debug)]
struct Object {
    info: Info,
    /// The directory in which the object has or had a name.
    parent: Key,
    name: Box<[u8]>,
    /// The target of a symbolic link.
    target: Option<Box<[u8]>>,
    entries: Entries,
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
    made: u64,
    root: Key,
    /// The file of the trace, which is not part of a tree.
    own: Key,
    /// The time of the start (CLOCK_REALTIME, seconds and nanoseconds): objects made later are not in the initial tree.
    start: (i64, u32),
    count: usize,
    /// The time at which the first directory was read, in seconds.
    read: i64,
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

impl Names {
    /// Knows the root only.
    ///
    /// # Errors
    /// The root cannot be read.
    pub fn new(own: Key) -> std::io::Result<Names> {
        let root = info(&std::fs::metadata("/")?);
        let mut names = Names {
            objects: Map::default(),
            of_kernel: Map::default(),
            in_kernel: Map::default(),
            made: 0,
            root: root.key,
            own,
            start: (i64::MAX, 0),
            count: 0,
            read: rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse).tv_sec,
        };
        names.objects.insert(root.key, object(root, root.key, b"", None));
        Ok(names)
    }

    /// Begins the recording: objects made from now on are not in the initial tree.
    pub fn begin(&mut self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        self.start = (now.tv_sec, now.tv_nsec as u32);
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
        self.has_type(key, libc::S_IFDIR)
    }

    fn has_type(&self, key: Key, wanted: u32) -> bool {
        self.objects.get(&key).is_some_and(|it| it.info.mode & libc::S_IFMT == wanted)
    }

    /// Returns the target of a symbolic link.
    pub fn target(&self, key: Key) -> Option<Box<[u8]>> {
        self.objects.get(&key).filter(|_| self.has_type(key, libc::S_IFLNK))?.target.clone()
    }

    /// Returns the directory in which an object has or had a name, and that name. The root is its own directory.
    pub fn home(&self, key: Key) -> Option<(Key, Box<[u8]>)> {
        self.objects.get(&key).map(|it| (it.parent, it.name.clone()))
    }

    /// Returns the present path of an object, provided that no unrecorded program moved it.
    pub fn path(&self, mut key: Key) -> PathBuf {
        let mut parts = Vec::new();
        while let Some(it) = self.objects.get(&key).filter(|it| it.parent != key) {
            parts.push(it.name.clone());
            key = it.parent;
        }
        let mut path = PathBuf::from("/");
        path.extend(parts.iter().rev().map(|it| Path::new(OsStr::from_bytes(it))));
        path
    }

    /// Returns the object that a name referred to for a call that began at `begin`.
    pub fn known(&self, dir: Key, name: &[u8], begin: u64) -> Option<Key> {
        let slot = self.objects.get(&dir)?.entries.by_name.get(name)?;
        Some(slot.former.filter(|_| slot.since > begin).unwrap_or(slot.key))
    }

    /// True if all entries of a directory are known, so that an unknown name does not exist.
    pub fn is_complete(&self, dir: Key) -> bool {
        self.objects.get(&dir).is_some_and(|it| it.entries.complete)
    }

    /// Looks a name up in the present state of the file system. An object that was made since the start of the
    /// recording is accepted only with `any`: an unrecorded program made it.
    pub fn look_up(&mut self, dir: Key, name: &[u8], any: bool) -> Option<Key> {
        self.objects.get(&dir)?;
        let path = self.path(dir).join(OsStr::from_bytes(name));
        let metadata = std::fs::symlink_metadata(&path).ok()?;
        if !any && self.is_new(&metadata) {
            return None;
        }
        Some(self.add(dir, name, info(&metadata), &path))
    }

    /// True for an object that was made since the start of the recording.
    fn is_new(&self, it: &std::fs::Metadata) -> bool {
        let of = |time: std::time::SystemTime| {
            let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
            Some((since.as_secs() as i64, since.subsec_nanos()))
        };
        it.created().ok().and_then(of).is_some_and(|made| made > self.start)
    }

    /// Adds a name of an object that existed at the start.
    pub fn add(&mut self, dir: Key, name: &[u8], info: Info, path: &Path) -> Key {
        let is_link = info.mode & libc::S_IFMT == libc::S_IFLNK;
        let target = if is_link { std::fs::read_link(path).ok() } else { None };
        let target = target.map(|it| it.into_os_string().as_bytes().into());
        self.objects.entry(info.key).or_insert_with(|| object(info, dir, name, target));
        self.put(dir, name, info.key, 0);
        info.key
    }

    /// Adds an object that no longer has a name, under its last name.
    pub fn add_unnamed(&mut self, dir: Key, name: &[u8], info: Info) -> Key {
        self.objects.entry(info.key).or_insert_with(|| object(info, dir, name, None));
        info.key
    }

    fn put(&mut self, dir: Key, name: &[u8], key: Key, since: u64) {
        if let Some(dir) = self.objects.get_mut(&dir) {
            let slots = &mut dir.entries.by_name;
            let former = slots.get(name).map(|it| it.key).filter(|_| since > 0);
            slots.insert(name.into(), Slot { key, since, former });
        }
    }

    /// Adds an object made by a call that ended at `end`.
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
        let mut it = object(info, dir, name, target.map(Into::into));
        it.entries.complete = true;
        self.objects.insert(key, it);
        self.put(dir, name, key, end);
    }

    /// Returns the key of a new object.
    pub fn fresh(&mut self) -> Key {
        self.made += 1;
        (MADE, self.made)
    }

    /// Adds a name that a call which ended at `end` gave to an existing object.
    pub fn link(&mut self, dir: Key, name: &[u8], key: Key, end: u64) {
        self.put(dir, name, key, end);
        if let Some(it) = self.objects.get_mut(&key) {
            it.info.links += 1;
        }
    }

    /// Removes the name of an object, unless the name refers to a different object by now.
    pub fn remove(&mut self, dir: Key, name: &[u8], key: Key) {
        if let Some(dir) = self.objects.get_mut(&dir) {
            if dir.entries.by_name.get(name).is_some_and(|it| it.key == key) {
                dir.entries.by_name.remove(name);
            }
        }
        let Some(it) = self.objects.get_mut(&key) else { return };
        it.info.links = it.info.links.saturating_sub(1);
        if it.info.links == 0 || it.info.mode & libc::S_IFMT == libc::S_IFDIR {
            // A new file may reuse the inode number.
            self.objects.remove(&key);
            if let Some(kernel) = self.in_kernel.remove(&key) {
                self.of_kernel.remove(&kernel);
            }
        }
    }

    /// Moves an object from one name to another.
    pub fn rename(&mut self, from: (Key, &[u8]), to: (Key, &[u8]), key: Key, end: u64) {
        if let Some(dir) = self.objects.get_mut(&from.0) {
            if dir.entries.by_name.get(from.1).is_some_and(|it| it.key == key) {
                dir.entries.by_name.remove(from.1);
            }
        }
        self.put(to.0, to.1, key, end);
        if let Some(it) = self.objects.get_mut(&key) {
            (it.parent, it.name) = (to.0, to.1.into());
        }
    }

    /// Returns the object of an inode in the kernel.
    pub fn of_kernel(&self, kernel: Key) -> Option<Key> {
        self.of_kernel.get(&kernel).copied()
    }

    /// Records that an object is an inode in the kernel. Returns false if it was known as a different inode.
    pub fn is_in_kernel(&mut self, key: Key, kernel: Key) -> bool {
        let before = self.in_kernel.insert(key, kernel);
        self.of_kernel.insert(kernel, key);
        before.is_none_or(|before| before == kernel)
    }

    /// Reads the names below a directory, without crossing into other file systems.
    ///
    /// # Errors
    /// There are more names than the maximum, which is returned.
    pub fn read(&mut self, path: &Path) -> Result<(), usize> {
        let Some(top) = self.reach(path) else { return Ok(()) };
        let mut open = vec![(top, self.path(top))];
        while let Some((key, path)) = open.pop() {
            for (name, info) in self.list(key, &path) {
                self.count += 1;
                if self.count > MAX_NAMES {
                    return Err(MAX_NAMES);
                }
                if info.mode & libc::S_IFMT == libc::S_IFDIR && info.key.0 == key.0 {
                    open.push((info.key, path.join(OsStr::from_bytes(&name))));
                }
            }
        }
        Ok(())
    }

    /// Reads those directories again that changed since they were read.
    pub fn refresh(&mut self) {
        let read = |(key, it): (&Key, &Object)| it.entries.complete.then_some(*key);
        let all: Vec<Key> = self.objects.iter().filter_map(read).collect();
        for key in all {
            let path = self.path(key);
            let changed = std::fs::metadata(&path).map_or(0, |it| it.mtime().max(it.ctime()));
            if changed >= self.read {
                let _ = self.read(&path);
            }
        }
    }

    /// Reads the present entries of a directory, without those made since the start. Keeps their order for the trace.
    pub fn list(&mut self, key: Key, path: &Path) -> Vec<(Box<[u8]>, Info)> {
        let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
        if self.start.0 == i64::MAX {
            self.objects.get_mut(&key).iter_mut().for_each(|it| it.entries.by_name.clear());
        }
        let mut all = Vec::new();
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let Ok(metadata) = entry.metadata() else { continue };
            let (name, info) = (name.as_bytes(), info(&metadata));
            if info.key == self.own || self.is_new(&metadata) {
                continue;
            }
            if self.known(key, name, u64::MAX).is_none() {
                self.add(key, name, info, &path);
            }
            all.push((name.into(), info));
        }
        if let Some(dir) = self.objects.get_mut(&key) {
            dir.entries.order =
                all.iter().map(|(name, _): &(Box<[u8]>, Info)| name.clone()).collect();
            dir.entries.complete = true;
        }
        all
    }

    /// Takes the names that a directory had at the start, in the order of readdir(3).
    pub fn take_order(&mut self, dir: Key) -> Vec<(Box<[u8]>, Key)> {
        let Some(dir) = self.objects.get_mut(&dir) else { return Vec::new() };
        let order = std::mem::take(&mut dir.entries.order);
        let key = |name: Box<[u8]>| {
            let slot = dir.entries.by_name.get(&name)?;
            Some((name, slot.key))
        };
        order.into_iter().filter_map(key).collect()
    }

    /// Returns the object at an absolute path without symbolic links; looks it up component by component.
    pub fn reach(&mut self, path: &Path) -> Option<Key> {
        let mut key = self.root;
        for part in path.components() {
            if let std::path::Component::Normal(name) = part {
                let name = name.as_bytes();
                key = self.known(key, name, u64::MAX).or_else(|| self.look_up(key, name, true))?;
            }
        }
        Some(key)
    }

    /// Returns a directory and those below it on its file system that were read.
    pub fn directories_below(&self, top: Key) -> Vec<Key> {
        let mut all = vec![top];
        let mut at = 0;
        while let Some(dir) = all.get(at).and_then(|key| self.objects.get(key)) {
            let below = dir.entries.order.iter().filter_map(|name| dir.entries.by_name.get(name));
            let key = all[at];
            let below = below.map(|it| it.key);
            let below: Vec<Key> =
                below.filter(|it| self.is_directory(*it) && it.0 == key.0).collect();
            all.extend(below);
            at += 1;
        }
        all
    }
}

fn object(info: Info, parent: Key, name: &[u8], target: Option<Box<[u8]>>) -> Object {
    Object { info, parent, name: name.into(), target, entries: Entries::default() }
}
