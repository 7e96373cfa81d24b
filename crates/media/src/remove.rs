//! Removes a tree by directory descriptors: never through a link, never across a mount point.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, unlinkat};
use rustix::io::Errno;

/// Removes everything below an open directory, but not the directory itself.
///
/// # Errors
/// The first error met: `XDEV` or `BUSY` where something is mounted inside, which is left as it
/// is together with what lies above it.
pub fn contents(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    // Some file systems skip names while others are removed, so a directory is read again until
    // a whole pass finds nothing.
    loop {
        let names = pass(dir)?;
        if names == 0 {
            return Ok(());
        }
    }
}

fn pass(dir: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut names = 0;
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        names += 1;
        let directory = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => {
                let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode).is_dir()
            }
            _ => false,
        };
        if directory {
            contents(rustix::fd::AsFd::as_fd(&enter(dir, name)?))?;
            unlinkat(dir, name, AtFlags::REMOVEDIR)?;
        } else {
            unlinkat(dir, name, AtFlags::empty())?;
        }
    }
    Ok(names)
}

/// Opens a subdirectory that is really one, on the same mount.
///
/// # Errors
/// `XDEV` for a mount point, `LOOP` or `NOTDIR` for anything but a directory.
pub fn enter<P: rustix::path::Arg + Copy>(dir: BorrowedFd<'_>, name: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match openat2(dir, name, flags, Mode::empty(), within) {
        // Kernels before 5.6 have no openat2(2), and some sandboxes forbid it: then the device
        // number tells a mount point, all but a bind mount of the same file system.
        Err(Errno::NOSYS | Errno::PERM) => {
            let child = openat(dir, name, flags, Mode::empty())?;
            if rustix::fs::fstat(&child)?.st_dev != rustix::fs::fstat(dir)?.st_dev {
                return Err(Errno::XDEV);
            }
            Ok(child)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_tree_is_removed_and_what_its_links_point_to_is_not() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        std::fs::create_dir_all(outside.join("deep")).unwrap();
        std::fs::write(outside.join("deep/kept"), "kept").unwrap();
        let tree = base.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
        std::fs::write(tree.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("deep/kept"), tree.join("a/link")).unwrap();
        let fd = std::fs::File::open(&tree).unwrap();
        contents(fd.as_fd()).unwrap();
        assert_eq!(std::fs::read_dir(&tree).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(outside.join("deep/kept")).unwrap(), "kept");
    }

    #[test]
    fn a_link_is_never_entered() {
        let base = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/", base.path().join("link")).unwrap();
        let fd = std::fs::File::open(base.path()).unwrap();
        assert!(enter(fd.as_fd(), "link").is_err());
        assert!(enter(fd.as_fd(), "..").is_err());
    }
}
