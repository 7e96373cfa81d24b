//! Resolves paths and descriptors of calls recorded by BPF, by means of the known names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use fsdyno_trace::{At, Base, Call, NodeId, Object};
use libc::pid_t;
use rustix::fs::FileType;

use super::names::{Names, Walked};
use super::parts::File;
use crate::inode::{Info, Key, directory};
use crate::process::{Descriptor, Open};
use crate::recorder::Recorder;
use crate::resolve::{KERNEL, LINKS, Outside, Place};
use crate::seen::Seen;
use crate::table;

/// The implication of a call's result for the last name of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// Nothing.
    Nothing,
    /// The call made the name.
    Made,
    /// The name did not exist.
    Absent,
    /// The name existed; its object has this mode unless more is known.
    There(u32),
}

const NONE: Outside = Outside(Object::None, 0);

/// Returns what a call implies for the last name of its first or second path.
fn said(seen: &Seen, first: bool) -> Said {
    use fsdyno_trace::CallKind as K;
    let Some(kind) = table::kind(seen.number) else { return Said::Nothing };
    let good = seen.result >= 0;
    let makes = match kind {
        K::Mkdir | K::Mknod | K::Symlink => true,
        K::Rename | K::Link => !first,
        _ => false,
    };
    if makes {
        return match (kind, good) {
            // It is no longer known whether rename replaced the name.
            (K::Rename, true) => Said::Absent,
            (_, true) => Said::Made,
            (_, false) if seen.result == -i64::from(libc::EEXIST) => {
                Said::There(libc::S_IFREG | 0o644)
            }
            _ => Said::Nothing,
        };
    }
    if kind == K::Open {
        let opened = seen.captured.as_ref().and_then(|it| it.file(seen.result as i32));
        match opened {
            Some(file) if good && file.made => return Said::Made,
            Some(file) if good => return Said::There(file.mode),
            _ => {}
        }
    }
    match kind {
        _ if seen.result == -i64::from(libc::ENOENT) => Said::Absent,
        _ if !good => Said::Nothing,
        K::Rmdir | K::Chdir | K::Readdir => Said::There(libc::S_IFDIR | 0o755),
        K::Readlink => Said::There(libc::S_IFLNK | 0o777),
        K::Unlink if seen.number == libc::SYS_unlinkat && seen.args[2] != 0 => {
            Said::There(libc::S_IFDIR | 0o755)
        }
        _ => Said::There(libc::S_IFREG | 0o644),
    }
}

/// Splits a path into its components.
fn components(text: &[u8]) -> Vec<&[u8]> {
    text.split(|byte| *byte == b'/').filter(|it| !it.is_empty()).collect()
}

fn short(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

impl Recorder {
    /// Resolves a path of the call that is being recorded.
    pub fn place_by_names(
        &mut self,
        tid: pid_t,
        dirfd: i32,
        text: &[u8],
        follow: bool,
    ) -> Result<Place, Outside> {
        let (Some(mut names), Some(seen)) = (self.names.take(), self.seen.take()) else {
            return Err(NONE);
        };
        let base = self.base(tid, dirfd, text, &names, &seen);
        let found = base.and_then(|(base, from)| {
            let said = said(&seen, self.walked.is_empty());
            let begin = seen.wall.0;
            let good = seen.result >= 0;
            let walk = Walk { recorder: self, names: &mut names, begin, good, said, follow };
            walk.path(from, text, follow, 0).map(|it| (base, it))
        });
        let mut seen = seen;
        let place = found.and_then(|(base, mut it)| {
            self.opened_place(&mut names, &mut seen, &mut it)?;
            let place = self.place_walked(&mut names, base, text, &it);
            self.walked.push(it);
            place
        });
        (self.names, self.seen) = (Some(names), Some(seen));
        place
    }

    /// Returns the directory at which a path begins.
    fn base(
        &mut self,
        tid: pid_t,
        dirfd: i32,
        text: &[u8],
        names: &Names,
        seen: &Seen,
    ) -> Result<(Base, Key), Outside> {
        if text.first() == Some(&b'/') {
            return Ok((Base::Root, names.root()));
        }
        let thread = self.threads.get(&tid).ok_or(NONE)?;
        if dirfd == libc::AT_FDCWD {
            return Ok((Base::Cwd, thread.cwd.get()));
        }
        match thread.descriptors.get(dirfd) {
            Some(Descriptor::File(open)) => Ok((Base::Directory, open.key)),
            Some(Descriptor::Outside(object, number)) => Err(Outside(object, number)),
            None => {
                let file = seen.captured.as_ref().and_then(|it| it.file(dirfd)).ok_or(NONE)?;
                names.of_kernel(file.key).map(|key| (Base::Directory, key)).ok_or(NONE)
            }
        }
    }

    /// Corrects a resolved path with the file that the call opened.
    fn opened_place(
        &mut self,
        names: &mut Names,
        seen: &mut Seen,
        it: &mut Walked,
    ) -> Result<(), Outside> {
        let opens = table::kind(seen.number) == Some(fsdyno_trace::CallKind::Open);
        let file = seen.captured.as_ref().and_then(|it| it.file(seen.result as i32)).copied();
        let Some(file) = file.filter(|_| opens && seen.result >= 0) else { return Ok(()) };
        if KERNEL.contains(&file.magic)
            && matches!(file.kind(), FileType::RegularFile | FileType::Directory)
        {
            return Err(Outside(Object::Kernel, file.key.1));
        }
        let unnamed = self.opens_unnamed(seen);
        if file.made || unnamed {
            let key = names.fresh();
            seen.made = Some(file.info(key));
            if !unnamed {
                names.is_in_kernel(key, file.key);
                it.key = None;
            }
            return Ok(());
        }
        if let Some(key) = it.key {
            match names.of_kernel(file.key) {
                Some(other) if other != key => it.key = Some(other),
                _ if !names.is_in_kernel(key, file.key) => {
                    self.note("files that other programs replaced", 1);
                }
                _ => {}
            }
        }
        seen.made = it.key.map(|key| file.info(key));
        Ok(())
    }

    /// True for an open with O_TMPFILE.
    fn opens_unnamed(&self, seen: &Seen) -> bool {
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
            None => At::itself(dir),
            Some(name) => {
                let known = match it.key {
                    Some(key) => Some(self.introduce(names, key).ok_or(NONE)?),
                    None => None,
                };
                At::new(dir, self.tree.name(name).ok_or(NONE)?, known)
            }
        };
        let walked = components(text).iter().filter(|it| **it != b".").count();
        (at.base, at.walked) = (base, short(walked));
        (at.beyond, at.links) = (it.beyond, it.links);
        let of = if it.name.is_some() { it.key } else { Some(it.dir) };
        Ok(Place { at, stat: of.and_then(|key| names.info(key)).map(|it| it.stat()) })
    }

    /// Returns the node of an object. First adds the objects above it to the trace; also the entries of the object
    /// itself if it is a directory of a tree.
    pub fn introduce(&mut self, names: &mut Names, key: Key) -> Option<NodeId> {
        if self.tree.known(key, u64::MAX).is_none() {
            let (parent, name) = names.home(key).filter(|(parent, _)| *parent != key)?;
            let above = self.introduce(names, parent)?;
            if self.tree.known(key, u64::MAX).is_none() {
                self.tree.introduce(above, &name, &names.info(key)?, &names.path(key));
            }
        }
        let node = self.tree.known(key, u64::MAX)?;
        if names.is_directory(key) && self.tree.begins_listing(key, false) {
            self.introduce_entries(names, key, node);
        }
        Some(node)
    }

    /// Writes the entries of a directory to the trace, in the order of readdir(3).
    fn introduce_entries(&mut self, names: &mut Names, dir: Key, node: NodeId) {
        let path = names.path(dir);
        let order = names.take_order(dir);
        for (name, key) in order {
            if let Some(info) = names.info(key) {
                self.tree.introduce(node, &name, &info, &path.join(OsStr::from_bytes(&name)));
            }
        }
    }

    /// Adds the entries of a directory outside the trees, which a thread reads, to the trace: the present ones,
    /// without those made since the start.
    pub fn list_by_names(&mut self, dir: Key) {
        let Some(mut names) = self.names.take() else { return };
        if let Some(node) = self.introduce(&mut names, dir) {
            if self.tree.begins_listing(dir, true) {
                let path = names.path(dir);
                names.list(dir, &path);
                for (name, key) in names.take_order(dir) {
                    if let Some(info) =
                        names.info(key).filter(|it| self.tree.known(it.key, u64::MAX).is_none())
                    {
                        self.tree.introduce(
                            node,
                            &name,
                            &info,
                            &path.join(OsStr::from_bytes(&name)),
                        );
                    }
                }
            }
        }
        self.names = Some(names);
    }

    /// Finds the object of an unknown descriptor, from its file in the record or else from its link in /proc.
    pub fn look_up_by_names(&mut self, tid: pid_t, number: i32) -> Option<Descriptor> {
        let seen = self.seen.as_ref();
        let file = seen.and_then(|it| it.captured.as_ref()?.file(number)).copied();
        let path = format!("/proc/{tid}/fd/{number}");
        if let Some(outside) = file.and_then(|it| outside(&it)) {
            return Some(outside);
        }
        let known = file.and_then(|it| self.names.as_ref()?.of_kernel(it.key));
        let key = match known {
            Some(key) => key,
            None => {
                let metadata = std::fs::metadata(&path).ok()?;
                if let Some(outside) =
                    self.outside(path.as_ref(), &super::names::info(&metadata).stat())
                {
                    return Some(outside);
                }
                let real = std::fs::read_link(&path).ok()?;
                let mut names = self.names.take()?;
                let key = unnamed_or_reached(&mut names, &real, &metadata);
                self.names = Some(names);
                key?
            }
        };
        let mut names = self.names.take()?;
        if let Some(file) = file {
            names.is_in_kernel(key, file.key);
        }
        let node = self.introduce(&mut names, key);
        self.names = Some(names);
        let (node, id) = (node?, self.next_file());
        let (flags, offset) = match file {
            Some(file) => (file.flags, self.before_the_call(file.position)),
            None => crate::resolve::flags_and_offset(tid, number),
        };
        self.event(tid, Call::Inherit { file: id, node, flags, offset }, 0);
        Some(Descriptor::File(Rc::new(Open { file: id, node, key })))
    }

    /// Returns the position that a file had before the call that is being recorded.
    fn before_the_call(&self, position: u64) -> u64 {
        let Some(seen) = &self.seen else { return position };
        let moves = [libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev];
        let by = if moves.contains(&seen.number) { seen.result.max(0) as u64 } else { 0 };
        position.saturating_sub(by)
    }
}

/// Returns the object of an open file by its path. A file whose name is gone becomes a new object with that name.
fn unnamed_or_reached(names: &mut Names, real: &Path, it: &std::fs::Metadata) -> Option<Key> {
    let gone = real.as_os_str().as_bytes().strip_suffix(b" (deleted)");
    let Some(gone) = gone.map(|it| Path::new(OsStr::from_bytes(it))) else {
        return names.reach(real);
    };
    let dir = names.reach(gone.parent()?)?;
    Some(names.add_unnamed(dir, gone.file_name()?.as_bytes(), super::names::info(it)))
}

/// Describes an open file that is not a file or directory on a file system; None if it is one.
fn outside(file: &File) -> Option<Descriptor> {
    /// File systems in memory (linux/magic.h): tmpfs, hugetlbfs.
    const MEMORY: [u64; 2] = [0x0102_1994, 0x9584_58f6];
    let object = match file.kind() {
        FileType::Fifo => Object::Pipe,
        FileType::Socket => Object::Socket,
        FileType::CharacterDevice if (136..144).contains(&rustix::fs::major(file.rdev)) => {
            Object::Terminal
        }
        FileType::CharacterDevice | FileType::BlockDevice => Object::Device,
        FileType::RegularFile | FileType::Directory if KERNEL.contains(&file.magic) => {
            Object::Kernel
        }
        FileType::RegularFile if file.links == 0 && MEMORY.contains(&file.magic) => {
            Object::Anonymous
        }
        FileType::RegularFile | FileType::Directory => return None,
        _ => Object::Anonymous,
    };
    Some(Descriptor::Outside(object, file.key.1))
}

/// Resolves a path component by component.
struct Walk<'a> {
    recorder: &'a mut Recorder,
    names: &'a mut Names,
    begin: u64,
    good: bool,
    said: Said,
    follow: bool,
}

impl Walk<'_> {
    fn path(mut self, from: Key, text: &[u8], follow: bool, links: u8) -> Result<Walked, Outside> {
        self.step(from, text, follow, links)
    }

    fn step(&mut self, from: Key, text: &[u8], follow: bool, links: u8) -> Result<Walked, Outside> {
        let kernels = [&b"/proc/"[..], b"/sys/", b"/dev/fd", b"/dev/std"];
        if kernels.iter().any(|it| text.starts_with(it)) {
            return Err(Outside(Object::Kernel, 0));
        }
        let mut at = if text.first() == Some(&b'/') { self.names.root() } else { from };
        let parts = components(text);
        let follow = follow || text.last() == Some(&b'/');
        for (index, name) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            let beyond = short(parts.len() - index - 1);
            if *name == b"." {
                continue;
            }
            if *name == b".." {
                at = self.names.home(at).map_or(at, |it| it.0);
                continue;
            }
            let named = |key| Walked { dir: at, name: Some(name.to_vec()), key, beyond, links };
            let Some(key) = self.entry(at, name, last) else { return Ok(named(None)) };
            if let Some(target) = self.names.target(key).filter(|_| !last || follow) {
                if links >= LINKS {
                    return Err(NONE);
                }
                // The link itself is part of the tree.
                self.recorder.introduce(self.names, key);
                if last {
                    return self.step(at, &target, true, links + 1);
                }
                let said = std::mem::replace(&mut self.said, Said::Nothing);
                let to = self.step(at, &target, true, links + 1);
                self.said = said;
                let to = to?;
                let Some(dir) = to.key.or(Some(to.dir).filter(|_| to.name.is_none())) else {
                    return Ok(named(Some(key)));
                };
                if to.beyond > 0 {
                    return Ok(named(Some(key)));
                }
                at = dir;
                continue;
            }
            if last {
                return self.device(key).map_or(Ok(named(Some(key))), Err);
            }
            if !self.names.is_directory(key) {
                return Ok(named(Some(key)));
            }
            self.enter(at, key)?;
            at = key;
        }
        Ok(Walked { dir: at, name: None, key: None, beyond: 0, links })
    }

    /// Returns the device if the object is a device file.
    fn device(&self, key: Key) -> Option<Outside> {
        let info = self.names.info(key)?;
        let devices = [libc::S_IFCHR, libc::S_IFBLK];
        devices.contains(&(info.mode & libc::S_IFMT)).then_some(Outside(Object::Device, info.rdev))
    }

    /// Checks that a directory is not on a file system of the kernel, such as procfs.
    fn enter(&mut self, from: Key, into: Key) -> Result<(), Outside> {
        if from.0 == into.0 {
            return Ok(());
        }
        if let Some(known) = self.recorder.devices.get(&into.0) {
            return if *known { Err(Outside(Object::Kernel, into.1)) } else { Ok(()) };
        }
        match directory(&self.names.path(into)) {
            Ok(dir) if self.recorder.is_kernels(&dir, into.0) => {
                Err(Outside(Object::Kernel, into.1))
            }
            _ => Ok(()),
        }
    }

    /// Returns the object of a name, as far as it can be known.
    fn entry(&mut self, dir: Key, name: &[u8], last: bool) -> Option<Key> {
        let said = if last { self.said } else { Said::Nothing };
        let known = self.names.known(dir, name, self.begin);
        match said {
            // A dangling symbolic link is followed.
            Said::Made => {
                return known.filter(|key| self.follow && self.names.target(*key).is_some());
            }
            Said::Absent | Said::Nothing if self.names.is_complete(dir) => return known,
            Said::Absent => return known,
            _ if known.is_some() => return known,
            _ => {}
        }
        if let Some(found) = self.names.look_up(dir, name, self.good) {
            return Some(found);
        }
        let Said::There(mode) = said else { return None };
        // It existed, and is gone by now.
        self.recorder.note("names that were gone before their attributes could be read", 1);
        let key = self.names.fresh();
        let info = Info { key, mode, links: 1, ..Info::default() };
        Some(self.names.add(dir, name, info, Path::new("")))
    }
}
