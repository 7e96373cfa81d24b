//! A path followed component by component, so that nobody else's link leads fsdyno astray.
//!
//! Whoever may write in a directory may put a link there, and root that follows it writes where its owner
//! may not. So a link is followed only if root or this user made it, in a directory of root's or this user's.

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

/// As many links as the kernel follows in a path (path_resolution(7)).
const MOST_LINKS: u32 = 40;

/// Where a path leads.
#[derive(Debug)]
pub struct End {
    /// The directory of its last component, with every link followed; opened with O_PATH.
    pub dir: OwnedFd,
    /// The last component; `.` where the path is a directory without one.
    pub name: OsString,
    /// What is there, if anything: never a link.
    pub there: Option<Stat>,
}

/// What becomes of directories that are not there.
pub enum Missing<'a> {
    /// The path leads nowhere.
    Refuse,
    /// They are made, and noted.
    Make(&'a mut Vec<NewFolder>),
    /// The walk ends at the first of them.
    Stop,
}

/// A directory that was made on the way.
#[derive(Debug)]
pub struct NewFolder {
    pub(crate) parent: OwnedFd,
    pub(crate) name: OsString,
}

/// Follows a path to its last component.
///
/// # Errors
/// What the kernel says, or that a link on the way is somebody else's.
pub fn to_end(path: &Path, mut missing: Missing<'_>) -> io::Result<End> {
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
                return Ok(End { dir, name, there: None });
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
            if links > MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            todo.extend(components(&followed(dir.as_fd(), &name, &found, &stat)?));
        } else if todo.is_empty() {
            return Ok(End { dir, name, there: Some(stat) });
        } else if kind.is_dir() {
            dir = found;
        } else {
            return Err(Errno::NOTDIR.into());
        }
    }
    let there = Some(fstat(&dir)?);
    Ok(End { dir, name: ".".into(), there })
}

const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// The components of a path, the first one last.
fn components(path: &Path) -> Vec<OsString> {
    let names = path.components().filter(|component| *component != Component::CurDir);
    names.rev().map(|component| component.as_os_str().to_owned()).collect()
}

fn make(dir: &OwnedFd, name: &OsStr, missing: &mut Missing<'_>) -> io::Result<()> {
    let Missing::Make(made) = missing else { return Err(Errno::NOENT.into()) };
    match mkdirat(dir, name, Mode::from_raw_mode(0o777)) {
        Ok(()) => made.push(NewFolder { parent: dir.try_clone()?, name: name.to_owned() }),
        // Somebody else was first, and what is there now is looked at again.
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// What a link says, if it may be followed.
fn followed(dir: BorrowedFd<'_>, name: &OsStr, link: &OwnedFd, stat: &Stat) -> io::Result<PathBuf> {
    let shown = name.display();
    if fstatfs(link)?.f_type == PROC_SUPER_MAGIC {
        // Its text need not be a path.
        let why = format!("'{shown}' is a link of /proc; name the file that it stands for");
        return Err(io::Error::other(why));
    }
    let owners = [stat.st_uid, fstat(dir)?.st_uid];
    match owners.into_iter().find(|owner| !is_trusted(*owner)) {
        None => {
            let target = readlinkat(link, "", Vec::new())?;
            Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
        }
        Some(owner) => Err(io::Error::other(format!(
            "'{shown}' is a link in the hands of user {owner}, and fsdyno follows only yours and root's; \
             name the file or folder that it points to"
        ))),
    }
}

/// Whether links and directories of a user may decide where files go.
pub fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    fn inode(end: &End) -> Option<u64> {
        end.there.as_ref().map(|stat| stat.st_ino)
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
            let end = to_end(&at(path), Missing::Refuse).unwrap();
            let expected = std::fs::metadata(at(path)).unwrap().ino();
            assert_eq!(inode(&end), Some(expected), "{path}");
        }
        let error = |path| to_end(&at(path), Missing::Refuse).unwrap_err();
        assert_eq!(error("loop").raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(error("a/file/x").kind(), io::ErrorKind::NotADirectory);
        assert_eq!(error("none/x").kind(), io::ErrorKind::NotFound);
        assert_eq!(to_end(&at("none"), Missing::Refuse).unwrap().there.map(|_| ()), None);
    }

    #[test]
    fn a_link_of_somebody_else_is_not_followed_nor_any_in_his_directory() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: not root");
        }
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for name in ["mine", "his"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        symlink("mine", at("link")).unwrap();
        lchown(at("link"), Some(65534), None).unwrap();
        symlink("../mine", at("his/link")).unwrap();
        std::os::unix::fs::chown(at("his"), Some(65534), None).unwrap();
        for path in ["link", "link/x", "his/link", "his/link/x"] {
            let error = to_end(&at(path), Missing::Make(&mut Vec::new())).unwrap_err().to_string();
            assert!(error.contains("in the hands of user 65534"), "{path}: {error}");
        }
        assert!(to_end(&at("his/x"), Missing::Refuse).is_ok());
    }

    #[test]
    fn a_link_of_proc_is_no_path() {
        let error = to_end(Path::new("/proc/self/fd/0"), Missing::Refuse).unwrap_err();
        assert!(error.to_string().contains("/proc"), "{error}");
    }
}
