//! Reads a tree once before a phase, so that the phase's first reads do not change access times.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::errno::Errno;
use crate::scan::Directory;
use crate::verify::status;

/// Reads each directory below `root`, and the first byte of each file; skips what this user may not read. `tick`
/// receives the number of entries read, as a sign of progress.
///
/// # Errors
/// The first other error.
pub fn read_once(root: BorrowedFd<'_>, tick: &mut dyn FnMut(u64)) -> io::Result<()> {
    let read = Directory::open(root.as_raw_fd(), c".", 0)
        .and_then(|root| read_directory(root, &mut 0, tick));
    read.map_err(|errno| io::Error::from_raw_os_error(errno.0))
}

fn read_directory(
    mut directory: Directory,
    entries: &mut u64,
    tick: &mut dyn FnMut(u64),
) -> Result<(), Errno> {
    while directory.fill()? {
        let parent = directory.fd();
        while let Some(entry) = directory.entry() {
            *entries += 1;
            tick(*entries);
            match read_entry(parent, entry.name, entries, tick) {
                Err(Errno(libc::EACCES | libc::EPERM)) => {}
                result => result?,
            }
        }
    }
    Ok(())
}

fn read_entry(
    parent: RawFd,
    name: &CStr,
    entries: &mut u64,
    tick: &mut dyn FnMut(u64),
) -> Result<(), Errno> {
    match status(parent, name)?.st_mode & libc::S_IFMT {
        libc::S_IFDIR => read_directory(Directory::open(parent, name, 0)?, entries, tick),
        libc::S_IFREG => read_file(parent, name),
        _ => Ok(()),
    }
}

fn read_file(parent: RawFd, name: &CStr) -> Result<(), Errno> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name ends in NUL and lives as long as the call.
    let fd = unsafe { libc::openat(parent, name.as_ptr(), flags) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the descriptor is new and owned by no one else.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut byte = 0u8;
    // SAFETY: the buffer is valid for writes of one byte.
    match unsafe { libc::read(file.as_raw_fd(), (&raw mut byte).cast(), 1) } {
        0.. => Ok(()),
        _ => Err(Errno::last()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_tree_deeper_than_the_longest_path_is_read_to_its_last_file() {
        let folder = tempfile::tempdir().unwrap();
        symlink("nowhere", folder.path().join("link")).unwrap();
        let name = std::ffi::CString::new("d".repeat(200)).unwrap();
        let mut parent: OwnedFd = File::open(folder.path()).unwrap().into();
        let levels = libc::PATH_MAX as usize / 200 + 2;
        for _ in 0..levels {
            // SAFETY: the name ends in NUL and lives as long as the calls.
            let fd = unsafe {
                assert_eq!(libc::mkdirat(parent.as_raw_fd(), name.as_ptr(), 0o755), 0);
                libc::openat(parent.as_raw_fd(), name.as_ptr(), libc::O_DIRECTORY)
            };
            assert!(fd >= 0, "{}", Errno::last());
            // SAFETY: the descriptor is new and owned by no one else.
            parent = unsafe { OwnedFd::from_raw_fd(fd) };
        }
        let path = format!("/proc/self/fd/{}/file", parent.as_raw_fd());
        std::fs::write(&path, "x").unwrap();
        // Two files that were written after their last read; one is read here.
        let (control, before) =
            (folder.path().join("control"), SystemTime::now() - Duration::from_secs(10));
        std::fs::write(&control, "x").unwrap();
        let was_read =
            |path: &std::path::Path| path.metadata().unwrap().accessed().unwrap() > before;
        for path in [control.as_path(), path.as_ref()] {
            let file = File::options().write(true).open(path).unwrap();
            file.set_times(FileTimes::new().set_accessed(before)).unwrap();
        }
        std::fs::read(&control).unwrap();
        let mut entries = 0;
        let root = File::open(folder.path()).unwrap();
        read_once(root.as_fd(), &mut |count| entries = count).unwrap();
        assert_eq!(entries, levels as u64 + 3);
        assert_eq!(was_read(path.as_ref()), was_read(&control), "{path}");
    }
}
