//! The files that fsdyno writes, in result folders and where the user names one: never through somebody else's
//! link, never over a drive, and a page is there whole or not at all.

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

use crate::directory::{fresh_name, of_the_kernel};
use crate::walk::{End, Missing, NewFolder, is_trusted, to_end};

/// Writes a file, in the place of one that is there: whole or not at all. What is no file, such as a pipe or a
/// terminal, is written to as it is.
///
/// # Errors
/// What the kernel says, that the path is a block device, or that somebody else's link leads there.
pub fn write(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    if let Some(mut stream) = stream(path)? {
        return fill(&mut stream);
    }
    put(path, fill, Draft::replace)
}

/// Writes a file that is not there yet: whole or not at all.
///
/// # Errors
/// As [`write()`], and that something is there.
pub fn write_new(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    put(path, fill, Draft::publish)
}

/// Looks whether [`write()`] could put a file there; writes nothing.
///
/// # Errors
/// What is there instead of a file, or that somebody else's link leads there.
pub fn look(path: &Path) -> io::Result<()> {
    to_end(path, Missing::Refuse)?.there.as_ref().map_or(Ok(()), is_file)
}

/// Opens a file to read it and to append to it; `create` makes it where it is not there.
///
/// # Errors
/// What the kernel says, that it is no file, that it is somebody else's file under a second name, or that
/// somebody else's link leads there.
pub fn append(path: &Path, create: bool) -> io::Result<File> {
    let End { dir, name, there } = to_end(path, Missing::Refuse)?;
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (flags, mode) = match (there, create) {
        (None, true) => (flags | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o666)),
        // A pipe that was put there meanwhile keeps nobody waiting.
        _ => (flags | OFlags::NONBLOCK, Mode::empty()),
    };
    let file = openat(&dir, &name, flags, mode)?;
    let stat = fstat(&file)?;
    is_file(&stat)?;
    if stat.st_nlink > 1 && !is_trusted(fstat(&dir)?.st_uid) {
        return Err(io::Error::other(
            "it has another name elsewhere (a hard link), and the folder is another user's; \
             give --out a folder of your own",
        ));
    }
    Ok(File::from(file))
}

/// Makes a folder and those above it, as far as they are not there; gives those that it made, the outermost first.
///
/// # Errors
/// What the kernel says, that it is no folder or one of the kernel's own, or that somebody else's link leads there.
pub fn make_folder(path: &Path) -> io::Result<Vec<NewFolder>> {
    look_at_folder(path)?;
    let mut made = Vec::new();
    let End { dir, name, there } = to_end(path, Missing::Make(&mut made))?;
    match there {
        Some(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => {}
        Some(_) => return Err(Errno::NOTDIR.into()),
        None => {
            mkdirat(&dir, &name, Mode::from_raw_mode(0o777))?;
            made.push(NewFolder { parent: dir, name });
        }
    }
    Ok(made)
}

/// Looks whether [`make_folder`] could make a folder and files in it; makes nothing.
///
/// # Errors
/// As far as it can be known, why it could not.
pub fn look_at_folder(path: &Path) -> io::Result<()> {
    let End { dir, there, name } = to_end(path, Missing::Stop)?;
    let dir = match there {
        None => dir,
        Some(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => {
            openat(&dir, &name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?
        }
        Some(_) => return Err(Errno::NOTDIR.into()),
    };
    if let Some(kind) = of_the_kernel(dir.as_fd()) {
        return Err(io::Error::other(format!("no file can be made on {kind}")));
    }
    Ok(accessat(&dir, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Removes a file that is there.
///
/// # Errors
/// What the kernel says, or that somebody else's link leads there.
pub fn remove(path: &Path) -> io::Result<()> {
    let End { dir, name, .. } = to_end(path, Missing::Refuse)?;
    Ok(unlinkat(&dir, &name, AtFlags::empty())?)
}

impl NewFolder {
    /// Removes it again if it is empty.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR)?)
    }
}

/// Opens what is there and is no file: a terminal, a pipe, /dev/null; never a drive.
fn stream(path: &Path) -> io::Result<Option<File>> {
    let kind = |file: &Stat| FileType::from_raw_mode(file.st_mode);
    match rustix::fs::stat(path) {
        Ok(stat) if !matches!(kind(&stat), FileType::RegularFile | FileType::Directory) => {}
        _ => return Ok(None),
    }
    // Opening a drive for writing alone has changed nothing.
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    match kind(&fstat(&file)?) {
        FileType::BlockDevice => {
            Err(io::Error::other("it is a block device, and all that is on it would be lost"))
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

fn put(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
    publish: impl FnOnce(&mut Draft, &OsStr) -> Result<(), Errno>,
) -> io::Result<()> {
    let End { dir, name, there } = to_end(path, Missing::Refuse)?;
    there.as_ref().map_or(Ok(()), is_file)?;
    let mut draft = Draft::new(dir)?;
    fill(&mut draft.file)?;
    draft.file.sync_all()?;
    publish(&mut draft, &name)?;
    // The name is as safe as the file. A file system that cannot tell has no such promise to give.
    let folder = openat(&draft.dir, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let _ = folder.and_then(fsync);
    Ok(())
}

/// A file that is still to get its name. One that never gets it vanishes, whatever ends this process, where the
/// file system knows files without a name.
struct Draft {
    dir: OwnedFd,
    file: File,
    /// The name that it has meanwhile.
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
        let name = fresh_name();
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = File::from(openat(&dir, &name, access | new, mode)?);
        Ok(Draft { dir, file, name: Some(name) })
    }

    /// Gives it a name that nothing has.
    fn publish(&mut self, name: &OsStr) -> Result<(), Errno> {
        let Some(own) = &self.name else {
            let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            return linkat(CWD, file, &self.dir, name, AtFlags::SYMLINK_FOLLOW);
        };
        match renameat_with(&self.dir, own, &self.dir, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                linkat(&self.dir, own, &self.dir, name, AtFlags::empty())
            }
            done => {
                done?;
                self.name = None;
                Ok(())
            }
        }
    }

    /// Gives it a name, in the place of whatever has it.
    fn replace(&mut self, name: &OsStr) -> Result<(), Errno> {
        if self.name.is_none() {
            let own = fresh_name();
            self.publish(OsStr::new(&own))?;
            self.name = Some(own);
        }
        if let Some(own) = &self.name {
            renameat(&self.dir, own, &self.dir, name)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // There is nobody to whom a failure would matter: the name says whose it is.
            let _ = unlinkat(&self.dir, name, AtFlags::empty());
        }
    }
}

/// Whether a path still means an open file.
pub fn is_at(file: &File, path: &Path) -> bool {
    let at = to_end(path, Missing::Refuse).ok();
    let there = at.and_then(|at| statat(&at.dir, &at.name, AtFlags::SYMLINK_NOFOLLOW).ok());
    let (Some(there), Ok(ours)) = (there, fstat(file)) else { return false };
    (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
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
    fn a_file_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        write(&path, |file| file.write_all(b"one")).unwrap();
        write(&path, |file| file.write_all(b"2")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        assert_ne!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o400, 0);
        let full = |file: &mut File| {
            file.write_all(b"thr")?;
            Err(Errno::NOSPC.into())
        };
        assert!(write(&path, full).is_err());
        assert!(write_new(&folder.path().join("new"), full).is_err());
        assert!(write_new(&path, |_| Ok(())).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        write_new(&folder.path().join("new"), |file| file.write_all(b"new")).unwrap();
        assert_eq!(names(folder.path()), ["new", "page"]);
    }

    #[test]
    fn a_file_system_without_nameless_files_is_written_to_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let draft = |name: &str| {
            let end = to_end(&folder.path().join("x"), Missing::Refuse).unwrap();
            let path = folder.path().join(name);
            Draft { dir: end.dir, file: File::create(path).unwrap(), name: Some(name.into()) }
        };
        drop(draft("a"));
        draft("b").publish(OsStr::new("page")).unwrap();
        assert!(draft("c").publish(OsStr::new("page")).is_err());
        draft("d").replace(OsStr::new("page")).unwrap();
        assert_eq!(names(folder.path()), ["page"]);
    }

    #[test]
    fn what_is_appended_stands_last_and_only_a_file_is_opened() {
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
        assert!(append(&pipe, true).unwrap_err().to_string().contains("no file"));
        assert!(append(folder.path(), true).is_err());
    }

    #[test]
    fn nothing_is_written_through_links_of_somebody_else() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: not root");
        }
        let base = tempfile::tempdir().unwrap();
        let (his, own) = (base.path().join("his"), base.path().join("own"));
        std::fs::create_dir(&his).unwrap();
        std::fs::write(&own, "root's").unwrap();
        symlink(&own, his.join("link")).unwrap();
        symlink(base.path().join("new"), his.join("dangling")).unwrap();
        std::fs::hard_link(&own, his.join("hard")).unwrap();
        chown(&his, Some(65534), None).unwrap();
        for name in ["link", "dangling"] {
            let path = his.join(name);
            for done in [write(&path, |_| Ok(())), append(&path, true).map(drop)] {
                let error = done.unwrap_err().to_string();
                assert!(error.contains("in the hands of user 65534"), "{name}: {error}");
            }
            assert!(look(&path).is_err() && remove(&path).is_err());
            assert!(make_folder(&path.join("x")).is_err());
        }
        assert!(append(&his.join("hard"), true).unwrap_err().to_string().contains("hard link"));
        // The second name goes, and not what it named.
        write(&his.join("hard"), |file| file.write_all(b"a page")).unwrap();
        assert_eq!(std::fs::read_to_string(&own).unwrap(), "root's");
        assert!(!base.path().join("new").exists());
    }

    #[test]
    fn folders_are_made_and_removed_again_and_none_in_proc() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("a/b/c");
        look_at_folder(&path).unwrap();
        assert_eq!(names(base.path()), [""; 0]);
        let made = make_folder(&path).unwrap();
        assert!(path.is_dir() && made.len() == 3 && make_folder(&path).unwrap().is_empty());
        made.iter().rev().for_each(|folder| folder.remove().unwrap());
        assert_eq!(names(base.path()), [""; 0]);
        for path in ["/proc/x", "/proc/x/y", "/sys/kernel"] {
            let error = look_at_folder(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("no file can be made on"), "{path}: {error}");
            assert_eq!(make_folder(Path::new(path)).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn a_stream_is_written_to_and_a_drive_is_refused() {
        let nothing = Path::new("/dev/null");
        write(nothing, |file| file.write_all(b"text")).unwrap();
        assert!(
            rustix::fs::stat(nothing)
                .is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::CharacterDevice)
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
