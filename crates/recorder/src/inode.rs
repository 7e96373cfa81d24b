//! Inodes: their identity, type and attributes, from stat(2) or from the code injected into programs.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fsdyno_trace::Kind;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

/// The identity of an inode while it exists: device and inode number.
pub type Key = (u64, u64);

/// The file of a trace, and that of the older trace that it replaces, if there is one.
pub type OwnFiles = [Key; 2];

/// Returns the key of an inode.
pub fn key(stat: &Stat) -> Key {
    (stat.st_dev, stat.st_ino)
}

/// Returns the type of an inode.
pub fn kind(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    }
}

/// Opens a directory with O_PATH, to read attributes of its entries.
pub fn directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Returns the attributes of an entry; those of the link itself if it is a symbolic link.
pub fn attributes(dir: impl AsFd, name: &[u8]) -> rustix::io::Result<Stat> {
    rustix::fs::statat(dir, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)
}

/// An inode as the injected code saw it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    /// Device and inode number.
    pub key: Key,
    /// The device of a device file.
    pub rdev: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The number of its blocks of 512 bytes.
    pub blocks: u64,
    /// Its type and permissions.
    pub mode: u32,
    /// The number of its links.
    pub links: u32,
}

impl Info {
    /// Converts to the result of stat(2); fields that are not known are 0.
    pub fn stat(&self) -> Stat {
        // SAFETY: the structure consists of integers.
        let mut stat: Stat = unsafe { std::mem::zeroed() };
        (stat.st_dev, stat.st_ino) = self.key;
        stat.st_rdev = self.rdev;
        stat.st_size = self.size as i64;
        stat.st_blocks = self.blocks as i64;
        stat.st_mode = self.mode;
        stat.st_nlink = u64::from(self.links);
        stat
    }
}
