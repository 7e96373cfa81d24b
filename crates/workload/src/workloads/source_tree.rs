//! source-tree: copy source trees in, copy them within, pack, unpack and remove them.

use std::sync::OnceLock;

use fsdyno_record::seed::mix;
use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::contents::Contents;
use crate::forest::{Forest, Leaf, Shape, size_of};
use crate::op::{
    COPY_BUFFER, Call, DirSlot, FileSlot, Name, Op, OpenFlags, Payload, RECORD, RemoveOrder,
};
use crate::params::{Domain, Param, ParamError, Values};
use crate::whole_trees::{WholeTree, WholeTrees};
use crate::workload::{
    Books, Expected, ExpectedKind, GapKind, Needs, NoOps, OpCounts, OpSource, PhaseSpec, Share,
    Threads, Tree, Workload,
};
use crate::workloads::Kind;

/// The row of the table.
pub const KIND: Kind = Kind {
    name: "source-tree",
    about: "Copy source trees in, copy them within, pack and unpack them with tar, remove them.",
    source: "a table of reiser4's camp, posted to the linuxinsight article of 2006 and to phoronix, 2007",
    params: PARAMS,
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(SourceTree::new(values, setting.seed)?)),
};

/// What it models; shown by `fsdyno show workload`.
const DOC: &str = "\
A table of 2007 compared file systems by what is done with 655 MB of source, three kernel trees: copy \
it across from another disk, see how much space it takes, copy it within the file system, tar and gzip \
it, unpack it, delete it [PUB]. How exactly is not published; so the steps are those of today's tools \
[RUN: strace of GNU coreutils 9.1 and GNU tar 1.34] and the trees are made by rule [OWN].

The trees: each has `files` files and `directories` directories, its own counted, about as a kernel of \
2006 [MEM]; mean depth about 3, most directories with few files and some with hundreds, sizes about \
log-normal with a median of 5 KB and a mean of 10.9 KB, together about 655 MB [DER: the total]. All \
trees have one shape, as versions of one program nearly do; sizes and contents differ. Contents are \
random bytes: real source would compress about fourfold.

copy-in: cp -a whose source costs nothing; mkdir(0700), then per file open O_CREAT|O_EXCL 0600, writes \
of 128 KiB, futimens, fchown, fchmod, close; a directory's own time, owner and mode when all in it is \
there. copy-within: cp -a of `in` to `copy`: fstatat of each name, all names of a directory read before \
the first is copied, then as above, reading to the end of each file; names are taken as they are read. \
pack: tar -c of `in`: in the order in which directories are read, into one file of real ustar headers \
in records of 10,240 bytes. unpack: tar -x of that file below `out`: open O_CREAT|O_EXCL 0600, write, \
futimens, fchown, fchmod, close; a directory's own time and mode when all in it is there. remove: \
rm -r of all. Nothing is synced by these programs.

Left out or changed: attributes and ACLs that cp asks for; clones and copy_file_range, in whose place \
it reads and writes, as where a file system has neither; and tar reads and writes each file in whole \
records from its beginning, not cut where a record of the archive ends, so that the number of calls \
does not depend on the order of names. The archive is not compressed: `gzip-time` and `gunzip-time` \
are the processor time that compressing a record before it is written, and expanding one after it is \
read, would take. The bytes of the archive depend on the order of names, so only its size is verified, \
but every byte that is unpacked from it. Space in use is recorded after each phase.

With gap=none the phase before is still synced for its times, flushed and verified (from the caches) \
before the next begins; with gap=back-to-back one follows the other at once, and only the last is \
verified.";

const PARAMS: &[Param] = &[
    Param {
        name: "trees",
        default: "3",
        domain: Domain::Whole { min: 1, max: 100 },
        about: "How many source trees.",
        source: "[PUB] 3",
    },
    Param {
        name: "files",
        default: "20000",
        domain: Domain::Whole { min: 1, max: 1_000_000 },
        about: "Files in each tree.",
        source: "[MEM] about as a kernel of 2006",
    },
    Param {
        name: "directories",
        default: "1200",
        domain: Domain::Whole { min: 1, max: 1_000_000 },
        about: "Directories in each tree, its own counted.",
        source: "[MEM] about as a kernel of 2006",
    },
    Param {
        name: "size",
        default: "mix",
        domain: Domain::Or("mix", &Domain::Size { min: 0, max: 1 << 30 }),
        about: "Size of every file; mix is about log-normal with a median of 5,072 bytes.",
        source: "[DER] the mean makes 655 MB of 60,000 files, which is published",
    },
    Param {
        name: "order",
        default: "readdir",
        domain: Domain::Choice(&["readdir", "inode", "name"]),
        about: "The order of removal in each directory: as it is read, or sorted.",
        source: "[DER] published is that it was deleted",
    },
    Param {
        name: "gap",
        default: "remount",
        domain: Domain::Choice(&["none", "back-to-back", "sync", "drop", "remount"]),
        about: "What lies before each phase but the first.",
        source: "[OWN] not published",
    },
    Param {
        name: "gzip-time",
        default: "0",
        domain: Domain::Whole { min: 0, max: 1_000_000 },
        about: "Microseconds of CPU time before each record of 10,240 bytes is written by tar.",
        source: "[OWN] none; the original compressed",
    },
    Param {
        name: "gunzip-time",
        default: "0",
        domain: Domain::Whole { min: 0, max: 1_000_000 },
        about: "Microseconds of CPU time after each record of 10,240 bytes is read by tar.",
        source: "[OWN] none; the original's archive was compressed",
    },
];

const IN: &[u8] = b"in";
const COPY: &[u8] = b"copy";
const ARCHIVE: &[u8] = b"archive.tar";
const OUT: &[u8] = b"out";
/// Where the archive's members come to lie.
const UNPACKED: &[u8] = b"out/in";

/// Time of the first file: the day Linux 2.6.18 came out, 2006-09-20 00:00 UTC; each file's is a second
/// after the one before it, and each directory's a second before.
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
    /// None for the mix.
    size: Option<u64>,
    seed: u64,
    order: RemoveOrder,
    gap: GapKind,
    /// Processor time for each record that is packed and that is unpacked.
    per_record: (Nanos, Nanos),
    totals: OnceLock<Totals>,
}

/// What only a pass over all files can tell.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    bytes: u64,
    /// Reads that give something, or writes, of cp and of tar.
    copied: u64,
    packed: u64,
    /// Records of the archive.
    records: u64,
}

impl SourceTree {
    fn new(values: &Values, seed: u64) -> Result<SourceTree, ParamError> {
        let (files, directories) = (values.whole("files"), values.whole("directories"));
        let shape = Shape::new(directories as u32, files as u32, seed);
        let micros = |key: &str| Nanos(values.whole(key) * 1000);
        Ok(SourceTree {
            forest: Forest::new(values.whole("trees"), shape),
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

    /// Directories of all trees, and the one that they lie in.
    fn directories(&self) -> u64 {
        self.forest.directories() + 1
    }

    /// The number of a file among those of all trees.
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

    /// What is at a path of one of the trees.
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
        let remove = |name| tree(Call::RemoveTree { dir: ROOT, order: self.order }, name, b"");
        let calls = match phase_of(phase).filter(|_| share.rank == 0) {
            None => return Box::new(NoOps),
            Some(Phase::CopyIn) => return Box::new(CopyIn::new(self)),
            Some(Phase::CopyWithin) => {
                vec![tree(Call::CopyTree { dir: ROOT, to: ROOT }, IN, COPY)]
            }
            Some(Phase::Pack) => {
                vec![tree(Call::PackTree { dir: ROOT, to: ROOT, compute: gzip }, IN, ARCHIVE)]
            }
            Some(Phase::Unpack) => vec![
                tree(Call::Mkdir { dir: ROOT, mode: DIRECTORY_MODE }, OUT, b""),
                tree(Call::UnpackTree { dir: ROOT, to: ROOT, compute: gunzip }, ARCHIVE, OUT),
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

    /// The getdents64(2) calls are left out: how many there are is the file system's affair.
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

    fn books(&self, phase: usize) -> Books {
        match phase_of(phase) {
            None | Some(Phase::Remove) => Books::new(),
            Some(_) => {
                Books::from([("files", self.forest.files()), ("bytes", self.totals().bytes)])
            }
        }
    }

    fn unit(&self, phase: usize) -> Option<&'static str> {
        phase_of(phase).filter(|phase| *phase != Phase::Remove).map(|_| "files")
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        Box::new(Trees { work: self, after: phase_of(phase).unwrap_or(Phase::Remove) })
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

/// What is there after a phase.
struct Trees<'a> {
    work: &'a SourceTree,
    after: Phase,
}

impl Trees<'_> {
    /// How many of the three copies of the trees there are.
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

impl Tree for Trees<'_> {
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

/// What the next op of the copy from elsewhere is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// mkdir of the directory that holds the trees.
    Top,
    /// mkdir of the current directory.
    Enter,
    /// The next file of it, or its end.
    File,
    Write(Payload),
    FileTime,
    FileOwner,
    FileMode,
    Close,
    /// The attributes of a directory in which all is there.
    Time(u32),
    Owner(u32),
    Mode(u32),
}

/// `cp -a` from a source that costs nothing.
struct CopyIn<'a> {
    work: &'a SourceTree,
    tree: u64,
    directory: u32,
    /// The file to come next, or the current one; numbers go on from directory to directory.
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

    /// After the last file of a directory, or after `left` was left: the next directory, or the next
    /// one to be left.
    fn after(&mut self, left: Option<u32>) -> Step {
        let shape = &self.work.forest.shape;
        let next = self.directory + 1;
        let goes_on = next < shape.directories();
        match left {
            None if goes_on && shape.parent(next) == self.directory => {}
            None => return Step::Time(self.directory),
            // The tree's own directory is the last one to be left.
            Some(0) => {
                (self.tree, self.directory, self.file) = (self.tree + 1, 0, 0);
                return Step::Enter;
            }
            Some(left) if goes_on && shape.parent(next) == shape.parent(left) => {}
            Some(left) => return Step::Time(shape.parent(left)),
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
            Step::Time(left) => {
                self.name_directory(op, left);
                let mtime = self.work.directory_time(self.tree, left);
                (Call::Utimes { dir, mtime }, Step::Owner(left))
            }
            Step::Owner(left) => (Call::Chown { dir }, Step::Mode(left)),
            Step::Mode(left) => (Call::Chmod { dir, mode: DIRECTORY_MODE }, self.after(Some(left))),
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
