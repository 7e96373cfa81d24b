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
/// system removes it some time after it is closed. Another process on this host may create names for the same time.
const SILLY_RENAME_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for passes over one directory that keep finding names.
const PASSES_TIMEOUT: Duration = Duration::from_secs(3600);

/// Interval between reads of a directory that was read as empty but is not empty.
const EMPTY_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between reads of a directory that contains only silly-renamed files.
const SILLY_RENAME_INTERVAL: Duration = Duration::from_millis(10);

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
    match remove_empty(dir, name, || unlisted_time(dir), || contents(enter(dir, name)?.as_fd())) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

/// Returns how long names may exist without being listed: on a network file system, the time of the client's cache.
fn unlisted_time(dir: BorrowedFd<'_>) -> Duration {
    // Without /proc, the type is unknown.
    match mount_table::mount_of_file(dir) {
        Ok(Some(mount)) if !mount.is_network() => SILLY_RENAME_TIMEOUT,
        _ => CLIENT_CACHE,
    }
}

/// Empties a directory and removes it. If it turns out not to be empty although it was read as empty, empties it
/// again until `timeout()` has passed since the first such failure.
fn remove_empty<P: rustix::path::Arg + Copy>(
    dir: BorrowedFd<'_>,
    name: P,
    timeout: impl Fn() -> Duration,
    mut empty: impl FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut deadline = None;
    loop {
        empty()?;
        match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST)
                if Instant::now() < *deadline.get_or_insert_with(|| Instant::now() + timeout()) =>
            {
                std::thread::sleep(EMPTY_INTERVAL);
            }
            result => return result,
        }
    }
}

/// Repeats passes over a directory until one removes nothing: the directory is empty, or the server no longer has the
/// listed names. Some file systems skip names while others are removed.
///
/// # Errors
/// `BUSY` if only silly-renamed files remain for some time, `NOTEMPTY` if each pass finds more for too long.
fn repeat_passes(
    (silly_timeout, passes_timeout): (Duration, Duration),
    mut pass: impl FnMut() -> Result<PassCounts, Errno>,
) -> Result<(), Errno> {
    let (mut first_removal, mut first_idle) = (None, None);
    loop {
        let counts = pass()?;
        let now = Instant::now();
        if counts.removed > 0 {
            first_idle = None;
            if now - *first_removal.get_or_insert(now) > passes_timeout {
                return Err(Errno::NOTEMPTY);
            }
        } else if counts.silly_renamed == 0 {
            return Ok(());
        } else if now - *first_idle.get_or_insert(now) > silly_timeout {
            return Err(Errno::BUSY);
        } else {
            std::thread::sleep(SILLY_RENAME_INTERVAL);
        }
    }
}

/// Repeats an action that needs an empty directory until silly-renamed files in it are gone.
pub fn retry_until_empty(
    dir: BorrowedFd<'_>,
    mut act: impl FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let start = Instant::now();
    loop {
        match act() {
            Err(Errno::NOTEMPTY | Errno::EXIST)
                if start.elapsed() < SILLY_RENAME_TIMEOUT && all_names(dir, is_silly_renamed)? =>
            {
                // Silly-renamed files of a dead client stay until they are removed.
                contents(dir)?;
            }
            result => return result,
        }
    }
}

/// Reports whether a file system gave this name to a file that was removed while open ("silly rename").
pub fn is_silly_renamed(name: &CStr) -> bool {
    let suffix = SILLY_RENAMED.iter().find_map(|prefix| name.to_bytes().strip_prefix(*prefix));
    suffix.is_some_and(|suffix| suffix.len() >= 8 && suffix.iter().all(u8::is_ascii_hexdigit))
}

/// Reports whether all names in a directory satisfy `matches`.
pub fn all_names(dir: BorrowedFd<'_>, matches: impl Fn(&CStr) -> bool) -> Result<bool, Errno> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") && !matches(name) {
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
        repeat_passes((SILLY_RENAME_TIMEOUT, PASSES_TIMEOUT), || self.run_pass(dir, depth))
    }

    fn run_pass(&mut self, dir: BorrowedFd<'_>, depth: u32) -> Result<PassCounts, Errno> {
        let mut counts = PassCounts::default();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let result = match is_directory(dir, name, entry.file_type()) {
                Ok(true) => self.remove_directory(dir, name, depth),
                Ok(false) if is_silly_renamed(name) => {
                    counts.silly_renamed += 1;
                    // While the file is open, NFS refuses, and FUSE renames it to another such name.
                    let _ = unlinkat(dir, name, AtFlags::empty());
                    continue;
                }
                Ok(false) => unlinkat(dir, name, AtFlags::empty()),
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => counts.removed += 1,
                // Another client has removed it, and this client lists its own cache.
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(counts)
    }

    fn remove_directory(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        depth: u32,
    ) -> Result<(), Errno> {
        if depth == MAX_DEPTH {
            return self.move_up(dir, name);
        }
        let empty = || self.contents(enter(dir, name)?.as_fd(), depth + 1);
        remove_empty(dir, name, || unlisted_time(dir), empty)
    }

    /// Moves a directory to the top, which is read again until it is empty.
    fn move_up(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        loop {
            self.moved += 1;
            match renameat(dir, name, self.top, format!("deep-{}", self.moved)) {
                // The name is taken. (An empty directory would be replaced, which does no harm.)
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                result => return result,
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
        result => result,
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
        let remove_in_second_pass = || {
            passes += 1;
            match passes {
                1 => std::thread::sleep(2 * time),
                _ => std::fs::remove_file(within.join("unlisted")).unwrap(),
            }
            Ok(())
        };
        remove_empty(fd.as_fd(), "a", || time, remove_in_second_pass).unwrap();
        assert!(!within.exists());
        assert_eq!(passes, 2);
    }

    #[test]
    fn names_that_stay_unlisted_are_an_error() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("a/unlisted")).unwrap();
        let fd = std::fs::File::open(base.path()).unwrap();
        let mut passes = 0;
        let remove_nothing = || {
            passes += 1;
            Ok(())
        };
        let result = remove_empty(fd.as_fd(), "a", || Duration::from_millis(150), remove_nothing);
        assert_eq!(result, Err(Errno::NOTEMPTY));
        assert!(passes > 1, "{passes}");
    }

    #[test]
    fn passes_over_a_directory_end_although_another_process_creates_names_or_keeps_files_open() {
        let counts = |removed, silly_renamed| PassCounts { removed, silly_renamed };
        let (short, long) = (Duration::from_millis(60), Duration::from_secs(3600));
        assert_eq!(repeat_passes((long, short), || Ok(counts(1, 0))), Err(Errno::NOTEMPTY));
        assert_eq!(repeat_passes((short, long), || Ok(counts(0, 1))), Err(Errno::BUSY));
        // The time before the first pass that finds only silly-renamed names does not count.
        let mut reversed_passes = [counts(0, 0), counts(0, 1), counts(1, 1)].into_iter();
        let mut pass = || {
            std::thread::sleep(2 * short);
            Ok(reversed_passes.next_back().unwrap())
        };
        assert_eq!(repeat_passes((short, long), &mut pass), Ok(()));
        assert!(reversed_passes.next().is_none());
    }

    #[test]
    fn the_timeout_of_a_local_directory_is_shorter_than_on_a_network() {
        let shm = std::fs::File::open("/dev/shm").unwrap();
        assert_eq!(unlisted_time(shm.as_fd()), SILLY_RENAME_TIMEOUT);
    }

    #[test]
    fn a_name_that_another_thread_has_removed_since_it_was_listed_is_not_an_error() {
        let base = tempfile::tempdir().unwrap();
        let within = base.path().join("tree/a/b");
        std::fs::create_dir_all(&within).unwrap();
        (0..400).for_each(|i| std::fs::write(within.join(i.to_string()), "").unwrap());
        let fd = std::fs::File::open(base.path()).unwrap();
        std::thread::scope(|scope| {
            let spawn = || scope.spawn(|| tree(fd.as_fd(), "tree"));
            let threads: Vec<_> = (0..4).map(|_| spawn()).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
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
