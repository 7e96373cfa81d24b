//! Finds the files of descriptors that are used by calls recorded with BPF but unknown to the recorder.

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

use fsdyno_trace::{Call, Object};
use libc::pid_t;
use rustix::fs::{FileType, Mode, OFlags};

use super::names::{Names, info};
use super::parts::File;
use crate::inode::Key;
use crate::process::{Descriptor, Open};
use crate::recorder::Recorder;
use crate::resolve::{KERNEL, flags_and_offset};

/// overlayfs, whose inode numbers in the kernel are not those of stat(2) (linux/magic.h).
const OVERLAY: u64 = 0x794c_7630;

impl Recorder {
    /// Finds the object of an unknown descriptor, from its file in the record or else from its link in /proc.
    pub fn look_up_by_names(&mut self, tid: pid_t, number: i32) -> Option<Descriptor> {
        let seen = self.seen.as_ref();
        let file = seen.and_then(|it| it.captured.as_ref()?.file(number)).copied();
        // It was not open during the call, but may be open now.
        if file.is_none() && self.seen.is_some() {
            return None;
        }
        if let Some(outside) = file.and_then(|it| it.outside().or(it.unnamed_in_memory())) {
            return Some(outside);
        }
        let key = match file.and_then(|it| self.names.as_ref()?.of_kernel(it.key)) {
            Some(key) => key,
            None => match self.look_up_in_proc(tid, number, file)? {
                Ok(key) => key,
                Err(outside) => return Some(outside),
            },
        };
        let mut names = self.names.take()?;
        if let Some(file) = file {
            names.set_kernel_inode(key, file.key);
        }
        let node = self.introduce(&mut names, key);
        self.names = Some(names);
        let (node, id) = (node?, self.next_file());
        let (flags, offset) = match file {
            Some(file) => (file.flags, self.position_before_call(file.position)),
            None => flags_and_offset(tid, number),
        };
        self.event(tid, Call::Inherit { file: id, node, flags, offset }, 0);
        Some(Descriptor::File(Rc::new(Open { file: id, node, key })))
    }

    /// Finds the present object of a descriptor. If the record contains the descriptor's file, the object must be that
    /// file.
    fn look_up_in_proc(
        &mut self,
        tid: pid_t,
        number: i32,
        file: Option<File>,
    ) -> Option<Result<Key, Descriptor>> {
        let path = format!("/proc/{tid}/fd/{number}");
        // Everything is read from one open file: the descriptor may be reused at any time.
        let open = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let Ok(open) = open else {
            self.note("descriptors that were closed before their file could be found", 1);
            return None;
        };
        let path = format!("/proc/self/fd/{}", open.as_raw_fd());
        let metadata = std::fs::metadata(&path).ok()?;
        let same_numbers = file.is_none_or(|it| it.magic != OVERLAY);
        if same_numbers && file.is_some_and(|it| it.key.1 != metadata.ino()) {
            self.note("descriptors whose number was reused before their file could be found", 1);
            return None;
        }
        if let Some(outside) = self.outside(path.as_ref(), &info(&metadata).stat()) {
            return Some(Err(outside));
        }
        let target = std::fs::read_link(&path).ok()?;
        let names = self.names.as_mut()?;
        let key = info(&metadata).key;
        if names.info(key).is_some() {
            return Some(Ok(key));
        }
        // The path may now refer to a later file.
        let reached = unnamed_or_reached(names, &target, &metadata);
        reached.filter(|it| *it == key || !same_numbers).map(Ok)
    }

    /// Returns the position that a file had before the call that is being recorded.
    fn position_before_call(&self, position: u64) -> u64 {
        let Some(seen) = &self.seen else { return position };
        let moves = [libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev];
        let by = if moves.contains(&seen.number) { seen.result.max(0) as u64 } else { 0 };
        position.saturating_sub(by)
    }
}

/// Returns the object of an open file by its path. A file whose name was removed becomes a new object with that name.
fn unnamed_or_reached(names: &mut Names, target: &Path, it: &std::fs::Metadata) -> Option<Key> {
    let removed = target.as_os_str().as_bytes().strip_suffix(b" (deleted)");
    let Some(removed) = removed.map(|it| Path::new(OsStr::from_bytes(it))) else {
        return names.reach(target);
    };
    let dir = names.reach(removed.parent()?)?;
    Some(names.add_unnamed(dir, removed.file_name()?.as_bytes(), info(it)))
}

impl File {
    /// Describes the open file if it is not a file or directory on a file system.
    pub fn outside(&self) -> Option<Descriptor> {
        let object = match self.kind() {
            FileType::Fifo => Object::Pipe,
            FileType::Socket => Object::Socket,
            FileType::CharacterDevice if (136..144).contains(&rustix::fs::major(self.rdev)) => {
                Object::Terminal
            }
            FileType::CharacterDevice | FileType::BlockDevice => Object::Device,
            FileType::RegularFile | FileType::Directory if KERNEL.contains(&self.magic) => {
                Object::Kernel
            }
            FileType::RegularFile | FileType::Directory => return None,
            _ => Object::Anonymous,
        };
        Some(Descriptor::Outside(object, self.key.1))
    }

    /// Describes the open file if it is a file in memory without a name, such as a file of memfd_create(2).
    fn unnamed_in_memory(&self) -> Option<Descriptor> {
        /// linux/magic.h: tmpfs, hugetlbfs.
        const MEMORY: [u64; 2] = [0x0102_1994, 0x9584_58f6];
        let is = self.kind().is_file() && self.links == 0 && MEMORY.contains(&self.magic);
        is.then_some(Descriptor::Outside(Object::Anonymous, self.key.1))
    }
}
