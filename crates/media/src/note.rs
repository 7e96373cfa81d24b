//! A small file in a user's directory through which processes on several hosts find each other.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;

use crate::directory::open_directory;
use crate::error::MediaError;

/// A new file that only its owner can read; removed on drop.
#[derive(Debug)]
pub struct Note {
    parent: OwnedFd,
    name: String,
    path: PathBuf,
}

impl Note {
    /// Creates a note with this text in a directory. A note with the same name that a killed run of this user left
    /// is replaced.
    ///
    /// # Errors
    /// A directory that cannot be written; a file with that name that belongs to another user.
    pub fn create(folder: &Path, name: &str, text: &[u8]) -> Result<Note, MediaError> {
        let parent = open_directory(folder)?;
        let path = folder.join(name);
        let failed = |error| MediaError::io("write", path.clone(), error);
        if let Ok(old) = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            let is_file = rustix::fs::FileType::from_raw_mode(old.st_mode).is_file();
            if !is_file || old.st_uid != rustix::process::geteuid().as_raw() {
                return Err(failed(Errno::EXIST));
            }
            unlinkat(&parent, name, AtFlags::empty()).map_err(failed)?;
        }
        let draft = format!("{name}.new");
        match unlinkat(&parent, &draft, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&parent, &draft, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
        let write_failed =
            |error: std::io::Error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        std::fs::File::from(file).write_all(text).map_err(write_failed)?;
        // The file gets its final name only when it is complete.
        rustix::fs::renameat(parent.as_fd(), &draft, parent.as_fd(), name).map_err(failed)?;
        Ok(Note { parent, name: name.to_string(), path })
    }

    /// Creates an empty file with this name; returns none if it exists.
    ///
    /// # Errors
    /// A directory that cannot be written.
    pub fn claim(folder: &Path, name: &str) -> Result<Option<Note>, MediaError> {
        let parent = open_directory(folder)?;
        let path = folder.join(name);
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(&parent, name, flags, Mode::from_raw_mode(0o600)) {
            Ok(_) => Ok(Some(Note { parent, name: name.to_string(), path })),
            Err(Errno::EXIST) => Ok(None),
            Err(error) => Err(MediaError::io("write", path, error)),
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // If this fails, the next note with this name replaces it.
        let _ = unlinkat(&self.parent, &self.name, AtFlags::empty());
    }
}
