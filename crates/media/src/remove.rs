//! Removes a tree by directory descriptors, never through a link or across a mount point.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Maximum depth to which directories are entered, with two descriptors per level. Deeper directories are
/// moved to the top first, so a tree of any depth needs no more.
const MAX_DEPTH: u32 = 16;

/// The time for which a file that was removed while open may keep its directory from being empty: the file
/// system removes it some time after it is closed.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time for which a client of a network file system may not list what another has made: sshfs caches a directory for
/// 20 s, NFS for up to 60 s (nfs(5), acdirmax).
const UNSEEN: Duration = Duration::from_secs(66);

/// Interval at which such a directory is read again.
const LOOK: Duration = Duration::from_millis(100);

/// Prefixes to which FUSE and NFS rename a file that is removed while open; a hexadecimal number follows.
const SILLY_RENAMED: [&[u8]; 2] = [b".fuse_hidden", b".nfs"];

/// Removes everything below an open directory, but not the directory itself.
///
/// # Errors
/// The first error: `XDEV` or `BUSY` for a mount inside, which is not touched.
pub fn contents(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    Removal::below(dir).contents(dir, 0)
}

/// Removes a directory and everything below it; one that is not there is removed.
///
/// # Errors
/// As of [`contents`]; `NOTEMPTY` if there are names that the file system does not list.
pub fn tree(dir: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    let mut unseen = None;
    loop {
        let opened = match enter(dir, name) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
        contents(opened.as_fd())?;
        drop(opened);
        match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(error) if is_unseen(error, *unseen.get_or_insert_with(Instant::now)) => {
                std::thread::sleep(LOOK);
            }
            Err(Errno::NOENT) => return Ok(()),
            done => return done,
        }
    }
}

/// Reports whether a directory that was read as empty is not, and may be listed in full later.
fn is_unseen(error: Errno, since: Instant) -> bool {
    matches!(error, Errno::NOTEMPTY | Errno::EXIST) && since.elapsed() < UNSEEN
}

/// Repeats an action that needs an empty directory until silly-renamed files in it are gone.
pub fn retry_until_empty(
    dir: BorrowedFd<'_>,
    mut act: impl FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let begin = Instant::now();
    loop {
        match act() {
            Err(Errno::NOTEMPTY | Errno::EXIST)
                if begin.elapsed() < PATIENCE && all(dir, is_silly_renamed)? =>
            {
                // Those of a dead client stay until they are removed.
                contents(dir)?;
            }
            done => return done,
        }
    }
}

/// Reports whether a file system gave this name to a file that was removed while open ("silly rename").
pub fn is_silly_renamed(name: &CStr) -> bool {
    let number = SILLY_RENAMED.iter().find_map(|prefix| name.to_bytes().strip_prefix(*prefix));
    number.is_some_and(|number| number.len() >= 8 && number.iter().all(u8::is_ascii_hexdigit))
}

/// Reports whether all names in a directory satisfy `is`.
pub fn all(dir: BorrowedFd<'_>, is: impl Fn(&CStr) -> bool) -> Result<bool, Errno> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") && !is(name) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The counts of one pass over a directory.
#[derive(Default)]
struct PassCounts {
    removed: u64,
    silly_renamed: u64,
}

struct Removal<'a> {
    /// The directory to which directories that are too deep are moved.
    top: BorrowedFd<'a>,
    moved: u64,
    /// Time of the last removal.
    last: Instant,
}

impl Removal<'_> {
    fn below(top: BorrowedFd<'_>) -> Removal<'_> {
        Removal { top, moved: 0, last: Instant::now() }
    }

    fn contents(&mut self, dir: BorrowedFd<'_>, depth: u32) -> Result<(), Errno> {
        // Some file systems skip names while others are removed, so a directory is read again until
        // a whole pass finds nothing, or only names of which the server of the file system knows nothing.
        loop {
            let counts = self.pass(dir, depth)?;
            if counts.removed > 0 {
                self.last = Instant::now();
            } else if counts.silly_renamed == 0 {
                return Ok(());
            } else if self.last.elapsed() > PATIENCE {
                return Err(Errno::BUSY);
            } else {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn pass(&mut self, dir: BorrowedFd<'_>, depth: u32) -> Result<PassCounts, Errno> {
        let mut counts = PassCounts::default();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let done = match is_directory(dir, name, entry.file_type()) {
                Ok(true) => self.directory(dir, name, depth),
                Ok(false) if is_silly_renamed(name) => {
                    counts.silly_renamed += 1;
                    // NFS refuses while it is open, FUSE gives it another such name.
                    let _ = unlinkat(dir, name, AtFlags::empty());
                    continue;
                }
                Ok(false) => unlinkat(dir, name, AtFlags::empty()),
                Err(error) => Err(error),
            };
            match done {
                Ok(()) => counts.removed += 1,
                // Another client has removed it, and this one lists its cache.
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(counts)
    }

    fn directory(&mut self, dir: BorrowedFd<'_>, name: &CStr, depth: u32) -> Result<(), Errno> {
        if depth == MAX_DEPTH {
            return self.move_up(dir, name);
        }
        loop {
            self.contents(enter(dir, name)?.as_fd(), depth + 1)?;
            match unlinkat(dir, name, AtFlags::REMOVEDIR) {
                Err(error) if is_unseen(error, self.last) => std::thread::sleep(LOOK),
                done => return done,
            }
        }
    }

    /// Moves a directory to the top, which is read again until it is empty.
    fn move_up(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        loop {
            self.moved += 1;
            match renameat(dir, name, self.top, format!("deep-{}", self.moved)) {
                // The name is taken. (An empty directory would be replaced, which is just as good.)
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                done => return done,
            }
        }
    }
}

fn is_directory(dir: BorrowedFd<'_>, name: &CStr, kind: FileType) -> Result<bool, Errno> {
    Ok(match kind {
        FileType::Unknown => {
            let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            FileType::from_raw_mode(stat.st_mode).is_dir()
        }
        kind => kind.is_dir(),
    })
}

/// Opens a subdirectory on the same mount, following no link.
///
/// # Errors
/// `XDEV` for a mount point, `LOOP` or `NOTDIR` for anything but a directory.
pub fn enter<P: rustix::path::Arg + Copy>(dir: BorrowedFd<'_>, name: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match openat2(dir, name, flags, Mode::empty(), within) {
        // Kernels before 5.6 have no openat2(2), and some sandboxes forbid it: then the device number
        // reveals a mount point, except a bind mount of the same file system.
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
    fn a_tree_is_removed_but_not_the_targets_of_its_links() {
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
    fn a_name_that_another_has_removed_since_it_was_listed_is_gone() {
        let base = tempfile::tempdir().unwrap();
        let within = base.path().join("tree/a/b");
        std::fs::create_dir_all(&within).unwrap();
        (0..400).for_each(|at| std::fs::write(within.join(at.to_string()), "").unwrap());
        let fd = std::fs::File::open(base.path()).unwrap();
        std::thread::scope(|scope| {
            let each = || scope.spawn(|| tree(fd.as_fd(), "tree"));
            let all: Vec<_> = (0..4).map(|_| each()).collect();
            all.into_iter().for_each(|one| one.join().unwrap().unwrap());
        });
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn silly_renamed_files_are_recognised_by_name() {
        assert!(is_silly_renamed(c".nfs00000000017a2b3c00000001"));
        assert!(is_silly_renamed(c".fuse_hidden0000000200000001"));
        for name in [c".nfs", c".nfs-notes", c".nfsdeadbeef.txt", c"nfs00000000017a2b3c"] {
            assert!(!is_silly_renamed(name), "{name:?}");
        }
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
