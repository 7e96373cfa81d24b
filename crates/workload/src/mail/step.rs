//! The steps of jobs, each of which makes one call or repeats one, and the places in which they work.

use crate::op::OpenFlags;

/// The location of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the directory of messages that it is copied from.
    Store,
    /// `tmp` of a maildir, while it is written.
    Temporary,
    /// `new` of a maildir.
    New,
    /// `cur` of a maildir, with the flag for a message that was seen.
    Seen,
}

/// A directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Messages to write from.
    WriteStore,
    /// Messages to read.
    ReadStore,
    /// A maildir.
    Maildir,
    /// Its `tmp`.
    Temporary,
    /// Its `new`.
    New,
    /// Its `cur`.
    Current,
}

/// A step of a job: one call, or one call repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// mkdir.
    Mkdir(Folder),
    /// Opens the maildir, and paths begin there until [`Step::Leave`]; stands for chdir.
    Enter,
    /// Closes the maildir.
    Leave,
    /// Reads a directory to its end.
    Scan(Folder),
    /// Opens a directory, to sync it.
    OpenFolder(Folder),
    /// fsync of the directory opened last.
    FsyncFolder(Folder),
    /// Closes it.
    CloseFolder(Folder),
    /// stat, which must fail with ENOENT.
    Absent(Location),
    /// Opens a new file to write.
    Create(Location, OpenFlags, u32),
    /// Opens a file to read.
    Open(Location),
    /// fstat.
    StatFile,
    /// write until the whole message is written, in parts determined by the job's [`Split`](crate::mail::job::Split).
    Write,
    /// read until a call returns nothing.
    Read,
    /// futimens to this second.
    Utimes(i64),
    /// fchown.
    Chown,
    /// fchmod.
    Chmod(u32),
    /// fsync.
    Fsync,
    /// close.
    Close,
    /// link.
    Link(Location, Location),
    /// rename.
    Rename(Location, Location),
    /// unlink.
    Unlink(Location),
}
