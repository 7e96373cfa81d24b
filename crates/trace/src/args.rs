//! The structured arguments of calls.

use crate::error::Problem;
use crate::ids::{FileId, NodeId};
use crate::name::Name;
use crate::wire::{Sink, Source, Wire, codes, fields};

codes! {
    /// The starting point of the path of a call.
    Base, "base of a path" {
        /// At `/`.
        Root = 0, "/";
        /// In the working directory.
        Cwd = 1, "cwd";
        /// In an open directory.
        Directory = 2, "directory";
    }
}

fields! {
    /// The argument of a call that names an object: the directory that holds the entry, and its name. The recorder
    /// followed all symbolic links and `..` of the path, so a trace contains no paths, and a name never leads out of
    /// its directory.
    At {
        /// The directory; or the object itself, if there is no name.
        dir: NodeId,
        /// The name in it, or `None` if the path was a root or `.`, or ended in `..`.
        name: Option<Name>,
        /// The object of that name when the call began, or `None` if the name did not exist.
        node: Option<NodeId>,
        /// The starting point of the path.
        base: Base,
        /// The number of components that the kernel walked from there, including the last; 0 for an empty path.
        walked: u8,
        /// The number of components after `name`, if that is missing or not a directory: the call fails with ENOENT or
        /// ENOTDIR.
        beyond: u8,
        /// The number of symbolic links that were followed.
        links: u8,
    }
}

impl At {
    /// Creates the argument for the entry `name` of `dir`, given relative to that directory.
    pub fn new(dir: NodeId, name: Name, node: Option<NodeId>) -> At {
        At { dir, name: Some(name), node, base: Base::Cwd, walked: 1, beyond: 0, links: 0 }
    }

    /// Creates the argument for the node itself, as `.` names it.
    pub fn of_node(node: NodeId) -> At {
        At {
            dir: node,
            name: None,
            node: Some(node),
            base: Base::Cwd,
            walked: 1,
            beyond: 0,
            links: 0,
        }
    }
}

/// The argument of a call that takes either a name or a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A name.
    At(At),
    /// An open file.
    File(FileId),
}

impl Target {
    /// Returns the name, if it is one.
    pub fn at(&self) -> Option<&At> {
        match self {
            Target::At(at) => Some(at),
            Target::File(_) => None,
        }
    }

    /// Returns the open file, if it is one.
    pub fn file(&self) -> Option<FileId> {
        match self {
            Target::At(_) => None,
            Target::File(file) => Some(*file),
        }
    }
}

impl Wire for Target {
    fn put(&self, out: &mut Sink) {
        match self {
            Target::At(at) => {
                false.put(out);
                at.put(out);
            }
            Target::File(file) => {
                true.put(out);
                file.put(out);
            }
        }
    }

    fn get(from: &mut Source<'_>) -> Result<Target, Problem> {
        Ok(match bool::get(from)? {
            false => Target::At(Wire::get(from)?),
            true => Target::File(Wire::get(from)?),
        })
    }
}

codes! {
    /// The calls that copy within the kernel.
    CopyKind, "kind of copy" {
        /// sendfile(2).
        Sendfile = 0, "sendfile";
        /// copy_file_range(2).
        CopyFileRange = 1, "copy_file_range";
        /// ioctl(2) with FICLONE or FICLONERANGE.
        Clone = 2, "clone";
        /// splice(2).
        Splice = 3, "splice";
    }
}

codes! {
    /// The calls that make data durable.
    SyncKind, "kind of sync" {
        /// fsync(2).
        Fsync = 0, "fsync";
        /// fdatasync(2).
        Fdatasync = 1, "fdatasync";
        /// sync_file_range(2).
        Range = 2, "sync_file_range";
        /// syncfs(2).
        Syncfs = 3, "syncfs";
    }
}

codes! {
    /// The calls that read the attributes of a file.
    StatKind, "kind of stat" {
        /// stat(2) or fstat(2).
        Stat = 0, "stat";
        /// lstat(2).
        Lstat = 1, "lstat";
        /// statx(2) that follows links.
        Statx = 2, "statx";
        /// statx(2) that does not.
        Lstatx = 3, "lstatx";
    }
}

codes! {
    /// The action of a lock call.
    LockOp, "lock operation" {
        /// Takes a shared lock.
        Shared = 0, "shared";
        /// Takes an exclusive lock.
        Exclusive = 1, "exclusive";
        /// Unlocks.
        Unlock = 2, "unlock";
        /// Queries the state (F_GETLK).
        Query = 3, "query";
    }
}

codes! {
    /// The value to which utimensat(2) sets a time.
    UtimeChange, "change of a time" {
        /// The current time.
        Now = 0, "now";
        /// A given time.
        Set = 1, "set";
        /// The time is not changed.
        Omit = 2, "omit";
    }
}

codes! {
    /// The object of a call that is not a file of a file system; the call only orders threads.
    Object, "kind of object" {
        /// A pipe without a name.
        Pipe = 0, "pipe";
        /// A socket.
        Socket = 1, "socket";
        /// A terminal.
        Terminal = 2, "terminal";
        /// Any other device.
        Device = 3, "device";
        /// /proc, /sys and other files of the kernel.
        Kernel = 4, "kernel";
        /// An eventfd, memfd, epoll, inotify, ...
        Anonymous = 5, "anonymous";
        /// A descriptor that is not open, or is unknown.
        None = 6, "none";
    }
}
