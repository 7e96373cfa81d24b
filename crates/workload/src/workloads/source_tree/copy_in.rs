//! Copies source trees into the file system.

use super::{CREATE_FLAGS, DIRECTORY_MODE, FILE, FILE_MODE, ORIGINAL, ROOT, SourceTree};
use crate::contents::Contents;
use crate::forest::ForestEntry;
use crate::op::{COPY_BUFFER, Call, Op, Payload};
use crate::op_source::OpSource;

/// The next op of the copy from outside the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The mkdir of the directory that contains the trees.
    Top,
    /// The mkdir of the current directory.
    Enter,
    /// The next file of the directory, or its end.
    File,
    Write(Payload),
    FileTime,
    FileOwner,
    FileMode,
    Close,
    /// The first of the attributes of a complete directory.
    Time(u32),
    Owner(u32),
    Mode(u32),
}

/// The ops of `cp -a` from a source that costs nothing.
pub(super) struct CopyIn<'a> {
    work: &'a SourceTree,
    tree: u64,
    directory: u32,
    /// The next file, or the current one; numbers continue from directory to directory.
    file: u32,
    step: Step,
}

impl<'a> CopyIn<'a> {
    pub(super) fn new(work: &'a SourceTree) -> CopyIn<'a> {
        CopyIn { work, tree: 0, directory: 0, file: 0, step: Step::Top }
    }

    fn file_number(&self) -> u64 {
        self.work.file_number(self.tree, self.file)
    }

    /// Returns the step after the last file of a directory, or after the attributes of `completed`: the next
    /// directory, or the attributes of the next complete directory.
    fn step_after(&mut self, completed: Option<u32>) -> Step {
        let shape = &self.work.forest.shape;
        let next_directory = self.directory + 1;
        let has_next = next_directory < shape.directories();
        match completed {
            None if has_next && shape.parent(next_directory) == self.directory => {}
            None => return Step::Time(self.directory),
            // The tree's top directory is completed last.
            Some(0) => {
                (self.tree, self.directory, self.file) = (self.tree + 1, 0, 0);
                return Step::Enter;
            }
            Some(completed)
                if has_next && shape.parent(next_directory) == shape.parent(completed) => {}
            Some(completed) => return Step::Time(shape.parent(completed)),
        }
        self.directory = next_directory;
        Step::Enter
    }

    fn set_directory_name(&self, op: &mut Op, directory: u32) {
        self.work.write_path(&mut op.name, ORIGINAL, self.tree, ForestEntry::Directory(directory));
    }

    fn file_call(&mut self, op: &mut Op) {
        let file = FILE;
        (op.call, self.step) = match self.step {
            Step::Write(remaining) => {
                let length = u64::from(remaining.length).min(COPY_BUFFER) as u32;
                let rest = Contents::rest(remaining, length);
                let next_step = if rest.length > 0 { Step::Write(rest) } else { Step::FileTime };
                (Call::Write { file, payload: Payload { length, ..remaining } }, next_step)
            }
            Step::FileTime => {
                let mtime = self.work.file_mtime(self.file_number());
                (Call::UtimesFile { file, mtime }, Step::FileOwner)
            }
            Step::FileOwner => (Call::ChownFile { file }, Step::FileMode),
            Step::FileMode => (Call::ChmodFile { file, mode: FILE_MODE }, Step::Close),
            _ => {
                self.file += 1;
                (Call::Close { file }, Step::File)
            }
        };
    }

    fn create_file(&mut self, op: &mut Op) {
        self.work.write_path(&mut op.name, ORIGINAL, self.tree, ForestEntry::File(self.file));
        op.call = Call::Create { dir: ROOT, file: FILE, flags: CREATE_FLAGS, mode: 0o600 };
        let payload = self.work.payload(self.file_number());
        self.step = if payload.length > 0 { Step::Write(payload) } else { Step::FileTime };
    }

    fn directory_call(&mut self, op: &mut Op) {
        let dir = ROOT;
        (op.call, self.step) = match self.step {
            Step::Time(completed) => {
                self.set_directory_name(op, completed);
                let mtime = self.work.directory_mtime(self.tree, completed);
                (Call::Utimes { dir, mtime }, Step::Owner(completed))
            }
            Step::Owner(completed) => (Call::Chown { dir }, Step::Mode(completed)),
            Step::Mode(completed) => {
                (Call::Chmod { dir, mode: DIRECTORY_MODE }, self.step_after(Some(completed)))
            }
            Step::Top => {
                op.name.clear();
                op.name.push(ORIGINAL);
                (Call::Mkdir { dir, mode: DIRECTORY_MODE }, Step::Enter)
            }
            _ => {
                self.set_directory_name(op, self.directory);
                (Call::Mkdir { dir, mode: 0o700 }, Step::File)
            }
        };
    }
}

impl OpSource for CopyIn<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if self.step == Step::File {
            if self.work.forest.shape.files_of(self.directory).contains(&self.file) {
                self.create_file(op);
                return true;
            }
            self.step = self.step_after(None);
        }
        match self.step {
            Step::Enter if self.tree == self.work.forest.trees => return false,
            Step::Top | Step::Enter | Step::Time(_) | Step::Owner(_) | Step::Mode(_) => {
                self.directory_call(op);
            }
            _ => self.file_call(op),
        }
        true
    }
}
