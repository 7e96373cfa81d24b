//! Reads names from the file system: those of the trees before the start, and others at their first use.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::{ffi::OsStr, io};

use super::names::{Names, current_time, info};
use crate::error::RecordError;
use crate::inode::{Info, Key, OwnFiles};

/// Maximum number of names that are read before the start.
const MAX_NAMES: usize = 2_000_000;

/// Reads the names below the trees.
///
/// # Errors
/// A tree cannot be read, or there are too many names.
pub fn read_names(trees: &[PathBuf], own: OwnFiles) -> Result<Names, RecordError> {
    let mut names = Names::new(own)?;
    for path in trees {
        let tree_error = |error| RecordError::Tree { path: path.clone(), error };
        let real = path.canonicalize().map_err(tree_error)?;
        if let Some(top) = names.reach(&real) {
            names.read(top)?;
        }
    }
    Ok(names)
}

fn is_directory(info: &Info) -> bool {
    info.mode & libc::S_IFMT == libc::S_IFDIR
}

impl Names {
    /// Looks a name up in the present state of the file system. An object created since the start of the recording is
    /// accepted only with `any`: an unrecorded program created it.
    pub fn look_up(&mut self, dir: Key, name: &[u8], any: bool) -> Option<Key> {
        self.info(dir)?;
        let path = self.path(dir).join(OsStr::from_bytes(name));
        let metadata = std::fs::symlink_metadata(&path).ok()?;
        if !any && self.is_new(&metadata) {
            return None;
        }
        Some(self.add(dir, name, info(&metadata), &path))
    }

    /// True for an object that was created since the start of the recording.
    fn is_new(&self, it: &std::fs::Metadata) -> bool {
        let since_epoch = |time: std::time::SystemTime| {
            let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
            Some((since.as_secs() as i64, i64::from(since.subsec_nanos())))
        };
        it.created().ok().and_then(since_epoch).is_some_and(|made| made > self.start)
    }

    /// Reads the names below a directory, without crossing into other file systems.
    ///
    /// # Errors
    /// There are too many names.
    pub fn read(&mut self, top: Key) -> Result<(), RecordError> {
        let first = self.path(top);
        let mut open = vec![(top, first.clone())];
        while let Some((key, path)) = open.pop() {
            for (name, info) in self.list(key, &path) {
                // A complete directory was read before, or is mounted at a second place.
                if is_directory(&info) && info.key.0 == key.0 && !self.is_complete(info.key) {
                    open.push((info.key, path.join(OsStr::from_bytes(&name))));
                }
            }
            self.check_count(&first)?;
        }
        Ok(())
    }

    fn check_count(&self, path: &Path) -> Result<(), RecordError> {
        if self.count <= MAX_NAMES {
            return Ok(());
        }
        let text = format!(
            "it has more than {MAX_NAMES} names, which recording by BPF must read before the start; name smaller \
             trees with --tree"
        );
        Err(RecordError::Tree { path: path.into(), error: io::Error::other(text) })
    }

    /// Rereads the directories that have changed since they were last read, and reads everything below new directories
    /// in them.
    ///
    /// # Errors
    /// There are too many names.
    pub fn refresh(&mut self) -> Result<(), RecordError> {
        let since = std::mem::replace(&mut self.read, current_time());
        for key in self.complete_directories() {
            let path = self.path(key);
            let present = std::fs::symlink_metadata(&path).ok();
            let Some(it) = present.filter(|it| (it.dev(), it.ino()) == key) else {
                // It was removed or moved. If it was moved, its new parent directory has changed, too.
                self.forget(key);
                continue;
            };
            let changed = (it.mtime(), it.mtime_nsec()).max((it.ctime(), it.ctime_nsec()));
            if changed < since {
                continue;
            }
            for (_, below) in self.list(key, &path) {
                let known = self.is_complete(below.key);
                if is_directory(&below) && below.key.0 == key.0 && !known {
                    self.read(below.key)?;
                }
            }
            self.check_count(&path)?;
        }
        Ok(())
    }

    fn forget(&mut self, dir: Key) {
        if let Some(it) = self.entries_mut(dir) {
            let before = std::mem::take(it).by_name.len();
            self.count = self.count.saturating_sub(before);
        }
    }

    /// Reads the present entries of a directory, except entries created since the start. Keeps their order for the
    /// trace.
    pub fn list(&mut self, key: Key, path: &Path) -> Vec<(Rc<[u8]>, Info)> {
        let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
        let begun = self.has_begun();
        if !begun {
            self.forget(key);
        }
        let mut all: Vec<(Rc<[u8]>, Info)> = Vec::new();
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let Ok(metadata) = entry.metadata() else { continue };
            let (name, info) = (name.as_bytes(), info(&metadata));
            if self.own.contains(&info.key) || self.is_new(&metadata) {
                continue;
            }
            if self.known(key, name, u64::MAX).is_none() {
                self.add(key, name, info, &path);
            }
            let shared = self.entries(key).and_then(|it| it.by_name.get_key_value(name));
            all.push((shared.map_or_else(|| name.into(), |(name, _)| name.clone()), info));
        }
        if let Some(dir) = self.entries_mut(key) {
            dir.order = all.iter().map(|(name, _)| name.clone()).collect();
            dir.complete = true;
        }
        if !begun {
            self.count += all.len();
        }
        all
    }

    /// Takes the names that a directory had at the start, in the order of readdir(3).
    pub fn take_order(&mut self, dir: Key) -> Vec<(Rc<[u8]>, Key)> {
        let Some(dir) = self.entries_mut(dir) else { return Vec::new() };
        let order = std::mem::take(&mut dir.order);
        let key = |name: Rc<[u8]>| {
            let key = dir.by_name.get(&name)?.key;
            Some((name, key))
        };
        order.into_iter().filter_map(key).collect()
    }

    /// Returns the object at an absolute path without symbolic links; looks it up component by component.
    pub fn reach(&mut self, path: &Path) -> Option<Key> {
        let mut key = self.root();
        for part in path.components() {
            if let Component::Normal(name) = part {
                let name = name.as_bytes();
                key = self.known(key, name, u64::MAX).or_else(|| self.look_up(key, name, true))?;
            }
        }
        Some(key)
    }

    /// Returns a directory and the directories below it, on the same file system, whose entries were read.
    pub fn directories_below(&self, top: Key) -> Vec<Key> {
        let mut all = vec![top];
        let mut found = HashSet::from([top]);
        let mut at = 0;
        while let Some(key) = all.get(at).copied() {
            if let Some(dir) = self.entries(key) {
                let below = dir.order.iter().filter_map(|name| dir.by_name.get(name));
                let below = below.map(|it| it.key).filter(|it| it.0 == key.0);
                all.extend(below.filter(|it| self.is_directory(*it) && found.insert(*it)));
            }
            at += 1;
        }
        all
    }
}
