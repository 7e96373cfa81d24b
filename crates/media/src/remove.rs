//! Removes a tree by directory descriptors, never through a link or across a mount point.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fsdyno_record::mount_table::{self, CLIENT_CACHE};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Maximum depth to which directories are entered, with two descriptors per level. Deeper directories are
/// moved to the top first, so a tree of any depth needs no more.
const MAX_DEPTH: u32 = 16;

/// The time for which a file that was removed while open may keep its directory from being empty: the file
/// system removes it some time after it is closed. Another process on this host may create names for just as long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum time for passes over one directory that keep finding names.
const AGAIN: Duration = Duration::from_secs(3600);

/// Interval between reads of a directory that was read as empty but is not empty.
const LOOK: Duration = Duration::from_millis(100);

/// Interval between reads of a directory that contains only silly-renamed files.
const SILLY_LOOK: Duration = Duration::from_millis(10);

/// Prefixes to which FUSE and NFS rename a file that is removed while open; a hexadecimal number follows.
const SILLY_RENAMED: [&[u8]; 2] = [b".fuse_hidden", b".nfs"];

/// Removes everything below an open directory, but not the directory itself.
///
/// # Errors
/// The first error: `XDEV` or `BUSY` for a mount inside, which is not touched.
pub fn contents(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    Removal { top: dir, moved: 0 }.contents(dir, 0)
}

/// Removes a directory and everything below it; a directory that does not exist counts as removed.
///
/// # Errors
/// Those of [`contents`]; `NOTEMPTY` if there are names that the file system does not list.
pub fn tree(dir: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match remove_empty(dir, name, || unseen(dir), || contents(enter(dir, name)?.as_fd())) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// Returns how long names may exist without being listed: on a network file system, the time of the client's cache.
fn unseen(dir: BorrowedFd<'_>) -> Duration {
    // Without /proc, the type is unknown.
    match mount_table::of_file(dir) {
        Ok(Some(mount)) if !mount.is_network() => PATIENCE,
        _ => CLIENT_CACHE,
    }
}

/// Empties a directory and removes it. If it turns out not to be empty although it was read as empty, empties it
/// again until `time()` has passed since the first such failure.
fn remove_empty<P: rustix::path::Arg + Copy>(
    dir: BorrowedFd<'_>,
    name: P,
    time: impl Fn() -> Duration,
    mut empty: impl FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut end = None;
    loop {
        empty()?;
        match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST)
                if Instant::now() < *end.get_or_insert_with(|| Instant::now() + time()) =>
            {
                std::thread::sleep(LOOK);
            }
            done => return done,
        }
    }
}

/// Repeats passes over a directory until one removes nothing: the directory is empty, or the server no longer has the
/// listed names. Some file systems skip names while others are removed.
///
/// # Errors
/// `BUSY` if only silly-renamed files remain for some time, `NOTEMPTY` if each pass finds more for too long.
fn repeat(
    (silly, again): (Duration, Duration),
    mut pass: impl FnMut() -> Result<PassCounts, Errno>,
) -> Result<(), Errno> {
    let (mut first, mut quiet) = (None, None);
    loop {
        let counts = pass()?;
        let now = Instant::now();
        if counts.removed > 0 {
            quiet = None;
            if now - *first.get_or_insert(now) > again {
                return Err(Errno::NOTEMPTY);
            }
        } else if counts.silly_renamed == 0 {
            return Ok(());
        } else if now - *quiet.get_or_insert(now) > silly {
            return Err(Errno::BUSY);
        } else {
            std::thread::sleep(SILLY_LOOK);
        }
    }
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
                if begin.elapsed() < PATIENCE && all_names(dir, is_silly_renamed)? =>
            {
                // Silly-renamed files of a dead client stay until they are removed.
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
pub fn all_names(dir: BorrowedFd<'_>, is: impl Fn(&CStr) -> bool) -> Result<bool, Errno> {
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
}

impl Removal<'_> {
    fn contents(&mut self, dir: BorrowedFd<'_>, depth: u32) -> Result<(), Errno> {
        repeat((PATIENCE, AGAIN), || self.pass(dir, depth))
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
                    // While the file is open, NFS refuses, and FUSE renames it to another such name.
                    let _ = unlinkat(dir, name, AtFlags::empty());
                    continue;
                }
                Ok(false) => unlinkat(dir, name, AtFlags::empty()),
                Err(error) => Err(error),
            };
            match done {
                Ok(()) => counts.removed += 1,
                // Another client has removed it, and this client lists its own cache.
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
        let empty = || self.contents(enter(dir, name)?.as_fd(), depth + 1);
        remove_empty(dir, name, || unseen(dir), empty)
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
    fn the_wait_for_unlisted_names_begins_when_the_directory_is_first_found_not_empty() {
        let base = tempfile::tempdir().unwrap();
        let within = base.path().join("a");
        std::fs::create_dir(&within).unwrap();
        std::fs::write(within.join("unlisted"), "").unwrap();
        let fd = std::fs::File::open(base.path()).unwrap();
        let time = Duration::from_millis(300);
        let mut passes = 0;
        let once_seen = || {
            passes += 1;
            match passes {
                1 => std::thread::sleep(2 * time),
                _ => std::fs::remove_file(within.join("unlisted")).unwrap(),
            }
            Ok(())
        };
        remove_empty(fd.as_fd(), "a", || time, once_seen).unwrap();
        assert!(!within.exists());
        assert_eq!(passes, 2);
    }

    #[test]
    fn names_that_stay_unlisted_are_an_error() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("a/unlisted")).unwrap();
        let fd = std::fs::File::open(base.path()).unwrap();
        let mut passes = 0;
        let never = || {
            passes += 1;
            Ok(())
        };
        let done = remove_empty(fd.as_fd(), "a", || Duration::from_millis(150), never);
        assert_eq!(done, Err(Errno::NOTEMPTY));
        assert!(passes > 1, "{passes}");
    }

    #[test]
    fn passes_over_a_directory_end_although_another_makes_names_or_keeps_files_open() {
        let counts = |removed, silly_renamed| PassCounts { removed, silly_renamed };
        let (short, long) = (Duration::from_millis(60), Duration::from_secs(3600));
        assert_eq!(repeat((long, short), || Ok(counts(1, 0))), Err(Errno::NOTEMPTY));
        assert_eq!(repeat((short, long), || Ok(counts(0, 1))), Err(Errno::BUSY));
        // What came before the first pass with silly-renamed names only does not count.
        let mut left = [counts(0, 0), counts(0, 1), counts(1, 1)].into_iter();
        let mut pass = || {
            std::thread::sleep(2 * short);
            Ok(left.next_back().unwrap())
        };
        assert_eq!(repeat((short, long), &mut pass), Ok(()));
        assert!(left.next().is_none());
    }

    #[test]
    fn a_local_directory_is_waited_for_shorter_than_one_on_a_network() {
        let shm = std::fs::File::open("/dev/shm").unwrap();
        assert_eq!(unseen(shm.as_fd()), PATIENCE);
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
