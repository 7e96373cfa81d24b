//! The facts that others need to know about a call: its kind, its effect on a tree, and its slots.

use fsdyno_record::OpKind;

use crate::arguments::{DirSlot, FileSlot, OpenFlags, Payload};

/// The effect of a call on a tree of names and contents, for those who replay calls. Modes, owners,
/// times and extended attributes are not part of such a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the call's own arguments")]
pub enum Effect {
    /// It changes neither names nor contents and makes nothing durable.
    None,
    /// `name` is looked up, and nothing changes.
    Lookup { dir: DirSlot },
    /// `name` becomes a new directory.
    MakeDir { dir: DirSlot },
    /// `name` becomes a new symbolic link.
    MakeLink { dir: DirSlot },
    /// The directory `name` is open as `slot`.
    OpenDir { dir: DirSlot, slot: DirSlot },
    /// The directory `slot` is no longer open.
    CloseDir { slot: DirSlot },
    /// The file `name` is open as `file`; with `create` it exists afterwards.
    Open { dir: DirSlot, file: FileSlot, flags: OpenFlags, create: bool },
    /// The file `file` is no longer open.
    Close { file: FileSlot },
    /// The payload is written at `offset`, or at the file position (the end with O_APPEND).
    Write { file: FileSlot, offset: Option<u64>, payload: Payload },
    /// The file position advances by at most `length` bytes.
    Advance { file: FileSlot, length: u32 },
    /// The file has `length` bytes.
    Resize { file: FileSlot, length: u64 },
    /// The file or directory `name` has the name `other` instead.
    Rename { dir: DirSlot, to: DirSlot },
    /// The file `name` has the name `other` too.
    Link { dir: DirSlot, to: DirSlot },
    /// `name` is gone; `directory` if it was an empty directory.
    Remove { dir: DirSlot, directory: bool },
    /// `name` and everything below it are gone.
    RemoveTree { dir: DirSlot },
    /// Something becomes durable.
    Sync(Synced),
    /// It changes the tree in a way that cannot be replayed, for the reason given.
    Untracked(&'static str),
}

/// What a call makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// An open file.
    File(FileSlot),
    /// The names in an open directory.
    Dir(DirSlot),
    /// Everything.
    All,
}

/// The facts of a call; see [`Call::facts`](crate::Call::facts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The kind that it is counted as; none for a call that the engine expands.
    pub kind: Option<OpKind>,
    /// The directory that its `name` is below; none for a call on a slot.
    pub dir: Option<DirSlot>,
    /// Its effect on a tree.
    pub effect: Effect,
}

/// In [`SlotsOf`], no slot.
pub const NO_SLOT: u16 = u16::MAX;

/// The numbers of the slots that a call is on, or opens; [`NO_SLOT`] for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotsOf {
    /// Files.
    pub files: [u16; 2],
    /// Directories: of `name`, and of `other`.
    pub dirs: [u16; 2],
}

impl SlotsOf {
    /// None.
    pub const NONE: SlotsOf = SlotsOf { files: [NO_SLOT; 2], dirs: [NO_SLOT; 2] };

    /// One file.
    pub fn file(file: FileSlot) -> SlotsOf {
        SlotsOf { files: [file.0, NO_SLOT], ..SlotsOf::NONE }
    }

    /// One directory.
    pub fn dir(dir: DirSlot) -> SlotsOf {
        SlotsOf { dirs: [dir.0, NO_SLOT], ..SlotsOf::NONE }
    }

    /// Two directories.
    pub fn dirs(dir: DirSlot, to: DirSlot) -> SlotsOf {
        SlotsOf { dirs: [dir.0, to.0], ..SlotsOf::NONE }
    }
}
