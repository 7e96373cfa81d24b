//! The steps of jobs, each of which makes one call or repeats one call, and the locations on which they operate.

use crate::op::OpenFlags;

/// The location of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The store from which the message is copied.
    Store,
    /// `tmp` of a maildir, while the message is written.
    Temporary,
    /// `new` of a maildir.
    New,
    /// `cur` of a maildir, with the flag of a seen message.
    Seen,
}

/// A directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// The source messages for writes.
    WriteStore,
    /// The messages to read.
    ReadStore,
    /// A maildir.
    Maildir,
    /// `tmp` of the maildir.
    Temporary,
    /// `new` of the maildir.
    New,
    /// `cur` of the maildir.
    Current,
}

/// A step of a job: one call, or one call repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// mkdir.
    Mkdir(Folder),
    /// Opens the maildir, to which paths are relative until [`Step::Leave`]; stands for chdir.
    Enter,
    /// Closes the maildir.
    Leave,
    /// Reads a directory to its end.
    Scan(Folder),
    /// Opens a directory for syncing it.
    OpenFolder(Folder),
    /// fsync of the directory opened last.
    FsyncFolder(Folder),
    /// Closes that directory.
    CloseFolder(Folder),
    /// stat, which must fail with ENOENT.
    CheckAbsent(Location),
    /// Creates a file for writing.
    Create(Location, OpenFlags, u32),
    /// Opens a file for reading.
    Open(Location),
    /// fstat.
    StatFile,
    /// write, repeated until the whole message is written, in parts determined by the job's
    /// [`Split`](crate::mail::job::Split).
    Write,
    /// read, repeated until a call returns nothing.
    Read,
    /// futimens with this time in seconds.
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
