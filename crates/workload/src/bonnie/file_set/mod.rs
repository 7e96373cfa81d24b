//! Many small files, hard links or symbolic links, in one directory or spread evenly over several: created in order,
//! then looked up and removed in readdir order or in random order.

mod file_ops;

use std::sync::OnceLock;

use fsdyno_record::OpKind;
use fsdyno_record::seed::SplitMix64;

use crate::bonnie::alnum_names::AlnumNames;
use crate::numbered::Numbered;
use crate::op::{Call, Compound, DirSlot, FileSlot, Name, Op, OpenFlags, Payload, RemoveOrder};
use crate::op_source::OpSource;
use crate::permutation::Permutation;
use crate::workload::{Expected, Links, OpCounts};
use file_ops::{FileOps, Step};

const TOP: DirSlot = DirSlot(1);
const FILE: FileSlot = FileSlot(0);
const CREATE: OpenFlags = OpenFlags { write: true, exclusive: true, ..OpenFlags::NONE };
const READ: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// The first subdirectory's slot; each subdirectory has its own slot if directories are synced.
const FIRST_SUBDIRECTORY: u16 = 2;

/// The type of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Regular files with sizes drawn from this range, in bytes, bounds included.
    Regular {
        /// Minimum size.
        min: u64,
        /// Maximum size.
        max: u64,
    },
    /// One empty file, and hard links to it.
    Link,
    /// One empty file, and symbolic links to its path below the top directory.
    Symlink,
}

/// The files and the ops on them.
#[derive(Clone, Debug)]
pub struct FileSet {
    /// The directory of all files, below the trial's root.
    pub top: &'static [u8],
    /// Number of files, including the first, to which all links refer.
    pub files: u64,
    /// Number of subdirectories: zero, or at least two.
    pub directories: u64,
    /// Regular files, hard links or symbolic links.
    pub kind: FileKind,
    /// Maximum number of bytes per write or read call.
    pub chunk: u32,
    /// True if contents are zeros instead of incompressible data.
    pub zeros: bool,
    /// True to sync each created file, and its directory after each file that is created or removed.
    pub fsync: bool,
    /// True if a phase that creates or removes files ends with syncfs(2).
    pub end_sync: bool,
    names: AlnumNames,
    subdirectories: Numbered,
    seed: u64,
    /// The first content id.
    first_id: u64,
    /// The random orders of lookups and of removals.
    orders: [Permutation; 2],
    totals: OnceLock<Totals>,
}

/// Totals that require a pass over all files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes of all files.
    pub bytes: u64,
    /// Calls that write or read those bytes.
    pub chunks: u64,
    /// Non-empty files.
    pub non_empty: u64,
}

/// A task on all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Creates the directories and files.
    Create,
    /// Stats each file in readdir order, and reads each file if any can have contents.
    StatEach,
    /// Stats each file in a random order, and reads it if it is not empty.
    StatRandom,
    /// Removes all files in readdir order, and the directories.
    DeleteEach,
    /// Does the work of [`Task::DeleteEach`] in a random order.
    DeleteRandom,
}

impl FileSet {
    /// Creates a set of `files` files of `kind` with default settings; `letters_first` selects the form of their names,
    /// and `seed` determines names, sizes and orders.
    pub fn new(
        top: &'static [u8],
        files: u64,
        directories: u64,
        kind: FileKind,
        letters_first: bool,
        seed: u64,
    ) -> FileSet {
        FileSet {
            top,
            files,
            directories: if directories < 2 { 0 } else { directories },
            kind,
            chunk: 8192,
            zeros: false,
            fsync: false,
            end_sync: false,
            names: AlnumNames::new(seed, letters_first),
            subdirectories: Numbered::new("", 5),
            seed,
            first_id: if letters_first { files } else { 0 },
            orders: ["stat", "delete"].map(|task| Permutation::new(files, seed, task)),
            totals: OnceLock::new(),
        }
    }

    fn size_of(&self, file: u64) -> u64 {
        match self.kind {
            FileKind::Regular { min, max } if min < max => {
                min + SplitMix64::new(self.seed ^ file.rotate_left(32)).below(max - min + 1)
            }
            FileKind::Regular { min, .. } => min,
            FileKind::Link | FileKind::Symlink => 0,
        }
    }

    /// Returns true if any file can have contents; only then are files opened and read.
    fn is_read(&self) -> bool {
        matches!(self.kind, FileKind::Regular { max: 1.., .. })
    }

    /// Returns the content of one call on a file, from byte `offset` on.
    fn part_payload(&self, file: u64, offset: u64) -> Payload {
        let length = (self.size_of(file) - offset).min(u64::from(self.chunk)) as u32;
        if self.zeros {
            return Payload::zeros(offset, length);
        }
        Payload { id: self.first_id + file, offset, length }
    }

    /// Returns the totals of all files.
    pub fn totals(&self) -> Totals {
        *self.totals.get_or_init(|| {
            let mut totals = Totals::default();
            if self.is_read() {
                for size in (0..self.files).map(|file| self.size_of(file)) {
                    totals.bytes += size;
                    totals.chunks += size.div_ceil(u64::from(self.chunk));
                    totals.non_empty += u64::from(size > 0);
                }
            }
            totals
        })
    }

    fn subdirectory_of(&self, file: u64) -> u64 {
        file * self.directories / self.files
    }

    /// Writes the file's path below the top directory: `0000000000Ab` or `00001/0000000200x`.
    fn write_name(&self, name: &mut Name, file: u64) {
        name.clear();
        if self.directories > 0 {
            self.subdirectories.push(name, self.subdirectory_of(file));
            name.push(b"/");
        }
        self.names.push(name, file);
    }

    /// Returns the slot of a file's directory.
    fn slot_of(&self, file: u64) -> DirSlot {
        match self.directories {
            0 => TOP,
            _ => DirSlot(FIRST_SUBDIRECTORY + self.subdirectory_of(file) as u16),
        }
    }

    /// Writes the path below the root of the top directory, or of a subdirectory of it.
    fn write_directory_name(&self, name: &mut Name, subdirectory: Option<u64>) {
        name.clear();
        name.push(self.top);
        if let Some(number) = subdirectory {
            name.push(b"/");
            self.subdirectories.push(name, number);
        }
    }

    /// Returns the expected entry at `path` while the files exist.
    pub fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let directory = Expected::DIRECTORY.with_mode(DIRECTORY_MODE);
        let rest = path.strip_prefix(self.top)?;
        if rest.is_empty() {
            return Some(directory);
        }
        let mut name = rest.strip_prefix(b"/")?;
        let mut subdirectory = 0;
        if self.directories > 0 {
            let mut parts = name.splitn(2, |byte| *byte == b'/');
            subdirectory = self.subdirectories.parse(parts.next()?)?;
            let Some(name_in_subdirectory) = parts.next() else {
                return (subdirectory < self.directories).then_some(directory);
            };
            name = name_in_subdirectory;
        }
        let file = self.names.parse(name).filter(|file| *file < self.files)?;
        (self.subdirectory_of(file) == subdirectory).then(|| self.expected(file))
    }

    fn expected(&self, file: u64) -> Expected {
        let regular = Expected::pieces(self.size_of(file)).with_mode(FILE_MODE);
        match self.kind {
            FileKind::Link => regular.with_links(Links { group: 0, count: self.files }),
            FileKind::Symlink if file > 0 => Expected::SYMLINK,
            _ => regular,
        }
    }

    /// Returns the expected content at byte `offset` of the file at `path`.
    pub fn piece(&self, path: &[u8], offset: u64) -> Option<Payload> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        let file = self.names.parse(name).filter(|file| *file < self.files)?;
        (offset < self.size_of(file)).then(|| self.part_payload(file, offset))
    }

    /// Returns the target of the symbolic links: the first file, by its path below the top directory.
    pub fn target(&self) -> Vec<u8> {
        let mut name = Name::default();
        self.write_name(&mut name, 0);
        name.as_bytes().to_vec()
    }

    /// Returns the number of directories, including the top directory.
    pub fn directory_count(&self) -> u64 {
        self.directories + 1
    }

    /// Returns the ops of a task, all by one thread.
    pub fn ops(&self, task: Task) -> Box<dyn OpSource + Send + '_> {
        match task {
            Task::StatEach | Task::DeleteEach => {
                Box::new(ReaddirOps { set: self, task, step: ReaddirStep::Directory(0) })
            }
            Task::Create | Task::StatRandom | Task::DeleteRandom => {
                Box::new(FileOps { set: self, task, index: 0, file: 0, step: Step::first(task) })
            }
        }
    }

    /// Returns the exact op counts of a task, without getdents64(2) calls, whose number depends on the file system.
    pub fn counts(&self, task: Task) -> OpCounts {
        let (files, directories) = (self.files, self.directory_count());
        let Totals { chunks, non_empty, .. } = self.totals();
        let sync = u64::from(self.end_sync);
        let opened = 1 + if self.fsync { self.directories } else { 0 };
        let synced = if self.fsync { files } else { 0 };
        let (created, links) = match self.kind {
            FileKind::Regular { .. } => (files, 0),
            FileKind::Link | FileKind::Symlink => (1, files - 1),
        };
        let link = if self.kind == FileKind::Link { OpKind::Link } else { OpKind::Symlink };
        // Directories that contain files: the top directory, or all subdirectories.
        let file_directories = self.directories.max(1);
        let mut counts = match task {
            Task::Create => OpCounts::from([
                (OpKind::Mkdir, directories),
                (OpKind::Open, opened),
                (OpKind::Create, created),
                (OpKind::Write, chunks),
                (link, links),
                (OpKind::Fsync, if self.fsync { created + files } else { 0 }),
                (OpKind::Close, created + opened),
                (OpKind::Sync, sync),
            ]),
            Task::StatEach => {
                // Each file is opened, and one more read finds its end.
                let read = if self.is_read() { files } else { 0 };
                OpCounts::from([
                    (OpKind::Open, file_directories + read),
                    (OpKind::Stat, files),
                    (OpKind::Read, chunks + read),
                    (OpKind::Close, file_directories + read),
                ])
            }
            Task::StatRandom => OpCounts::from([
                (OpKind::Open, 1 + non_empty),
                (OpKind::Stat, files),
                (OpKind::Read, chunks),
                (OpKind::Close, 1 + non_empty),
            ]),
            Task::DeleteEach | Task::DeleteRandom => {
                let opened = if task == Task::DeleteEach { file_directories } else { opened };
                OpCounts::from([
                    (OpKind::Open, opened),
                    (OpKind::Unlink, files),
                    (OpKind::Fsync, synced),
                    (OpKind::Close, opened),
                    (OpKind::Rmdir, directories),
                    (OpKind::Sync, sync),
                ])
            }
        };
        counts.retain(|_, count| *count > 0);
        counts
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaddirStep {
    /// The directory with this number, which contains files.
    Directory(u64),
    Top,
    Sync,
    End,
}

/// A task in readdir order: one op per directory.
struct ReaddirOps<'a> {
    set: &'a FileSet,
    task: Task,
    step: ReaddirStep,
}

impl ReaddirOps<'_> {
    fn directory_op(&mut self, op: &mut Op, number: u64) {
        let set = self.set;
        let (dir, order) = (DirSlot::ROOT, RemoveOrder::Readdir);
        set.write_directory_name(&mut op.name, (set.directories > 0).then_some(number));
        op.call = match (self.task, set.fsync) {
            (Task::StatEach, _) => {
                Call::Compound(Compound::StatEach { dir, read: set.is_read().then_some(set.chunk) })
            }
            (_, synced) => Call::Compound(Compound::RemoveTree { dir, order, synced }),
        };
        self.step = match self.task {
            _ if number + 1 < set.directories => ReaddirStep::Directory(number + 1),
            Task::StatEach => ReaddirStep::End,
            _ if set.directories > 0 => ReaddirStep::Top,
            _ => ReaddirStep::Sync,
        };
    }
}

impl OpSource for ReaddirOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        match self.step {
            ReaddirStep::Directory(number) => self.directory_op(op, number),
            ReaddirStep::Top => {
                self.set.write_directory_name(&mut op.name, None);
                op.call = Call::Rmdir { dir: DirSlot::ROOT };
                self.step = ReaddirStep::Sync;
            }
            ReaddirStep::Sync if self.set.end_sync => {
                op.call = Call::Sync;
                self.step = ReaddirStep::End;
            }
            ReaddirStep::Sync | ReaddirStep::End => return false,
        }
        true
    }
}
