//! source-tree: copy source trees in, copy them within, pack, unpack and remove them.

mod params;

use std::sync::OnceLock;

use fsdyno_record::seed::mix;
use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::contents::Contents;
use crate::forest::{Forest, Leaf, Shape, size_of};
use crate::op::{
    COPY_BUFFER, Call, Compound, DirSlot, FileSlot, Name, Op, OpenFlags, Payload, RECORD,
    RemoveOrder,
};
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{ParamError, Values};
use crate::whole_trees::{WholeTree, WholeTrees};
use crate::workload::{
    Expected, ExpectedKind, GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;
use params::{DOC, PARAMS};

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "source-tree",
    about: "Copy source trees in, copy them within, pack and unpack them with tar, remove them.",
    source: "a table by reiser4 advocates, posted to the linuxinsight article of 2006 and to phoronix, 2007",
    params: PARAMS,
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(SourceTree::new(values, setting.seed)?)),
};

const IN: &[u8] = b"in";
const COPY: &[u8] = b"copy";
const ARCHIVE: &[u8] = b"archive.tar";
const OUT: &[u8] = b"out";
/// Directory of the archive's unpacked members.
const UNPACKED: &[u8] = b"out/in";

/// Modification time of the first file: the day of the release of Linux 2.6.18, 2006-09-20 00:00 UTC. Each further
/// file is one second later; the directories are earlier, each one second before the previous one.
const MTIME: i64 = 1_158_710_400;
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const FILE: FileSlot = FileSlot(0);
const FLAGS: OpenFlags = OpenFlags { write: true, exclusive: true, ..OpenFlags::NONE };
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

fn phase_of(index: usize) -> Option<Phase> {
    PHASES.get(index).map(|(phase, _)| *phase)
}

/// The trees, with their parameters bound.
#[derive(Debug)]
struct SourceTree {
    forest: Forest,
    /// Size of each file in bytes; none for the mix.
    size: Option<u64>,
    seed: u64,
    order: RemoveOrder,
    gap: GapKind,
    /// Processor time for each record that is packed and for each that is unpacked.
    per_record: (Nanos, Nanos),
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
            per_record: (micros("gzip-time"), micros("gunzip-time")),
            totals: OnceLock::new(),
        })
    }

    /// Returns the number of directories of all trees, including the one that contains the trees.
    fn directories(&self) -> u64 {
        self.forest.directories() + 1
    }

    /// Returns the number of a file among the files of all trees.
    fn number(&self, tree: u64, file: u32) -> u64 {
        tree * u64::from(self.forest.shape.files()) + u64::from(file)
    }

    fn payload(&self, number: u64) -> Payload {
        let size = self.size.unwrap_or_else(|| size_of(number, self.seed));
        Payload { id: number, offset: 0, length: size as u32 }
    }

    fn file_time(&self, number: u64) -> i64 {
        MTIME + number as i64
    }

    fn directory_time(&self, tree: u64, directory: u32) -> i64 {
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
    fn name(&self, name: &mut Name, top: &[u8], tree: u64, leaf: Leaf) {
        name.clear();
        name.push(top);
        name.push(b"/");
        self.forest.push(name, tree, leaf);
    }

    /// Returns the entry at a path in one of the trees.
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        Some(match self.forest.read(path)? {
            (tree, Leaf::Directory(directory)) => Expected::DIRECTORY
                .with_mode(DIRECTORY_MODE)
                .with_mtime(self.directory_time(tree, directory)),
            (tree, Leaf::File(file)) => {
                let number = self.number(tree, file);
                Expected::file(self.payload(number))
                    .with_mode(FILE_MODE)
                    .with_mtime(self.file_time(number))
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
        let tree = |call, name, other| -> WholeTree { (call, name, other) };
        let (gzip, gunzip) = self.per_record;
        let remove = |name| {
            tree(
                Call::Compound(Compound::RemoveTree {
                    dir: ROOT,
                    order: self.order,
                    synced: false,
                }),
                name,
                b"",
            )
        };
        let calls = match phase_of(phase).filter(|_| share.rank == 0) {
            None => return Box::new(NoOps),
            Some(Phase::CopyIn) => return Box::new(CopyIn::new(self)),
            Some(Phase::CopyWithin) => {
                vec![tree(Call::Compound(Compound::CopyTree { dir: ROOT, to: ROOT }), IN, COPY)]
            }
            Some(Phase::Pack) => {
                vec![tree(
                    Call::Compound(Compound::PackTree { dir: ROOT, to: ROOT, compute: gzip }),
                    IN,
                    ARCHIVE,
                )]
            }
            Some(Phase::Unpack) => vec![
                tree(Call::Mkdir { dir: ROOT, mode: DIRECTORY_MODE }, OUT, b""),
                tree(
                    Call::Compound(Compound::UnpackTree { dir: ROOT, to: ROOT, compute: gunzip }),
                    ARCHIVE,
                    OUT,
                ),
            ],
            Some(Phase::Remove) => vec![
                remove(IN),
                remove(COPY),
                remove(OUT),
                tree(Call::Unlink { dir: ROOT }, ARCHIVE, b""),
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
        let all = files + directories;
        let attributes = |count| [(Utimes, count), (Chown, count), (Chmod, count)];
        let mut counts = OpCounts::new();
        match phase_of(phase) {
            None => {}
            Some(Phase::CopyIn) => {
                counts.extend([(Mkdir, directories), (Create, files), (Close, files)]);
                counts.insert(Write, totals.copied);
                counts.extend(attributes(all - 1));
            }
            Some(Phase::CopyWithin) => {
                counts.extend([(Stat, all), (Open, all), (Mkdir, directories), (Create, files)]);
                counts.extend([(Read, totals.copied + files), (Write, totals.copied)]);
                counts.extend(attributes(all));
                counts.insert(Close, all + files);
            }
            Some(Phase::Pack) => {
                counts.extend([(Stat, all), (Open, all), (Create, 1), (Close, all + 1)]);
                counts.extend([(Read, totals.packed), (Write, totals.records)]);
            }
            Some(Phase::Unpack) => {
                counts.extend([(Mkdir, directories + 1), (Create, files), (Open, 1)]);
                counts.extend([(Read, totals.records), (Write, totals.packed)]);
                counts.extend(attributes(all));
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
        match phase_of(phase) {
            None | Some(Phase::Remove) => WorkUnits::new(),
            Some(_) => {
                WorkUnits::from([("files", self.forest.files()), ("bytes", self.totals().bytes)])
            }
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        phase_of(phase).filter(|phase| *phase != Phase::Remove).map(|_| "files")
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        Box::new(SourceTrees { work: self, after: phase_of(phase).unwrap_or(Phase::Remove) })
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

    fn archived(&self) -> bool {
        matches!(self.after, Phase::Pack | Phase::Unpack)
    }
}

impl Tree for SourceTrees<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        if self.archived() && path == ARCHIVE {
            let size = self.work.totals().records * RECORD;
            return Some(Expected::new(ExpectedKind::Sized(size)));
        }
        if self.after == Phase::Unpack && path == OUT {
            return Some(Expected::DIRECTORY);
        }
        let tops = [IN, COPY, UNPACKED].into_iter().take(self.copies() as usize);
        for top in tops {
            match path.strip_prefix(top) {
                Some(b"") => return Some(Expected::DIRECTORY),
                Some([b'/', below @ ..]) => return self.work.lookup(below),
                _ => {}
            }
        }
        None
    }

    fn files(&self) -> u64 {
        self.copies() * self.work.forest.files() + u64::from(self.archived())
    }

    fn directories(&self) -> u64 {
        self.copies() * self.work.directories() + u64::from(self.after == Phase::Unpack)
    }
}

/// The next op of the copy from outside the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// mkdir of the directory that holds the trees.
    Top,
    /// mkdir of the current directory.
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

/// `cp -a` from a source that costs nothing.
struct CopyIn<'a> {
    work: &'a SourceTree,
    tree: u64,
    directory: u32,
    /// The next file, or the current one; numbers continue from directory to directory.
    file: u32,
    step: Step,
}

impl<'a> CopyIn<'a> {
    fn new(work: &'a SourceTree) -> CopyIn<'a> {
        CopyIn { work, tree: 0, directory: 0, file: 0, step: Step::Top }
    }

    fn number(&self) -> u64 {
        self.work.number(self.tree, self.file)
    }

    /// Returns the step after the last file of a directory, or after the attributes of `completed`: the next
    /// directory, or the attributes of the next complete directory.
    fn after(&mut self, completed: Option<u32>) -> Step {
        let shape = &self.work.forest.shape;
        let next = self.directory + 1;
        let goes_on = next < shape.directories();
        match completed {
            None if goes_on && shape.parent(next) == self.directory => {}
            None => return Step::Time(self.directory),
            // The tree's top directory is completed last.
            Some(0) => {
                (self.tree, self.directory, self.file) = (self.tree + 1, 0, 0);
                return Step::Enter;
            }
            Some(completed) if goes_on && shape.parent(next) == shape.parent(completed) => {}
            Some(completed) => return Step::Time(shape.parent(completed)),
        }
        self.directory = next;
        Step::Enter
    }

    fn name_directory(&self, op: &mut Op, directory: u32) {
        self.work.name(&mut op.name, IN, self.tree, Leaf::Directory(directory));
    }

    fn of_file(&mut self, op: &mut Op) {
        let file = FILE;
        (op.call, self.step) = match self.step {
            Step::Write(left) => {
                let length = u64::from(left.length).min(COPY_BUFFER) as u32;
                let rest = Contents::rest(left, length);
                let then = if rest.length > 0 { Step::Write(rest) } else { Step::FileTime };
                (Call::Write { file, payload: Payload { length, ..left } }, then)
            }
            Step::FileTime => {
                let mtime = self.work.file_time(self.number());
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

    fn create(&mut self, op: &mut Op) {
        self.work.name(&mut op.name, IN, self.tree, Leaf::File(self.file));
        op.call = Call::Create { dir: ROOT, file: FILE, flags: FLAGS, mode: 0o600 };
        let payload = self.work.payload(self.number());
        self.step = if payload.length > 0 { Step::Write(payload) } else { Step::FileTime };
    }

    fn of_directory(&mut self, op: &mut Op) {
        let dir = ROOT;
        (op.call, self.step) = match self.step {
            Step::Time(completed) => {
                self.name_directory(op, completed);
                let mtime = self.work.directory_time(self.tree, completed);
                (Call::Utimes { dir, mtime }, Step::Owner(completed))
            }
            Step::Owner(completed) => (Call::Chown { dir }, Step::Mode(completed)),
            Step::Mode(completed) => {
                (Call::Chmod { dir, mode: DIRECTORY_MODE }, self.after(Some(completed)))
            }
            Step::Top => {
                op.name.clear();
                op.name.push(IN);
                (Call::Mkdir { dir, mode: DIRECTORY_MODE }, Step::Enter)
            }
            _ => {
                self.name_directory(op, self.directory);
                (Call::Mkdir { dir, mode: 0o700 }, Step::File)
            }
        };
    }
}

impl OpSource for CopyIn<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if self.step == Step::File {
            if self.work.forest.shape.files_of(self.directory).contains(&self.file) {
                self.create(op);
                return true;
            }
            self.step = self.after(None);
        }
        match self.step {
            Step::Enter if self.tree == self.work.forest.trees => return false,
            Step::Top | Step::Enter | Step::Time(_) | Step::Owner(_) | Step::Mode(_) => {
                self.of_directory(op);
            }
            _ => self.of_file(op),
        }
        true
    }
}
