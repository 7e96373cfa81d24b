//! Blocking system calls, one after the other, relative to open directories.

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use fsdyno_workload::contents::MAX_SLICE;
use fsdyno_workload::{Call, Compound, Contents, DirSlot, FileSlot, Name, Op, OpenFlags, Payload};

use crate::errno::Errno;
use crate::failure::Failure;
use crate::issue::Issuer;
use crate::issue::aligned::AlignedBuffer;
use crate::meter::Meter;
use crate::scan;
use crate::tree::{self, Calls, TreePath};
use crate::{injected_delay, kernel};

/// An empty slot; the kernel returns EBADF.
const CLOSED: RawFd = -1;

/// A stat buffer aligned to cache lines: writing to one more line costs the kernel half a nanosecond.
#[repr(align(64))]
pub(super) struct Status(pub(super) MaybeUninit<libc::stat>);

/// Issues each call and waits for its result.
pub struct SyncIssuer {
    /// Keeps slot 0 open.
    _root: OwnedFd,
    pub(super) contents: Arc<Contents>,
    pub(super) dirs: Vec<RawFd>,
    pub(super) files: Vec<RawFd>,
    /// Name of each open directory, for messages.
    dir_names: Vec<String>,
    /// Buffer for reads, as long as the longest read so far.
    pub(super) buffer: AlignedBuffer,
    owner: (libc::uid_t, libc::gid_t),
    /// The last flags of an open and their kernel values: a workload uses few combinations.
    flags: (OpenFlags, c_int),
    /// Buffer for results that are not used; here rather than on the stack of the loop.
    pub(super) status: Box<Status>,
}

impl SyncIssuer {
    /// Creates an issuer of calls below `root`, the trial's own directory.
    pub fn new(root: OwnedFd, contents: Arc<Contents>) -> SyncIssuer {
        // SAFETY: these two calls take no arguments and cannot fail.
        let owner = unsafe { (libc::geteuid(), libc::getegid()) };
        let flags = OpenFlags::default();
        SyncIssuer {
            dirs: vec![root.as_raw_fd()],
            _root: root,
            contents,
            files: Vec::new(),
            dir_names: vec![String::new()],
            buffer: AlignedBuffer::default(),
            owner,
            flags: (flags, kernel_flags(flags)),
            status: Box::new(Status(MaybeUninit::uninit())),
        }
    }

    #[inline]
    pub(super) fn dir(&self, slot: DirSlot) -> RawFd {
        self.dirs.get(slot.0 as usize).copied().unwrap_or(CLOSED)
    }

    #[inline]
    pub(super) fn file(&self, slot: FileSlot) -> RawFd {
        self.files.get(slot.0 as usize).copied().unwrap_or(CLOSED)
    }

    #[inline(always)]
    pub(super) fn flags(&mut self, flags: OpenFlags) -> c_int {
        if self.flags.0 != flags {
            self.set_flags(flags);
        }
        self.flags.1
    }

    #[cold]
    #[inline(never)]
    fn set_flags(&mut self, flags: OpenFlags) {
        self.flags = (flags, kernel_flags(flags));
    }

    #[inline(always)]
    fn open(&mut self, dir: DirSlot, name: &Name, slot: FileSlot, flags: c_int, mode: u32) -> i64 {
        // SAFETY: the name ends in NUL and lives as long as the call.
        let fd =
            unsafe { kernel::openat(self.dir(dir), as_ptr(name), flags | libc::O_CLOEXEC, mode) };
        if fd < 0 {
            return fd;
        }
        match self.files.get_mut(slot.0 as usize) {
            Some(entry) if *entry == CLOSED => *entry = fd as RawFd,
            _ => store_fd(&mut self.files, slot.0 as usize, fd as RawFd),
        }
        0
    }

    #[inline(always)]
    fn close(&mut self, slot: FileSlot) -> i64 {
        take_and_close(&mut self.files, slot.0)
    }

    #[inline(always)]
    fn stat(&mut self, dir: DirSlot, name: &Name) -> i64 {
        let (dir, name, status) = (self.dir(dir), as_ptr(name), self.status.0.as_mut_ptr());
        // SAFETY: the name ends in NUL, `status` is valid for writes of one `stat`.
        unsafe { kernel::fstatat(dir, name, status, libc::AT_SYMLINK_NOFOLLOW) }
    }

    #[inline(always)]
    fn unlink(&self, dir: DirSlot, name: &Name, flags: c_int) -> i64 {
        // SAFETY: the name ends in NUL and lives as long as the call.
        unsafe { kernel::unlinkat(self.dir(dir), as_ptr(name), flags) }
    }

    #[inline(always)]
    fn rename(&self, (dir, name): (DirSlot, &Name), (to, new_name): (DirSlot, &Name)) -> i64 {
        // SAFETY: the names end in NUL and live as long as the call.
        unsafe { kernel::renameat(self.dir(dir), as_ptr(name), self.dir(to), as_ptr(new_name)) }
    }

    fn open_dir(&mut self, dir: DirSlot, op: &Op, slot: DirSlot) -> i64 {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the name ends in NUL and lives as long as the call.
        let fd = unsafe { libc::openat(self.dir(dir), as_ptr(&op.name), flags) };
        if fd < 0 {
            return last_error();
        }
        self.set_dir(dir, &op.name, slot, fd);
        0
    }

    /// Stores an opened directory in its slot.
    pub(super) fn set_dir(&mut self, dir: DirSlot, name: &Name, slot: DirSlot, fd: RawFd) {
        let path = self.path_below(dir, name);
        let slot = slot.0 as usize;
        store_fd(&mut self.dirs, slot, fd);
        self.dir_names.resize(self.dirs.len(), String::new());
        self.dir_names[slot] = path;
    }

    /// Stores an opened file in its slot.
    pub(super) fn set_file(&mut self, slot: FileSlot, fd: RawFd) {
        store_fd(&mut self.files, slot.0 as usize, fd);
    }

    /// Empties a slot; the caller closes the file.
    pub(super) fn release_file(&mut self, slot: FileSlot) -> RawFd {
        self.files.get_mut(slot.0 as usize).map_or(CLOSED, |fd| std::mem::replace(fd, CLOSED))
    }

    /// Empties a slot; the caller closes the directory.
    pub(super) fn release_dir(&mut self, slot: DirSlot) -> RawFd {
        self.dirs.get_mut(slot.0 as usize).map_or(CLOSED, |fd| std::mem::replace(fd, CLOSED))
    }

    /// Returns the first `length` bytes of the read buffer.
    pub(super) fn read_buffer(&mut self, length: usize) -> &mut [u8] {
        self.buffer.prefix(length)
    }

    /// Writes the whole payload.
    #[inline(always)]
    fn write(&self, file: FileSlot, payload: Payload) -> i64 {
        let count = kernel::write(self.file(file), self.contents.slice(payload));
        // An error is negative, and as an unsigned number larger than any length.
        if count as u64 >= u64::from(payload.length) {
            count
        } else {
            self.continue_write(file, payload, count as u32)
        }
    }

    /// Continues a short write until it is complete or fails;
    /// payloads above 1 MiB take several calls.
    #[cold]
    #[inline(never)]
    fn continue_write(&self, file: FileSlot, payload: Payload, mut done: u32) -> i64 {
        let fd = self.file(file);
        loop {
            match kernel::write(fd, self.contents.slice(Contents::rest(payload, done))) {
                0 => return -i64::from(libc::ENOSPC),
                count @ 1.. => done += count as u32,
                error => return error,
            }
            if done >= payload.length {
                return i64::from(done);
            }
        }
    }

    fn read(&mut self, file: FileSlot, length: u32) -> i64 {
        let fd = self.file(file);
        // SAFETY: the buffer is valid for writes of the given length.
        self.read_parts(length, |buffer, length, _| unsafe { libc::read(fd, buffer, length) })
    }

    fn read_at(&mut self, file: FileSlot, offset: u64, length: u32) -> i64 {
        let fd = self.file(file);
        self.read_parts(length, |at, part, done| {
            // SAFETY: the buffer is valid for writes of the given length.
            unsafe { libc::pread(fd, at, part, (offset + done as u64) as libc::off_t) }
        })
    }

    /// Reads into the buffer; more than 1 MiB takes several calls, until one returns less than requested.
    #[inline]
    fn read_parts(
        &mut self,
        length: u32,
        mut read: impl FnMut(*mut libc::c_void, usize, usize) -> isize,
    ) -> i64 {
        let length = length as usize;
        let buffer = self.buffer.prefix(length.min(MAX_SLICE)).as_mut_ptr().cast();
        let mut done = 0;
        loop {
            let part_length = (length - done).min(MAX_SLICE);
            let count = read(buffer, part_length, done);
            if count < 0 {
                return last_error();
            }
            done += count as usize;
            if done >= length || (count as usize) < part_length {
                return done as i64;
            }
        }
    }

    fn write_at(&self, file: FileSlot, offset: u64, payload: Payload) -> i64 {
        let fd = self.file(file);
        let mut done = 0;
        loop {
            let bytes = self.contents.slice(Contents::rest(payload, done));
            let position = (offset + u64::from(done)) as libc::off_t;
            // SAFETY: the slice is valid for its length.
            let count = unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), position) };
            if count < 0 {
                return last_error();
            }
            done += count as u32;
            if done >= payload.length {
                return i64::from(done);
            }
            if count == 0 {
                return -i64::from(libc::ENOSPC);
            }
        }
    }

    fn set_xattr(&self, file: FileSlot, length: u32) -> i64 {
        const NAME: &CStr = c"user.fsdyno";
        let value = self.contents.slice(Payload { id: 0, offset: 0, length });
        // SAFETY: name and value live as long as the call, the value is valid for its length.
        zero_or_error(unsafe {
            let value_at = value.as_ptr().cast();
            libc::fsetxattr(self.file(file), NAME.as_ptr(), value_at, value.len(), 0)
        })
    }

    fn path_below(&self, dir: DirSlot, name: &Name) -> String {
        match self.dir_names.get(dir.0 as usize) {
            Some(parent) if !parent.is_empty() => format!("{parent}/{}", name.display()),
            _ => name.display(),
        }
    }

    /// Issues all other calls.
    #[inline(never)]
    #[deny(clippy::wildcard_enum_match_arm, reason = "a new call must be classified here")]
    fn issue_other(&mut self, op: &Op) -> i64 {
        let (name, second_name) = (as_ptr(&op.name), as_ptr(&op.second_name));
        let (uid, gid) = self.owner;
        const NOFOLLOW: c_int = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: names end in NUL; names, times and status live as long as the calls.
        let result = unsafe {
            match op.call {
                Call::OpenDir { dir, slot } => return self.open_dir(dir, op, slot),
                Call::CloseDir { slot: DirSlot::ROOT } => return -i64::from(libc::EBADF),
                Call::CloseDir { slot } => return take_and_close(&mut self.dirs, slot.0),
                Call::Read { file, length } => return self.read(file, length),
                Call::ReadAt { file, offset, length } => return self.read_at(file, offset, length),
                Call::WriteAt { file, offset, payload } => {
                    return self.write_at(file, offset, payload);
                }
                Call::Setxattr { file, length } => return self.set_xattr(file, length),
                Call::Mkdir { dir, mode } => libc::mkdirat(self.dir(dir), name, mode),
                Call::Link { dir, to } => {
                    libc::linkat(self.dir(dir), name, self.dir(to), second_name, 0)
                }
                Call::Symlink { dir } => libc::symlinkat(second_name, self.dir(dir), name),
                Call::StatFile { file } => libc::fstat(self.file(file), self.status.0.as_mut_ptr()),
                Call::UtimesFile { file, mtime } => {
                    libc::futimens(self.file(file), times(mtime).as_ptr())
                }
                Call::ChownFile { file } => libc::fchown(self.file(file), uid, gid),
                Call::ChmodFile { file, mode } => libc::fchmod(self.file(file), mode),
                Call::Fsync { file } => libc::fsync(self.file(file)),
                Call::FsyncDir { dir } => libc::fsync(self.dir(dir)),
                Call::Sync => libc::syncfs(self.dir(DirSlot::ROOT)),
                Call::Truncate { file, length } => {
                    libc::ftruncate(self.file(file), length as libc::off_t)
                }
                Call::Fallocate { file, length } => {
                    libc::fallocate(self.file(file), 0, 0, length as libc::off_t)
                }
                Call::Chmod { dir, mode } => libc::fchmodat(self.dir(dir), name, mode, 0),
                Call::Utimes { dir, mtime } => {
                    libc::utimensat(self.dir(dir), name, times(mtime).as_ptr(), NOFOLLOW)
                }
                Call::Chown { dir } => libc::fchownat(self.dir(dir), name, uid, gid, NOFOLLOW),
                // Issued inline, or expanded.
                Call::Create { .. }
                | Call::Open { .. }
                | Call::Close { .. }
                | Call::Write { .. }
                | Call::Append { .. }
                | Call::Stat { .. }
                | Call::Unlink { .. }
                | Call::Rmdir { .. }
                | Call::Rename { .. }
                | Call::Rare(_)
                | Call::Compound(_) => return -i64::from(libc::EOPNOTSUPP),
            }
        };
        zero_or_error(result)
    }
}

#[deny(clippy::wildcard_enum_match_arm, reason = "a new call must be classified here")]
impl Issuer for SyncIssuer {
    /// Inlines the frequent calls into the loop; each is so short that it needs
    /// no stack. All others are out of line, so that the frequent calls do not pay for their stack.
    #[inline]
    fn issue(&mut self, op: &Op) -> i64 {
        match op.call {
            Call::Create { dir, file, flags, mode } => {
                let flags = self.flags(flags) | libc::O_CREAT;
                self.open(dir, &op.name, file, flags, mode)
            }
            Call::Open { dir, file, flags } => {
                let flags = self.flags(flags);
                self.open(dir, &op.name, file, flags, 0)
            }
            Call::Close { file } => self.close(file),
            Call::Write { file, payload } | Call::Append { file, payload } => {
                self.write(file, payload)
            }
            Call::Stat { dir } => self.stat(dir, &op.name),
            Call::Unlink { dir } => {
                let result = self.unlink(dir, &op.name, 0);
                injected_delay::after_unlink();
                result
            }
            Call::Rmdir { dir } => self.unlink(dir, &op.name, libc::AT_REMOVEDIR),
            Call::Rename { dir, to } => self.rename((dir, &op.name), (to, &op.second_name)),
            Call::Mkdir { .. }
            | Call::OpenDir { .. }
            | Call::CloseDir { .. }
            | Call::Read { .. }
            | Call::ReadAt { .. }
            | Call::WriteAt { .. }
            | Call::StatFile { .. }
            | Call::Link { .. }
            | Call::Symlink { .. }
            | Call::Fsync { .. }
            | Call::FsyncDir { .. }
            | Call::Truncate { .. }
            | Call::Fallocate { .. }
            | Call::Setxattr { .. }
            | Call::ChmodFile { .. }
            | Call::Chmod { .. }
            | Call::UtimesFile { .. }
            | Call::Utimes { .. }
            | Call::ChownFile { .. }
            | Call::Chown { .. }
            | Call::Sync
            | Call::Compound(_) => self.issue_other(op),
            Call::Rare(call) => self.issue_rare(call, op),
        }
    }

    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let Call::Compound(call) = op.call else { return Ok(()) };
        let path = self.path_of(op);
        let name = CStr::from_bytes_until_nul(op.name.as_bytes_with_nul()).unwrap_or_default();
        let from = |dir| TreePath::new(self.dir(dir), &op.name);
        let to = |dir| TreePath::new(self.dir(dir), &op.second_name);
        match call {
            Compound::StatEach { dir, read } => {
                scan::stat_each(self.dir(dir), name, path, read, meter)
            }
            Compound::Scan { dir } => scan::scan(self.dir(dir), name, path, meter),
            Compound::RemoveTree { dir, order, synced } => {
                scan::remove_tree(self.dir(dir), name, path, order, synced, meter)
            }
            Compound::CopyTree { dir, to: target } => {
                tree::copy(&mut Calls::new(meter, self.owner), from(dir), to(target))
            }
            Compound::PackTree { dir, to: target, compute } => {
                tree::pack(&mut Calls::new(meter, self.owner), from(dir), to(target), compute)
            }
            Compound::UnpackTree { dir, to: target, compute } => {
                tree::unpack(&mut Calls::new(meter, self.owner), from(dir), to(target), compute)
            }
        }
    }

    fn path_of(&self, op: &Op) -> String {
        match op.call.facts().dir {
            Some(dir) => self.path_below(dir, &op.name),
            None => op.name.display(),
        }
    }
}

impl Drop for SyncIssuer {
    /// Closes files that a failed phase left open.
    fn drop(&mut self) {
        for fd in self.dirs.iter().skip(1).chain(&self.files).filter(|fd| **fd != CLOSED) {
            // SAFETY: the slots own their descriptors and are never used again.
            unsafe { libc::close(*fd) };
        }
    }
}

#[inline]
fn take_and_close(slots: &mut [RawFd], slot: u16) -> i64 {
    let fd = match slots.get_mut(slot as usize) {
        Some(entry) => std::mem::replace(entry, CLOSED),
        None => CLOSED,
    };
    // SAFETY: the slot owned this descriptor and has just released it.
    unsafe { kernel::close(fd) }
}

/// Puts a descriptor into a new or used slot and closes the previous one.
#[cold]
fn store_fd(slots: &mut Vec<RawFd>, slot: usize, fd: RawFd) {
    if slots.len() <= slot {
        slots.resize(slot + 1, CLOSED);
    }
    let previous = std::mem::replace(&mut slots[slot], fd);
    if previous != CLOSED {
        // SAFETY: the slot owned it and has just released it.
        unsafe { libc::close(previous) };
    }
}

#[inline]
pub(super) fn as_ptr(name: &Name) -> *const libc::c_char {
    name.as_ptr().cast()
}

/// Returns the negated number of the last error.
#[cold]
pub(super) fn last_error() -> i64 {
    -i64::from(Errno::last().0)
}

/// Converts the result of a call that returns zero or -1.
#[inline]
pub(super) fn zero_or_error(result: c_int) -> i64 {
    if result < 0 { last_error() } else { 0 }
}

/// Returns times that leave the access time unchanged and set the modification time in whole seconds.
fn times(mtime: i64) -> [libc::timespec; 2] {
    let omit = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT };
    [omit, libc::timespec { tv_sec: mtime as libc::time_t, tv_nsec: 0 }]
}

fn kernel_flags(flags: OpenFlags) -> c_int {
    let access = match (flags.read, flags.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    };
    [
        (flags.create, libc::O_CREAT),
        (flags.exclusive, libc::O_EXCL),
        (flags.truncate, libc::O_TRUNC),
        (flags.append, libc::O_APPEND),
        (flags.directory, libc::O_DIRECTORY),
        (flags.nofollow, libc::O_NOFOLLOW),
        (flags.nonblock, libc::O_NONBLOCK),
        (flags.noctty, libc::O_NOCTTY),
        (flags.direct, libc::O_DIRECT),
        (flags.dsync, libc::O_DSYNC),
        (flags.sync, libc::O_SYNC),
    ]
    .iter()
    .filter(|(set, _)| *set)
    .fold(access, |bits, (_, bit)| bits | bit)
}
