//! source-tree: copy source trees in, copy them within, pack, unpack and remove them.

mod copy_in;
mod params;

use std::sync::OnceLock;

use fsdyno_record::seed::mix;
use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::forest::{Forest, ForestEntry, Shape, size_of};
use crate::op::{
    COPY_BUFFER, Call, Compound, DirSlot, FileSlot, Name, OpenFlags, Payload, RECORD, RemoveOrder,
};
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{ParamError, Values};
use crate::whole_trees::{WholeTree, WholeTrees};
use crate::workload::{
    Expected, ExpectedKind, GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;
use copy_in::CopyIn;
use params::{DOC, PARAMS};

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "source-tree",
    about: "Copy source trees in, copy them within the file system, pack and unpack them with tar, remove them.",
    source: "a table by reiser4 advocates, posted to the linuxinsight article of 2006 and to phoronix, 2007",
    params: PARAMS,
    more_work: &["files"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(SourceTree::new(values, setting.seed)?)),
};

const ORIGINAL: &[u8] = b"in";
const COPY: &[u8] = b"copy";
const ARCHIVE: &[u8] = b"archive.tar";
const UNPACK_DIRECTORY: &[u8] = b"out";
/// Directory of the archive's unpacked members.
const UNPACKED: &[u8] = b"out/in";

/// Modification time of the first file: the day of the release of Linux 2.6.18, 2006-09-20 00:00 UTC. Each further
/// file is one second later; the directories are earlier, each one second before the previous one.
const MTIME: i64 = 1_158_710_400;
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const FILE: FileSlot = FileSlot(0);
const CREATE_FLAGS: OpenFlags = OpenFlags { write: true, exclusive: true, ..OpenFlags::NONE };
const ROOT: DirSlot = DirSlot::ROOT;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    CopyIn,
    CopyWithin,
    Pack,
    Unpack,
    Remove,
}

const PHASES: [(Phase, &str); 5] = [
    (Phase::CopyIn, "copy-in"),
    (Phase::CopyWithin, "copy-within"),
    (Phase::Pack, "pack"),
    (Phase::Unpack, "unpack"),
    (Phase::Remove, "remove"),
];

fn phase_at(index: usize) -> Option<Phase> {
    PHASES.get(index).map(|(phase, _)| *phase)
}

/// The trees, with their parameters bound.
#[derive(Debug)]
struct SourceTree {
    forest: Forest,
    /// Size of each file in bytes, or `None` for the mix.
    size: Option<u64>,
    seed: u64,
    order: RemoveOrder,
    gap: GapKind,
    /// Processor time for each record that is packed and for each that is unpacked.
    compute_per_record: (Nanos, Nanos),
    totals: OnceLock<Totals>,
}

/// Totals that require a pass over all files.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    bytes: u64,
    /// Number of reads that return data, or of writes, by cp and by tar.
    copied: u64,
    packed: u64,
    /// Number of records of the archive.
    records: u64,
}

impl SourceTree {
    fn new(values: &Values, seed: u64) -> Result<SourceTree, ParamError> {
        let (files, directories) =
            (values.number_or_zero("files"), values.number_or_zero("directories"));
        let shape = Shape::new(directories as u32, files as u32, seed);
        let micros = |key: &str| Nanos(values.number_or_zero(key) * 1000);
        Ok(SourceTree {
            forest: Forest::new(values.number_or_zero("trees"), shape),
            size: values.number("size"),
            seed: mix(seed ^ 0x736f_7572_6365_0000),
            order: match values.text("order") {
                "inode" => RemoveOrder::Inode,
                "name" => RemoveOrder::Name,
                _ => RemoveOrder::Readdir,
            },
            gap: GapKind::named(values.text("gap")),
            compute_per_record: (micros("gzip-time"), micros("gunzip-time")),
            totals: OnceLock::new(),
        })
    }

    /// Returns the number of directories of all trees, including the one that contains the trees.
    fn directories(&self) -> u64 {
        self.forest.directories() + 1
    }

    /// Returns the number of a file among the files of all trees.
    fn file_number(&self, tree: u64, file: u32) -> u64 {
        tree * u64::from(self.forest.shape.files()) + u64::from(file)
    }

    fn payload(&self, number: u64) -> Payload {
        let size = self.size.unwrap_or_else(|| size_of(number, self.seed));
        Payload { id: number, offset: 0, length: size as u32 }
    }

    fn file_mtime(&self, number: u64) -> i64 {
        MTIME + number as i64
    }

    fn directory_mtime(&self, tree: u64, directory: u32) -> i64 {
        MTIME
            - 1
            - (tree * u64::from(self.forest.shape.directories()) + u64::from(directory)) as i64
    }

    fn totals(&self) -> Totals {
        *self.totals.get_or_init(|| {
            // A block for the header of each member, and two at the end.
            let mut totals = Totals::default();
            let mut blocks = self.directories() + self.forest.files() + 2;
            for number in 0..self.forest.files() {
                let size = u64::from(self.payload(number).length);
                totals.bytes += size;
                totals.copied += size.div_ceil(COPY_BUFFER);
                totals.packed += size.div_ceil(RECORD);
                blocks += size.div_ceil(512);
            }
            totals.records = (blocks * 512).div_ceil(RECORD);
            totals
        })
    }

    /// Writes a path below `top`: `in/tree0/d001/d007`.
    fn write_path(&self, name: &mut Name, top: &[u8], tree: u64, entry: ForestEntry) {
        name.clear();
        name.push(top);
        name.push(b"/");
        self.forest.push(name, tree, entry);
    }

    /// Returns the entry at a path in one of the trees.
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        Some(match self.forest.parse(path)? {
            (tree, ForestEntry::Directory(directory)) => Expected::DIRECTORY
                .with_mode(DIRECTORY_MODE)
                .with_mtime(self.directory_mtime(tree, directory)),
            (tree, ForestEntry::File(file)) => {
                let number = self.file_number(tree, file);
                Expected::file(self.payload(number))
                    .with_mode(FILE_MODE)
                    .with_mtime(self.file_mtime(number))
            }
        })
    }
}

impl Workload for SourceTree {
    fn phases(&self) -> Vec<PhaseSpec> {
        let spec = |(phase, name): &(Phase, &'static str)| PhaseSpec {
            name,
            gap: if *phase == Phase::CopyIn { GapKind::None } else { self.gap },
            verify: true,
            threads: Threads::One,
        };
        PhaseSpec::chained(PHASES.iter().map(spec).collect())
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let whole_tree = |call, name, second_name| -> WholeTree { (call, name, second_name) };
        let (gzip, gunzip) = self.compute_per_record;
        let remove = |name| {
            whole_tree(
                Call::Compound(Compound::RemoveTree {
                    dir: ROOT,
                    order: self.order,
                    synced: false,
                }),
                name,
                b"",
            )
        };
        let calls = match phase_at(phase).filter(|_| share.rank == 0) {
            None => return Box::new(NoOps),
            Some(Phase::CopyIn) => return Box::new(CopyIn::new(self)),
            Some(Phase::CopyWithin) => {
                vec![whole_tree(
                    Call::Compound(Compound::CopyTree { dir: ROOT, to: ROOT }),
                    ORIGINAL,
                    COPY,
                )]
            }
            Some(Phase::Pack) => {
                vec![whole_tree(
                    Call::Compound(Compound::PackTree { dir: ROOT, to: ROOT, compute: gzip }),
                    ORIGINAL,
                    ARCHIVE,
                )]
            }
            Some(Phase::Unpack) => vec![
                whole_tree(Call::Mkdir { dir: ROOT, mode: DIRECTORY_MODE }, UNPACK_DIRECTORY, b""),
                whole_tree(
                    Call::Compound(Compound::UnpackTree { dir: ROOT, to: ROOT, compute: gunzip }),
                    ARCHIVE,
                    UNPACK_DIRECTORY,
                ),
            ],
            Some(Phase::Remove) => vec![
                remove(ORIGINAL),
                remove(COPY),
                remove(UNPACK_DIRECTORY),
                whole_tree(Call::Unlink { dir: ROOT }, ARCHIVE, b""),
            ],
        };
        Box::new(WholeTrees::new(calls))
    }

    /// Omits the getdents64(2) calls, whose number depends on the file system.
    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        use OpKind::{
            Chmod, Chown, Close, Create, Mkdir, Open, Read, Rmdir, Stat, Unlink, Utimes, Write,
        };
        let (files, directories, totals) = (self.forest.files(), self.directories(), self.totals());
        let entries = files + directories;
        let attributes = |count| [(Utimes, count), (Chown, count), (Chmod, count)];
        let mut counts = OpCounts::new();
        match phase_at(phase) {
            None => {}
            Some(Phase::CopyIn) => {
                counts.extend([(Mkdir, directories), (Create, files), (Close, files)]);
                counts.insert(Write, totals.copied);
                counts.extend(attributes(entries - 1));
            }
            Some(Phase::CopyWithin) => {
                counts.extend([
                    (Stat, entries),
                    (Open, entries),
                    (Mkdir, directories),
                    (Create, files),
                ]);
                counts.extend([(Read, totals.copied + files), (Write, totals.copied)]);
                counts.extend(attributes(entries));
                counts.insert(Close, entries + files);
            }
            Some(Phase::Pack) => {
                counts.extend([
                    (Stat, entries),
                    (Open, entries),
                    (Create, 1),
                    (Close, entries + 1),
                ]);
                counts.extend([(Read, totals.packed), (Write, totals.records)]);
            }
            Some(Phase::Unpack) => {
                counts.extend([(Mkdir, directories + 1), (Create, files), (Open, 1)]);
                counts.extend([(Read, totals.records), (Write, totals.packed)]);
                counts.extend(attributes(entries));
                counts.insert(Close, files + 1);
            }
            Some(Phase::Remove) => {
                let removed = 3 * directories + 1;
                counts.extend([(Open, removed), (Close, removed), (Rmdir, removed)]);
                counts.insert(Unlink, 3 * files + 1);
            }
        }
        counts.retain(|_, count| *count > 0);
        counts
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        match phase_at(phase) {
            None | Some(Phase::Remove) => WorkUnits::new(),
            Some(_) => {
                WorkUnits::from([("files", self.forest.files()), ("bytes", self.totals().bytes)])
            }
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        phase_at(phase).filter(|phase| *phase != Phase::Remove).map(|_| "files")
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        Box::new(SourceTrees { work: self, after: phase_at(phase).unwrap_or(Phase::Remove) })
    }

    fn needs(&self) -> Needs {
        let (files, directories, totals) = (self.forest.files(), self.directories(), self.totals());
        Needs {
            bytes: Bytes(3 * totals.bytes + totals.records * RECORD),
            inodes: 3 * (files + directories) + 2,
            longest_name: self.forest.longest_name().max(ARCHIVE.len()),
        }
    }
}

/// The tree after a phase.
struct SourceTrees<'a> {
    work: &'a SourceTree,
    after: Phase,
}

impl SourceTrees<'_> {
    /// Returns the number of existing copies of the trees, at most three.
    fn copies(&self) -> u64 {
        match self.after {
            Phase::CopyIn => 1,
            Phase::CopyWithin | Phase::Pack => 2,
            Phase::Unpack => 3,
            Phase::Remove => 0,
        }
    }

    fn has_archive(&self) -> bool {
        matches!(self.after, Phase::Pack | Phase::Unpack)
    }
}

impl Tree for SourceTrees<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        if self.has_archive() && path == ARCHIVE {
            let size = self.work.totals().records * RECORD;
            return Some(Expected::new(ExpectedKind::Sized(size)));
        }
        if self.after == Phase::Unpack && path == UNPACK_DIRECTORY {
            return Some(Expected::DIRECTORY);
        }
        let tops = [ORIGINAL, COPY, UNPACKED].into_iter().take(self.copies() as usize);
        for top in tops {
            match path.strip_prefix(top) {
                Some(b"") => return Some(Expected::DIRECTORY),
                Some([b'/', rest @ ..]) => return self.work.lookup(rest),
                _ => {}
            }
        }
        None
    }

    fn files(&self) -> u64 {
        self.copies() * self.work.forest.files() + u64::from(self.has_archive())
    }

    fn directories(&self) -> u64 {
        self.copies() * self.work.directories() + u64::from(self.after == Phase::Unpack)
    }
}
