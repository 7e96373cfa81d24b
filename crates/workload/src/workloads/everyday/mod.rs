//! everyday: documents, songs and films written, copied, read back and deleted.

mod params;

use std::sync::OnceLock;

use fsdyno_record::seed::{SplitMix64, mix};
use fsdyno_record::{Bytes, OpKind};

use crate::contents::Contents;
use crate::numbered::Numbered;
use crate::op::{
    COPY_BUFFER, Call, Compound, DirSlot, FileSlot, Name, Op, OpenFlags, Payload, RemoveOrder,
};
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{ParamError, Values};
use crate::sizes::Sizes;
use crate::whole_trees::WholeTrees;
use crate::workload::{
    Expected, GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;
use params::{DOC, PARAMS};

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "everyday",
    about: "Write documents, songs and films, copy them within the file system, read them back, delete them.",
    source: "readers of linuxinsight, 2006: files of 100 KB, 5 MB and 700 MB",
    params: PARAMS,
    more_work: &["documents", "songs"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Everyday::new(values, setting.seed)?)),
};

const ORIGINAL: &[u8] = b"in";
const COPY: &[u8] = b"copy";
const ROOT: DirSlot = DirSlot::ROOT;
const FILE: FileSlot = FileSlot(0);
const CREATE: OpenFlags = OpenFlags { write: true, exclusive: true, ..OpenFlags::NONE };
const READ: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const MKDIR: Call = Call::Mkdir { dir: ROOT, mode: DIRECTORY_MODE };

/// The kinds of files: the parameters for number and size, the directory, and the number of files per folder.
const KINDS: [(&str, &str, &str, u64); 3] = [
    ("documents", "document-size", "documents", 50),
    ("songs", "song-size", "songs", 12),
    ("films", "film-size", "films", 10),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Write,
    Copy,
    Read,
    Delete,
}

const PHASES: [(Phase, &str); 4] = [
    (Phase::Write, "write"),
    (Phase::Copy, "copy"),
    (Phase::Read, "read"),
    (Phase::Delete, "delete"),
];

fn phase_at(index: usize) -> Option<Phase> {
    PHASES.get(index).map(|(phase, _)| *phase)
}

/// The files of one kind.
#[derive(Debug)]
struct FileClass {
    /// Its directory.
    name: &'static str,
    /// Number of files per folder.
    files_per_folder: u64,
    files: u64,
    /// The number of its first file among the files of all kinds.
    first: u64,
    sizes: Sizes,
}

impl FileClass {
    fn folders(&self) -> u64 {
        self.files.div_ceil(self.files_per_folder)
    }
}

/// The tree, with its parameters bound.
#[derive(Debug)]
struct Everyday {
    /// The classes that have files.
    classes: Vec<FileClass>,
    zeros: u64,
    gap: GapKind,
    seed: u64,
    folders: Numbered,
    names: Numbered,
    totals: OnceLock<Totals>,
}

/// Totals that require a pass over all files.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    bytes: u64,
    /// Number of writes of at most 128 KiB, or of reads that return data.
    pieces: u64,
}

impl Everyday {
    fn new(values: &Values, seed: u64) -> Result<Everyday, ParamError> {
        let mut classes = Vec::new();
        let mut first = 0;
        for (count, size, name, files_per_folder) in KINDS {
            let (files, sizes) = (values.number_or_zero(count), values.text(size));
            let sizes = sizes.parse().unwrap_or(Sizes::Fixed(0));
            if files > 0 {
                classes.push(FileClass { name, files_per_folder, files, first, sizes });
            }
            first += files;
        }
        if classes.is_empty() {
            return Err(ParamError::Conflict(
                "documents=0, songs=0 and films=0 leave nothing to do; set one of them to 1 or more"
                    .to_string(),
            ));
        }
        Ok(Everyday {
            classes,
            zeros: values.number_or_zero("zeros"),
            gap: GapKind::named(values.text("gap")),
            seed: mix(seed ^ 0x6576_6572_7964_6179),
            folders: Numbered::new("d", 4),
            names: Numbered::new("f", 6),
            totals: OnceLock::new(),
        })
    }

    /// Returns the content of a file of a class.
    fn payload(&self, class: &FileClass, file: u64) -> Payload {
        let number = class.first + file;
        let mut draws = SplitMix64::new(mix(self.seed ^ mix(number)));
        Payload { id: number, offset: 0, length: class.sizes.draw(&mut draws) as u32 }
    }

    fn files(&self) -> u64 {
        self.classes.iter().map(|class| class.files).sum()
    }

    /// Returns the number of directories of one copy, including its top directory.
    fn directories(&self) -> u64 {
        1 + self.classes.iter().map(|class| 1 + class.folders()).sum::<u64>()
    }

    fn totals(&self) -> Totals {
        *self.totals.get_or_init(|| {
            let mut totals = Totals::default();
            for class in &self.classes {
                for file in 0..class.files {
                    let size = u64::from(self.payload(class, file).length);
                    totals.bytes += size;
                    totals.pieces += size.div_ceil(COPY_BUFFER);
                }
            }
            totals
        })
    }

    /// Writes `in/songs`; with a folder, `in/songs/d0003`; with a file, `in/songs/d0003/f000041`.
    fn write_path(
        &self,
        name: &mut Name,
        class: &FileClass,
        folder: Option<u64>,
        file: Option<u64>,
    ) {
        name.clear();
        name.push(ORIGINAL);
        name.push(b"/");
        name.push(class.name.as_bytes());
        if let Some(folder) = folder {
            name.push(b"/");
            self.folders.push(name, folder);
        }
        if let Some(file) = file {
            name.push(b"/");
            self.names.push(name, file);
        }
    }

    fn write_file_path(&self, name: &mut Name, class: &FileClass, file: u64) {
        self.write_path(name, class, Some(file / class.files_per_folder), Some(file));
    }

    /// Returns the entry at a path below `in` or `copy`.
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let mut parts = path.split(|byte| *byte == b'/');
        let directory = Expected::DIRECTORY.with_mode(DIRECTORY_MODE);
        let name = parts.next()?;
        let class = self.classes.iter().find(|class| class.name.as_bytes() == name)?;
        let Some(folder) = parts.next() else { return Some(directory) };
        let folder = self.folders.parse(folder).filter(|folder| *folder < class.folders())?;
        let Some(name) = parts.next() else { return Some(directory) };
        let file = self.names.parse(name)?;
        let exists =
            file < class.files && file / class.files_per_folder == folder && parts.next().is_none();
        exists.then(|| Expected::file(self.payload(class, file)).with_mode(FILE_MODE))
    }
}

impl Workload for Everyday {
    fn phases(&self) -> Vec<PhaseSpec> {
        let spec = |(phase, name): &(Phase, &'static str)| PhaseSpec {
            name,
            gap: if *phase == Phase::Write { GapKind::None } else { self.gap },
            verify: *phase != Phase::Read,
            threads: Threads::One,
        };
        PhaseSpec::chained(PHASES.iter().map(spec).collect())
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let remove = Call::Compound(Compound::RemoveTree {
            dir: ROOT,
            order: RemoveOrder::Readdir,
            synced: false,
        });
        match phase_at(phase).filter(|_| share.rank == 0) {
            None => Box::new(NoOps),
            Some(Phase::Write) => {
                Box::new(Write { work: self, position: FileIndex::default(), step: Step::Top })
            }
            Some(Phase::Copy) => {
                let copy = Call::Compound(Compound::CopyTree { dir: ROOT, to: ROOT });
                Box::new(WholeTrees::new(vec![(copy, ORIGINAL, COPY)]))
            }
            Some(Phase::Read) => {
                Box::new(Read { work: self, position: FileIndex::default(), step: ReadStep::Open })
            }
            Some(Phase::Delete) => {
                Box::new(WholeTrees::new(vec![(remove, ORIGINAL, b""), (remove, COPY, b"")]))
            }
        }
    }

    /// Omits the getdents64(2) calls, whose number depends on the file system.
    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        use OpKind::{
            Chmod, Chown, Close, Create, Mkdir, Open, Read, Rmdir, Stat, Unlink, Utimes, Write,
        };
        let (files, directories) = (self.files(), self.directories());
        let (entries, pieces) = (files + directories, self.totals().pieces);
        let mut counts = match phase_at(phase) {
            None => OpCounts::new(),
            Some(Phase::Write) => OpCounts::from([
                (Mkdir, directories),
                (Create, files),
                (Write, pieces),
                (Close, files),
            ]),
            Some(Phase::Copy) => OpCounts::from([
                (Stat, entries),
                (Open, entries),
                (Mkdir, directories),
                (Create, files),
                (Read, pieces + files),
                (Write, pieces),
                (Utimes, entries),
                (Chown, entries),
                (Chmod, entries),
                (Close, entries + files),
            ]),
            Some(Phase::Read) => {
                OpCounts::from([(Open, files), (Read, pieces + files), (Close, files)])
            }
            Some(Phase::Delete) => OpCounts::from([
                (Open, 2 * directories),
                (Close, 2 * directories),
                (Rmdir, 2 * directories),
                (Unlink, 2 * files),
            ]),
        };
        counts.retain(|_, count| *count > 0);
        counts
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        match phase_at(phase) {
            None => WorkUnits::new(),
            Some(Phase::Delete) => WorkUnits::from([("files", 2 * self.files())]),
            Some(_) => WorkUnits::from([("files", self.files()), ("bytes", self.totals().bytes)]),
        }
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        let copies = match phase_at(phase) {
            Some(Phase::Write) => 1,
            Some(Phase::Copy | Phase::Read) => 2,
            Some(Phase::Delete) | None => 0,
        };
        Box::new(EverydayTree { work: self, copies })
    }

    fn needs(&self) -> Needs {
        let longest = self.classes.iter().map(|class| {
            let (folder, file) = (class.folders() - 1, class.files - 1);
            let numbered = self.folders.length_of(folder).max(self.names.length_of(file));
            class.name.len().max(numbered)
        });
        Needs {
            bytes: Bytes(2 * self.totals().bytes),
            inodes: 2 * (self.files() + self.directories()),
            longest_name: longest.max().unwrap_or(0).max(COPY.len()),
        }
    }

    fn zeros(&self) -> u64 {
        self.zeros
    }
}

/// The tree after a phase: neither copy, `in` alone, or `in` and `copy`.
struct EverydayTree<'a> {
    work: &'a Everyday,
    copies: u64,
}

impl Tree for EverydayTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let tops = [ORIGINAL, COPY].into_iter().take(self.copies as usize);
        let rest = tops.filter_map(|top| path.strip_prefix(top)).next()?;
        match rest {
            [] => Some(Expected::DIRECTORY.with_mode(DIRECTORY_MODE)),
            [b'/', rest @ ..] => self.work.lookup(rest),
            _ => None,
        }
    }

    fn files(&self) -> u64 {
        self.copies * self.work.files()
    }

    fn directories(&self) -> u64 {
        self.copies * self.work.directories()
    }
}

/// A file: the index of its class, and its number in the class.
#[derive(Clone, Copy, Debug, Default)]
struct FileIndex {
    class: usize,
    file: u64,
}

impl FileIndex {
    /// Advances to the next file; returns true if that file is of the next kind.
    fn advance(&mut self, class: &FileClass) -> bool {
        self.file += 1;
        let is_end = self.file == class.files;
        if is_end {
            *self = FileIndex { class: self.class + 1, file: 0 };
        }
        is_end
    }
}

/// The next op of the write phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The top directory.
    Top,
    /// The directory of a kind.
    ClassDirectory,
    /// The folder if the file is its first, else the file.
    Next,
    Create,
    Write(Payload),
    Close,
}

struct Write<'a> {
    work: &'a Everyday,
    position: FileIndex,
    step: Step,
}

impl OpSource for Write<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let (work, file) = (self.work, self.position.file);
        let Some(class) = work.classes.get(self.position.class) else { return false };
        (op.call, self.step) = match self.step {
            Step::Top => {
                op.name.clear();
                op.name.push(ORIGINAL);
                (MKDIR, Step::ClassDirectory)
            }
            Step::ClassDirectory => {
                work.write_path(&mut op.name, class, None, None);
                (MKDIR, Step::Next)
            }
            Step::Next if file % class.files_per_folder == 0 => {
                work.write_path(&mut op.name, class, Some(file / class.files_per_folder), None);
                (MKDIR, Step::Create)
            }
            Step::Next | Step::Create => {
                work.write_file_path(&mut op.name, class, file);
                let payload = work.payload(class, file);
                let next_step = if payload.length > 0 { Step::Write(payload) } else { Step::Close };
                (Call::Create { dir: ROOT, file: FILE, flags: CREATE, mode: FILE_MODE }, next_step)
            }
            Step::Write(remaining) => {
                let length = u64::from(remaining.length).min(COPY_BUFFER) as u32;
                let rest = Contents::rest(remaining, length);
                let next_step = if rest.length > 0 { Step::Write(rest) } else { Step::Close };
                (Call::Write { file: FILE, payload: Payload { length, ..remaining } }, next_step)
            }
            Step::Close => {
                let next_step =
                    if self.position.advance(class) { Step::ClassDirectory } else { Step::Next };
                (Call::Close { file: FILE }, next_step)
            }
        };
        true
    }
}

/// The next op of the read phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadStep {
    Open,
    /// A read; the number of reads that remain, including this one.
    Read(u64),
    Close,
}

struct Read<'a> {
    work: &'a Everyday,
    position: FileIndex,
    step: ReadStep,
}

impl OpSource for Read<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let Some(class) = self.work.classes.get(self.position.class) else { return false };
        (op.call, self.step) = match self.step {
            ReadStep::Open => {
                self.work.write_file_path(&mut op.name, class, self.position.file);
                let size = u64::from(self.work.payload(class, self.position.file).length);
                let reads = size.div_ceil(COPY_BUFFER) + 1;
                (Call::Open { dir: ROOT, file: FILE, flags: READ }, ReadStep::Read(reads))
            }
            ReadStep::Read(reads) => {
                let next_step = if reads > 1 { ReadStep::Read(reads - 1) } else { ReadStep::Close };
                (Call::Read { file: FILE, length: COPY_BUFFER as u32 }, next_step)
            }
            ReadStep::Close => {
                self.position.advance(class);
                (Call::Close { file: FILE }, ReadStep::Open)
            }
        };
        true
    }
}
