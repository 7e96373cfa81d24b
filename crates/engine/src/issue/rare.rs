//! The calls that generators rarely make, out of line.

use std::ffi::{CString, c_int};
use std::os::fd::RawFd;

use fsdyno_workload::contents::MAX_SLICE;
use fsdyno_workload::{
    Advice, AllocateMode, DirSlot, FileSlot, Name, Op, Payload, RareCall, RenameFlag,
};

use crate::issue::sync::{SyncIssuer, as_ptr, last_error, zero_or_error};

/// Buffer for link targets and lists of attributes.
const LIST_BUFFER_SIZE: usize = 64 << 10;

/// The flags of a sync_file_range(2) that writes a range and waits for it.
const WRITE_AND_WAIT: libc::c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE
    | libc::SYNC_FILE_RANGE_WRITE
    | libc::SYNC_FILE_RANGE_WAIT_AFTER;

/// The file that a call on extended attributes refers to.
enum XattrTarget {
    Path(CString),
    File(RawFd),
}

impl SyncIssuer {
    #[cold]
    #[inline(never)]
    #[deny(clippy::wildcard_enum_match_arm, reason = "a new call must be classified here")]
    pub(super) fn issue_rare(&mut self, call: RareCall, op: &Op) -> i64 {
        let (name, second_name) = (as_ptr(&op.name), as_ptr(&op.second_name));
        // SAFETY: names end in NUL and live as long as the calls.
        let result = unsafe {
            match call {
                RareCall::Readlink { dir } => return self.read_link(dir, &op.name),
                RareCall::Status { dir, follow } => return self.status_of(dir, &op.name, follow),
                RareCall::StatusFile { file } => {
                    let result = libc::fstat(self.file(file), self.status.0.as_mut_ptr());
                    return self.size(result);
                }
                RareCall::Statfs => statfs(self.dir(DirSlot::ROOT)),
                RareCall::Readdir { file, length, to_end } => {
                    return self.read_dir(self.file(file), length as usize, to_end);
                }
                RareCall::Seek { file, offset } => return seek(self.file(file), offset),
                RareCall::CopyRange { from, from_offset, file, offset, length } => {
                    let files = (self.file(from), self.file(file));
                    return copy_range(files, from_offset, offset, length as usize);
                }
                RareCall::Fdatasync { file } => libc::fdatasync(self.file(file)),
                RareCall::SyncRange { file, offset, length } => libc::sync_file_range(
                    self.file(file),
                    offset as i64,
                    length as i64,
                    WRITE_AND_WAIT,
                ),
                RareCall::Access { dir } => libc::faccessat(self.dir(dir), name, libc::F_OK, 0),
                RareCall::Truncate { dir, length } => {
                    libc::truncate(self.full_path(dir, &op.name).as_ptr(), length as libc::off_t)
                }
                RareCall::Rename { dir, to, flag } => {
                    // Not every C library has a wrapper.
                    let (dir, to, flags) = (self.dir(dir), self.dir(to), rename_flags(flag));
                    libc::syscall(libc::SYS_renameat2, dir, name, to, second_name, flags) as c_int
                }
                RareCall::Allocate { file, mode, offset, length } => {
                    let (fd, mode) = (self.file(file), allocate_mode(mode));
                    libc::fallocate(fd, mode, offset as libc::off_t, length as libc::off_t)
                }
                RareCall::Fadvise { file, offset, length, advice } => {
                    return fadvise(self.file(file), offset, length, advice);
                }
                RareCall::Getxattr { dir } => self.get_attribute(&self.path_target(dir, op), op),
                RareCall::GetxattrFile { file } => self.get_attribute(&self.file_target(file), op),
                RareCall::Listxattr { dir } => self.list_attributes(&self.path_target(dir, op)),
                RareCall::ListxattrFile { file } => self.list_attributes(&self.file_target(file)),
                RareCall::Setxattr { dir, length } => {
                    self.set_attribute(&self.path_target(dir, op), length, op)
                }
                RareCall::SetxattrFile { file, length } => {
                    self.set_attribute(&self.file_target(file), length, op)
                }
                RareCall::Removexattr { dir } => remove_attribute(&self.path_target(dir, op), op),
                RareCall::RemovexattrFile { file } => remove_attribute(&self.file_target(file), op),
            }
        };
        zero_or_error(result)
    }

    /// Refers to a file by its path, which goes through /proc/self/fd: only kernels from 6.13 on have calls on
    /// attributes that are relative to a directory.
    fn path_target(&self, dir: DirSlot, op: &Op) -> XattrTarget {
        XattrTarget::Path(self.full_path(dir, &op.name))
    }

    fn file_target(&self, file: FileSlot) -> XattrTarget {
        XattrTarget::File(self.file(file))
    }

    fn get_attribute(&mut self, target: &XattrTarget, op: &Op) -> c_int {
        let (attribute, buffer) =
            (as_ptr(&op.second_name), self.buffer.prefix(LIST_BUFFER_SIZE).as_mut_ptr().cast());
        // SAFETY: paths and names end in NUL and live as long as the call; the buffer is valid for its length.
        without_length(unsafe {
            match target {
                XattrTarget::Path(path) => {
                    libc::lgetxattr(path.as_ptr(), attribute, buffer, LIST_BUFFER_SIZE)
                }
                XattrTarget::File(fd) => libc::fgetxattr(*fd, attribute, buffer, LIST_BUFFER_SIZE),
            }
        })
    }

    fn list_attributes(&mut self, target: &XattrTarget) -> c_int {
        let buffer = self.buffer.prefix(LIST_BUFFER_SIZE).as_mut_ptr().cast();
        // SAFETY: a path ends in NUL and lives as long as the call; the buffer is valid for its length.
        without_length(unsafe {
            match target {
                XattrTarget::Path(path) => {
                    libc::llistxattr(path.as_ptr(), buffer, LIST_BUFFER_SIZE)
                }
                XattrTarget::File(fd) => libc::flistxattr(*fd, buffer, LIST_BUFFER_SIZE),
            }
        })
    }

    fn set_attribute(&self, target: &XattrTarget, length: u32, op: &Op) -> c_int {
        let value = self.contents.slice(Payload { id: 0, offset: 0, length });
        let (attribute, value_pointer, length) =
            (as_ptr(&op.second_name), value.as_ptr().cast(), value.len());
        // SAFETY: paths and names end in NUL; they and the value live as long as the call; the length is the value's.
        unsafe {
            match target {
                XattrTarget::Path(path) => {
                    libc::lsetxattr(path.as_ptr(), attribute, value_pointer, length, 0)
                }
                XattrTarget::File(fd) => libc::fsetxattr(*fd, attribute, value_pointer, length, 0),
            }
        }
    }

    fn status_of(&mut self, dir: DirSlot, name: &Name, follow: bool) -> i64 {
        let (dir, status) = (self.dir(dir), self.status.0.as_mut_ptr());
        let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
        // SAFETY: the name ends in NUL, the status is valid for writes.
        let result = unsafe { libc::fstatat(dir, as_ptr(name), status, flags) };
        self.size(result)
    }

    /// Returns the size after a call that filled the status: of a regular file or symbolic link, else 0.
    fn size(&mut self, result: c_int) -> i64 {
        if result < 0 {
            return last_error();
        }
        // SAFETY: the call that has just succeeded filled it.
        let status = unsafe { self.status.0.assume_init_ref() };
        match status.st_mode & libc::S_IFMT {
            libc::S_IFREG | libc::S_IFLNK => status.st_size,
            _ => 0,
        }
    }

    fn read_link(&mut self, dir: DirSlot, name: &Name) -> i64 {
        let dir = self.dir(dir);
        let buffer = self.buffer.prefix(libc::PATH_MAX as usize);
        // SAFETY: the name ends in NUL, the buffer is valid for writes of its whole length.
        let length = unsafe {
            libc::readlinkat(dir, as_ptr(name), buffer.as_mut_ptr().cast(), buffer.len())
        };
        if length < 0 { last_error() } else { length as i64 }
    }

    fn read_dir(&mut self, fd: RawFd, length: usize, to_end: bool) -> i64 {
        let buffer = self.buffer.prefix(length.clamp(1024, MAX_SLICE));
        loop {
            // SAFETY: the buffer is valid for writes of its whole length.
            let count = unsafe {
                libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len())
            };
            if count < 0 {
                return last_error();
            }
            if count == 0 || !to_end {
                return 0;
            }
        }
    }

    /// Returns a path to a name below an open directory, for calls that take no directory.
    fn full_path(&self, dir: DirSlot, name: &Name) -> CString {
        let mut path = format!("/proc/self/fd/{}/", self.dir(dir)).into_bytes();
        path.extend_from_slice(name.as_bytes());
        // A name has no NUL.
        CString::new(path).unwrap_or_default()
    }
}

fn remove_attribute(target: &XattrTarget, op: &Op) -> c_int {
    let attribute = as_ptr(&op.second_name);
    // SAFETY: paths and names end in NUL and live as long as the call.
    unsafe {
        match target {
            XattrTarget::Path(path) => libc::lremovexattr(path.as_ptr(), attribute),
            XattrTarget::File(fd) => libc::fremovexattr(*fd, attribute),
        }
    }
}

/// Converts the result of a call that returns a length: drops the length.
fn without_length(result: isize) -> c_int {
    if result < 0 { -1 } else { 0 }
}

fn copy_range((from, to): (RawFd, RawFd), from_offset: u64, offset: u64, length: usize) -> i64 {
    let (mut from_position, mut to_position) =
        (from_offset as libc::loff_t, offset as libc::loff_t);
    let mut copied = 0;
    while copied < length {
        // SAFETY: both offsets live as long as the call.
        let count = unsafe {
            libc::copy_file_range(
                from,
                &raw mut from_position,
                to,
                &raw mut to_position,
                length - copied,
                0,
            )
        };
        match count {
            0 => break,
            1.. => copied += count as usize,
            _ => return last_error(),
        }
    }
    copied as i64
}

/// Calls posix_fadvise(3) on a range; it returns a positive error number.
fn fadvise(fd: RawFd, offset: u64, length: u64, advice: Advice) -> i64 {
    let (offset, length) = (offset as libc::off_t, length as libc::off_t);
    // SAFETY: takes only numbers.
    -i64::from(unsafe { libc::posix_fadvise(fd, offset, length, advice_word(advice)) })
}

fn statfs(fd: RawFd) -> c_int {
    let mut statfs = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the struct is valid for writes.
    unsafe { libc::fstatfs(fd, statfs.as_mut_ptr()) }
}

/// Seeks from the beginning; returns the position.
fn seek(fd: RawFd, offset: u64) -> i64 {
    // SAFETY: takes only numbers.
    let position = unsafe { libc::lseek(fd, offset as libc::off_t, libc::SEEK_SET) };
    if position < 0 { last_error() } else { position }
}

fn rename_flags(flag: RenameFlag) -> libc::c_uint {
    match flag {
        RenameFlag::NoReplace => libc::RENAME_NOREPLACE,
        RenameFlag::Exchange => libc::RENAME_EXCHANGE,
    }
}

fn allocate_mode(mode: AllocateMode) -> c_int {
    match mode {
        AllocateMode::Extend => 0,
        AllocateMode::KeepSize => libc::FALLOC_FL_KEEP_SIZE,
        AllocateMode::PunchHole => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
        AllocateMode::Zero => libc::FALLOC_FL_ZERO_RANGE,
        AllocateMode::ZeroKeepSize => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
    }
}

fn advice_word(advice: Advice) -> c_int {
    match advice {
        Advice::Normal => libc::POSIX_FADV_NORMAL,
        Advice::Random => libc::POSIX_FADV_RANDOM,
        Advice::Sequential => libc::POSIX_FADV_SEQUENTIAL,
        Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
        Advice::DontNeed => libc::POSIX_FADV_DONTNEED,
        Advice::NoReuse => libc::POSIX_FADV_NOREUSE,
    }
}
