//! capacity: creates small files until the file system is full, and measures how much fits.

use fsdyno_record::seed::{SplitMix64, mix};
use fsdyno_record::{Bytes, OpKind};

use crate::numbered::Numbered;
use crate::op::{Call, DirSlot, FileSlot, Name, Op, OpenFlags, Payload};
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{Domain, Param, ParamError, Values};
use crate::sizes::Sizes;
use crate::workload::{
    Expected, GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "capacity",
    about: "Write small files until the file system is full: bytes per file, free inodes, space lost.",
    source: "our own; the questions of maildir-2004 (inodes) and linuxinsight-2006 (space)",
    params: PARAMS,
    // It writes until the file system is full.
    more_work: &[],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Capacity::new(values, setting.seed)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
Phase `fill` makes a directory, in it `files-per-directory` files, then the next directory, until a call \
fails with ENOSPC [OWN]. Of each file: open O_WRONLY|O_CREAT|O_EXCL, one write, close; nothing is synced \
in between. The call that fails is the expected end and is not counted; a file that was open then is \
closed and removed. All earlier files must be complete: each is read back and compared.

Reported: files and directories; the space per file (free space of the empty \
file system less that of the full one, over the files; directories and the file system's own growth are \
in it); free inodes; the space that mkfs used (the size of the device less the free space of the empty file system: \
journal, inode tables, space reserved for the file system itself); and how much of the device was \
file data when it was full. Free space is f_bfree of statfs(2), after syncfs(2). The \
caller is root, so blocks reserved for root are filled, too.

Contents are random, so a file system that compresses gains nothing. A file system that returns \
ENOSPC while it still has space to reclaim counts as full. If `most` files \
are reached before, the phase ends there, and the file system is not full.";

const PARAMS: &[Param] = &[
    Param {
        name: "size",
        default: "mix",
        domain: Domain::Sizes,
        about: "Bytes of each file, at least 1.",
        source: "[DER] as tarball's: mostly of one block, about 15 % of more",
    },
    Param {
        name: "files-per-directory",
        default: "1000",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Files in each directory.",
        source: "[OWN]",
    },
    Param {
        name: "most",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 1_000_000_000 }),
        about: "Maximum number of files; auto means until the file system is full.",
        source: "[OWN]",
    },
];

const FILE: FileSlot = FileSlot(0);
const CREATE: Call = Call::Create {
    dir: DirSlot::ROOT,
    file: FILE,
    flags: OpenFlags { write: true, exclusive: true, ..OpenFlags::NONE },
    mode: 0o644,
};
const MKDIR: Call = Call::Mkdir { dir: DirSlot::ROOT, mode: 0o755 };

/// Number of ops per file: create, write, close.
const OPS_PER_FILE: u64 = 3;

/// The workload with its parameters bound.
#[derive(Debug)]
struct Capacity {
    sizes: Sizes,
    files_per_directory: u64,
    max_files: Option<u64>,
    seed: u64,
    directories: Numbered,
    files: Numbered,
}

/// The result of a number of ops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FillResult {
    directories: u64,
    /// Number of complete files.
    files: u64,
    /// True if one more file was open when space ran out; that file was closed and removed.
    removed: bool,
}

impl Capacity {
    fn new(values: &Values, seed: u64) -> Result<Capacity, ParamError> {
        let sizes: Sizes = values.text("size").parse().unwrap_or(Sizes::Mix);
        if matches!(sizes, Sizes::Fixed(0) | Sizes::Uniform { low: 0, .. }) {
            return Err(ParamError::Conflict(format!(
                "size={sizes} allows empty files, but each file here has one write; use 1 byte or more"
            )));
        }
        Ok(Capacity {
            sizes,
            files_per_directory: values.number_or_zero("files-per-directory"),
            max_files: values.number("most"),
            seed,
            directories: Numbered::new("d", 6),
            files: Numbered::new("f", 8),
        })
    }

    fn payload(&self, file: u64) -> Payload {
        let mut draws = SplitMix64::new(mix(self.seed ^ mix(file)));
        Payload { id: file, offset: 0, length: self.sizes.draw(&mut draws) as u32 }
    }

    /// Returns the maximum number of files.
    fn max_files_or_unlimited(&self) -> u64 {
        self.max_files.unwrap_or(u64::MAX)
    }

    /// Returns the result of the first `ops` ops.
    fn created_after(&self, ops: u64) -> FillResult {
        let ops_per_directory = 1 + self.files_per_directory * OPS_PER_FILE;
        let (full_directories, rest_ops) = (ops / ops_per_directory, ops % ops_per_directory);
        let file_ops = rest_ops.saturating_sub(1);
        FillResult {
            directories: full_directories + u64::from(rest_ops > 0),
            files: full_directories * self.files_per_directory + file_ops / OPS_PER_FILE,
            removed: file_ops % OPS_PER_FILE > 0,
        }
    }

    /// Returns the number of ops that create `max_files` files.
    fn total_ops(&self) -> u64 {
        self.max_files.map_or(0, |max_files| {
            max_files * OPS_PER_FILE + max_files.div_ceil(self.files_per_directory)
        })
    }

    fn total_bytes(&self, files: u64) -> u64 {
        (0..files).map(|file| u64::from(self.payload(file).length)).sum()
    }

    fn write_file_path(&self, name: &mut Name, file: u64) {
        self.write_directory_path(name, file / self.files_per_directory);
        name.push(b"/");
        self.files.push(name, file);
    }

    fn write_directory_path(&self, name: &mut Name, directory: u64) {
        name.clear();
        self.directories.push(name, directory);
    }
}

impl Workload for Capacity {
    fn phases(&self) -> Vec<PhaseSpec> {
        let (gap, threads) = (GapKind::None, Threads::One);
        vec![PhaseSpec { name: "fill", gap, verify: true, threads }]
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        match (phase, share.rank) {
            (0, 0) => Box::new(Fill { work: self, file: 0, done: 0, step: Step::Next }),
            _ => Box::new(NoOps),
        }
    }

    /// Returns no counts for a fill without the parameter `most`, whose work is not known in advance.
    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        if phase == 0 { self.counts_after(phase, &[self.total_ops()]) } else { OpCounts::new() }
    }

    fn counts_after(&self, _: usize, done: &[u64]) -> OpCounts {
        let created = self.created_after(done.iter().sum());
        let removed = u64::from(created.removed);
        let mut counts = OpCounts::from([
            (OpKind::Mkdir, created.directories),
            (OpKind::Create, created.files + removed),
            (OpKind::Write, created.files),
            (OpKind::Close, created.files + removed),
            (OpKind::Unlink, removed),
        ]);
        counts.retain(|_, count| *count > 0);
        counts
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        self.work_units_after(phase, &[self.total_ops()])
    }

    fn work_units_after(&self, _: usize, done: &[u64]) -> WorkUnits {
        let created = self.created_after(done.iter().sum());
        if created == FillResult::default() {
            return WorkUnits::new();
        }
        WorkUnits::from([
            ("files", created.files),
            ("directories", created.directories),
            ("data bytes", self.total_bytes(created.files)),
        ])
    }

    fn unit(&self, _: usize) -> Option<&'static str> {
        Some("files")
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        self.tree_after(phase, &[self.total_ops()])
    }

    fn tree_after(&self, _: usize, done: &[u64]) -> Box<dyn Tree + '_> {
        Box::new(CapacityTree { work: self, created: self.created_after(done.iter().sum()) })
    }

    fn needs(&self) -> Needs {
        let files = self.max_files.unwrap_or(0);
        let created = self.created_after(self.total_ops());
        Needs {
            bytes: Bytes(self.total_bytes(files)),
            inodes: created.files + created.directories,
            longest_name: self.files.length_of(files.max(1) - 1).max(self.directories.length_of(0)),
        }
    }

    fn fills_file_system(&self) -> bool {
        self.max_files.is_none()
    }
}

/// The tree of the first directories and files.
struct CapacityTree<'a> {
    work: &'a Capacity,
    created: FillResult,
}

impl Tree for CapacityTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let mut parts = path.split(|byte| *byte == b'/');
        let directory = self.work.directories.parse(parts.next()?)?;
        if directory >= self.created.directories {
            return None;
        }
        let Some(name) = parts.next() else { return Some(Expected::DIRECTORY) };
        let file = self.work.files.parse(name)?;
        let exists = file < self.created.files && file / self.work.files_per_directory == directory;
        (exists && parts.next().is_none()).then(|| Expected::file(self.work.payload(file)))
    }

    fn files(&self) -> u64 {
        self.created.files
    }

    fn directories(&self) -> u64 {
        self.created.directories
    }
}

/// The next op of the fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The directory if the file is its first, else the file.
    Next,
    Create,
    Write,
    Close,
    /// The close of a file whose data did not fit.
    CloseIncomplete,
    RemoveIncomplete,
    End,
}

struct Fill<'a> {
    work: &'a Capacity,
    file: u64,
    /// Number of ops returned so far, excluding those of the cleanup.
    done: u64,
    step: Step,
}

impl OpSource for Fill<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        match self.step {
            Step::Next if self.file >= self.work.max_files_or_unlimited() => return false,
            Step::Next if self.file % self.work.files_per_directory == 0 => {
                op.call = MKDIR;
                self.work
                    .write_directory_path(&mut op.name, self.file / self.work.files_per_directory);
                self.step = Step::Create;
            }
            Step::Next | Step::Create => {
                op.call = CREATE;
                self.work.write_file_path(&mut op.name, self.file);
                self.step = Step::Write;
            }
            Step::Write => {
                op.call = Call::Write { file: FILE, payload: self.work.payload(self.file) };
                self.step = Step::Close;
            }
            Step::Close => {
                op.call = Call::Close { file: FILE };
                self.file += 1;
                self.step = Step::Next;
            }
            Step::CloseIncomplete => {
                op.call = Call::Close { file: FILE };
                self.step = Step::RemoveIncomplete;
                return true;
            }
            Step::RemoveIncomplete => {
                op.call = Call::Unlink { dir: DirSlot::ROOT };
                self.work.write_file_path(&mut op.name, self.file);
                self.step = Step::End;
                return true;
            }
            Step::End => return false,
        }
        self.done += 1;
        true
    }

    /// Handles ENOSPC of the op returned last, which is a mkdir, a create or a write.
    fn handle_full(&mut self) -> bool {
        self.step = match self.step {
            // After a mkdir, or a create.
            Step::Create | Step::Write => Step::End,
            // After a write.
            Step::Close => Step::CloseIncomplete,
            // A close that fails has lost data, which is not an expected end.
            _ => return false,
        };
        self.done -= 1;
        true
    }

    fn done(&self) -> u64 {
        self.done
    }
}
