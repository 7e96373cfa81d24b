//! A task on a set of files in a known order: one op per call.

use super::{
    CREATE, DIRECTORY_MODE, FILE, FILE_MODE, FIRST_SUBDIRECTORY, FileKind, FileSet, READ, TOP, Task,
};
use crate::op::{Call, DirSlot, Op};
use crate::op_source::OpSource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    MakeTop,
    OpenTop,
    MakeSubdirectory(u64),
    OpenSubdirectory(u64),
    /// The next file's first call.
    File,
    /// The open of a file that is not empty.
    Open,
    /// The write or read that begins at this byte.
    Transfer(u64),
    SyncFile,
    SyncDirectory,
    CloseFile,
    CloseSubdirectory(u64),
    RemoveSubdirectory(u64),
    CloseTop,
    RemoveTop,
    Sync,
    End,
}

impl Step {
    pub(super) fn first(task: Task) -> Step {
        if task == Task::Create { Step::MakeTop } else { Step::OpenTop }
    }
}

/// A task in a known order: one op per call.
pub(super) struct FileOps<'a> {
    pub(super) set: &'a FileSet,
    pub(super) task: Task,
    pub(super) index: u64,
    pub(super) file: u64,
    pub(super) step: Step,
}

impl FileOps<'_> {
    /// Creates, looks up or removes the next file.
    fn file_op(&mut self, op: &mut Op) {
        let set = self.set;
        self.file = match self.task {
            Task::Create => self.index,
            Task::DeleteRandom => set.orders[1].at(self.index),
            _ => set.orders[0].at(self.index),
        };
        self.index += 1;
        set.write_name(&mut op.name, self.file);
        let is_non_empty = set.size_of(self.file) > 0;
        let next_step = if set.fsync { Step::SyncDirectory } else { Step::File };
        match (self.task, set.kind) {
            (Task::Create, FileKind::Link) if self.file > 0 => {
                set.write_name(&mut op.second_name, self.file);
                set.write_name(&mut op.name, 0);
                op.call = Call::Link { dir: TOP, to: TOP };
                self.step = next_step;
            }
            (Task::Create, FileKind::Symlink) if self.file > 0 => {
                set.write_name(&mut op.second_name, 0);
                op.call = Call::Symlink { dir: TOP };
                self.step = next_step;
            }
            (Task::Create, _) => {
                op.call = Call::Create { dir: TOP, file: FILE, flags: CREATE, mode: FILE_MODE };
                self.step = if is_non_empty { Step::Transfer(0) } else { self.after_data() };
            }
            (Task::StatRandom, _) => {
                op.call = Call::Stat { dir: TOP };
                self.step = if is_non_empty { Step::Open } else { Step::File };
            }
            _ => {
                op.call = Call::Unlink { dir: TOP };
                self.step = next_step;
            }
        }
    }

    fn after_data(&self) -> Step {
        let sync = self.task == Task::Create && self.set.fsync;
        if sync { Step::SyncFile } else { Step::CloseFile }
    }

    fn data_op(&mut self, op: &mut Op, offset: u64) {
        let payload = self.set.part_payload(self.file, offset);
        op.call = if self.task == Task::Create {
            Call::Write { file: FILE, payload }
        } else {
            Call::Read { file: FILE, length: payload.length }
        };
        let end = offset + u64::from(payload.length);
        let has_more = end < self.set.size_of(self.file);
        self.step = if has_more { Step::Transfer(end) } else { self.after_data() };
    }

    /// Sets the op to a call on a subdirectory, before the first file or after the last.
    fn subdirectory_op(&mut self, op: &mut Op, number: u64) {
        let set = self.set;
        let is_last = number + 1 == set.directories;
        let root = DirSlot::ROOT;
        let slot = DirSlot(FIRST_SUBDIRECTORY + number as u16);
        let (call, next_step) = match self.step {
            Step::MakeSubdirectory(_) => {
                let next_step = match set.fsync {
                    true => Step::OpenSubdirectory(number),
                    false if is_last => Step::File,
                    false => Step::MakeSubdirectory(number + 1),
                };
                (Call::Mkdir { dir: root, mode: DIRECTORY_MODE }, next_step)
            }
            Step::OpenSubdirectory(_) => {
                let next_step = match self.task {
                    _ if is_last => Step::File,
                    Task::Create => Step::MakeSubdirectory(number + 1),
                    _ => Step::OpenSubdirectory(number + 1),
                };
                (Call::OpenDir { dir: root, slot }, next_step)
            }
            Step::CloseSubdirectory(_) => {
                let next_step = match self.task {
                    _ if !is_last => Step::CloseSubdirectory(number + 1),
                    Task::DeleteRandom => Step::RemoveSubdirectory(0),
                    _ => Step::CloseTop,
                };
                (Call::CloseDir { slot }, next_step)
            }
            _ => {
                let next_step =
                    if is_last { Step::CloseTop } else { Step::RemoveSubdirectory(number + 1) };
                (Call::Rmdir { dir: root }, next_step)
            }
        };
        set.write_directory_name(&mut op.name, Some(number));
        op.call = call;
        self.step = next_step;
    }

    /// Sets the op to a call on the top directory.
    fn top_op(&mut self, op: &mut Op) {
        let set = self.set;
        let has_subdirectories = set.directories > 0;
        set.write_directory_name(&mut op.name, None);
        let root = DirSlot::ROOT;
        (op.call, self.step) = match (self.step, self.task) {
            (Step::MakeTop, _) => (Call::Mkdir { dir: root, mode: DIRECTORY_MODE }, Step::OpenTop),
            (Step::OpenTop, task) => {
                let next_step = match task {
                    Task::Create if has_subdirectories => Step::MakeSubdirectory(0),
                    Task::DeleteRandom if has_subdirectories && set.fsync => {
                        Step::OpenSubdirectory(0)
                    }
                    _ => Step::File,
                };
                (Call::OpenDir { dir: root, slot: TOP }, next_step)
            }
            (Step::CloseTop, task) => {
                let next_step = match task {
                    Task::DeleteRandom => Step::RemoveTop,
                    Task::Create => Step::Sync,
                    _ => Step::End,
                };
                (Call::CloseDir { slot: TOP }, next_step)
            }
            _ => (Call::Rmdir { dir: root }, Step::Sync),
        };
    }

    /// Returns the step after the last file.
    fn after_files(&self) -> Step {
        let set = self.set;
        match self.task {
            _ if set.directories == 0 => Step::CloseTop,
            Task::StatRandom => Step::CloseTop,
            _ if set.fsync => Step::CloseSubdirectory(0),
            Task::DeleteRandom => Step::RemoveSubdirectory(0),
            _ => Step::CloseTop,
        }
    }
}

impl OpSource for FileOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if self.step == Step::File && self.index == self.set.files {
            self.step = self.after_files();
        }
        match self.step {
            Step::File => self.file_op(op),
            Step::Open => {
                op.call = Call::Open { dir: TOP, file: FILE, flags: READ };
                self.step = Step::Transfer(0);
            }
            Step::Transfer(offset) => self.data_op(op, offset),
            Step::SyncFile => {
                op.call = Call::Fsync { file: FILE };
                self.step = Step::SyncDirectory;
            }
            Step::SyncDirectory => {
                op.call = Call::FsyncDir { dir: self.set.slot_of(self.file) };
                let is_open = self.task == Task::Create
                    && (self.file == 0 || matches!(self.set.kind, FileKind::Regular { .. }));
                self.step = if is_open { Step::CloseFile } else { Step::File };
            }
            Step::CloseFile => {
                op.call = Call::Close { file: FILE };
                self.step = Step::File;
            }
            Step::MakeSubdirectory(number)
            | Step::OpenSubdirectory(number)
            | Step::CloseSubdirectory(number)
            | Step::RemoveSubdirectory(number) => self.subdirectory_op(op, number),
            Step::MakeTop | Step::OpenTop | Step::CloseTop | Step::RemoveTop => self.top_op(op),
            Step::Sync if self.set.end_sync => {
                op.call = Call::Sync;
                self.step = Step::End;
            }
            Step::Sync | Step::End => return false,
        }
        true
    }
}
