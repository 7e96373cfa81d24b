//! Writes fsdyno's files, in result folders and at paths of the user: atomically, never through another user's
//! link, and never to a drive.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat, accessat, fstat, fsync,
    linkat, mkdirat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::directory::{kernel_filesystem, unique_name};
use crate::walk::{Missing, NewFolder, Resolved, is_trusted, resolve};

/// Writes a file atomically, replacing an existing one. A pipe or a terminal is written directly.
///
/// # Errors
/// An error from the kernel, a block device, or a link of another user in the path.
pub fn write(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    if let Some(mut stream) = open_stream(path)? {
        return fill(&mut stream);
    }
    write_atomically(path, fill, Draft::replace)
}

/// Writes a new file atomically.
///
/// # Errors
/// Those of [`write()`], and an error if the path exists.
pub fn write_new(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    write_atomically(path, fill, Draft::publish)
}

/// Checks that [`write()`] can write a file at a path; writes nothing.
///
/// # Errors
/// The path is not a file, or has a link of another user.
pub fn check_writable(path: &Path) -> io::Result<()> {
    resolve(path, Missing::Refuse)?.stat.as_ref().map_or(Ok(()), is_file)
}

/// Opens a file for reading and appending; a missing file is created if `create` is set.
///
/// # Errors
/// An error from the kernel; a path that is not a file; a hard link in another user's folder; a link of another
/// user in the path.
pub fn append(path: &Path, create: bool) -> io::Result<File> {
    let Resolved { dir, name, stat } = resolve(path, Missing::Refuse)?;
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (flags, mode) = match (stat, create) {
        (None, true) => (flags | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o666)),
        // If the path has become a pipe in the meantime, opening it must not block.
        _ => (flags | OFlags::NONBLOCK, Mode::empty()),
    };
    let file = openat(&dir, &name, flags, mode)?;
    let stat = fstat(&file)?;
    is_file(&stat)?;
    if stat.st_nlink > 1 && !is_trusted(fstat(&dir)?.st_uid) {
        return Err(io::Error::other(
            "it is a hard link in another user's folder; \
             give --out a folder of your own",
        ));
    }
    Ok(File::from(file))
}

/// Creates a folder and its missing parents, and returns those created, the outermost first.
///
/// # Errors
/// An error from the kernel; a path that is not a folder, or is on a pseudo file system of the kernel; a link of
/// another user.
pub fn make_folder(path: &Path) -> io::Result<Vec<NewFolder>> {
    check_folder(path)?;
    let mut created = Vec::new();
    let Resolved { dir, name, stat } = resolve(path, Missing::Create(&mut created))?;
    match stat {
        Some(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => {}
        Some(_) => return Err(Errno::NOTDIR.into()),
        None => {
            mkdirat(&dir, &name, Mode::from_raw_mode(0o777))?;
            created.push(NewFolder { parent: dir, name });
        }
    }
    Ok(created)
}

/// Checks that [`make_folder`] can create a folder and files in it; creates nothing.
///
/// # Errors
/// Those of [`make_folder`], as far as they can be predicted.
pub fn check_folder(path: &Path) -> io::Result<()> {
    let Resolved { dir, stat, name } = resolve(path, Missing::Stop)?;
    let dir = match stat {
        None => dir,
        Some(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => {
            openat(&dir, &name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?
        }
        Some(_) => return Err(Errno::NOTDIR.into()),
    };
    if let Some(kind) = kernel_filesystem(dir.as_fd()) {
        return Err(io::Error::other(format!("no file can be created on {kind}")));
    }
    Ok(accessat(&dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Removes a file.
///
/// # Errors
/// An error from the kernel, or a link of another user in the path.
pub fn remove(path: &Path) -> io::Result<()> {
    let Resolved { dir, name, .. } = resolve(path, Missing::Refuse)?;
    Ok(unlinkat(&dir, &name, AtFlags::empty())?)
}

impl NewFolder {
    /// Removes the folder if it is empty.
    ///
    /// # Errors
    /// An error from the kernel.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR)?)
    }
}

/// Opens a terminal, a pipe or /dev/null for writing; returns `None` for a file or a new path.
fn open_stream(path: &Path) -> io::Result<Option<File>> {
    let kind = |file: &Stat| FileType::from_raw_mode(file.st_mode);
    match rustix::fs::stat(path) {
        Ok(stat) if !matches!(kind(&stat), FileType::RegularFile | FileType::Directory) => {}
        _ => return Ok(None),
    }
    // Opening a drive for writing changes nothing yet.
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    match kind(&fstat(&file)?) {
        FileType::BlockDevice => {
            Err(io::Error::other("it is a block device, whose data would be lost"))
        }
        FileType::RegularFile => Ok(None),
        _ => Ok(Some(File::from(file))),
    }
}

fn is_file(stat: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Fifo => Err(io::Error::other("it is a pipe; give the path of a file")),
        _ => Err(io::Error::other("it is a device; give the path of a file")),
    }
}

fn write_atomically(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
    publish: impl FnOnce(&mut Draft, &OsStr) -> Result<(), Errno>,
) -> io::Result<()> {
    let Resolved { dir, name, stat } = resolve(path, Missing::Refuse)?;
    stat.as_ref().map_or(Ok(()), is_file)?;
    let mut draft = Draft::new(dir)?;
    fill(&mut draft.file)?;
    draft.file.sync_all()?;
    publish(&mut draft, &name)?;
    // Make the name as durable as the data. Failure is ignored: some file systems do not support it.
    let folder = openat(&draft.dir, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let _ = folder.and_then(fsync);
    Ok(())
}

/// A file without its final name. If it never gets that name, it vanishes however this process ends, provided
/// that the file system supports nameless files.
struct Draft {
    dir: OwnedFd,
    file: File,
    /// Its temporary name, if any.
    name: Option<String>,
}

impl Draft {
    fn new(dir: OwnedFd) -> Result<Draft, Errno> {
        let (access, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        match openat(&dir, ".", access | OFlags::TMPFILE, mode) {
            Ok(file) => return Ok(Draft { dir, file: File::from(file), name: None }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
        let name = unique_name();
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = File::from(openat(&dir, &name, access | create, mode)?);
        Ok(Draft { dir, file, name: Some(name) })
    }

    /// Names the file; fails if the name exists.
    fn publish(&mut self, name: &OsStr) -> Result<(), Errno> {
        let Some(temporary) = &self.name else {
            let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            return linkat(CWD, file, &self.dir, name, AtFlags::SYMLINK_FOLLOW);
        };
        match renameat_with(&self.dir, temporary, &self.dir, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                linkat(&self.dir, temporary, &self.dir, name, AtFlags::empty())
            }
            result => {
                result?;
                self.name = None;
                Ok(())
            }
        }
    }

    /// Names the file, replacing an existing one.
    fn replace(&mut self, name: &OsStr) -> Result<(), Errno> {
        if self.name.is_none() {
            let temporary = unique_name();
            self.publish(OsStr::new(&temporary))?;
            self.name = Some(temporary);
        }
        if let Some(temporary) = &self.name {
            renameat(&self.dir, temporary, &self.dir, name)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // If this fails, the leftover is found by its name.
            let _ = unlinkat(&self.dir, name, AtFlags::empty());
        }
    }
}

/// Reports whether a path still refers to an open file.
pub fn refers_to(file: &File, path: &Path) -> bool {
    let resolved = resolve(path, Missing::Refuse).ok();
    let stat =
        resolved.and_then(|entry| statat(&entry.dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW).ok());
    let (Some(stat), Ok(open_stat)) = (stat, fstat(file)) else { return false };
    (stat.st_dev, stat.st_ino) == (open_stat.st_dev, open_stat.st_ino)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_written_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        write(&path, |file| file.write_all(b"one")).unwrap();
        write(&path, |file| file.write_all(b"2")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        assert_ne!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o400, 0);
        let fill_disk = |file: &mut File| {
            file.write_all(b"thr")?;
            Err(Errno::NOSPC.into())
        };
        assert!(write(&path, fill_disk).is_err());
        assert!(write_new(&folder.path().join("new"), fill_disk).is_err());
        assert!(write_new(&path, |_| Ok(())).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        write_new(&folder.path().join("new"), |file| file.write_all(b"new")).unwrap();
        assert_eq!(names(folder.path()), ["new", "page"]);
    }

    #[test]
    fn files_are_written_without_support_for_nameless_files() {
        let folder = tempfile::tempdir().unwrap();
        let draft = |name: &str| {
            let resolved = resolve(&folder.path().join("x"), Missing::Refuse).unwrap();
            let path = folder.path().join(name);
            Draft { dir: resolved.dir, file: File::create(path).unwrap(), name: Some(name.into()) }
        };
        drop(draft("a"));
        draft("b").publish(OsStr::new("page")).unwrap();
        assert!(draft("c").publish(OsStr::new("page")).is_err());
        draft("d").replace(OsStr::new("page")).unwrap();
        assert_eq!(names(folder.path()), ["page"]);
    }

    #[test]
    fn appended_lines_are_last_and_only_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        assert_eq!(append(&path, false).unwrap_err().kind(), io::ErrorKind::NotFound);
        for line in ["one\n", "two\n"] {
            append(&path, true).unwrap().write_all(line.as_bytes()).unwrap();
        }
        let mut text = String::new();
        append(&path, false).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(append(&pipe, true).unwrap_err().to_string().contains("it is a pipe"));
        assert!(append(folder.path(), true).is_err());
    }

    #[test]
    fn nothing_is_written_through_links_of_other_users() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: not root");
        }
        let base = tempfile::tempdir().unwrap();
        let (other, own) = (base.path().join("other"), base.path().join("own"));
        std::fs::create_dir(&other).unwrap();
        std::fs::write(&own, "root's").unwrap();
        symlink(&own, other.join("link")).unwrap();
        symlink(base.path().join("new"), other.join("dangling")).unwrap();
        std::fs::hard_link(&own, other.join("hard")).unwrap();
        chown(&other, Some(65534), None).unwrap();
        for name in ["link", "dangling"] {
            let path = other.join(name);
            for result in [write(&path, |_| Ok(())), append(&path, true).map(drop)] {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("under the control of user 65534"), "{name}: {error}");
            }
            assert!(check_writable(&path).is_err() && remove(&path).is_err());
            assert!(make_folder(&path.join("x")).is_err());
        }
        assert!(append(&other.join("hard"), true).unwrap_err().to_string().contains("hard link"));
        // The hard link is replaced, and its target is unchanged.
        write(&other.join("hard"), |file| file.write_all(b"a page")).unwrap();
        assert_eq!(std::fs::read_to_string(&own).unwrap(), "root's");
        assert!(!base.path().join("new").exists());
    }

    #[test]
    fn folders_are_created_and_removed_again_but_none_in_proc() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("a/b/c");
        check_folder(&path).unwrap();
        assert_eq!(names(base.path()), [""; 0]);
        let created = make_folder(&path).unwrap();
        assert!(path.is_dir() && created.len() == 3 && make_folder(&path).unwrap().is_empty());
        created.iter().rev().for_each(|folder| folder.remove().unwrap());
        assert_eq!(names(base.path()), [""; 0]);
        for path in ["/proc/x", "/proc/x/y", "/sys/kernel"] {
            let error = check_folder(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("no file can be created on"), "{path}: {error}");
            assert_eq!(make_folder(Path::new(path)).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn a_stream_is_written_to_and_a_drive_is_refused() {
        let nothing = Path::new("/dev/null");
        write(nothing, |file| file.write_all(b"text")).unwrap();
        assert!(
            rustix::fs::stat(nothing).is_ok_and(
                |stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
            )
        );
        let folder = tempfile::tempdir().unwrap();
        let devices = std::fs::read_dir("/sys/block").unwrap().flatten();
        let mut nodes = devices.map(|entry| Path::new("/dev").join(entry.file_name()));
        let Some(node) = nodes.find(|node| node.exists()) else {
            return println!("skipped: no block device here");
        };
        let link = folder.path().join("link");
        symlink(node, &link).unwrap();
        let error = write(&link, |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("block device"), "{error}");
    }
}
