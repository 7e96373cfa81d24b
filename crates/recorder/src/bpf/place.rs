//! Resolves the paths in calls recorded with BPF, and adds the objects found to the trace.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fsdyno_trace::{At, Base, CallKind, NodeId, Object};
use libc::pid_t;
use rustix::fs::FileType;

use super::names::{Names, OUTSIDE, Walked};
use super::walk::{Walk, components, name_outcome, saturated};
use crate::inode::Key;
use crate::recorder::Recorder;
use crate::resolve::{KERNEL, Outside, Place, base_of};
use crate::seen::Seen;
use crate::table;

const NONE: Outside = Outside(Object::None, 0);

impl Recorder {
    /// Resolves the path at an address, for the call that is being recorded.
    pub fn place_by_names(
        &mut self,
        tid: pid_t,
        dirfd: i32,
        path: u64,
        follow: bool,
    ) -> Result<Place, Outside> {
        let Some(text) = self.text(tid, path) else {
            let is_fault = |it: &Seen| it.result == -i64::from(libc::EFAULT);
            if path != 0 && !self.seen.as_deref().is_some_and(is_fault) {
                self.note("calls on paths that could not be read", 1);
            }
            return Err(NONE);
        };
        let from = self.base(tid, dirfd, &text)?;
        let (Some(mut names), Some(mut seen)) = (self.names.take(), self.seen.take()) else {
            return Err(NONE);
        };
        let place = self.place_seen_by_names(from, &text, follow, (&mut names, &mut seen));
        (self.names, self.seen) = (Some(names), Some(seen));
        place
    }

    fn place_seen_by_names(
        &mut self,
        (base, from): (Base, Key),
        text: &[u8],
        follow: bool,
        (names, seen): (&mut Names, &mut Seen),
    ) -> Result<Place, Outside> {
        let name_outcome = Some(name_outcome(seen, self.walked.is_empty()));
        let (begin, succeeded) = (seen.wall.0, seen.result >= 0);
        let walk = Walk { recorder: self, names, begin, succeeded, name_outcome, follow };
        let mut it = walk.path(from, text)?;
        if succeeded && it.beyond > 0 {
            self.note("calls in directories that other programs replaced", 1);
            return Err(NONE);
        }
        self.replace_by_opened(names, seen, &mut it)?;
        let place = self.place_walked(names, base, text, &it);
        self.walked.push(it);
        place
    }

    /// Returns the directory at which a path begins.
    fn base(&mut self, tid: pid_t, dirfd: i32, text: &[u8]) -> Result<(Base, Key), Outside> {
        let base = base_of(text, dirfd);
        let key = match base {
            Base::Root => self.names.as_ref().ok_or(NONE)?.root(),
            Base::Cwd => self.threads.get(&tid).ok_or(NONE)?.cwd.get(),
            Base::Directory => self.descriptor(tid, dirfd)?.key,
        };
        if key == OUTSIDE { Err(Outside(Object::Kernel, 0)) } else { Ok((base, key)) }
    }

    /// Replaces the object of a resolved path with the file that the kernel recorded as opened.
    fn replace_by_opened(
        &mut self,
        names: &mut Names,
        seen: &mut Seen,
        it: &mut Walked,
    ) -> Result<(), Outside> {
        let opens = table::kind(seen.number) == Some(CallKind::Open);
        let file = seen.captured.as_ref().and_then(|it| it.file(seen.result as i32)).copied();
        let Some(file) = file.filter(|_| opens && seen.result >= 0) else { return Ok(()) };
        if KERNEL.contains(&file.magic)
            && matches!(file.kind(), FileType::RegularFile | FileType::Directory)
        {
            return Err(Outside(Object::Kernel, file.key.1));
        }
        let unnamed = opens_unnamed(seen);
        if file.made || unnamed {
            // Another thread may have opened the file before the call that created it returned.
            let name = it.name.as_deref().filter(|_| !unnamed);
            let known = name.and_then(|name| names.known(it.dir, name, u64::MAX));
            let known = known.filter(|key| names.of_kernel(file.key) == Some(*key));
            let key = known.unwrap_or_else(|| names.fresh_key());
            seen.made = Some(file.info(key));
            if !unnamed {
                names.set_kernel_inode(key, file.key);
                it.key = None;
            }
            return Ok(());
        }
        let Some(key) = (if it.name.is_some() { it.key } else { Some(it.dir) }) else {
            return Ok(());
        };
        let (key, same) = names.opened(key, file.key);
        if it.name.is_some() {
            it.key = Some(key);
        } else {
            it.dir = key;
        }
        if !same {
            self.note("files that other programs replaced", 1);
        }
        seen.made = Some(file.info(key));
        Ok(())
    }

    /// Returns the place in the trace that a path leads to.
    fn place_walked(
        &mut self,
        names: &mut Names,
        base: Base,
        text: &[u8],
        it: &Walked,
    ) -> Result<Place, Outside> {
        let dir = self.introduce(names, it.dir).ok_or(NONE)?;
        let mut at = match &it.name {
            None => At::of_node(dir),
            Some(name) => {
                let known = match it.key {
                    Some(key) => Some(self.introduce(names, key).ok_or(NONE)?),
                    None => None,
                };
                At::new(dir, self.tree.name(name).ok_or(NONE)?, known)
            }
        };
        let walked = components(text).iter().filter(|it| **it != b".").count();
        (at.base, at.walked) = (base, saturated(walked));
        (at.beyond, at.links) = (it.beyond, it.links);
        let object = if it.name.is_some() { it.key } else { Some(it.dir) };
        Ok(Place { at, stat: object.and_then(|key| names.info(key)).map(|it| it.stat()) })
    }

    /// Returns the node of an object. First adds to the trace, if they are not in it yet, the object, its ancestors,
    /// and the entries of all these that are directories of a tree.
    pub fn introduce(&mut self, names: &mut Names, key: Key) -> Option<NodeId> {
        let mut unknown = vec![key];
        if self.tree.known(key, u64::MAX).is_none() {
            for it in names.above(key).skip(1) {
                unknown.push(it);
                if self.tree.known(it, u64::MAX).is_some() {
                    break;
                }
            }
        }
        let mut above = None;
        for key in unknown.into_iter().rev() {
            // The entries of the directory above may have included it.
            if self.tree.known(key, u64::MAX).is_none() {
                let (_, name) = names.parent_and_name(key)?;
                self.tree.introduce(above?, &name, &names.info(key)?, &names.path(key));
            }
            let node = self.tree.known(key, u64::MAX)?;
            if names.is_directory(key) && self.tree.begins_listing(key, false) {
                self.introduce_entries(names, key, node, false);
            }
            above = Some(node);
        }
        above
    }

    /// Writes the entries of a directory to the trace, in the order of readdir(3).
    fn introduce_entries(&mut self, names: &mut Names, dir: Key, node: NodeId, only_new: bool) {
        let path = names.path(dir);
        for (name, key) in names.take_order(dir) {
            // A directory has only one name; a second name is a bind mount of it.
            let once = only_new || names.is_directory(key);
            let new = !once || self.tree.known(key, u64::MAX).is_none();
            if let Some(info) = names.info(key).filter(|_| new) {
                self.tree.introduce(node, &name, &info, &path.join(OsStr::from_bytes(&name)));
            }
        }
    }

    /// Adds the entries of a directory that a thread lists, outside the recorded trees, to the trace: those that are
    /// present, except those created since the recording started.
    pub fn list_by_names(&mut self, dir: Key) {
        let Some(mut names) = self.names.take() else { return };
        if let Some(node) = self.introduce(&mut names, dir) {
            if self.tree.begins_listing(dir, true) {
                let path = names.path(dir);
                names.list(dir, &path);
                self.introduce_entries(&mut names, dir, node, true);
            }
        }
        self.names = Some(names);
    }
}

/// Returns true for an open with O_TMPFILE.
fn opens_unnamed(seen: &Seen) -> bool {
    let flags = match seen.number {
        libc::SYS_open => seen.args[1],
        libc::SYS_openat => seen.args[2],
        libc::SYS_openat2 => {
            let bytes = seen.captured.as_ref().map_or(&[][..], |it| it.memory(seen.args[2]));
            bytes.first_chunk().copied().map_or(0, u64::from_ne_bytes)
        }
        _ => 0,
    };
    flags & libc::O_TMPFILE as u64 == libc::O_TMPFILE as u64
}
