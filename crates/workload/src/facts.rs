//! Facts about calls that other modules need: the kind, the effect on a tree, and the slots.

use fsdyno_record::OpKind;

use crate::arguments::{DirSlot, FileSlot, OpenFlags, Payload};

/// The effect of a call on a tree of names and contents, for code that replays calls. Modes, owners, times and extended
/// attributes are not part of such a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the call's own arguments")]
pub enum Effect {
    /// Changes neither names nor contents and makes nothing durable.
    None,
    /// Looks up `name` and changes nothing.
    Lookup { dir: DirSlot },
    /// Creates the directory `name`.
    MakeDir { dir: DirSlot },
    /// Creates the symbolic link `name`.
    MakeLink { dir: DirSlot },
    /// Opens the directory `name` as `slot`.
    OpenDir { dir: DirSlot, slot: DirSlot },
    /// Closes the directory `slot`.
    CloseDir { slot: DirSlot },
    /// Opens the file `name` as `file`; with `create`, the file exists afterwards.
    Open { dir: DirSlot, file: FileSlot, flags: OpenFlags, create: bool },
    /// Closes the file `file`.
    Close { file: FileSlot },
    /// Writes the payload at `offset`, or at the file position (the end with O_APPEND).
    Write { file: FileSlot, offset: Option<u64>, payload: Payload },
    /// Advances the file position by at most `length` bytes.
    Advance { file: FileSlot, length: u32 },
    /// Sets the size of the file to `length` bytes.
    Resize { file: FileSlot, length: u64 },
    /// Renames the file or directory `name` to `second_name`.
    Rename { dir: DirSlot, to: DirSlot },
    /// Adds the name `second_name` to the file `name`.
    Link { dir: DirSlot, to: DirSlot },
    /// Removes `name`; with `directory`, it was an empty directory.
    Remove { dir: DirSlot, directory: bool },
    /// Removes `name` and everything below it.
    RemoveTree { dir: DirSlot },
    /// Makes something durable.
    Sync(Synced),
    /// Changes the tree in a way that cannot be replayed, for the reason given.
    Untracked(&'static str),
}

/// The object that a call makes durable.
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
    /// The kind under which the call is counted, or `None` for a call that the engine expands.
    pub kind: Option<OpKind>,
    /// The directory to which `name` is relative, or `None` for a call on a slot.
    pub dir: Option<DirSlot>,
    /// Its effect on a tree.
    pub effect: Effect,
}

/// The number in [`SlotsOf`] that means no slot.
pub const NO_SLOT: u16 = u16::MAX;

/// The numbers of the slots that a call uses or opens; [`NO_SLOT`] for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotsOf {
    /// Files.
    pub files: [u16; 2],
    /// Directories: of `name`, and of `second_name`.
    pub dirs: [u16; 2],
}

impl SlotsOf {
    /// No slots.
    pub const NONE: SlotsOf = SlotsOf { files: [NO_SLOT; 2], dirs: [NO_SLOT; 2] };

    /// Returns the slot of one file.
    pub fn file(file: FileSlot) -> SlotsOf {
        SlotsOf { files: [file.0, NO_SLOT], ..SlotsOf::NONE }
    }

    /// Returns the slot of one directory.
    pub fn dir(dir: DirSlot) -> SlotsOf {
        SlotsOf { dirs: [dir.0, NO_SLOT], ..SlotsOf::NONE }
    }

    /// Returns the slots of two directories.
    pub fn dirs(dir: DirSlot, to: DirSlot) -> SlotsOf {
        SlotsOf { dirs: [dir.0, to.0], ..SlotsOf::NONE }
    }
}
