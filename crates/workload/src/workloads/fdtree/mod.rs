//! fdtree: create and remove a regular tree of directories and files, as LLNL's script fdtree does.

mod params;
mod walk;

use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::contents::Contents;
use crate::items::Items;
use crate::op::{Call, DirSlot, FileSlot, Op, OpenFlags, Payload};
use crate::op_source::{NoOps, OpSource, WorkUnits};
use crate::params::{ParamError, Values};
use crate::workload::{
    Expected, GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;
use params::{DOC, PARAMS};
use walk::Walk;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "fdtree",
    about: "Make a regular tree of directories, write files in each, remove files and directories.",
    source: "fdtree 1.0.2, Lawrence Livermore National Laboratory; parameter sets by J. Layton, 2009",
    params: PARAMS,
    more_work: &["files"],
    doc: DOC,
    config: None,
    build: |values, _| Ok(Box::new(Fdtree::new(values)?)),
};

/// Parameter sets: name, levels, directories per directory, files per directory, blocks per file.
const SETS: [(&str, [u64; 4]); 5] = [
    ("none", [4, 10, 10, 10]),
    ("small-shallow", [3, 20, 40, 1]),
    ("small-deep", [10, 3, 4, 1]),
    ("medium-shallow", [2, 17, 10, 1000]),
    ("medium-deep", [10, 2, 2, 1000]),
];

/// Maximum number of files; more would be a typing error.
const MAX_FILES: u64 = 1_000_000_000;
/// Name of the root, in place of the script's LEVEL0.<host>.<pid>.
const ROOT: &[u8] = b"LEVEL0.fsdyno.1";
/// Size of a block in bytes: dd's bs=4096.
const BLOCK: u32 = 4096;
const FILE: FileSlot = FileSlot(0);
const FLAGS: OpenFlags = OpenFlags { write: true, truncate: true, ..OpenFlags::NONE };
const CREATE: Call = Call::Create { dir: DirSlot::ROOT, file: FILE, flags: FLAGS, mode: 0o666 };
const MKDIR: Call = Call::Mkdir { dir: DirSlot::ROOT, mode: 0o777 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    DirectoryCreate,
    FileCreate,
    FileRemove,
    DirectoryRemove,
}

const PHASES: [(Phase, &str); 4] = [
    (Phase::DirectoryCreate, "directory-create"),
    (Phase::FileCreate, "file-create"),
    (Phase::FileRemove, "file-remove"),
    (Phase::DirectoryRemove, "directory-remove"),
];

/// The tree and its phases, with its parameters bound.
#[derive(Clone, Debug)]
struct Fdtree {
    levels: usize,
    dirs: u64,
    files: u64,
    blocks: u32,
    zeros: bool,
    fork_time: Nanos,
    gap: GapKind,
    phases: &'static [(Phase, &'static str)],
    /// Number of directories of a subtree, including its root, by the level of the root.
    subtree_sizes: Vec<u64>,
    /// Maximum number of files, if a stonewall ended their creation.
    max_files: u64,
}

impl Fdtree {
    fn new(values: &Values) -> Result<Fdtree, ParamError> {
        let set = SETS.iter().find(|set| set.0 == values.text("set")).unwrap_or(&SETS[0]);
        let number = |key: &str, index: usize| values.or_published(key, "set", set.1[index]);
        let (levels, dirs) = (number("levels", 0)?, number("dirs", 1)?);
        let (files, blocks) = (number("files", 2)?, number("size", 3)?);
        let subtree_sizes = subtree_sizes(levels, dirs).filter(|sizes| {
            sizes
                .last()
                .and_then(|directories| directories.checked_mul(files))
                .is_some_and(|files| files <= MAX_FILES)
        });
        let Some(subtree_sizes) = subtree_sizes else {
            return Err(ParamError::Conflict(format!(
                "levels={levels} dirs={dirs} files={files} make more than {MAX_FILES} files; use \
                 fewer of one of them"
            )));
        };
        Ok(Fdtree {
            levels: levels as usize,
            dirs,
            files,
            blocks: blocks as u32,
            zeros: values.text("data") == "zeros",
            fork_time: Nanos(values.number_or_zero("fork-time") * 1000),
            gap: GapKind::named(values.text("gap")),
            phases: if values.text("mode") == "create" { &PHASES[..2] } else { &PHASES },
            subtree_sizes,
            max_files: u64::MAX,
        })
    }

    fn directory_count(&self) -> u64 {
        self.subtree_sizes.last().copied().unwrap_or(1)
    }

    fn file_count(&self) -> u64 {
        (self.directory_count() * self.files).min(self.max_files)
    }

    /// Returns the ops that create the files.
    fn write_ops(&self) -> WriteFiles<'_> {
        WriteFiles { walk: Walk::new(self), started: 0, end: self.file_count(), unwritten: None }
    }

    /// Returns the content of file `k` of node number `node` in walk order.
    fn payload(&self, node: u64, k: u64) -> Payload {
        let id = if self.zeros { Payload::ZEROS } else { node * self.files + k - 1 };
        Payload { id, offset: 0, length: self.blocks * BLOCK }
    }

    /// Returns the distance from a node at `level` to its child `k` in walk order, in which the last child
    /// comes first.
    fn child_distance(&self, level: usize, k: u64) -> u64 {
        1 + (self.dirs - k) * self.subtree_sizes[level - 1]
    }
}

/// Returns the number of directories of a subtree for each level of its root, from 0 up, or `None` if there are too
/// many.
fn subtree_sizes(levels: u64, dirs: u64) -> Option<Vec<u64>> {
    let next = |below: &Option<u64>| Some(below.and_then(|n| n.checked_mul(dirs)?.checked_add(1)));
    std::iter::successors(Some(Some(1)), next).take(levels as usize + 1).collect()
}

impl Workload for Fdtree {
    /// Verifies the tree after the phase in which all files exist, and the empty tree at the end; there is no
    /// verification between the other phases.
    fn phases(&self) -> Vec<PhaseSpec> {
        let spec = |(index, (phase, name)): (usize, &(Phase, &'static str))| PhaseSpec {
            name,
            gap: if index == 0 { GapKind::None } else { self.gap },
            verify: matches!(phase, Phase::FileCreate | Phase::DirectoryRemove),
            threads: Threads::One,
        };
        PhaseSpec::chained(self.phases.iter().enumerate().map(spec).collect())
    }

    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        let Some((phase, _)) = self.phases.get(phase).filter(|_| share.rank == 0) else {
            return Box::new(NoOps);
        };
        match phase {
            Phase::FileCreate => Box::new(self.write_ops()),
            _ => Box::new(NameOps {
                walk: Walk::new(self),
                phase: *phase,
                files: self.file_count(),
                has_ended: false,
            }),
        }
    }

    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        let creates = |(phase, _): &(Phase, &str)| *phase == Phase::FileCreate;
        self.phases.iter().position(creates).map(|phase| (phase, "files"))
    }

    fn after_stonewall(&self, max_files: u64, _: u32) -> Option<Box<dyn Workload>> {
        Some(Box::new(Fdtree { max_files, ..self.clone() }))
    }

    fn items(&self, share: Share) -> Option<Box<dyn Items + Send + '_>> {
        (share.rank == 0).then(|| Box::new(self.write_ops()) as Box<dyn Items + Send>)
    }

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        let (directories, files) = (self.directory_count(), self.file_count());
        let counts = match self.phases.get(phase).map(|(phase, _)| phase) {
            None => vec![],
            Some(Phase::DirectoryCreate) => vec![(OpKind::Mkdir, directories)],
            Some(Phase::FileCreate) => vec![
                (OpKind::Create, files),
                (OpKind::Write, files * u64::from(self.blocks)),
                (OpKind::Close, files),
            ],
            Some(Phase::FileRemove) => vec![(OpKind::Unlink, files)],
            Some(Phase::DirectoryRemove) => vec![(OpKind::Rmdir, directories)],
        };
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn work_units(&self, phase: usize) -> WorkUnits {
        let (directories, files) = (self.directory_count(), self.file_count());
        match self.phases.get(phase).map(|(phase, _)| phase) {
            None => WorkUnits::new(),
            Some(Phase::FileCreate) => {
                WorkUnits::from([("files", files), ("KiB", 4 * files * u64::from(self.blocks))])
            }
            Some(Phase::FileRemove) => WorkUnits::from([("files", files)]),
            Some(Phase::DirectoryCreate | Phase::DirectoryRemove) => {
                WorkUnits::from([("directories", directories)])
            }
        }
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        let phase = self.phases.get(phase).map(|(phase, _)| *phase);
        let has_files = phase == Some(Phase::FileCreate);
        let has_directories = has_files || !matches!(phase, None | Some(Phase::DirectoryRemove));
        Box::new(FdtreeTree { work: self, has_files, has_directories })
    }

    fn needs(&self) -> Needs {
        let longest = format!("L{}F{}", self.levels, self.files.max(self.dirs)).len();
        Needs {
            bytes: Bytes(self.file_count() * u64::from(self.blocks * BLOCK)),
            inodes: self.directory_count() + self.file_count(),
            longest_name: longest.max(ROOT.len()),
        }
    }
}

/// The tree with or without files, or an empty tree.
struct FdtreeTree<'a> {
    work: &'a Fdtree,
    has_files: bool,
    has_directories: bool,
}

impl Tree for FdtreeTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let mut parts = path.split(|byte| *byte == b'/');
        if !self.has_directories || parts.next()? != ROOT {
            return None;
        }
        let (mut level, mut node) = (self.work.levels, 0);
        while let Some(part) = parts.next() {
            if let Some(k) = parse_number(part, level, b'D', self.work.dirs).filter(|_| level > 0) {
                node += self.work.child_distance(level, k);
                level -= 1;
            } else {
                let k = parse_number(part, level, b'F', self.work.files)?;
                let number = node * self.work.files + self.work.files - k;
                let exists =
                    self.has_files && parts.next().is_none() && number < self.work.max_files;
                return exists.then(|| Expected::file(self.work.payload(node, k)));
            }
        }
        Some(Expected::DIRECTORY)
    }

    fn files(&self) -> u64 {
        if self.has_files { self.work.file_count() } else { 0 }
    }

    fn directories(&self) -> u64 {
        if self.has_directories { self.work.directory_count() } else { 0 }
    }
}

/// Parses the number `k`, from 1 to `max`, in the name `L<level><letter><k>`.
fn parse_number(name: &[u8], level: usize, letter: u8, max: u64) -> Option<u64> {
    let rest = name.strip_prefix(b"L")?;
    let offset = rest.iter().position(|byte| *byte == letter)?;
    let number = |digits: &[u8]| {
        let is_digits = digits.iter().all(u8::is_ascii_digit);
        let is_canonical = is_digits && (digits.len() == 1 || digits.first() != Some(&b'0'));
        std::str::from_utf8(digits).ok().filter(|_| is_canonical)?.parse::<u64>().ok()
    };
    let is_level = number(&rest[..offset])? == level as u64;
    number(&rest[offset + 1..]).filter(|k| is_level && (1..=max).contains(k))
}

/// The ops of a phase that makes one call per name.
struct NameOps<'a> {
    walk: Walk<'a>,
    phase: Phase,
    /// Number of files that remain to be removed.
    files: u64,
    has_ended: bool,
}

impl OpSource for NameOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let (name, walk) = (&mut op.name, &mut self.walk);
        let (call, first) = match self.phase {
            Phase::DirectoryCreate => (MKDIR, walk.next_directory_to_create(name).then_some(true)),
            Phase::DirectoryRemove => {
                (Call::Rmdir { dir: DirSlot::ROOT }, walk.next_directory_to_remove(name))
            }
            _ => {
                let Some(remaining) = self.files.checked_sub(1) else { return false };
                self.files = remaining;
                (Call::Unlink { dir: DirSlot::ROOT }, walk.next_file(name))
            }
        };
        op.call = call;
        // In the original, one process makes all the calls on the names in a directory, but each mkdir is a process.
        op.compute = if first == Some(false) { Nanos(0) } else { walk.work.fork_time };
        if first.is_none() && self.phase == Phase::DirectoryRemove && !self.has_ended {
            name.truncate(ROOT.len());
            self.has_ended = true;
            return true;
        }
        first.is_some()
    }
}

/// The calls of dd for each file: open, a write per block, close.
struct WriteFiles<'a> {
    walk: Walk<'a>,
    started: u64,
    end: u64,
    /// The part of the open file that is not written yet.
    unwritten: Option<Payload>,
}

/// An item is a file.
impl Items for WriteFiles<'_> {
    fn item_boundary(&mut self) -> Option<(u64, bool)> {
        self.unwritten.is_none().then_some((self.started, self.started < self.end))
    }

    fn set_max_items(&mut self, max_files: u64) {
        self.end = self.end.min(max_files);
    }
}

impl OpSource for WriteFiles<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        op.compute = Nanos(0);
        match self.unwritten {
            Some(unwritten) if unwritten.length > 0 => {
                op.call =
                    Call::Write { file: FILE, payload: Payload { length: BLOCK, ..unwritten } };
                self.unwritten = Some(Contents::rest(unwritten, BLOCK));
            }
            Some(_) => {
                op.call = Call::Close { file: FILE };
                self.unwritten = None;
            }
            None => {
                if self.started == self.end || self.walk.next_file(&mut op.name).is_none() {
                    return false;
                }
                self.started += 1;
                let work = self.walk.work;
                op.call = CREATE;
                op.compute = work.fork_time;
                self.unwritten = Some(work.payload(self.walk.number(), self.walk.k + 1));
            }
        }
        true
    }
}
