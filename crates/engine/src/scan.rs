//! Reads directories with getdents64(2), and removes trees in directory order.
//!
//! The removal makes only the calls that the work needs: openat, getdents64, unlinkat of each name,
//! close, unlinkat(AT_REMOVEDIR) for every directory. GNU rm 9.1 opens each directory twice (once
//! to see whether it is empty, for its prompt) and makes a few more fstat calls; these
//! are omitted. Names are sorted between two calls, and this time counts towards the latency of the second.

use std::ffi::{CStr, CString, c_int};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use fsdyno_record::OpKind;
use fsdyno_workload::RemoveOrder;

use crate::errno::Errno;
use crate::failure::{Cause, Failure};
use crate::injected_delay;
use crate::meter::Meter;

/// Size of the buffer for getdents64(2): the size that glibc's readdir(3) uses, and hence rm and ls.
const BUFFER_SIZE: usize = 32 << 10;

/// The kind of an entry, from getdents64(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// Anything else.
    Other,
    /// Not reported by the file system.
    Unknown,
}

/// One name of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Inode number.
    pub inode: u64,
    /// Its kind.
    pub kind: EntryKind,
    /// Its name.
    pub name: &'a CStr,
}

/// An open directory and the names last read from it.
pub struct Directory {
    fd: OwnedFd,
    /// The bytes read.
    buffer: Vec<u8>,
    position: usize,
}

impl Directory {
    /// Opens a directory, with additional `flags`.
    ///
    /// # Errors
    /// The error from openat(2).
    pub fn open(parent: RawFd, name: &CStr, flags: c_int) -> Result<Directory, Errno> {
        let flags = flags | libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the name ends in NUL and lives as long as the call.
        let fd = unsafe { libc::openat(parent, name.as_ptr(), flags) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the descriptor is new and owned by no one else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Directory { fd, buffer: Vec::with_capacity(BUFFER_SIZE), position: 0 })
    }

    /// Returns the descriptor, for calls relative to it.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Reads the next names; returns false at the end.
    ///
    /// # Errors
    /// The error from getdents64(2).
    pub fn fill(&mut self) -> Result<bool, Errno> {
        // SAFETY: the buffer is valid for writes of its whole capacity.
        let count = unsafe {
            let buffer = self.buffer.as_mut_ptr();
            libc::syscall(libc::SYS_getdents64, self.fd.as_raw_fd(), buffer, self.buffer.capacity())
        };
        if count < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the kernel has written that many bytes, which are at most the capacity.
        unsafe { self.buffer.set_len(count as usize) };
        self.position = 0;
        Ok(count > 0)
    }

    /// Returns the next entry among those read, without `.` and `..`.
    pub fn entry(&mut self) -> Option<Entry<'_>> {
        // The loop finds the entry's range; only then is it borrowed.
        let (start, end) = loop {
            let start = self.position;
            let header = self.buffer.get(start..)?.get(..NAME_OFFSET)?;
            let length = usize::from(u16::from_ne_bytes([header[16], header[17]]));
            self.position += length.max(NAME_OFFSET);
            let name =
                self.buffer.get(start + NAME_OFFSET..self.position.min(self.buffer.len()))?;
            if !name.starts_with(b".\0") && !name.starts_with(b"..\0") {
                break (start, self.position.min(self.buffer.len()));
            }
        };
        let bytes = &self.buffer[start..end];
        let inode = u64::from_ne_bytes(bytes.first_chunk().copied().unwrap_or_default());
        let kind = match bytes[18] {
            libc::DT_DIR => EntryKind::Directory,
            libc::DT_UNKNOWN => EntryKind::Unknown,
            _ => EntryKind::Other,
        };
        let name = CStr::from_bytes_until_nul(&bytes[NAME_OFFSET..]).ok()?;
        Some(Entry { inode, kind, name })
    }
}

/// Offset of the name in a linux_dirent64: after d_ino (8), d_off (8), d_reclen (2), d_type (1).
const NAME_OFFSET: usize = 19;

/// Reads the directory `name` to its end: open, getdents64 until the end, close.
///
/// # Errors
/// The first call that fails.
pub fn scan(
    parent: RawFd,
    name: &CStr,
    path: String,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let mut walk = Walk { meter, path, order: RemoveOrder::Readdir, syncs_directories: false };
    let mut directory = walk.open(parent, name)?;
    while walk.fill(&mut directory)? {}
    walk.close(directory)
}

/// Reads directory `name` of `parent` to its end and calls stat on each file in turn;
/// with `read` it also reads each file, in calls of that many bytes.
///
/// # Errors
/// The first call that fails.
pub fn stat_each(
    parent: RawFd,
    name: &CStr,
    path: String,
    read: Option<u32>,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let mut walk = Walk { meter, path, order: RemoveOrder::Readdir, syncs_directories: false };
    let mut directory = walk.open(parent, name)?;
    let fd = directory.fd();
    let mut buffer = vec![0; read.unwrap_or(0) as usize];
    while walk.fill(&mut directory)? {
        while let Some(entry) = directory.entry() {
            let is_directory = walk.is_directory(fd, entry.name)?;
            if read.is_some() && !is_directory {
                walk.read_file(fd, entry.name, &mut buffer)?;
            }
        }
    }
    walk.close(directory)
}

/// Removes the tree `name` below `parent`; `path` is its path below the trial's root. If
/// `syncs_directories`, each directory is synced after each file that is removed from it.
///
/// # Errors
/// The first call that fails.
pub fn remove_tree(
    parent: RawFd,
    name: &CStr,
    path: String,
    order: RemoveOrder,
    syncs_directories: bool,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    meter.add_removal();
    Walk { meter, path, order, syncs_directories }.remove_directory(parent, name)
}

/// The names of one directory, for sorting.
type NameList = Vec<(u64, EntryKind, CString)>;

struct Walk<'a, 'm> {
    meter: &'a mut Meter<'m>,
    /// Path of the current directory.
    path: String,
    order: RemoveOrder,
    syncs_directories: bool,
}

impl Walk<'_, '_> {
    fn fail<T>(
        &self,
        op: OpKind,
        name: Option<&CStr>,
        cause: impl Into<Cause>,
    ) -> Result<T, Failure> {
        let path = match name {
            Some(name) => format!("{}/{}", self.path, name.to_string_lossy()),
            None => self.path.clone(),
        };
        Err(Failure { op, path, cause: cause.into(), completed_ops: self.meter.done() })
    }

    /// Counts a returned call; fails if another thread has failed.
    #[inline]
    fn count_return(&mut self, op: OpKind, name: Option<&CStr>) -> Result<(), Failure> {
        match self.meter.count_return(op) {
            true => Ok(()),
            false => self.fail(op, name, Cause::Stopped),
        }
    }

    fn open(&mut self, parent: RawFd, name: &CStr) -> Result<Directory, Failure> {
        match Directory::open(parent, name, 0) {
            Ok(directory) => self.count_return(OpKind::Open, None).map(|()| directory),
            Err(errno) => self.fail(OpKind::Open, None, errno),
        }
    }

    fn fill(&mut self, directory: &mut Directory) -> Result<bool, Failure> {
        match directory.fill() {
            Ok(more) => self.count_return(OpKind::Readdir, None).map(|()| more),
            Err(errno) => self.fail(OpKind::Readdir, None, errno),
        }
    }

    /// Opens a file, reads it to its end, closes it.
    fn read_file(&mut self, dir: RawFd, name: &CStr, buffer: &mut [u8]) -> Result<(), Failure> {
        // SAFETY: the name ends in NUL and lives as long as the call.
        let fd = unsafe { libc::openat(dir, name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if fd < 0 {
            return self.fail(OpKind::Open, Some(name), Errno::last());
        }
        // SAFETY: the descriptor is new and owned by no one else.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        self.count_return(OpKind::Open, Some(name))?;
        loop {
            // SAFETY: the buffer is valid for writes of its whole length.
            let count =
                unsafe { libc::read(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
            if count < 0 {
                return self.fail(OpKind::Read, Some(name), Errno::last());
            }
            self.meter.add_bytes(OpKind::Read, count as i64);
            self.count_return(OpKind::Read, Some(name))?;
            if count == 0 {
                break;
            }
        }
        drop(file);
        self.count_return(OpKind::Close, Some(name))
    }

    fn close(&mut self, directory: Directory) -> Result<(), Failure> {
        drop(directory);
        self.count_return(OpKind::Close, None)
    }

    /// Removes the directory at `self.path`.
    fn remove_directory(&mut self, parent: RawFd, name: &CStr) -> Result<(), Failure> {
        loop {
            let removed = self.remove_entries(parent, name)?;
            // SAFETY: the name ends in NUL and lives as long as the call.
            let result = unsafe { libc::unlinkat(parent, name.as_ptr(), libc::AT_REMOVEDIR) };
            if result == 0 {
                return self.count_return(OpKind::Rmdir, None);
            }
            let errno = Errno::last();
            // A file system may skip names while others are removed; then another pass is needed.
            if errno != Errno(libc::ENOTEMPTY) || removed == 0 {
                return self.fail(OpKind::Rmdir, None, errno);
            }
            self.count_return(OpKind::Rmdir, None)?;
        }
    }

    /// Empties the directory at `self.path`; returns the number of names removed.
    fn remove_entries(&mut self, parent: RawFd, name: &CStr) -> Result<u64, Failure> {
        let mut directory = self.open(parent, name)?;
        let mut removed = 0;
        if self.order == RemoveOrder::Readdir {
            let fd = directory.fd();
            while self.fill(&mut directory)? {
                while let Some(entry) = directory.entry() {
                    self.remove_entry(fd, entry.kind, entry.name)?;
                    removed += 1;
                }
            }
        } else {
            let mut names = NameList::new();
            while self.fill(&mut directory)? {
                while let Some(entry) = directory.entry() {
                    names.push((entry.inode, entry.kind, entry.name.to_owned()));
                }
            }
            match self.order {
                RemoveOrder::Inode => names.sort_unstable_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2))),
                _ => names.sort_unstable_by(|a, b| a.2.cmp(&b.2)),
            }
            for (_, kind, name) in &names {
                self.remove_entry(directory.fd(), *kind, name)?;
            }
            removed = names.len() as u64;
        }
        self.close(directory)?;
        Ok(removed)
    }

    #[inline]
    fn remove_entry(&mut self, dir: RawFd, kind: EntryKind, name: &CStr) -> Result<(), Failure> {
        let is_directory = match kind {
            EntryKind::Directory => true,
            EntryKind::Other => false,
            EntryKind::Unknown => self.is_directory(dir, name)?,
        };
        if is_directory {
            let length = self.path.len();
            self.path.push('/');
            self.path.push_str(&name.to_string_lossy());
            self.remove_directory(dir, name)?;
            self.path.truncate(length);
            return Ok(());
        }
        // SAFETY: the name ends in NUL and lives as long as the call.
        if unsafe { libc::unlinkat(dir, name.as_ptr(), 0) } != 0 {
            return self.fail(OpKind::Unlink, Some(name), Errno::last());
        }
        injected_delay::after_unlink();
        self.count_return(OpKind::Unlink, Some(name))?;
        if self.syncs_directories { self.sync(dir) } else { Ok(()) }
    }

    /// Syncs the directory at `self.path`.
    fn sync(&mut self, dir: RawFd) -> Result<(), Failure> {
        // SAFETY: the descriptor is open.
        if unsafe { libc::fsync(dir) } != 0 {
            return self.fail(OpKind::Fsync, None, Errno::last());
        }
        self.count_return(OpKind::Fsync, None)
    }

    /// Calls stat for a kind that the directory does not report, as rm does.
    fn is_directory(&mut self, dir: RawFd, name: &CStr) -> Result<bool, Failure> {
        let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the name ends in NUL, `status` is valid for writes of one `stat`.
        let result = unsafe {
            libc::fstatat(dir, name.as_ptr(), status.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW)
        };
        if result != 0 {
            return self.fail(OpKind::Stat, Some(name), Errno::last());
        }
        self.count_return(OpKind::Stat, Some(name))?;
        // SAFETY: zeroed before, and filled by the call; every pattern of bits is a stat.
        let mode = unsafe { status.assume_init() }.st_mode;
        Ok(mode & libc::S_IFMT == libc::S_IFDIR)
    }
}
