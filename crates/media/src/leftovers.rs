//! Leftovers of killed processes, which are found by their marker and removed only on request.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, statat, unlinkat};
use rustix::io::Errno;

use crate::directory::{open_directory, remove_marked};
use crate::error::MediaError;
use crate::marker::{self, MarkerState};
use crate::process::start_time;
use crate::remove;

/// A subdirectory or an empty file left by a dead fsdyno process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The path.
    pub path: PathBuf,
    /// The process that created it.
    pub pid: i32,
}

/// Finds the leftovers of dead fsdyno processes in `parent`.
///
/// # Errors
/// `parent` cannot be read.
pub fn leftovers(parent: &Path) -> Result<Vec<Leftover>, MediaError> {
    let fd = open_directory(parent)?;
    let entries = Dir::read_from(&fd).map_err(|error| MediaError::io("read", parent, error))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| MediaError::io("read", parent, error))?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let Some(pid) = marker::pid_of_name(name) else { continue };
        if is_empty_leftover(fd.as_fd(), name, pid) {
            found.push(Leftover { path: parent.join(name), pid });
        }
        // A file, or a directory of another user, is not reported.
        let Ok(subdirectory) = remove::enter(fd.as_fd(), name) else { continue };
        if is_dead(subdirectory.as_fd(), pid).unwrap_or(false) {
            found.push(Leftover { path: parent.join(name), pid });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Removes one leftover, after checking again that it is one.
///
/// # Errors
/// [`MediaError::NotOurs`] if it is not one, or the error of removing it.
pub fn clean(leftover: &Leftover) -> Result<(), MediaError> {
    let path = &leftover.path;
    let refuse = |reason: &str| MediaError::NotOurs { path: path.clone(), why: reason.to_string() };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
    else {
        return Err(refuse("fsdyno does not create such names"));
    };
    let fd = open_directory(parent)?;
    if is_empty_leftover(fd.as_fd(), OsStr::new(name), leftover.pid) {
        let removed = unlinkat(&fd, name, AtFlags::empty());
        return removed.map_err(|error| MediaError::io("remove", path, error));
    }
    let subdirectory =
        remove::enter(fd.as_fd(), name).map_err(|e| MediaError::io("open", path, e))?;
    match is_dead(subdirectory.as_fd(), leftover.pid) {
        Ok(true) => {}
        Ok(false) => return Err(refuse("it has no marker of a process that has ended")),
        Err(error) => return Err(MediaError::io("read", path, error)),
    }
    let removed = remove_marked(fd.as_fd(), name, subdirectory.as_fd(), None);
    removed.map_err(|error| match error {
        Errno::XDEV | Errno::BUSY => refuse("something is mounted inside; unmount it first"),
        Errno::NOTEMPTY | Errno::EXIST => refuse("it has files that fsdyno did not create"),
        other => MediaError::io("remove", path, other),
    })
}

/// Reports whether one of fsdyno's names refers to an empty file of a process that has ended: the backing file of a
/// loop device has a name only while it is empty, if it has one at all.
fn is_empty_leftover(parent: BorrowedFd<'_>, name: &OsStr, pid: i32) -> bool {
    let is_empty = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_size == 0);
    is_empty && start_time(pid).is_none()
}

/// Reports whether a subdirectory has the marker of a process that has ended, or has only a torn marker
/// or nothing, because the process ended early.
fn is_dead(subdirectory: BorrowedFd<'_>, pid: i32) -> Result<bool, Errno> {
    Ok(match marker::read(subdirectory)? {
        MarkerState::Dead(_) => true,
        MarkerState::Living => false,
        MarkerState::Torn => has_only(subdirectory, &[marker::NAME])? && start_time(pid).is_none(),
        MarkerState::None => has_only(subdirectory, &[])? && start_time(pid).is_none(),
    })
}

/// Reports whether a directory has only these names and silly-renamed files.
fn has_only(dir: BorrowedFd<'_>, allowed: &[&str]) -> Result<bool, Errno> {
    remove::all_names(dir, |name| {
        let is_allowed = allowed.iter().any(|allowed| allowed.as_bytes() == name.to_bytes());
        is_allowed || remove::is_silly_renamed(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;

    // Above the kernel's maximum process ID (2^22, proc(5)), so no such process exists.
    const NO_PROCESS: i32 = 4_194_305;

    fn create_leftover(parent: &Path) -> PathBuf {
        let path = parent.join(format!(".fsdyno-{NO_PROCESS}-0123456789abcdef"));
        std::fs::create_dir_all(path.join("root/deep")).unwrap();
        std::fs::write(path.join("root/deep/file"), "x").unwrap();
        let marker = format!(
            "fsdyno works here; made and removed by it\npid {NO_PROCESS}\nboot b\nstarted 5\n"
        );
        std::fs::write(path.join("fsdyno.marker"), marker).unwrap();
        path
    }

    #[test]
    fn the_leftover_of_a_dead_process_is_found_and_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = create_leftover(base.path());
        let found = leftovers(base.path()).unwrap();
        assert_eq!(found, [Leftover { path: path.clone(), pid: NO_PROCESS }]);
        clean(&found[0]).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn the_directory_of_a_running_process_is_not_removed() {
        let base = tempfile::tempdir().unwrap();
        let living = Directory::create(base.path()).unwrap();
        assert_eq!(leftovers(base.path()).unwrap(), []);
        let pid = std::process::id() as i32;
        let leftover = Leftover { path: living.path().into(), pid };
        assert!(matches!(clean(&leftover), Err(MediaError::NotOurs { .. })));
        assert!(living.path().join("root").exists());
    }

    #[test]
    fn files_of_the_user_are_not_leftovers() {
        let base = tempfile::tempdir().unwrap();
        let unmarked = base.path().join(format!(".fsdyno-{NO_PROCESS}-00000000000000aa"));
        std::fs::create_dir(&unmarked).unwrap();
        std::fs::write(unmarked.join("thesis"), "years of work").unwrap();
        std::os::unix::fs::symlink("/", base.path().join(".fsdyno-1-00000000000000bb")).unwrap();
        std::fs::create_dir(base.path().join(".fsdyno-notes")).unwrap();
        assert_eq!(leftovers(base.path()).unwrap(), []);
    }

    #[test]
    fn an_empty_file_of_a_dead_process_is_removed_and_a_file_with_content_is_not() {
        let base = tempfile::tempdir().unwrap();
        let name = |end| base.path().join(format!(".fsdyno-{NO_PROCESS}-00000000000000{end}"));
        std::fs::write(name("dd"), "").unwrap();
        std::fs::write(name("ee"), "years of work").unwrap();
        let found = leftovers(base.path()).unwrap();
        assert_eq!(found, [Leftover { path: name("dd"), pid: NO_PROCESS }]);
        clean(&found[0]).unwrap();
        assert!(!name("dd").exists() && name("ee").exists());
    }

    #[test]
    fn a_foreign_file_next_to_the_marker_is_not_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = create_leftover(base.path());
        std::fs::write(path.join("thesis"), "years of work").unwrap();
        let found = leftovers(base.path()).unwrap();
        assert!(clean(&found[0]).is_err());
        assert_eq!(std::fs::read_to_string(path.join("thesis")).unwrap(), "years of work");
    }

    #[test]
    fn silly_renamed_files_are_removed_with_their_directory() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(format!(".fsdyno-{NO_PROCESS}-00000000000000cc"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(".nfs00000000017a2b3c00000001"), "a marker").unwrap();
        let found = leftovers(base.path()).unwrap();
        assert_eq!(found.len(), 1);
        clean(&found[0]).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn an_empty_directory_without_a_marker_is_found() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(format!(".fsdyno-{NO_PROCESS}-00000000000000cc"));
        std::fs::create_dir(&path).unwrap();
        let found = leftovers(base.path()).unwrap();
        assert_eq!(found.len(), 1);
        clean(&found[0]).unwrap();
        assert!(!path.exists());
    }
}
