//! Path resolution that does not follow links of other users.
//!
//! A user who may write in a directory can put a link there, and root that follows it writes where that user
//! may not. So a link is followed only if root or this user owns both the link and its directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, mkdirat, openat,
    readlinkat,
};
use rustix::io::Errno;

/// Maximum number of links in a path, as in the kernel (path_resolution(7)).
const MAX_LINKS: u32 = 40;

/// A resolved path.
#[derive(Debug)]
pub struct Resolved {
    /// The directory of the last component, with all links followed; opened with O_PATH.
    pub dir: OwnedFd,
    /// The last component; `.` if the path has none.
    pub name: OsString,
    /// The status of the last component if it exists; never a link.
    pub stat: Option<Stat>,
}

/// The handling of missing directories.
pub enum Missing<'a> {
    /// Resolution fails.
    Refuse,
    /// They are created and recorded.
    Create(&'a mut Vec<NewFolder>),
    /// Resolution ends at the first of them.
    Stop,
}

/// A directory created during resolution.
#[derive(Debug)]
pub struct NewFolder {
    pub(crate) parent: OwnedFd,
    pub(crate) name: OsString,
}

/// Resolves a path up to its last component.
///
/// # Errors
/// The kernel's error, or a link of another user in the path.
pub fn resolve(path: &Path, mut missing: Missing<'_>) -> io::Result<Resolved> {
    let mut dir = openat(CWD, ".", PATH | OFlags::DIRECTORY, Mode::empty())?;
    let mut remaining = components(path);
    let mut links = 0;
    while let Some(name) = remaining.pop() {
        if name == "/" || name == ".." {
            dir = openat(&dir, &name, PATH | OFlags::DIRECTORY, Mode::empty())?;
            continue;
        }
        let entry = match openat(&dir, &name, PATH | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(entry) => entry,
            Err(Errno::NOENT) if remaining.is_empty() || matches!(missing, Missing::Stop) => {
                return Ok(Resolved { dir, name, stat: None });
            }
            Err(Errno::NOENT) => {
                create_missing(&dir, &name, &mut missing)?;
                remaining.push(name);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&entry)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            remaining.extend(components(&read_trusted_link(dir.as_fd(), &name, &entry, &stat)?));
        } else if remaining.is_empty() {
            return Ok(Resolved { dir, name, stat: Some(stat) });
        } else if kind.is_dir() {
            dir = entry;
        } else {
            return Err(Errno::NOTDIR.into());
        }
    }
    let stat = Some(fstat(&dir)?);
    Ok(Resolved { dir, name: ".".into(), stat })
}

const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Returns the components of a path in reverse order.
fn components(path: &Path) -> Vec<OsString> {
    let names = path.components().filter(|component| *component != Component::CurDir);
    names.rev().map(|component| component.as_os_str().to_owned()).collect()
}

fn create_missing(dir: &OwnedFd, name: &OsStr, missing: &mut Missing<'_>) -> io::Result<()> {
    let Missing::Create(created) = missing else { return Err(Errno::NOENT.into()) };
    match mkdirat(dir, name, Mode::from_raw_mode(0o777)) {
        Ok(()) => created.push(NewFolder { parent: dir.try_clone()?, name: name.to_owned() }),
        // Another process has created it in the meantime; the caller opens it again.
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Reads the target of a link, if it may be followed.
fn read_trusted_link(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    link: &OwnedFd,
    stat: &Stat,
) -> io::Result<PathBuf> {
    let displayed = name.display();
    if fstatfs(link)?.f_type == PROC_SUPER_MAGIC {
        // Its target need not be a path.
        let message = format!("'{displayed}' is a link of /proc; name the file that it refers to");
        return Err(io::Error::other(message));
    }
    let owners = [stat.st_uid, fstat(dir)?.st_uid];
    match owners.into_iter().find(|owner| !is_trusted(*owner)) {
        None => {
            let target = readlinkat(link, "", Vec::new())?;
            Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
        }
        Some(owner) => Err(io::Error::other(format!(
            "'{displayed}' is a link under the control of user {owner}, and fsdyno follows only yours and root's; \
             name the file or folder that it points to"
        ))),
    }
}

/// Reports whether links and directories of a user may decide where files are written.
pub fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    fn inode(resolved: &Resolved) -> Option<u64> {
        resolved.stat.as_ref().map(|stat| stat.st_ino)
    }

    #[test]
    fn own_links_are_resolved_as_by_the_kernel() {
        let base = tempfile::tempdir().unwrap();
        let path_of = |name: &str| base.path().join(name);
        std::fs::create_dir_all(path_of("a/b")).unwrap();
        std::fs::write(path_of("a/file"), "").unwrap();
        symlink("a/b", path_of("relative")).unwrap();
        symlink(path_of("a"), path_of("absolute")).unwrap();
        symlink("../absolute/file", path_of("a/again")).unwrap();
        symlink("loop", path_of("loop")).unwrap();
        for path in ["a/file", "relative/../file", "absolute/file", "a/again", "./a//b/", "."] {
            let resolved = resolve(&path_of(path), Missing::Refuse).unwrap();
            let expected = std::fs::metadata(path_of(path)).unwrap().ino();
            assert_eq!(inode(&resolved), Some(expected), "{path}");
        }
        let error = |path| resolve(&path_of(path), Missing::Refuse).unwrap_err();
        assert_eq!(error("loop").raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(error("a/file/x").kind(), io::ErrorKind::NotADirectory);
        assert_eq!(error("none/x").kind(), io::ErrorKind::NotFound);
        assert_eq!(resolve(&path_of("none"), Missing::Refuse).unwrap().stat.map(|_| ()), None);
    }

    #[test]
    fn a_link_of_another_user_or_in_another_users_directory_is_not_followed() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: not root");
        }
        let base = tempfile::tempdir().unwrap();
        let path_of = |name: &str| base.path().join(name);
        for name in ["mine", "other"] {
            std::fs::create_dir(path_of(name)).unwrap();
        }
        symlink("mine", path_of("link")).unwrap();
        lchown(path_of("link"), Some(65534), None).unwrap();
        symlink("../mine", path_of("other/link")).unwrap();
        std::os::unix::fs::chown(path_of("other"), Some(65534), None).unwrap();
        for path in ["link", "link/x", "other/link", "other/link/x"] {
            let error =
                resolve(&path_of(path), Missing::Create(&mut Vec::new())).unwrap_err().to_string();
            assert!(error.contains("under the control of user 65534"), "{path}: {error}");
        }
        assert!(resolve(&path_of("other/x"), Missing::Refuse).is_ok());
    }

    #[test]
    fn a_link_of_proc_is_not_followed() {
        let error = resolve(Path::new("/proc/self/fd/0"), Missing::Refuse).unwrap_err();
        assert!(error.to_string().contains("/proc"), "{error}");
    }
}
