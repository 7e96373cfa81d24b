//! A user's directory as the medium: only a new, marked subdirectory of it is used.
//!
//! The subdirectory `.fsdyno-<pid>-<random>` has a marker and `root/`, the root of the trial, so that
//! the marker is not part of the tree that is measured and verified.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use fsdyno_filesystem::lookup;
use fsdyno_record::Bytes;
use rustix::fs::{
    Access, AtFlags, Dir, Mode, OFlags, StatVfsMountFlags, accessat, fstat, fstatvfs, mkdirat,
    open, openat, statat, statfs, unlinkat,
};
use rustix::io::Errno;

use crate::error::MediaError;
use crate::{marker, remove};

/// The space that the work needs in the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Maximum amount of file data that exists at one time.
    pub bytes: Bytes,
    /// Maximum number of files and directories that exist at one time.
    pub inodes: u64,
    /// Length of the longest single name, in bytes.
    pub longest_name: usize,
}

/// Checks that the work can be done in `path`, and changes nothing.
///
/// # Errors
/// The directory cannot be used, or has too little space.
pub fn check(path: &Path, room: &Room) -> Result<(), MediaError> {
    check_opened(&open_directory(path)?, path, room)
}

fn check_opened(dir: &OwnedFd, path: &Path, room: &Room) -> Result<(), MediaError> {
    let stat = fstatvfs(dir).map_err(|error| MediaError::io("inspect", path, error))?;
    if stat.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(MediaError::ReadOnly(path.into()));
    }
    if let Some(kind) = kernel_filesystem(dir.as_fd()) {
        return Err(MediaError::KernelFilesystem { path: path.into(), kind });
    }
    accessat(dir, c".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(|error| {
        match error {
            Errno::ROFS => MediaError::ReadOnly(path.into()),
            Errno::ACCESS | Errno::PERM => MediaError::NotWritable(path.into()),
            other => MediaError::io("inspect", path, other),
        }
    })?;
    // The last block of a file with data is half empty on average. Names, inodes and directories take
    // space too, but how much depends on the file system, and work that fits must not be refused.
    let halves = if room.bytes.0 > 0 { room.inodes.saturating_mul(stat.f_frsize / 2) } else { 0 };
    let need = room.bytes.0.saturating_add(halves);
    let have = stat.f_bavail.saturating_mul(stat.f_frsize);
    if need > have {
        let (have, need) = (Bytes(have), Bytes(need));
        return Err(MediaError::NoSpace { path: path.into(), have, need });
    }
    // A file system that allocates inodes dynamically (btrfs) reports 0.
    if stat.f_files > 0 && room.inodes > stat.f_favail {
        let (have, need) = (stat.f_favail, room.inodes);
        return Err(MediaError::NoInodes { path: path.into(), have, need });
    }
    let have = usize::try_from(stat.f_namemax).unwrap_or(usize::MAX);
    if room.longest_name > have {
        return Err(MediaError::NameTooLong { path: path.into(), have, need: room.longest_name });
    }
    Ok(())
}

/// Returns the name of a directory's file system, for labels, or its statfs(2) number if it is unknown.
///
/// # Errors
/// [`MediaError::Io`] if statfs(2) fails.
pub fn kind(path: &Path) -> Result<String, MediaError> {
    let stat = statfs(path).map_err(|error| MediaError::io("inspect", path, error))?;
    let number = stat.f_type as u64 & 0xffff_ffff;
    Ok(lookup::by_magic(number).map_or_else(|| format!("fs-{number:x}"), str::to_string))
}

/// Pseudo file systems of the kernel, in which users create no files: linux/magic.h.
const KERNEL_FILESYSTEMS: &[(u64, &str)] = &[
    (0x0000_9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x0000_1cd1, "devpts"),
    (0xcafe_4a11, "bpf"),
    (0x6165_676c, "pstore"),
    (0x6265_6570, "configfs"),
    (0x1980_0202, "mqueue"),
    (0xf97c_ff8c, "selinuxfs"),
    (0xde5e_81e4, "efivarfs"),
    (0x6573_5543, "fusectl"),
];

/// Returns the name of a directory's file system, if it is one of [`KERNEL_FILESYSTEMS`].
pub(crate) fn kernel_filesystem(dir: BorrowedFd<'_>) -> Option<&'static str> {
    let number = rustix::fs::fstatfs(dir).ok()?.f_type as u64 & 0xffff_ffff;
    KERNEL_FILESYSTEMS.iter().find(|(magic, _)| *magic == number).map(|(_, name)| *name)
}

/// A new, marked subdirectory, removed on drop.
#[derive(Debug)]
pub struct Directory {
    parent: OwnedFd,
    name: String,
    path: PathBuf,
    own: OwnedFd,
    root: OwnedFd,
    /// The locked marker: the lock shows that its owner is running. None once the marker is removed.
    marker: Option<File>,
}

impl Directory {
    /// Creates the subdirectory in `parent`.
    ///
    /// # Errors
    /// `parent` cannot be used, or a system call failed.
    pub fn create(parent: &Path) -> Result<Directory, MediaError> {
        let parent_fd = open_directory(parent)?;
        check_opened(&parent_fd, parent, &Room::default())?;
        let (name, own) = create_subdirectory(&parent_fd, parent)?;
        let path = parent.join(&name);
        match create_marker_and_root(own.as_fd()) {
            Ok((marker, root)) => {
                Ok(Directory { parent: parent_fd, name, path, own, root, marker: Some(marker) })
            }
            Err(error) => {
                // This removes only empty directories and the marker; the first error is reported.
                let _ = remove_marked(parent_fd.as_fd(), &name, own.as_fd(), None);
                Err(MediaError::io("prepare", path, error))
            }
        }
    }

    /// Returns the root of the trial, an empty directory.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Returns the path of the subdirectory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the subdirectory with its contents.
    ///
    /// # Errors
    /// Something could not be removed; mounts inside are not touched.
    pub fn remove(mut self) -> Result<(), MediaError> {
        self.remove_marked()
    }

    /// Leaves the subdirectory where it is; it is found later by its marker.
    pub fn leave(self) {
        // Its files are closed only when this process ends: on a file system that does not respond, close(2) waits.
        std::mem::forget(self);
    }

    fn remove_marked(&mut self) -> Result<(), MediaError> {
        remove_marked(self.parent.as_fd(), &self.name, self.own.as_fd(), self.marker.take())
            .map_err(|error| MediaError::io("remove", &self.path, error))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.marker.is_some() {
            // If this fails, the subdirectory is found later by its marker.
            let _ = self.remove_marked();
        }
    }
}

/// Removes a marked subdirectory: its tree first and the marker last, so that a leftover always has its
/// marker. `held` is the open marker, if any: it must be closed first, because FUSE and NFS rename an open file
/// that is removed, and the directory would not be empty. Until the marker is removed, its text still names its owner.
pub(crate) fn remove_marked(
    parent: BorrowedFd<'_>,
    name: &str,
    own: BorrowedFd<'_>,
    held: Option<File>,
) -> Result<(), Errno> {
    remove::tree(own, marker::ROOT)?;
    drop(held);
    match unlinkat(own, marker::NAME, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    // Another user of the parent may have replaced the subdirectory.
    if !names_directory(parent, name, own)? {
        return Err(Errno::STALE);
    }
    remove::retry_until_empty(own, || unlinkat(parent, name, AtFlags::REMOVEDIR))
}

/// Reports whether a name refers to this open directory.
fn names_directory(parent: BorrowedFd<'_>, name: &str, own: BorrowedFd<'_>) -> Result<bool, Errno> {
    let (named, ours) = (statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?, fstat(own)?);
    Ok((named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino))
}

pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, MediaError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT => MediaError::Missing(path.into()),
        Errno::NOTDIR => MediaError::NotADirectory(path.into()),
        Errno::ACCESS => MediaError::NotWritable(path.into()),
        other => MediaError::io("open", path, other),
    })
}

fn create_subdirectory(parent: &OwnedFd, path: &Path) -> Result<(String, OwnedFd), MediaError> {
    // mkdirat(2) fails on an existing name, so a collision requires only another random name.
    for _ in 0..8 {
        let name = unique_name();
        match mkdirat(parent, &name, Mode::from_raw_mode(0o700)) {
            Ok(()) => {
                let own = remove::enter(parent.as_fd(), name.as_str())
                    .map_err(|error| MediaError::io("open", path.join(&name), error))?;
                check_fresh(own.as_fd())
                    .map_err(|error| MediaError::io("open", path.join(&name), error))?;
                return Ok((name, own));
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(MediaError::io("create a directory in", path, error)),
        }
    }
    Err(MediaError::io("create a directory in", path, Errno::EXIST))
}

/// Checks that the opened directory is the one just created: ours and empty. Another user of the parent could
/// have replaced it between the two calls.
fn check_fresh(own: BorrowedFd<'_>) -> Result<(), Errno> {
    if fstat(own)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::STALE);
    }
    for entry in Dir::read_from(own)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Err(Errno::STALE);
        }
    }
    Ok(())
}

/// Returns a unique name with the ID of this process: `.fsdyno-<pid>-<random>`.
pub(crate) fn unique_name() -> String {
    format!(".fsdyno-{}-{:016x}", rustix::process::getpid().as_raw_nonzero(), random())
}

fn create_marker_and_root(own: BorrowedFd<'_>) -> Result<(File, OwnedFd), Errno> {
    let marker = marker::create(own)?;
    mkdirat(own, marker::ROOT, Mode::from_raw_mode(0o755))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok((marker, openat(own, marker::ROOT, flags, Mode::empty())?))
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // Uniqueness comes from mkdirat(2); this only makes a collision unlikely.
        _ => std::time::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.as_nanos() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_subdirectory_is_marked_empty_and_removed_on_drop() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("mine"), "user's").unwrap();
        let directory = Directory::create(base.path()).unwrap();
        assert!(directory.path().join("fsdyno.marker").exists());
        assert_eq!(std::fs::read_dir(directory.path().join("root")).unwrap().count(), 0);
        std::fs::create_dir_all(directory.path().join("root/a/b")).unwrap();
        drop(directory);
        let left: Vec<_> = std::fs::read_dir(base.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(std::fs::read_to_string(base.path().join("mine")).unwrap(), "user's");
    }

    #[test]
    fn a_file_or_a_missing_path_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        std::fs::write(&file, "").unwrap();
        let room = Room::default();
        assert!(matches!(check(&file, &room), Err(MediaError::NotADirectory(_))));
        let missing = base.path().join("missing");
        assert!(matches!(check(&missing, &room), Err(MediaError::Missing(_))));
    }

    #[test]
    fn too_little_space_inodes_or_name_length_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let huge = Room { bytes: Bytes(u64::MAX), ..Room::default() };
        assert!(matches!(check(base.path(), &huge), Err(MediaError::NoSpace { .. })));
        let long = Room { longest_name: 4096, ..Room::default() };
        assert!(matches!(check(base.path(), &long), Err(MediaError::NameTooLong { .. })));
        let many = Room { inodes: u64::MAX, ..Room::default() };
        let error = check(base.path(), &many).unwrap_err();
        assert!(matches!(error, MediaError::NoSpace { .. } | MediaError::NoInodes { .. }));
    }

    #[test]
    fn the_file_system_of_a_directory_is_named() {
        assert_eq!(kind(Path::new("/proc")).unwrap(), "fs-9fa0");
        let checked = check(Path::new("/proc"), &Room::default());
        assert!(matches!(checked, Err(MediaError::KernelFilesystem { kind: "proc", .. })));
    }
}
