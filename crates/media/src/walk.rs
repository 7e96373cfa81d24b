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
    let mut todo = components(path);
    let mut links = 0;
    while let Some(name) = todo.pop() {
        if name == "/" || name == ".." {
            dir = openat(&dir, &name, PATH | OFlags::DIRECTORY, Mode::empty())?;
            continue;
        }
        let found = match openat(&dir, &name, PATH | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT) if todo.is_empty() || matches!(missing, Missing::Stop) => {
                return Ok(Resolved { dir, name, stat: None });
            }
            Err(Errno::NOENT) => {
                make(&dir, &name, &mut missing)?;
                todo.push(name);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&found)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            todo.extend(components(&read_trusted_link(dir.as_fd(), &name, &found, &stat)?));
        } else if todo.is_empty() {
            return Ok(Resolved { dir, name, stat: Some(stat) });
        } else if kind.is_dir() {
            dir = found;
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

fn make(dir: &OwnedFd, name: &OsStr, missing: &mut Missing<'_>) -> io::Result<()> {
    let Missing::Create(made) = missing else { return Err(Errno::NOENT.into()) };
    match mkdirat(dir, name, Mode::from_raw_mode(0o777)) {
        Ok(()) => made.push(NewFolder { parent: dir.try_clone()?, name: name.to_owned() }),
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
    let shown = name.display();
    if fstatfs(link)?.f_type == PROC_SUPER_MAGIC {
        // Its target need not be a path.
        let why = format!("'{shown}' is a link of /proc; name the file that it refers to");
        return Err(io::Error::other(why));
    }
    let owners = [stat.st_uid, fstat(dir)?.st_uid];
    match owners.into_iter().find(|owner| !is_trusted(*owner)) {
        None => {
            let target = readlinkat(link, "", Vec::new())?;
            Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
        }
        Some(owner) => Err(io::Error::other(format!(
            "'{shown}' is a link under the control of user {owner}, and fsdyno follows only yours and root's; \
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

    fn inode(end: &Resolved) -> Option<u64> {
        end.stat.as_ref().map(|stat| stat.st_ino)
    }

    #[test]
    fn own_links_lead_where_the_kernel_follows_them() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/file"), "").unwrap();
        symlink("a/b", at("relative")).unwrap();
        symlink(at("a"), at("absolute")).unwrap();
        symlink("../absolute/file", at("a/again")).unwrap();
        symlink("loop", at("loop")).unwrap();
        for path in ["a/file", "relative/../file", "absolute/file", "a/again", "./a//b/", "."] {
            let end = resolve(&at(path), Missing::Refuse).unwrap();
            let expected = std::fs::metadata(at(path)).unwrap().ino();
            assert_eq!(inode(&end), Some(expected), "{path}");
        }
        let error = |path| resolve(&at(path), Missing::Refuse).unwrap_err();
        assert_eq!(error("loop").raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(error("a/file/x").kind(), io::ErrorKind::NotADirectory);
        assert_eq!(error("none/x").kind(), io::ErrorKind::NotFound);
        assert_eq!(resolve(&at("none"), Missing::Refuse).unwrap().stat.map(|_| ()), None);
    }

    #[test]
    fn a_link_of_another_user_or_in_another_users_directory_is_not_followed() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: not root");
        }
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for name in ["mine", "other"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        symlink("mine", at("link")).unwrap();
        lchown(at("link"), Some(65534), None).unwrap();
        symlink("../mine", at("other/link")).unwrap();
        std::os::unix::fs::chown(at("other"), Some(65534), None).unwrap();
        for path in ["link", "link/x", "other/link", "other/link/x"] {
            let error =
                resolve(&at(path), Missing::Create(&mut Vec::new())).unwrap_err().to_string();
            assert!(error.contains("under the control of user 65534"), "{path}: {error}");
        }
        assert!(resolve(&at("other/x"), Missing::Refuse).is_ok());
    }

    #[test]
    fn a_link_of_proc_is_not_followed() {
        let error = resolve(Path::new("/proc/self/fd/0"), Missing::Refuse).unwrap_err();
        assert!(error.to_string().contains("/proc"), "{error}");
    }
}
