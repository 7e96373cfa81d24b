//! What a killed process left behind: found by its marker, removed only when asked.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, statat, unlinkat};
use rustix::io::Errno;

use crate::directory::{open_directory, take_away};
use crate::error::MediaError;
use crate::marker::{self, Reading};
use crate::remove;

/// A subdirectory, or an empty file, that a dead fsdyno process left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// The process that made it.
    pub pid: i32,
}

/// The subdirectories of `parent` that dead fsdyno processes left.
///
/// # Errors
/// What is wrong with `parent`.
pub fn leftovers(parent: &Path) -> Result<Vec<Leftover>, MediaError> {
    let fd = open_directory(parent)?;
    let entries = Dir::read_from(&fd).map_err(|error| MediaError::io("read", parent, error))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| MediaError::io("read", parent, error))?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let Some(pid) = marker::pid_of_name(name) else { continue };
        if empty_file(fd.as_fd(), name, pid) {
            found.push(Leftover { path: parent.join(name), pid });
        }
        // What cannot be opened (another user's, or no directory at all) is not ours to report.
        let Ok(own) = remove::enter(fd.as_fd(), name) else { continue };
        if dead(own.as_fd(), pid).unwrap_or(false) {
            found.push(Leftover { path: parent.join(name), pid });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Removes one leftover, after looking once more whether it is one.
///
/// # Errors
/// [`MediaError::NotOurs`] if it is not, or what could not be removed.
pub fn clean(leftover: &Leftover) -> Result<(), MediaError> {
    let path = &leftover.path;
    let refuse = |why: &str| MediaError::NotOurs { path: path.clone(), why: why.to_string() };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
    else {
        return Err(refuse("its name is not one that fsdyno gives"));
    };
    let fd = open_directory(parent)?;
    if empty_file(fd.as_fd(), OsStr::new(name), leftover.pid) {
        let gone = unlinkat(&fd, name, AtFlags::empty());
        return gone.map_err(|error| MediaError::io("remove", path, error));
    }
    let own = remove::enter(fd.as_fd(), name).map_err(|e| MediaError::io("open", path, e))?;
    match dead(own.as_fd(), leftover.pid) {
        Ok(true) => {}
        Ok(false) => return Err(refuse("it carries no marker of a process that has ended")),
        Err(error) => return Err(MediaError::io("read", path, error)),
    }
    let gone = take_away(fd.as_fd(), name, own.as_fd(), None);
    gone.map_err(|error| match error {
        Errno::XDEV | Errno::BUSY => refuse("something is mounted inside; unmount it first"),
        Errno::NOTEMPTY | Errno::EXIST => refuse("it holds files that fsdyno did not make"),
        other => MediaError::io("remove", path, other),
    })
}

/// Whether a name of ours is an empty file of a process that has ended: what is to be the file below a
/// loop has a name, if at all, only while it is empty.
fn empty_file(parent: BorrowedFd<'_>, name: &OsStr, pid: i32) -> bool {
    let empty = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_size == 0);
    empty && marker::start_time(pid).is_none()
}

/// Whether a subdirectory carries the marker of a process that has ended, or ended so early that
/// there is nothing but a torn marker or nothing at all.
fn dead(own: BorrowedFd<'_>, pid: i32) -> Result<bool, Errno> {
    Ok(match marker::read(own)? {
        Reading::Dead(_) => true,
        Reading::Living => false,
        Reading::Torn => only(own, &[marker::NAME])? && marker::start_time(pid).is_none(),
        Reading::None => only(own, &[])? && marker::start_time(pid).is_none(),
    })
}

/// Whether nothing lies in a directory but these names and what a file system has still to remove.
fn only(dir: BorrowedFd<'_>, allowed: &[&str]) -> Result<bool, Errno> {
    remove::all(dir, |name| {
        let known = allowed.iter().any(|allowed| allowed.as_bytes() == name.to_bytes());
        known || remove::is_still_open(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;

    // Above the kernel's largest process number (2^22, proc(5)), so it never runs.
    const NOBODY: i32 = 4_194_305;

    fn left_by_a_dead_process(parent: &Path) -> PathBuf {
        let path = parent.join(format!(".fsdyno-{NOBODY}-0123456789abcdef"));
        std::fs::create_dir_all(path.join("root/deep")).unwrap();
        std::fs::write(path.join("root/deep/file"), "x").unwrap();
        let marker =
            format!("fsdyno works here; made and removed by it\npid {NOBODY}\nboot b\nstarted 5\n");
        std::fs::write(path.join("fsdyno.marker"), marker).unwrap();
        path
    }

    #[test]
    fn what_a_dead_process_left_is_found_and_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = left_by_a_dead_process(base.path());
        let found = leftovers(base.path()).unwrap();
        assert_eq!(found, [Leftover { path: path.clone(), pid: NOBODY }]);
        clean(&found[0]).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_living_process_keeps_its_directory() {
        let base = tempfile::tempdir().unwrap();
        let living = Directory::create(base.path()).unwrap();
        assert_eq!(leftovers(base.path()).unwrap(), []);
        let pid = std::process::id() as i32;
        let asked = Leftover { path: living.path().into(), pid };
        assert!(matches!(clean(&asked), Err(MediaError::NotOurs { .. })));
        assert!(living.path().join("root").exists());
    }

    #[test]
    fn the_users_own_files_are_never_taken_for_leftovers() {
        let base = tempfile::tempdir().unwrap();
        let unmarked = base.path().join(format!(".fsdyno-{NOBODY}-00000000000000aa"));
        std::fs::create_dir(&unmarked).unwrap();
        std::fs::write(unmarked.join("thesis"), "years of work").unwrap();
        std::os::unix::fs::symlink("/", base.path().join(".fsdyno-1-00000000000000bb")).unwrap();
        std::fs::create_dir(base.path().join(".fsdyno-notes")).unwrap();
        assert_eq!(leftovers(base.path()).unwrap(), []);
    }

    #[test]
    fn an_empty_file_of_a_dead_process_goes_and_one_with_bytes_stays() {
        let base = tempfile::tempdir().unwrap();
        let name = |end| base.path().join(format!(".fsdyno-{NOBODY}-00000000000000{end}"));
        std::fs::write(name("dd"), "").unwrap();
        std::fs::write(name("ee"), "years of work").unwrap();
        let found = leftovers(base.path()).unwrap();
        assert_eq!(found, [Leftover { path: name("dd"), pid: NOBODY }]);
        clean(&found[0]).unwrap();
        assert!(!name("dd").exists() && name("ee").exists());
    }

    #[test]
    fn a_stranger_beside_the_marker_is_kept() {
        let base = tempfile::tempdir().unwrap();
        let path = left_by_a_dead_process(base.path());
        std::fs::write(path.join("thesis"), "years of work").unwrap();
        let found = leftovers(base.path()).unwrap();
        assert!(clean(&found[0]).is_err());
        assert_eq!(std::fs::read_to_string(path.join("thesis")).unwrap(), "years of work");
    }

    #[test]
    fn what_the_file_system_had_still_to_remove_goes_with_its_directory() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(format!(".fsdyno-{NOBODY}-00000000000000cc"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(".nfs00000000017a2b3c00000001"), "a marker").unwrap();
        let found = leftovers(base.path()).unwrap();
        assert_eq!(found.len(), 1);
        clean(&found[0]).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_death_before_the_marker_leaves_an_empty_directory_that_is_found() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(format!(".fsdyno-{NOBODY}-00000000000000cc"));
        std::fs::create_dir(&path).unwrap();
        let found = leftovers(base.path()).unwrap();
        assert_eq!(found.len(), 1);
        clean(&found[0]).unwrap();
        assert!(!path.exists());
    }
}
