//! The changes that calls make.

use super::node::{Inode, Node};
use crate::op::Payload;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The directory.
    pub dir: Inode,
    /// The name in it.
    pub name: Box<[u8]>,
}

/// A thread, and its slot for an open file or an open directory.
pub type Slot = (u32, u16);

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The file, or a directory opened as one.
    pub inode: Inode,
    /// File position in bytes.
    pub position: u64,
    /// True if it was opened to read.
    pub read: bool,
    /// True if it was opened to write.
    pub write: bool,
    /// True if every write goes to the end of the file.
    pub append: bool,
}

/// One step of the effect of a call.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new inode under a new name. It gets the next inode number.
    Created {
        /// Its name.
        entry: Entry,
        /// The inode.
        node: Box<Node>,
    },
    /// Another name for a file.
    Linked {
        /// The name.
        entry: Entry,
        /// The file.
        inode: Inode,
    },
    /// A name removed.
    Removed {
        /// The name.
        entry: Entry,
        /// The inode that it named.
        inode: Inode,
    },
    /// A name replaced by a different one.
    Renamed {
        /// The old name.
        from: Entry,
        /// The new name; an inode that had it before loses it.
        to: Entry,
        /// The inode.
        inode: Inode,
    },
    /// Bytes written to a file.
    Written {
        /// The file.
        inode: Inode,
        /// Offset in bytes.
        offset: u64,
        /// The bytes.
        payload: Payload,
    },
    /// The size set for a file, possibly unchanged.
    Resized {
        /// The file.
        inode: Inode,
        /// Its size in bytes.
        size: u64,
    },
    /// New permission bits.
    ModeSet {
        /// The inode.
        inode: Inode,
        /// The bits (0o7777).
        mode: u32,
    },
    /// A modification time that was set.
    TimeSet {
        /// The inode.
        inode: Inode,
        /// The time in seconds since 1970; `None` if its value is not modelled.
        mtime: Option<i64>,
    },
    /// A file, or the names in a directory, made durable.
    Synced {
        /// The inode.
        inode: Inode,
    },
    /// Everything made durable.
    SyncedAll,
    /// A file opened, closed (`None`) or repositioned.
    File {
        /// The slot of the file.
        slot: Slot,
        /// Its new state.
        open: Option<OpenFile>,
    },
    /// A directory opened or closed (`None`).
    Dir {
        /// The slot of the directory.
        slot: Slot,
        /// The directory.
        open: Option<Inode>,
    },
}

/// The outcome of a call that succeeds.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// The result of the call: bytes read or written, else 0.
    pub bytes: u64,
}
