//! The single calls on paths, each timed as it returns.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use fsdyno_record::{Nanos, OpKind};
use fsdyno_workload::Name;

use crate::errno::Errno;
use crate::run::{Cause, Failure, Meter};
use crate::scan::Directory;

/// How a file that must be new is opened.
pub const NEW: i32 = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;

/// A path below an open directory.
#[derive(Clone)]
pub struct Place {
    dir: RawFd,
    /// The path, shown in messages as it is here.
    pub path: Name,
}

impl Place {
    /// The path `path` below `dir`.
    pub fn new(dir: RawFd, path: &Name) -> Place {
        Place { dir, path: path.clone() }
    }

    fn at(&self) -> *const libc::c_char {
        self.path.as_bytes_with_nul().as_ptr().cast()
    }

    /// One level down, or more; the length to [`Name::truncate`] to on the way back.
    pub fn descend(&mut self, below: &[u8]) -> usize {
        let length = self.path.as_bytes().len();
        self.path.push(b"/");
        self.path.push(below);
        length
    }
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The kind, as in st_mode.
    pub kind: libc::mode_t,
    /// What a copy takes over.
    pub attributes: Attributes,
    /// Size in bytes.
    pub size: u64,
}

/// What a copy takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits.
    pub mode: u32,
    /// Modification time in seconds since 1970.
    pub mtime: i64,
}

/// Makes calls; `'m` is how long the meter's parts live.
pub struct Calls<'a, 'm> {
    meter: &'a mut Meter<'m>,
    owner: (libc::uid_t, libc::gid_t),
}

impl<'a, 'm> Calls<'a, 'm> {
    /// Calls timed by `meter`; what is made belongs to `owner`.
    pub fn new(meter: &'a mut Meter<'m>, owner: (libc::uid_t, libc::gid_t)) -> Calls<'a, 'm> {
        Calls { meter, owner }
    }

    /// A call that failed, or was not made because it would.
    pub fn fail<T>(&self, op: OpKind, place: &Place, errno: i32) -> Result<T, Failure> {
        self.end(op, place, Errno(errno).into())
    }

    fn end<T>(&self, op: OpKind, place: &Place, cause: Cause) -> Result<T, Failure> {
        Err(Failure { op, path: place.path.display(), cause, done: self.meter.done() })
    }

    /// A call has come back; here is where a failure of another thread ends the work of this one.
    fn returned(&mut self, op: OpKind, place: &Place) -> Result<(), Failure> {
        match self.meter.returned(op) {
            true => Ok(()),
            false => self.end(op, place, Cause::Stopped),
        }
    }

    /// The answer of a call that says -1 where it fails.
    fn done(&mut self, op: OpKind, place: &Place, answer: i64) -> Result<i64, Failure> {
        if answer < 0 {
            return self.fail(op, place, Errno::last().0);
        }
        self.returned(op, place)?;
        Ok(answer)
    }

    /// Processor time of the program that makes the calls.
    pub fn compute(&mut self, time: Nanos) {
        self.meter.work(time);
    }

    /// fstatat(2), not following links.
    pub fn stat(&mut self, place: &Place) -> Result<Status, Failure> {
        let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
        let at = status.as_mut_ptr();
        // SAFETY: the path ends in NUL, `at` is valid for writing one stat.
        let answer = unsafe { libc::fstatat(place.dir, place.at(), at, libc::AT_SYMLINK_NOFOLLOW) };
        self.done(OpKind::Stat, place, answer.into())?;
        // SAFETY: zeroed before, and filled by the call; every pattern of bits is a stat.
        let status = unsafe { status.assume_init() };
        Ok(Status {
            kind: status.st_mode & libc::S_IFMT,
            attributes: Attributes { mode: status.st_mode & 0o7777, mtime: status.st_mtime },
            size: status.st_size as u64,
        })
    }

    /// openat(2), counted as `op`.
    pub fn open(
        &mut self,
        op: OpKind,
        place: &Place,
        flags: i32,
        mode: u32,
    ) -> Result<OwnedFd, Failure> {
        // SAFETY: the path ends in NUL and lives as long as the call.
        let fd = unsafe { libc::openat(place.dir, place.at(), flags | libc::O_CLOEXEC, mode) };
        self.done(op, place, fd.into())?;
        // SAFETY: the descriptor is new and nobody else's.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// close(2).
    pub fn close(&mut self, file: OwnedFd) {
        drop(file);
        self.meter.returned(OpKind::Close);
    }

    /// mkdirat(2), for the owner alone until its attributes are set.
    pub fn make_directory(&mut self, place: &Place) -> Result<(), Failure> {
        // SAFETY: the path ends in NUL and lives as long as the call.
        let answer = unsafe { libc::mkdirat(place.dir, place.at(), 0o700) };
        self.done(OpKind::Mkdir, place, answer.into()).map(drop)
    }

    /// read(2); how many bytes it gave.
    pub fn read(
        &mut self,
        file: &OwnedFd,
        place: &Place,
        buffer: &mut [u8],
    ) -> Result<usize, Failure> {
        // SAFETY: the buffer is valid for writing its length.
        let got = unsafe { libc::read(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        let got = self.done(OpKind::Read, place, got as i64)?;
        self.meter.moved(OpKind::Read, got);
        Ok(got as usize)
    }

    /// write(2) of all the bytes; what a call leaves is given to it again, as one op.
    pub fn write(&mut self, file: &OwnedFd, place: &Place, bytes: &[u8]) -> Result<(), Failure> {
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            // SAFETY: the slice is valid for its length.
            let taken = unsafe { libc::write(file.as_raw_fd(), rest.as_ptr().cast(), rest.len()) };
            match taken {
                1.. => written += taken as usize,
                0 => return self.fail(OpKind::Write, place, libc::ENOSPC),
                _ => return self.fail(OpKind::Write, place, Errno::last().0),
            }
        }
        self.meter.moved(OpKind::Write, bytes.len() as i64);
        self.returned(OpKind::Write, place)
    }

    /// Time, owner and mode of an open file.
    pub fn set_file_attributes(
        &mut self,
        file: &OwnedFd,
        place: &Place,
        attributes: Attributes,
    ) -> Result<(), Failure> {
        let (fd, times, (uid, gid)) = (file.as_raw_fd(), times(attributes.mtime), self.owner);
        // SAFETY: the times live as long as the call.
        let answer = unsafe { libc::futimens(fd, times.as_ptr()) };
        self.done(OpKind::Utimes, place, answer.into())?;
        // SAFETY: these two take numbers only.
        let answer = unsafe { libc::fchown(fd, uid, gid) };
        self.done(OpKind::Chown, place, answer.into())?;
        // SAFETY: as above.
        let answer = unsafe { libc::fchmod(fd, attributes.mode) };
        self.done(OpKind::Chmod, place, answer.into()).map(drop)
    }

    /// Time, owner and mode of a directory.
    pub fn set_attributes(&mut self, place: &Place, attributes: Attributes) -> Result<(), Failure> {
        let (dir, at, times, (uid, gid)) =
            (place.dir, place.at(), times(attributes.mtime), self.owner);
        const NOFOLLOW: i32 = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the path ends in NUL; it and the times live as long as the call.
        let answer = unsafe { libc::utimensat(dir, at, times.as_ptr(), NOFOLLOW) };
        self.done(OpKind::Utimes, place, answer.into())?;
        // SAFETY: the path ends in NUL and lives as long as the call.
        let answer = unsafe { libc::fchownat(dir, at, uid, gid, NOFOLLOW) };
        self.done(OpKind::Chown, place, answer.into())?;
        // SAFETY: as above.
        let answer = unsafe { libc::fchmodat(dir, at, attributes.mode, 0) };
        self.done(OpKind::Chmod, place, answer.into()).map(drop)
    }

    /// All names in a directory in the order in which they are read, each with a NUL behind it.
    pub fn names(&mut self, place: &Place) -> Result<Vec<u8>, Failure> {
        let name = std::ffi::CStr::from_bytes_until_nul(place.path.as_bytes_with_nul());
        let mut directory = match Directory::open(place.dir, name.unwrap_or_default(), 0) {
            Ok(directory) => directory,
            Err(errno) => return self.fail(OpKind::Open, place, errno.0),
        };
        self.returned(OpKind::Open, place)?;
        let mut names = Vec::new();
        loop {
            match directory.fill() {
                Err(errno) => return self.fail(OpKind::Readdir, place, errno.0),
                Ok(more) => {
                    self.returned(OpKind::Readdir, place)?;
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
        self.returned(OpKind::Close, place)?;
        Ok(names)
    }
}

/// The access time left alone, the modification time in whole seconds.
fn times(mtime: i64) -> [libc::timespec; 2] {
    let omit = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT };
    [omit, libc::timespec { tv_sec: mtime as libc::time_t, tv_nsec: 0 }]
}
