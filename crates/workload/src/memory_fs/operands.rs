//! What the arguments of an op stand for in a state: directories, open files, and the beginnings of paths.

use super::change::{OpenFile, Slot};
use super::node::Inode;
use super::path::Follow;
use super::{Errno, MemoryFs, ROOT};
use crate::op::{DirSlot, FileSlot, Op};

/// The directory at which a path begins, or the error of resolving it, and the path.
pub(super) type PathStart<'a> = (Result<Inode, Errno>, &'a [u8]);

/// The arguments of an op in a state.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    state: &'a MemoryFs,
    op: &'a Op,
    /// The path of the op.
    pub(super) name: &'a [u8],
    /// The other path of the op, or the target of a symbolic link.
    pub(super) second_name: &'a [u8],
}

impl<'a> Operands<'a> {
    pub(super) fn new(state: &'a MemoryFs, op: &'a Op) -> Operands<'a> {
        Operands { state, op, name: op.name.as_bytes(), second_name: op.second_name.as_bytes() }
    }

    /// Returns the directory at which the path begins.
    pub(super) fn dir(&self, slot: DirSlot) -> Result<Inode, Errno> {
        self.start(slot, self.name)
    }

    /// Returns the beginning of the path.
    pub(super) fn source(&self, slot: DirSlot) -> PathStart<'a> {
        (self.dir(slot), self.name)
    }

    /// Returns the beginning of the other path.
    pub(super) fn destination(&self, slot: DirSlot) -> PathStart<'a> {
        (self.start(slot, self.second_name), self.second_name)
    }

    /// Returns the inode to which the path leads.
    pub(super) fn inode(&self, slot: DirSlot, follow: Follow) -> Result<Inode, Errno> {
        self.state.resolve(self.dir(slot)?, self.name, follow)
    }

    /// Returns the open file of a slot.
    pub(super) fn file(&self, slot: FileSlot) -> Result<OpenFile, Errno> {
        self.state.open_file(self.op.thread, slot).ok_or(Errno::BadSlot)
    }

    /// Returns the open directory of a slot.
    pub(super) fn open_dir(&self, slot: DirSlot) -> Result<Inode, Errno> {
        self.state.open_dir(self.op.thread, slot).ok_or(Errno::BadSlot)
    }

    pub(super) fn file_slot(&self, slot: FileSlot) -> Slot {
        (self.op.thread, slot.0)
    }

    pub(super) fn dir_slot(&self, slot: DirSlot) -> Slot {
        (self.op.thread, slot.0)
    }

    fn start(&self, slot: DirSlot, path: &[u8]) -> Result<Inode, Errno> {
        match path.first() {
            None => Err(Errno::Missing),
            Some(b'/') => Ok(ROOT),
            Some(_) => self.open_dir(slot),
        }
    }
}
