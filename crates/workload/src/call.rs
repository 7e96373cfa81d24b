//! The file system calls, and a table of what other modules need to know about each.

use fsdyno_record::{Nanos, OpKind};

use crate::arguments::{DirSlot, FileSlot, OpenFlags, Payload};
use crate::facts::{Effect, Facts, NO_SLOT, SlotsOf, Synced};
use crate::rare::RareCall;

/// The order in which the names of a directory are removed, determined when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveOrder {
    /// As getdents64(2) returns them.
    Readdir,
    /// By inode number, as GNU rm does in large directories.
    Inode,
    /// By name.
    Name,
}

/// A file system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the call's own arguments")]
pub enum Call {
    /// mkdirat(2).
    Mkdir { dir: DirSlot, mode: u32 },
    /// openat(2) of a directory, opened as `slot`.
    OpenDir { dir: DirSlot, slot: DirSlot },
    /// close(2) of a directory.
    CloseDir { slot: DirSlot },
    /// openat(2) with O_CREAT, opened as `file`.
    Create { dir: DirSlot, file: FileSlot, flags: OpenFlags, mode: u32 },
    /// openat(2) of an existing file, opened as `file`.
    Open { dir: DirSlot, file: FileSlot, flags: OpenFlags },
    /// close(2).
    Close { file: FileSlot },
    /// write(2).
    Write { file: FileSlot, payload: Payload },
    /// write(2) on a file opened to append.
    Append { file: FileSlot, payload: Payload },
    /// read(2) of at most `length` bytes.
    Read { file: FileSlot, length: u32 },
    /// pread(2) of at most `length` bytes at `offset`.
    ReadAt { file: FileSlot, offset: u64, length: u32 },
    /// pwrite(2) at `offset` of the file (the payload's own offset is within its content).
    WriteAt { file: FileSlot, offset: u64, payload: Payload },
    /// fstatat(2), not following links.
    Stat { dir: DirSlot },
    /// fstat(2).
    StatFile { file: FileSlot },
    /// renameat(2) from `name` to `second_name`.
    Rename { dir: DirSlot, to: DirSlot },
    /// linkat(2) from `name` to `second_name`.
    Link { dir: DirSlot, to: DirSlot },
    /// symlinkat(2): `name` is the link, `second_name` its target.
    Symlink { dir: DirSlot },
    /// unlinkat(2).
    Unlink { dir: DirSlot },
    /// unlinkat(2) with AT_REMOVEDIR.
    Rmdir { dir: DirSlot },
    /// fsync(2) of a file.
    Fsync { file: FileSlot },
    /// fsync(2) of a directory.
    FsyncDir { dir: DirSlot },
    /// ftruncate(2).
    Truncate { file: FileSlot, length: u64 },
    /// fallocate(2).
    Fallocate { file: FileSlot, length: u64 },
    /// fsetxattr(2) of `user.fsdyno` with `length` bytes.
    Setxattr { file: FileSlot, length: u32 },
    /// fchmod(2).
    ChmodFile { file: FileSlot, mode: u32 },
    /// fchmodat(2).
    Chmod { dir: DirSlot, mode: u32 },
    /// futimens(2) to `mtime` seconds; the access time is left unchanged (UTIME_OMIT).
    UtimesFile { file: FileSlot, mtime: i64 },
    /// utimensat(2) to `mtime` seconds, not following links; the access time is left unchanged.
    Utimes { dir: DirSlot, mtime: i64 },
    /// fchown(2) to the caller's own ids.
    ChownFile { file: FileSlot },
    /// fchownat(2) to the caller's own ids.
    Chown { dir: DirSlot },
    /// A call that the engine expands into many.
    Compound(Compound),
    /// syncfs(2) of the file system that the trial is on.
    Sync,
    /// A call that generators rarely make; such calls have their own table of facts.
    Rare(RareCall),
}

/// A call that the engine expands into many because only the file system knows its parts; each part
/// is timed and counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the call's own arguments")]
pub enum Compound {
    /// Reads directory `name` to its end (open, getdents64 until it returns nothing, close).
    Scan { dir: DirSlot },
    /// Reads directory `name` to its end and stats each file in readdir order; with `read`, each file
    /// is then opened, read to its end in calls of that many bytes, and closed.
    StatEach { dir: DirSlot, read: Option<u32> },
    /// Removes the tree `name`, including its root, as `rm -r` does. With `synced`, the directory is
    /// fsynced after each file that is removed from it.
    RemoveTree { dir: DirSlot, order: RemoveOrder, synced: bool },
    /// Copies the tree `name` to `second_name` as `cp -a` does: reads and writes of
    /// [`COPY_BUFFER`](crate::COPY_BUFFER) bytes.
    CopyTree { dir: DirSlot, to: DirSlot },
    /// Packs the tree `name` into the new file `second_name` as `tar -c` does: reads and writes of
    /// [`RECORD`](crate::RECORD) bytes. `compute` is processor time before each record is written.
    PackTree { dir: DirSlot, to: DirSlot, compute: Nanos },
    /// Unpacks the archive `name` below the directory `second_name` as `tar -x` does. `compute` is processor
    /// time after each record is read.
    UnpackTree { dir: DirSlot, to: DirSlot, compute: Nanos },
}

/// Returns the facts of a call on an open file, on an open directory or on the whole file system.
const fn on_slot(kind: OpKind, effect: Effect) -> Facts {
    Facts { kind: Some(kind), dir: None, effect }
}

/// Returns the facts of a call on a name.
const fn on_name(kind: OpKind, dir: DirSlot, effect: Effect) -> Facts {
    Facts { kind: Some(kind), dir: Some(dir), effect }
}

const COPIES: &str = "copies a tree, whose parts only the file system knows";
const PACKS: &str = "packs or unpacks a tree, whose parts only the file system knows";
const RESERVES: &str = "reserves space, whose state after a power cut is not modelled";

#[deny(clippy::wildcard_enum_match_arm, reason = "a new call must be classified here")]
impl Call {
    /// Returns the facts of the call; there is one row per call. Facts common to all calls of a kind are in
    /// the table of [`OpKind`].
    #[inline(always)]
    pub fn facts(&self) -> Facts {
        use OpKind as K;
        match *self {
            Call::Mkdir { dir, .. } => on_name(K::Mkdir, dir, Effect::MakeDir { dir }),
            Call::OpenDir { dir, slot } => on_name(K::Open, dir, Effect::OpenDir { dir, slot }),
            Call::CloseDir { slot } => on_slot(K::Close, Effect::CloseDir { slot }),
            Call::Create { dir, file, flags, .. } => {
                on_name(K::Create, dir, Effect::Open { dir, file, flags, create: true })
            }
            Call::Open { dir, file, flags } => {
                on_name(K::Open, dir, Effect::Open { dir, file, flags, create: false })
            }
            Call::Close { file } => on_slot(K::Close, Effect::Close { file }),
            Call::Write { file, payload } => {
                on_slot(K::Write, Effect::Write { file, offset: None, payload })
            }
            Call::Append { file, payload } => {
                on_slot(K::Append, Effect::Write { file, offset: None, payload })
            }
            Call::WriteAt { file, offset, payload } => {
                on_slot(K::Write, Effect::Write { file, offset: Some(offset), payload })
            }
            Call::Read { file, length } => on_slot(K::Read, Effect::Advance { file, length }),
            Call::ReadAt { .. } => on_slot(K::Read, Effect::None),
            Call::Stat { dir } => on_name(K::Stat, dir, Effect::Lookup { dir }),
            Call::StatFile { .. } => on_slot(K::Stat, Effect::None),
            Call::Rename { dir, to } => on_name(K::Rename, dir, Effect::Rename { dir, to }),
            Call::Link { dir, to } => on_name(K::Link, dir, Effect::Link { dir, to }),
            Call::Symlink { dir } => on_name(K::Symlink, dir, Effect::MakeLink { dir }),
            Call::Unlink { dir } => {
                on_name(K::Unlink, dir, Effect::Remove { dir, directory: false })
            }
            Call::Rmdir { dir } => on_name(K::Rmdir, dir, Effect::Remove { dir, directory: true }),
            Call::Fsync { file } => on_slot(K::Fsync, Effect::Sync(Synced::File(file))),
            Call::FsyncDir { dir } => on_slot(K::Fsync, Effect::Sync(Synced::Dir(dir))),
            Call::Truncate { file, length } => {
                on_slot(K::Truncate, Effect::Resize { file, length })
            }
            Call::Fallocate { .. } => on_slot(K::Fallocate, Effect::Untracked(RESERVES)),
            Call::Setxattr { .. } => on_slot(K::Setxattr, Effect::None),
            Call::ChmodFile { .. } => on_slot(K::Chmod, Effect::None),
            Call::Chmod { dir, .. } => on_name(K::Chmod, dir, Effect::None),
            Call::UtimesFile { .. } => on_slot(K::Utimes, Effect::None),
            Call::Utimes { dir, .. } => on_name(K::Utimes, dir, Effect::None),
            Call::ChownFile { .. } => on_slot(K::Chown, Effect::None),
            Call::Chown { dir } => on_name(K::Chown, dir, Effect::None),
            Call::Compound(compound) => compound.facts(),
            Call::Sync => on_slot(K::Sync, Effect::Sync(Synced::All)),
            Call::Rare(rare) => rare.facts(),
        }
    }

    /// Returns the slots that the call uses or opens.
    pub fn slots(&self) -> SlotsOf {
        match *self {
            Call::OpenDir { dir, slot } => SlotsOf::dirs(dir, slot),
            Call::CloseDir { slot } | Call::FsyncDir { dir: slot } => SlotsOf::dir(slot),
            Call::Create { dir, file, .. } | Call::Open { dir, file, .. } => {
                SlotsOf { files: [file.0, NO_SLOT], ..SlotsOf::dir(dir) }
            }
            Call::Close { file }
            | Call::Write { file, .. }
            | Call::Append { file, .. }
            | Call::Read { file, .. }
            | Call::ReadAt { file, .. }
            | Call::WriteAt { file, .. }
            | Call::StatFile { file }
            | Call::Fsync { file }
            | Call::Truncate { file, .. }
            | Call::Fallocate { file, .. }
            | Call::Setxattr { file, .. }
            | Call::ChmodFile { file, .. }
            | Call::UtimesFile { file, .. }
            | Call::ChownFile { file } => SlotsOf::file(file),
            Call::Mkdir { dir, .. }
            | Call::Stat { dir }
            | Call::Symlink { dir }
            | Call::Unlink { dir }
            | Call::Rmdir { dir }
            | Call::Chmod { dir, .. }
            | Call::Utimes { dir, .. }
            | Call::Chown { dir } => SlotsOf::dir(dir),
            Call::Rename { dir, to } | Call::Link { dir, to } => SlotsOf::dirs(dir, to),
            Call::Compound(compound) => compound.slots(),
            Call::Sync => SlotsOf::NONE,
            Call::Rare(rare) => rare.slots(),
        }
    }

    /// Returns the kind under which this call is counted, or `None` for a call that the engine expands.
    #[inline(always)]
    pub fn kind(&self) -> Option<OpKind> {
        self.facts().kind
    }
}

#[deny(clippy::wildcard_enum_match_arm, reason = "a new call must be classified here")]
impl Compound {
    fn slots(self) -> SlotsOf {
        match self {
            Compound::Scan { dir }
            | Compound::StatEach { dir, .. }
            | Compound::RemoveTree { dir, .. } => SlotsOf::dir(dir),
            Compound::CopyTree { dir, to }
            | Compound::PackTree { dir, to, .. }
            | Compound::UnpackTree { dir, to, .. } => SlotsOf::dirs(dir, to),
        }
    }

    fn facts(self) -> Facts {
        let row = |dir, effect| Facts { kind: None, dir: Some(dir), effect };
        match self {
            Compound::Scan { dir } | Compound::StatEach { dir, .. } => row(dir, Effect::None),
            Compound::RemoveTree { dir, .. } => row(dir, Effect::RemoveTree { dir }),
            Compound::CopyTree { dir, .. } => row(dir, Effect::Untracked(COPIES)),
            Compound::PackTree { dir, .. } | Compound::UnpackTree { dir, .. } => {
                row(dir, Effect::Untracked(PACKS))
            }
        }
    }
}
