//! calls: each kind of metadata call in a separate phase, over the files of one directory.

use fsdyno_record::{Bytes, OpKind};

use crate::numbered::Numbered;
use crate::op::{Call, DirSlot, Expect, FileSlot, Op, OpenFlags, Payload};
use crate::op_source::OpSource;
use crate::params::{Domain, Param, ParamError, Values};
use crate::permutation::Permutation;
use crate::workload::{
    Expected, GapKind, Links, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "calls",
    about: "Make each kind of metadata call in a separate phase, over the files of one directory.",
    source: "fsdyno's own; the phases of lat_fs (lmbench, 1996) and of fs_mark, and more",
    params: PARAMS,
    more_work: &["files"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Calls::new(values, setting.seed)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
Each phase makes one kind of call on every file of one directory, so that its CPU time and its \
latencies are those of that call alone [OWN]: create (open O_CREAT|O_EXCL, close), stat, missing (stat of a \
name that does not exist), chmod, utimes, write (open, one write, close), fsync (open, one write, \
fsync, close), open (open, close), read (open, one read, close), rename, link, unlink-link, symlink, unlink-symlink, mkdir, rmdir, remove \
(unlink). Files are created in the order of their numbers, and everything else is done in an order drawn from \
the seed. Nothing is unmounted in between: after create, everything is in memory. Every phase is synced \
and verified before the next one begins. Several threads take equal parts of the numbers.

`fsdyno fit cpu` fits processor profiles with it (docs/fidelity.md).";

const PARAMS: &[Param] = &[
    Param {
        name: "files",
        default: "10000",
        domain: Domain::Whole { min: 1, max: 10_000_000 },
        about: "Files, links, symbolic links and directories, each in their phases.",
        source: "[OWN]",
    },
    Param {
        name: "name",
        default: "8",
        domain: Domain::Whole { min: 8, max: 64 },
        about: "Length of every name in bytes.",
        source: "[OWN] 8 as in lat_fs; longer ones make directories of more blocks",
    },
    Param {
        name: "size",
        default: "4096",
        domain: Domain::Size { min: 1, max: 1 << 20 },
        about: "Number of bytes written to and read from each file.",
        source: "[OWN] a page",
    },
];

/// Space of an empty directory in bytes.
const DIRECTORY_BYTES: u64 = 4096;
const FILE: FileSlot = FileSlot(0);
const ROOT: DirSlot = DirSlot::ROOT;
/// Permission bits after chmod; before it, they depend on the umask of the process.
const MODE: u32 = 0o640;
const MTIME: i64 = 1_000_000_000;
const READ: OpenFlags = OpenFlags { read: true, ..OpenFlags::NONE };
const WRITE: OpenFlags = OpenFlags { write: true, ..OpenFlags::NONE };
const CREATE: OpenFlags = OpenFlags { write: true, exclusive: true, ..OpenFlags::NONE };

/// The phases, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Create,
    Stat,
    Missing,
    Chmod,
    Utimes,
    Write,
    Fsync,
    Open,
    Read,
    Rename,
    Link,
    UnlinkLink,
    Symlink,
    UnlinkSymlink,
    Mkdir,
    Rmdir,
    Remove,
}

const STEPS: [(Step, &str); 17] = [
    (Step::Create, "create"),
    (Step::Stat, "stat"),
    (Step::Missing, "missing"),
    (Step::Chmod, "chmod"),
    (Step::Utimes, "utimes"),
    (Step::Write, "write"),
    (Step::Fsync, "fsync"),
    (Step::Open, "open"),
    (Step::Read, "read"),
    (Step::Rename, "rename"),
    (Step::Link, "link"),
    (Step::UnlinkLink, "unlink-link"),
    (Step::Symlink, "symlink"),
    (Step::UnlinkSymlink, "unlink-symlink"),
    (Step::Mkdir, "mkdir"),
    (Step::Rmdir, "rmdir"),
    (Step::Remove, "remove"),
];

impl Step {
    fn of_phase(phase: usize) -> Option<Step> {
        STEPS.get(phase).map(|step| step.0)
    }

    /// Returns the kinds of its calls on each file, in order.
    fn kinds(self) -> &'static [OpKind] {
        match self {
            Step::Create => &[OpKind::Create, OpKind::Close],
            Step::Stat | Step::Missing => &[OpKind::Stat],
            Step::Chmod => &[OpKind::Chmod],
            Step::Utimes => &[OpKind::Utimes],
            Step::Write => &[OpKind::Open, OpKind::Write, OpKind::Close],
            Step::Fsync => &[OpKind::Open, OpKind::Write, OpKind::Fsync, OpKind::Close],
            Step::Open => &[OpKind::Open, OpKind::Close],
            Step::Read => &[OpKind::Open, OpKind::Read, OpKind::Close],
            Step::Rename => &[OpKind::Rename],
            Step::Link => &[OpKind::Link],
            Step::Symlink => &[OpKind::Symlink],
            Step::UnlinkLink | Step::UnlinkSymlink | Step::Remove => &[OpKind::Unlink],
            Step::Mkdir => &[OpKind::Mkdir],
            Step::Rmdir => &[OpKind::Rmdir],
        }
    }
}

/// The families of names.
#[derive(Debug)]
struct Names {
    /// Names of the files until they are renamed.
    file: Numbered,
    renamed: Numbered,
    link: Numbered,
    symlink: Numbered,
    directory: Numbered,
    missing: Numbered,
}

#[derive(Debug)]
struct Calls {
    files: u64,
    name: usize,
    size: u32,
    order: Permutation,
    names: Names,
}

impl Calls {
    fn new(values: &Values, seed: u64) -> Result<Calls, ParamError> {
        let (files, name) =
            (values.number_or_zero("files"), values.number_or_zero("name") as usize);
        // A prefix, and digits up to the full length, but at most 15, so that long names have long prefixes.
        let family = |letter: &str| {
            let digits = (name - 1).min(15);
            Numbered::new(&letter.repeat(name - digits), digits)
        };
        Ok(Calls {
            files,
            name,
            size: values.number_or_zero("size") as u32,
            order: Permutation::new(files, seed, "calls"),
            names: Names {
                file: family("f"),
                renamed: family("r"),
                link: family("l"),
                symlink: family("s"),
                directory: family("d"),
                missing: family("m"),
            },
        })
    }

    fn payload(&self, file: u64) -> Payload {
        Payload { id: file, offset: 0, length: self.size }
    }

    /// Returns the names of the files in the calls of a phase.
    fn file_names(&self, step: Step) -> &Numbered {
        if step <= Step::Rename { &self.names.file } else { &self.names.renamed }
    }
}

impl Workload for Calls {
    fn phases(&self) -> Vec<PhaseSpec> {
        let phase = |(_, name): (Step, &'static str)| PhaseSpec {
            name,
            gap: GapKind::None,
            verify: true,
            threads: Threads::Any,
        };
        STEPS.map(phase).into()
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let part = |rank: u32| self.files * u64::from(rank) / u64::from(share.ranks.max(1));
        let (index, end) = (part(share.rank), part(share.rank + 1));
        Box::new(Source { work: self, step: Step::of_phase(phase), index, end, call_index: 0 })
    }

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        let kinds = Step::of_phase(phase).map(Step::kinds).unwrap_or_default();
        kinds.iter().map(|kind| (*kind, self.files)).collect()
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        Box::new(CallsTree { work: self, after: Step::of_phase(phase) })
    }

    fn needs(&self) -> Needs {
        Needs {
            bytes: Bytes(self.files * (u64::from(self.size) + DIRECTORY_BYTES)),
            inodes: 2 * self.files,
            longest_name: self.name,
        }
    }
}

/// The calls of a phase on a range of indices in the order.
struct Source<'a> {
    work: &'a Calls,
    step: Option<Step>,
    index: u64,
    end: u64,
    /// The index of the next call on the file.
    call_index: usize,
}

impl Source<'_> {
    /// Sets the names of an op: that of the file before its first call, and the second name, if any.
    fn set_names(&self, step: Step, number: u64, op: &mut Op) {
        let (work, names) = (self.work, &self.work.names);
        if self.call_index == 0 {
            let family = match step {
                Step::Missing => &names.missing,
                Step::UnlinkLink => &names.link,
                Step::Symlink | Step::UnlinkSymlink => &names.symlink,
                Step::Mkdir | Step::Rmdir => &names.directory,
                _ => work.file_names(step),
            };
            op.name.clear();
            family.push(&mut op.name, number);
        }
        let second_family = match step {
            Step::Rename => Some(&names.renamed),
            Step::Link => Some(&names.link),
            // The target.
            Step::Symlink => Some(&names.renamed),
            _ => None,
        };
        if let Some(second_family) = second_family {
            op.second_name.clear();
            second_family.push(&mut op.second_name, number);
        }
    }
}

impl OpSource for Source<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let (Some(step), true) = (self.step, self.index < self.end) else { return false };
        let work = self.work;
        let number = if step == Step::Create { self.index } else { work.order.at(self.index) };
        op.expect = Expect::Success;
        let kinds = step.kinds();
        self.set_names(step, number, op);
        op.call = match (step, kinds.get(self.call_index)) {
            (_, Some(OpKind::Create)) => {
                Call::Create { dir: ROOT, file: FILE, flags: CREATE, mode: 0o644 }
            }
            (Step::Write | Step::Fsync, Some(OpKind::Open)) => {
                Call::Open { dir: ROOT, file: FILE, flags: WRITE }
            }
            (_, Some(OpKind::Fsync)) => Call::Fsync { file: FILE },
            (_, Some(OpKind::Open)) => Call::Open { dir: ROOT, file: FILE, flags: READ },
            (_, Some(OpKind::Close)) => Call::Close { file: FILE },
            (_, Some(OpKind::Write)) => Call::Write { file: FILE, payload: work.payload(number) },
            (_, Some(OpKind::Read)) => Call::Read { file: FILE, length: work.size },
            (Step::Missing, _) => {
                op.expect = Expect::Missing;
                Call::Stat { dir: ROOT }
            }
            (Step::Chmod, _) => Call::Chmod { dir: ROOT, mode: MODE },
            (Step::Utimes, _) => Call::Utimes { dir: ROOT, mtime: MTIME },
            (Step::Rename, _) => Call::Rename { dir: ROOT, to: ROOT },
            (Step::Link, _) => Call::Link { dir: ROOT, to: ROOT },
            (Step::Symlink, _) => Call::Symlink { dir: ROOT },
            (Step::Mkdir, _) => Call::Mkdir { dir: ROOT, mode: 0o755 },
            (Step::Rmdir, _) => Call::Rmdir { dir: ROOT },
            (Step::UnlinkLink | Step::UnlinkSymlink | Step::Remove, _) => {
                Call::Unlink { dir: ROOT }
            }
            _ => Call::Stat { dir: ROOT },
        };
        self.call_index += 1;
        if self.call_index >= kinds.len() {
            self.call_index = 0;
            self.index += 1;
        }
        true
    }
}

/// The directory after a phase.
struct CallsTree<'a> {
    work: &'a Calls,
    after: Option<Step>,
}

impl CallsTree<'_> {
    fn is_between(&self, after: Step, before: Step) -> bool {
        self.after.is_some_and(|step| step >= after && step < before)
    }

    fn expected_file(&self, number: u64) -> Expected {
        let mut file = match self.is_between(Step::Write, Step::Remove) {
            true => Expected::file(self.work.payload(number)),
            false => Expected::file(Payload { length: 0, ..self.work.payload(number) }),
        };
        if self.is_between(Step::Chmod, Step::Remove) {
            file = file.with_mode(MODE);
        }
        // A write changes the time again.
        if self.is_between(Step::Utimes, Step::Write) {
            file = file.with_mtime(MTIME);
        }
        if self.is_between(Step::Link, Step::UnlinkLink) {
            file = file.with_links(Links { group: number, count: 2 });
        }
        file
    }
}

impl Tree for CallsTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let names = &self.work.names;
        let number =
            |family: &Numbered| family.parse(path).filter(|number| *number < self.work.files);
        let file =
            if self.is_between(Step::Rename, Step::Remove) { &names.renamed } else { &names.file };
        let is_file = self.is_between(Step::Create, Step::Remove);
        if let Some(number) = number(file).filter(|_| is_file) {
            return Some(self.expected_file(number));
        }
        if let Some(number) =
            number(&names.link).filter(|_| self.is_between(Step::Link, Step::UnlinkLink))
        {
            return Some(self.expected_file(number));
        }
        if self.is_between(Step::Symlink, Step::UnlinkSymlink) && number(&names.symlink).is_some() {
            return Some(Expected::SYMLINK);
        }
        let is_directory =
            self.is_between(Step::Mkdir, Step::Rmdir) && number(&names.directory).is_some();
        is_directory.then_some(Expected::DIRECTORY)
    }

    fn files(&self) -> u64 {
        let kinds = u64::from(self.is_between(Step::Create, Step::Remove))
            + u64::from(self.is_between(Step::Link, Step::UnlinkLink))
            + u64::from(self.is_between(Step::Symlink, Step::UnlinkSymlink));
        kinds * self.work.files
    }

    fn directories(&self) -> u64 {
        if self.is_between(Step::Mkdir, Step::Rmdir) { self.work.files } else { 0 }
    }

    fn target(&self, path: &[u8]) -> Option<Vec<u8>> {
        let number = self.work.names.symlink.parse(path)?;
        let mut name = crate::op::Name::default();
        self.work.names.renamed.push(&mut name, number);
        Some(name.as_bytes().to_vec())
    }
}
