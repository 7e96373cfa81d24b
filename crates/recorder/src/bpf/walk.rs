//! Resolves paths of calls recorded with BPF component by component, using the known names.

use std::path::Path;

use fsdyno_trace::{CallKind, Object};

use super::names::{Names, Walked};
use crate::inode::{Info, Key, directory};
use crate::recorder::Recorder;
use crate::resolve::{LINKS, Outside, is_of_kernel};
use crate::seen::Seen;
use crate::table;

#[cfg(test)]
mod tests;

/// The implication of the result of a call for the last name of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOutcome {
    /// Nothing.
    Nothing,
    /// The call created the name.
    Made,
    /// The name did not exist.
    Absent,
    /// The name existed; its object has this mode unless more is known.
    Exists(u32),
}

/// Returns the implication of a call for the last name of its first or second path.
pub fn name_outcome(seen: &Seen, first: bool) -> NameOutcome {
    use CallKind as K;
    let Some(kind) = table::kind(seen.number) else { return NameOutcome::Nothing };
    let succeeded = seen.result >= 0;
    let makes = match kind {
        K::Mkdir | K::Mknod | K::Symlink => true,
        K::Rename => !first,
        // linkat(2) with AT_EMPTY_PATH has no first path.
        K::Link => {
            !first || seen.captured.as_ref().and_then(|it| it.text(seen.args[1])) == Some(b"")
        }
        _ => false,
    };
    if makes {
        return match (kind, succeeded) {
            // It is no longer known whether rename replaced the name.
            (K::Rename, true) => NameOutcome::Absent,
            (_, true) => NameOutcome::Made,
            (_, false) if seen.result == -i64::from(libc::EEXIST) => {
                NameOutcome::Exists(libc::S_IFREG | 0o644)
            }
            _ => NameOutcome::Nothing,
        };
    }
    if kind == K::Open {
        let opened = seen.captured.as_ref().and_then(|it| it.file(seen.result as i32));
        match opened {
            Some(file) if succeeded && file.made => return NameOutcome::Made,
            Some(file) if succeeded => return NameOutcome::Exists(file.mode),
            _ => {}
        }
    }
    match kind {
        _ if seen.result == -i64::from(libc::ENOENT) => NameOutcome::Absent,
        _ if !succeeded => NameOutcome::Nothing,
        K::Rmdir | K::Chdir | K::Readdir => DIRECTORY,
        K::Readlink => NameOutcome::Exists(libc::S_IFLNK | 0o777),
        K::Unlink if seen.number == libc::SYS_unlinkat && seen.args[2] != 0 => DIRECTORY,
        _ => NameOutcome::Exists(libc::S_IFREG | 0o644),
    }
}

const DIRECTORY: NameOutcome = NameOutcome::Exists(libc::S_IFDIR | 0o755);

/// Splits a path into its components.
pub fn components(text: &[u8]) -> Vec<&[u8]> {
    text.split(|byte| *byte == b'/').filter(|it| !it.is_empty()).collect()
}

/// Converts a number to u8, or to the maximum if it is larger.
pub fn saturated(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// The resolution of a path.
pub struct Walk<'a> {
    /// The recorder, which writes links to the trace.
    pub recorder: &'a mut Recorder,
    /// The known names.
    pub names: &'a mut Names,
    /// CLOCK_MONOTONIC at the entry to the call.
    pub begin: u64,
    /// True if the call succeeded.
    pub succeeded: bool,
    /// The implication of the call for the last name; None while a link in the middle is followed.
    pub name_outcome: Option<NameOutcome>,
    /// True if a link at the end is followed.
    pub follow: bool,
}

impl Walk<'_> {
    /// Resolves a path from a directory on.
    pub fn path(mut self, from: Key, text: &[u8]) -> Result<Walked, Outside> {
        let follow = self.follow;
        self.step(from, text, follow, 0)
    }

    fn step(&mut self, from: Key, text: &[u8], follow: bool, links: u8) -> Result<Walked, Outside> {
        if is_of_kernel(text) {
            return Err(Outside(Object::Kernel, 0));
        }
        let mut at = if text.first() == Some(&b'/') { self.names.root() } else { from };
        let parts = components(text);
        let follow = follow || text.last() == Some(&b'/');
        for (index, name) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            let beyond = saturated(parts.len() - index - 1);
            match *name {
                b"." => continue,
                b".." => {
                    at = self.names.parent_and_name(at).map_or(at, |it| it.0);
                    continue;
                }
                _ if last => self.check_inside(at)?,
                _ => {}
            }
            let named = |key| Walked { dir: at, name: Some(name.to_vec()), key, beyond, links };
            let Some(key) = self.entry(at, name, last) else {
                return self.check_inside(at).map(|()| named(None));
            };
            if let Some(target) = self.names.target(key).filter(|_| !last || follow) {
                if links >= LINKS {
                    return Err(Outside(Object::None, 0));
                }
                // The link itself is part of the tree.
                self.recorder.introduce(self.names, key);
                if last {
                    return self.step(at, &target, true, links + 1);
                }
                match self.directory_of_link(at, &target, links)? {
                    Some(dir) => at = dir,
                    None => return Ok(named(Some(key))),
                }
                continue;
            }
            if last {
                return self.device(key).map_or(Ok(named(Some(key))), Err);
            }
            if !self.names.is_directory(key) {
                return self.check_inside(at).map(|()| named(Some(key)));
            }
            at = key;
        }
        self.check_inside(at)?;
        Ok(Walked { dir: at, name: None, key: None, beyond: 0, links })
    }

    /// Returns the directory to which a link in the middle of a path leads; None if the link is dangling.
    fn directory_of_link(
        &mut self,
        at: Key,
        target: &[u8],
        links: u8,
    ) -> Result<Option<Key>, Outside> {
        let name_outcome = self.name_outcome.take();
        let to = self.step(at, target, true, links + 1);
        self.name_outcome = name_outcome;
        let to = to?;
        let dir = if to.name.is_none() { Some(to.dir) } else { to.key };
        Ok(dir.filter(|_| to.beyond == 0))
    }

    /// Returns the device if the object is a device file.
    fn device(&self, key: Key) -> Option<Outside> {
        let info = self.names.info(key)?;
        let devices = [libc::S_IFCHR, libc::S_IFBLK];
        devices.contains(&(info.mode & libc::S_IFMT)).then_some(Outside(Object::Device, info.rdev))
    }

    /// Checks that the directory in which a path ends is not on a file system of the kernel, such as procfs.
    fn check_inside(&mut self, dir: Key) -> Result<(), Outside> {
        match self.name_outcome.is_some() && self.is_kernel_file_system(dir) {
            true => Err(Outside(Object::Kernel, dir.1)),
            false => Ok(()),
        }
    }

    fn is_kernel_file_system(&mut self, dir: Key) -> bool {
        let Some(device) = self.names.device(dir) else { return false };
        if let Some(known) = self.recorder.devices.get(&device) {
            return *known;
        }
        let Ok(open) = directory(&self.names.path(dir)) else { return false };
        rustix::fs::fstat(&open).is_ok_and(|it| it.st_dev == device)
            && self.recorder.is_kernel_file_system(&open, device)
    }

    /// Returns the object of a name, if it can be determined.
    fn entry(&mut self, dir: Key, name: &[u8], last: bool) -> Option<Key> {
        let middle = if self.succeeded { DIRECTORY } else { NameOutcome::Nothing };
        let name_outcome = self.name_outcome.filter(|_| last).unwrap_or(middle);
        let known = self.names.known(dir, name, self.begin);
        // A failed call may have returned before the name appeared, unless it failed because the name existed.
        let existed = self.succeeded || matches!(name_outcome, NameOutcome::Exists(_));
        let known = known.filter(|_| existed || !self.names.appeared_after(dir, name, self.begin));
        // An unrecorded program may have replaced a file by a directory.
        let is_passable =
            |it: &Key| self.names.is_directory(*it) || self.names.target(*it).is_some();
        let known = known.filter(|it| name_outcome != DIRECTORY || is_passable(it));
        let looks_up = match name_outcome {
            // An open with O_CREAT through a dangling symbolic link creates the target of the link.
            NameOutcome::Made => {
                return known.filter(|key| self.follow && self.names.target(*key).is_some());
            }
            NameOutcome::Absent => false,
            NameOutcome::Nothing => !self.names.is_complete(dir),
            NameOutcome::Exists(_) => true,
        };
        if known.is_some() || !looks_up {
            return known;
        }
        if let Some(found) = self.names.look_up(dir, name, self.succeeded) {
            return Some(found);
        }
        let NameOutcome::Exists(mode) = name_outcome else { return None };
        if self.is_kernel_file_system(dir) {
            return None;
        }
        // The name existed during the call and has been removed since.
        self.recorder.note("names that were removed before their attributes could be read", 1);
        let key = self.names.fresh_key();
        let info = Info { key, mode, links: 1, ..Info::default() };
        Some(self.names.add(dir, name, info, Path::new("")))
    }
}
