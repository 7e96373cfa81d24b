//! Single calls on paths, each timed on return.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::Name;

use crate::errno::Errno;
use crate::failure::{Cause, Failure};
use crate::meter::Meter;
use crate::scan::Directory;

/// Flags to open a new file.
pub const NEW_FILE_FLAGS: i32 = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;

/// A path below an open directory.
#[derive(Clone)]
pub struct TreePath {
    dir: RawFd,
    /// The path, as shown in messages.
    pub path: Name,
}

impl TreePath {
    /// Creates the path `path` below `dir`.
    pub fn new(dir: RawFd, path: &Name) -> TreePath {
        TreePath { dir, path: path.clone() }
    }

    fn as_ptr(&self) -> *const libc::c_char {
        self.path.as_bytes_with_nul().as_ptr().cast()
    }

    /// Descends one level or more; returns the length to [`Name::truncate`] to on the way back.
    pub fn descend(&mut self, relative: &[u8]) -> usize {
        let length = self.path.as_bytes().len();
        self.path.push(b"/");
        self.path.push(relative);
        length
    }
}

/// The status of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The kind, as in st_mode.
    pub kind: libc::mode_t,
    /// Attributes that a copy preserves.
    pub attributes: Attributes,
    /// Size in bytes.
    pub size: u64,
}

/// Attributes that a copy preserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits.
    pub mode: u32,
    /// Modification time in seconds since 1970.
    pub mtime: i64,
}

/// Makes calls; `'m` is the lifetime of the meter's parts.
pub struct Calls<'a, 'm> {
    meter: &'a mut Meter<'m>,
    owner: (libc::uid_t, libc::gid_t),
}

impl<'a, 'm> Calls<'a, 'm> {
    /// Creates calls that are timed by `meter`; new files belong to `owner`.
    pub fn new(meter: &'a mut Meter<'m>, owner: (libc::uid_t, libc::gid_t)) -> Calls<'a, 'm> {
        Calls { meter, owner }
    }

    /// Returns the failure of a call, or of a call not made because it would fail.
    pub fn fail<T>(&self, op: OpKind, path: &TreePath, errno: i32) -> Result<T, Failure> {
        self.fail_because(op, path, Errno(errno).into())
    }

    fn fail_because<T>(&self, op: OpKind, path: &TreePath, cause: Cause) -> Result<T, Failure> {
        Err(Failure { op, path: path.path.display(), cause, completed_ops: self.meter.done() })
    }

    /// Counts a returned call; fails if another thread has failed.
    fn count_return(&mut self, op: OpKind, path: &TreePath) -> Result<(), Failure> {
        match self.meter.count_return(op) {
            true => Ok(()),
            false => self.fail_because(op, path, Cause::Stopped),
        }
    }

    /// Counts a call, or returns its failure if its result is -1.
    fn finish(&mut self, op: OpKind, path: &TreePath, result: i64) -> Result<i64, Failure> {
        if result < 0 {
            return self.fail(op, path, Errno::last().0);
        }
        self.count_return(op, path)?;
        Ok(result)
    }

    /// Spins for the think time between two calls of the program that the op stands for.
    pub fn compute(&mut self, time: Nanos) {
        self.meter.compute_between(time);
    }

    /// Calls fstatat(2), not following links.
    pub fn stat(&mut self, path: &TreePath) -> Result<Status, Failure> {
        let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
        let buffer = status.as_mut_ptr();
        // SAFETY: the path ends in NUL, `buffer` is valid for writes of one `stat`.
        let result =
            unsafe { libc::fstatat(path.dir, path.as_ptr(), buffer, libc::AT_SYMLINK_NOFOLLOW) };
        self.finish(OpKind::Stat, path, result.into())?;
        // SAFETY: zeroed before, and filled by the call; every bit pattern is a valid `stat`.
        let status = unsafe { status.assume_init() };
        Ok(Status {
            kind: status.st_mode & libc::S_IFMT,
            attributes: Attributes { mode: status.st_mode & 0o7777, mtime: status.st_mtime },
            size: status.st_size as u64,
        })
    }

    /// Calls openat(2), counted as `op`.
    pub fn open(
        &mut self,
        op: OpKind,
        path: &TreePath,
        flags: i32,
        mode: u32,
    ) -> Result<OwnedFd, Failure> {
        // SAFETY: the path ends in NUL and lives as long as the call.
        let fd = unsafe { libc::openat(path.dir, path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
        self.finish(op, path, fd.into())?;
        // SAFETY: the descriptor is new and owned by no one else.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Calls close(2).
    pub fn close(&mut self, file: OwnedFd) {
        drop(file);
        self.meter.count_return(OpKind::Close);
    }

    /// Calls mkdirat(2) with access for the owner only, until the attributes are set.
    pub fn make_directory(&mut self, path: &TreePath) -> Result<(), Failure> {
        // SAFETY: the path ends in NUL and lives as long as the call.
        let result = unsafe { libc::mkdirat(path.dir, path.as_ptr(), 0o700) };
        self.finish(OpKind::Mkdir, path, result.into()).map(drop)
    }

    /// Calls read(2); returns the number of bytes read.
    pub fn read(
        &mut self,
        file: &OwnedFd,
        path: &TreePath,
        buffer: &mut [u8],
    ) -> Result<usize, Failure> {
        // SAFETY: the buffer is valid for writes of its whole length.
        let count =
            unsafe { libc::read(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        let count = self.finish(OpKind::Read, path, count as i64)?;
        self.meter.add_bytes(OpKind::Read, count);
        Ok(count as usize)
    }

    /// Writes all bytes with write(2), as one op, even if it takes several calls.
    pub fn write(&mut self, file: &OwnedFd, path: &TreePath, bytes: &[u8]) -> Result<(), Failure> {
        let mut written = 0;
        while written < bytes.len() {
            let remaining = &bytes[written..];
            // SAFETY: the slice is valid for its length.
            let count = unsafe {
                libc::write(file.as_raw_fd(), remaining.as_ptr().cast(), remaining.len())
            };
            match count {
                1.. => written += count as usize,
                0 => return self.fail(OpKind::Write, path, libc::ENOSPC),
                _ => return self.fail(OpKind::Write, path, Errno::last().0),
            }
        }
        self.meter.add_bytes(OpKind::Write, bytes.len() as i64);
        self.count_return(OpKind::Write, path)
    }

    /// Sets time, owner and mode of an open file.
    pub fn set_file_attributes(
        &mut self,
        file: &OwnedFd,
        path: &TreePath,
        attributes: Attributes,
    ) -> Result<(), Failure> {
        let (fd, times, (uid, gid)) = (file.as_raw_fd(), times(attributes.mtime), self.owner);
        // SAFETY: the times live as long as the call.
        let result = unsafe { libc::futimens(fd, times.as_ptr()) };
        self.finish(OpKind::Utimes, path, result.into())?;
        // SAFETY: fchown(2) and fchmod(2) take only numbers.
        let result = unsafe { libc::fchown(fd, uid, gid) };
        self.finish(OpKind::Chown, path, result.into())?;
        // SAFETY: as above.
        let result = unsafe { libc::fchmod(fd, attributes.mode) };
        self.finish(OpKind::Chmod, path, result.into()).map(drop)
    }

    /// Sets time, owner and mode of a directory.
    pub fn set_directory_attributes(
        &mut self,
        path: &TreePath,
        attributes: Attributes,
    ) -> Result<(), Failure> {
        let (dir, path_pointer, times, (uid, gid)) =
            (path.dir, path.as_ptr(), times(attributes.mtime), self.owner);
        const NOFOLLOW: i32 = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the path ends in NUL; it and the times live as long as the call.
        let result = unsafe { libc::utimensat(dir, path_pointer, times.as_ptr(), NOFOLLOW) };
        self.finish(OpKind::Utimes, path, result.into())?;
        // SAFETY: the path ends in NUL and lives as long as the call.
        let result = unsafe { libc::fchownat(dir, path_pointer, uid, gid, NOFOLLOW) };
        self.finish(OpKind::Chown, path, result.into())?;
        // SAFETY: as above.
        let result = unsafe { libc::fchmodat(dir, path_pointer, attributes.mode, 0) };
        self.finish(OpKind::Chmod, path, result.into()).map(drop)
    }

    /// Returns all names of a directory in the order read, each followed by NUL.
    pub fn names(&mut self, path: &TreePath) -> Result<Vec<u8>, Failure> {
        let name = std::ffi::CStr::from_bytes_until_nul(path.path.as_bytes_with_nul());
        let mut directory = match Directory::open(path.dir, name.unwrap_or_default(), 0) {
            Ok(directory) => directory,
            Err(errno) => return self.fail(OpKind::Open, path, errno.0),
        };
        self.count_return(OpKind::Open, path)?;
        let mut names = Vec::new();
        loop {
            match directory.fill() {
                Err(errno) => return self.fail(OpKind::Readdir, path, errno.0),
                Ok(more) => {
                    self.count_return(OpKind::Readdir, path)?;
                    if !more {
                        break;
                    }
                }
            }
            while let Some(entry) = directory.entry() {
                names.extend_from_slice(entry.name.to_bytes_with_nul());
            }
        }
        drop(directory);
        self.count_return(OpKind::Close, path)?;
        Ok(names)
    }
}

/// Returns times that leave the access time unchanged and set the modification time in whole seconds.
fn times(mtime: i64) -> [libc::timespec; 2] {
    let omit = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT };
    [omit, libc::timespec { tv_sec: mtime as libc::time_t, tv_nsec: 0 }]
}
