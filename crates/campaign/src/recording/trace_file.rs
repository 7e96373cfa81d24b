//! The file of a trace. A new trace replaces an older one only when it is complete: until then, it is written next to
//! it, as NAME.part. A trace that ends early becomes NAME.partial, or NAME.partial-2 and so on.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, Stat, flock, fstat, open, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::Failure;
use crate::notes::say;

/// The end of the name of a trace that is being written.
const PART: &str = ".part";

/// The end of the name of a trace that ended early.
const PARTIAL: &str = ".partial";

/// The maximum number of traces that ended early with one name.
const MAX_PARTIAL: u32 = 1000;

/// A new trace that is being written. Dropping it leaves an older trace unchanged and removes the new one.
pub(super) struct TraceFile {
    file: File,
    path: PathBuf,
    /// The older trace at the path, if there is one.
    older: Option<Older>,
}

/// An older trace, and the name of the new one until that is complete.
struct Older {
    folder: OwnedFd,
    name: OsString,
    part: OsString,
    /// The path of the new trace.
    part_path: PathBuf,
    /// The identities of the older trace and of the new one.
    identity: (u64, u64),
    part_identity: (u64, u64),
    /// True until it is known what becomes of the new trace.
    is_pending: bool,
}

impl TraceFile {
    /// Creates the file of a trace. Refuses to replace any file that is not a trace: the opened file is checked before
    /// anything is changed.
    ///
    /// # Errors
    /// A file that is not a trace or cannot be written.
    pub(super) fn create(path: &Path) -> Result<TraceFile, Failure> {
        let failed = |error: io::Error| Failure::io("write the trace", path, &error);
        let refused = |why| {
            Err(Failure::invalid_use(format!("'{}' {why}; not overwriting it", path.display())))
        };
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.file_type().is_block_device() {
            return refused("is a drive");
        }
        let mut older = None;
        if metadata.is_file() {
            let start = start(&file).map_err(failed)?;
            if !start.is_empty() && start != fsdyno_trace::MAGIC {
                return refused("exists and is not a trace");
            }
            if !start.is_empty() {
                older = Older::of(path, &file).map_err(failed)?;
            }
            if older.is_none() && !start.is_empty() {
                say(&format!(
                    "fsdyno: no file can be created next to '{}', so the new trace overwrites the older one now",
                    path.display()
                ));
            }
            if older.is_none() {
                file.rewind().map_err(failed)?;
                file.set_len(0).map_err(failed)?;
            }
        }
        let (file, older) = older.map_or((file, None), |(part, older)| (part, Some(older)));
        Ok(TraceFile { file, path: path.into(), older })
    }

    /// Returns the open file.
    ///
    /// # Errors
    /// The process has too many open files.
    pub(super) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Returns the path of an older trace that remains until the new one is complete.
    pub(super) fn older(&self) -> Option<&Path> {
        self.older.as_ref().map(|_| self.path.as_path())
    }

    /// Ends a complete trace, which replaces the older one. Returns its path.
    ///
    /// # Errors
    /// The older trace cannot be replaced; the message has the path of the new one.
    pub(super) fn complete(mut self) -> Result<PathBuf, Failure> {
        let Some(mut older) = self.older.take() else { return Ok(self.path) };
        older.is_pending = false;
        match self.file.sync_all().and_then(|()| older.replace()) {
            Ok(()) => Ok(self.path),
            Err(error) => {
                let failure = Failure::io("replace the older trace", &self.path, &error);
                let message = match older.keep() {
                    Some(path) => format!("{failure}; the new trace is '{}'", path.display()),
                    None => format!("{failure}; another program removed the new trace"),
                };
                Err(Failure { message, ..failure })
            }
        }
    }

    /// Ends a trace that has a part of the calls; an older trace remains. Returns the path of the new one.
    pub(super) fn leave(mut self) -> PathBuf {
        match self.older.take() {
            Some(mut older) => {
                older.is_pending = false;
                older.keep().unwrap_or_else(|| std::mem::take(&mut older.part_path))
            }
            None => self.path,
        }
    }
}

impl Older {
    /// Creates the file of the new trace next to an older one. `None` if no file can be created there.
    fn of(path: &Path, file: &File) -> io::Result<Option<(File, Older)>> {
        let real = path.canonicalize()?;
        let (Some(folder_path), Some(name)) = (real.parent(), real.file_name()) else {
            return Ok(None);
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(folder_path, flags, Mode::empty())?;
        let part: OsString = [name, OsStr::new(PART)].into_iter().collect();
        let created = match create_new(&folder, &part) {
            Err(Errno::EXIST) => {
                remove_part(&folder, &part)?;
                create_new(&folder, &part)
            }
            created => created,
        };
        let part_file = match created {
            Ok(file) => file,
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NAMETOOLONG) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        lock(&part_file, &part)?;
        // Without the older owner and permissions, the trace has those of a new file.
        if let Ok(metadata) = file.metadata() {
            let _ = fchown(&part_file, Some(metadata.uid()), Some(metadata.gid()));
            let _ = part_file.set_permissions(metadata.permissions());
        }
        let part_path = match path.is_symlink() {
            true => folder_path.join(&part),
            false => path.with_file_name(&part),
        };
        let older = Older {
            identity: identity(&fstat(file)?),
            part_identity: identity(&fstat(&part_file)?),
            folder,
            name: name.to_os_string(),
            part,
            part_path,
            is_pending: true,
        };
        Ok(Some((part_file, older)))
    }

    /// Replaces the older trace by the new one, unless one of the names has become that of another file.
    fn replace(&self) -> io::Result<()> {
        if !self.is_at(&self.name, self.identity) || !self.is_at(&self.part, self.part_identity) {
            return Err(io::Error::other("another program replaced it meanwhile"));
        }
        Ok(renameat(&self.folder, &self.part, &self.folder, &self.name)?)
    }

    /// Gives the new trace a name that no later recording uses; returns its path, or `None` if it is gone.
    fn keep(&self) -> Option<PathBuf> {
        if !self.is_at(&self.part, self.part_identity) {
            return None;
        }
        for number in 1..=MAX_PARTIAL {
            let mut name = self.name.clone();
            name.push(PARTIAL);
            if number > 1 {
                name.push(format!("-{number}"));
            }
            let flags = RenameFlags::NOREPLACE;
            match renameat_with(&self.folder, &self.part, &self.folder, &name, flags) {
                Ok(()) => return Some(self.part_path.with_file_name(name)),
                Err(Errno::EXIST) => {}
                Err(_) => break,
            }
        }
        Some(self.part_path.clone())
    }

    fn is_at(&self, name: &OsStr, file: (u64, u64)) -> bool {
        let found = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|stat| identity(&stat) == file)
    }
}

impl Drop for Older {
    fn drop(&mut self) {
        if self.is_pending && self.is_at(&self.part, self.part_identity) {
            // If this fails, the next recording with this name removes the file.
            let _ = unlinkat(&self.folder, &self.part, AtFlags::empty());
        }
    }
}

fn create_new(folder: &OwnedFd, name: &OsStr) -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

/// Locks the file of a new trace until this process ends or closes it.
fn lock(file: &File, name: &OsStr) -> io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| io::Error::other(format!("another recording is writing '{}'", name.display())))
}

/// Removes the trace of a recorder that was killed.
fn remove_part(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    let is_trace = file.metadata()?.is_file() && {
        let start = start(&file)?;
        start.is_empty() || start == fsdyno_trace::MAGIC
    };
    match is_trace {
        true => {
            lock(&file, name)?;
            Ok(unlinkat(folder, name, AtFlags::empty())?)
        }
        false => Err(io::Error::other(format!(
            "the new trace is first '{}', which exists and is not a trace",
            name.display()
        ))),
    }
}

/// Reads the bytes by which a trace is recognized.
fn start(file: &File) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.take(fsdyno_trace::MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn trace(text: &str) -> Vec<u8> {
        [&fsdyno_trace::MAGIC[..], text.as_bytes()].concat()
    }

    /// Creates the file of a new trace in a folder with an older one, and writes to it.
    fn new_trace(folder: &Path) -> (PathBuf, TraceFile) {
        let path = folder.join("it.trace");
        fs::write(&path, trace("older")).unwrap();
        let new = TraceFile::create(&path).unwrap();
        assert_eq!(new.older(), Some(path.as_path()));
        new.file().unwrap().write_all(&trace("new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), trace("older"));
        (path, new)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_complete_trace_replaces_the_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = new_trace(folder.path());
        assert_eq!(new.complete().unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), trace("new"));
        assert_eq!(names(folder.path()), ["it.trace"]);
    }

    #[test]
    fn a_failed_recording_leaves_the_older_trace() {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = new_trace(folder.path());
        drop(new);
        assert_eq!(names(folder.path()), ["it.trace"]);
        // A trace that ended early keeps a name of its own.
        for name in ["it.trace.partial", "it.trace.partial-2"] {
            let (_, new) = new_trace(folder.path());
            let partial = new.leave();
            assert_eq!(partial, folder.path().join(name));
            assert_eq!(fs::read(&partial).unwrap(), trace("new"));
            assert_eq!(fs::read(&path).unwrap(), trace("older"));
        }
        // That of a killed recorder is removed by the next recording, which is the only one at a time.
        fs::write(folder.path().join("it.trace.part"), trace("killed")).unwrap();
        let (_, first) = new_trace(folder.path());
        let error = TraceFile::create(&path).err().unwrap().to_string();
        assert!(error.contains("another recording is writing 'it.trace.part'"), "{error}");
        first.complete().unwrap();
        assert_eq!(fs::read(&path).unwrap(), trace("new"));
        fs::write(&path, trace("older")).unwrap();
        fs::write(folder.path().join("it.trace.part"), "a text").unwrap();
        let error = TraceFile::create(&path).err().unwrap().to_string();
        assert!(error.contains("'it.trace.part', which exists and is not a trace"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), trace("older"));
    }

    #[test]
    fn a_file_that_another_program_put_there_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = new_trace(folder.path());
        fs::write(folder.path().join("text"), "a text").unwrap();
        fs::rename(folder.path().join("text"), &path).unwrap();
        let error = new.complete().unwrap_err().to_string();
        assert!(error.contains("; the new trace is '"), "{error}");
        assert!(error.ends_with("it.trace.partial'"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"a text");
    }

    #[test]
    fn a_new_trace_is_written_at_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.trace");
        for _ in 0..2 {
            let new = TraceFile::create(&path).unwrap();
            assert_eq!(new.older(), None, "the file is missing, or empty");
            assert_eq!(new.leave(), path);
        }
        fs::write(&path, "a text").unwrap();
        let error = TraceFile::create(&path).err().unwrap().to_string();
        assert!(error.contains("exists and is not a trace; not overwriting it"), "{error}");
    }

    #[test]
    fn a_link_to_a_trace_remains_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, older) = new_trace(folder.path());
        drop(older);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("it.trace", &link).unwrap();
        let new = TraceFile::create(&link).unwrap();
        new.file().unwrap().write_all(&trace("new")).unwrap();
        assert_eq!(new.complete().unwrap(), link);
        assert!(link.is_symlink());
        assert_eq!(fs::read(&path).unwrap(), trace("new"));
    }
}
