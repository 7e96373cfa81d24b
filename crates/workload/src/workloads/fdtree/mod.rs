//! fdtree: make and remove a regular tree of directories and files, as LLNL's script fdtree does.

mod params;

use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::contents::Contents;
use crate::op::{Call, DirSlot, FileSlot, Name, Op, OpenFlags, Payload};
use crate::params::{ParamError, Values};
use crate::workload::{
    Expected, GapKind, Needs, NoOps, OpCounts, OpSource, PhaseSpec, Share, Threads, Tree,
    WorkUnits, Workload,
};
use crate::workloads::Kind;
use params::{DOC, PARAMS};

/// The row of the table.
pub const KIND: Kind = Kind {
    name: "fdtree",
    about: "Make a regular tree of directories, write files in each, remove files and directories.",
    source: "fdtree 1.0.2, Lawrence Livermore National Laboratory; parameter sets by J. Layton, 2009",
    params: PARAMS,
    doc: DOC,
    config: None,
    build: |values, _| Ok(Box::new(Fdtree::new(values)?)),
};

/// Name, levels, directories per directory, files per directory, blocks per file.
const SETS: [(&str, [u64; 4]); 5] = [
    ("none", [4, 10, 10, 10]),
    ("small-shallow", [3, 20, 40, 1]),
    ("small-deep", [10, 3, 4, 1]),
    ("medium-shallow", [2, 17, 10, 1000]),
    ("medium-deep", [10, 2, 2, 1000]),
];

/// More would be a typing error.
const MOST_FILES: u64 = 1_000_000_000;
/// Stands for LEVEL0.<host>.<pid>.
const ROOT: &[u8] = b"LEVEL0.fsdyno.1";
/// dd's bs=4096.
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
#[derive(Debug)]
struct Fdtree {
    levels: usize,
    dirs: u64,
    files: u64,
    blocks: u32,
    zeros: bool,
    fork_time: Nanos,
    gap: GapKind,
    phases: &'static [(Phase, &'static str)],
    /// Directories of a subtree whose root is at each level, that root included.
    nodes: Vec<u64>,
}

impl Fdtree {
    fn new(values: &Values) -> Result<Fdtree, ParamError> {
        let set = SETS.iter().find(|set| set.0 == values.text("set")).unwrap_or(&SETS[0]);
        let number = |key: &str, index: usize| values.of_set(key, "set", set.1[index]);
        let (levels, dirs) = (number("levels", 0)?, number("dirs", 1)?);
        let (files, blocks) = (number("files", 2)?, number("size", 3)?);
        let nodes = nodes(levels, dirs).filter(|nodes| {
            nodes.last().and_then(|all| all.checked_mul(files)).is_some_and(|n| n <= MOST_FILES)
        });
        let Some(nodes) = nodes else {
            return Err(ParamError::Conflict(format!(
                "levels={levels} dirs={dirs} files={files} make more than {MOST_FILES} files; use \
                 fewer of one of them"
            )));
        };
        Ok(Fdtree {
            levels: levels as usize,
            dirs,
            files,
            blocks: blocks as u32,
            zeros: values.text("data") == "zeros",
            fork_time: Nanos(values.whole("fork-time") * 1000),
            gap: GapKind::named(values.text("gap")),
            phases: if values.text("mode") == "create" { &PHASES[..2] } else { &PHASES },
            nodes,
        })
    }

    fn directories(&self) -> u64 {
        self.nodes.last().copied().unwrap_or(1)
    }

    fn all_files(&self) -> u64 {
        self.directories() * self.files
    }

    /// Content of file `k` of the node that is number `node` in the order of the walk.
    fn payload(&self, node: u64, k: u64) -> Payload {
        let id = if self.zeros { Payload::ZEROS } else { node * self.files + k - 1 };
        Payload { id, offset: 0, length: self.blocks * BLOCK }
    }

    /// Distance from a node to its child `k` in the order of the walk, which takes the last child
    /// first. `level` is the node's.
    fn steps_to(&self, level: usize, k: u64) -> u64 {
        1 + (self.dirs - k) * self.nodes[level - 1]
    }
}

/// Directories of a subtree for each level of its root, from 0 up; none if there are too many.
fn nodes(levels: u64, dirs: u64) -> Option<Vec<u64>> {
    let next = |below: &Option<u64>| Some(below.and_then(|n| n.checked_mul(dirs)?.checked_add(1)));
    std::iter::successors(Some(Some(1)), next).take(levels as usize + 1).collect()
}

impl Workload for Fdtree {
    /// Verifies where all files exist, and the empty tree at the end; no verification comes between
    /// the others.
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
        let walk = Walk::new(self);
        match phase {
            Phase::FileCreate => Box::new(WriteFiles { walk, left: None }),
            _ => Box::new(NameOps { walk, phase: *phase, ended: false }),
        }
    }

    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        let (directories, files) = (self.directories(), self.all_files());
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
        let (directories, files) = (self.directories(), self.all_files());
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
        let files = phase == Some(Phase::FileCreate);
        let directories = files || !matches!(phase, None | Some(Phase::DirectoryRemove));
        Box::new(FdtreeTree { work: self, files, directories })
    }

    fn needs(&self) -> Needs {
        let longest = format!("L{}F{}", self.levels, self.files.max(self.dirs)).len();
        Needs {
            bytes: Bytes(self.all_files() * u64::from(self.blocks * BLOCK)),
            inodes: self.directories() + self.all_files(),
            longest_name: longest.max(ROOT.len()),
        }
    }
}

/// The tree with or without files, or nothing of it.
struct FdtreeTree<'a> {
    work: &'a Fdtree,
    files: bool,
    directories: bool,
}

impl Tree for FdtreeTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let mut parts = path.split(|byte| *byte == b'/');
        if !self.directories || parts.next()? != ROOT {
            return None;
        }
        let (mut level, mut node) = (self.work.levels, 0);
        while let Some(part) = parts.next() {
            if let Some(k) = read(part, level, b'D', self.work.dirs).filter(|_| level > 0) {
                node += self.work.steps_to(level, k);
                level -= 1;
            } else {
                let k = read(part, level, b'F', self.work.files)?;
                let last = self.files && parts.next().is_none();
                return last.then(|| Expected::file(self.work.payload(node, k)));
            }
        }
        Some(Expected::DIRECTORY)
    }

    fn files(&self) -> u64 {
        if self.files { self.work.all_files() } else { 0 }
    }

    fn directories(&self) -> u64 {
        if self.directories { self.work.directories() } else { 0 }
    }
}

/// The number `k`, from 1 to `most`, of the name `L<level><letter><k>`.
fn read(name: &[u8], level: usize, letter: u8, most: u64) -> Option<u64> {
    let rest = name.strip_prefix(b"L")?;
    let at = rest.iter().position(|byte| *byte == letter)?;
    let number = |digits: &[u8]| {
        let plain = digits.iter().all(u8::is_ascii_digit);
        let canonical = plain && (digits.len() == 1 || digits.first() != Some(&b'0'));
        std::str::from_utf8(digits).ok().filter(|_| canonical)?.parse::<u64>().ok()
    };
    let right = number(&rest[..at])? == level as u64;
    number(&rest[at + 1..]).filter(|k| right && (1..=most).contains(k))
}

/// A position in the walk through the tree; the path itself is in the op, which is rewritten in
/// place.
struct Walk<'a> {
    work: &'a Fdtree,
    /// Path length and number of the child taken, for each directory above this one.
    above: Vec<(usize, u64)>,
    /// Length of this directory's path; zero before the start.
    length: usize,
    /// One more than the number of the next file or directory of this directory.
    k: u64,
}

impl<'a> Walk<'a> {
    fn new(work: &'a Fdtree) -> Walk<'a> {
        Walk { work, above: Vec::with_capacity(work.levels), length: 0, k: 0 }
    }

    fn level(&self) -> usize {
        self.work.levels - self.above.len()
    }

    /// Enters the root if the walk has not begun; returns true if it had not.
    fn start(&mut self, name: &mut Name) -> bool {
        let new = self.length == 0;
        if new {
            name.clear();
            name.push(ROOT);
            self.length = ROOT.len();
        }
        new
    }

    /// NameOps file or directory `k` of this directory.
    #[inline]
    fn name(&self, name: &mut Name, letter: &[u8], k: u64) {
        name.truncate(self.length);
        name.push(b"/L");
        name.push_number(self.level() as u64, 1);
        name.push(letter);
        name.push_number(k, 1);
    }

    fn descend(&mut self, name: &mut Name, k: u64) {
        self.name(name, b"D", k);
        self.above.push((self.length, k));
        self.length = name.as_bytes().len();
    }

    /// Ascends to the parent; returns the number of the child it came from, none at the root.
    fn ascend(&mut self) -> Option<u64> {
        let (length, k) = self.above.pop()?;
        self.length = length;
        Some(k)
    }

    /// The number of this directory in the order of the walk from the root.
    fn number(&self) -> u64 {
        let steps = self.above.iter().enumerate();
        steps.map(|(depth, (_, k))| self.work.steps_to(self.work.levels - depth, *k)).sum()
    }

    /// Moves to the next directory, parents before children and the last child first; false at the
    /// end.
    fn next(&mut self, name: &mut Name) -> bool {
        if self.level() > 0 {
            self.descend(name, self.work.dirs);
            return true;
        }
        while let Some(k) = self.ascend() {
            if k > 1 {
                self.descend(name, k - 1);
                return true;
            }
        }
        false
    }

    /// Descends through last children to the deepest directory that has directories.
    fn descend_to_lowest_parent(&mut self, name: &mut Name) {
        while self.level() > 1 {
            self.descend(name, self.work.dirs);
        }
    }

    /// NameOps the next file: those of a directory, then those of the directories below it. Returns
    /// true if it is the first of its directory; none at the end.
    fn file(&mut self, name: &mut Name) -> Option<bool> {
        let first = self.k == 0;
        if first {
            if !self.start(name) && !self.next(name) {
                return None;
            }
            self.k = self.work.files;
        }
        self.name(name, b"F", self.k);
        self.k -= 1;
        Some(first)
    }

    /// NameOps the next directory to create: the root, the directories of a node, then those below.
    fn directory_to_make(&mut self, name: &mut Name) -> bool {
        if self.start(name) {
            self.k = self.work.dirs;
            return true;
        }
        while self.k == 0 || self.level() == 0 {
            if !self.next(name) {
                return false;
            }
            self.k = self.work.dirs;
        }
        self.name(name, b"D", self.k);
        self.k -= 1;
        true
    }

    /// NameOps the next directory to remove: those of a node after everything below them, last the
    /// root. Returns true if it is the first that its process removes; none when only the root is
    /// left.
    fn directory_to_remove(&mut self, name: &mut Name) -> Option<bool> {
        let first = self.k == 0;
        if first {
            if self.work.levels == 0 {
                self.start(name);
                return None;
            }
            if self.start(name) {
                self.descend_to_lowest_parent(name);
            } else {
                let k = self.ascend()?;
                if k > 1 {
                    self.descend(name, k - 1);
                    self.descend_to_lowest_parent(name);
                }
            }
            self.k = self.work.dirs;
        }
        self.name(name, b"D", self.k);
        self.k -= 1;
        Some(first)
    }
}

/// The ops of a phase that makes one call for each name.
struct NameOps<'a> {
    walk: Walk<'a>,
    phase: Phase,
    ended: bool,
}

impl OpSource for NameOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let (name, walk) = (&mut op.name, &mut self.walk);
        let (call, first) = match self.phase {
            Phase::DirectoryCreate => (MKDIR, walk.directory_to_make(name).then_some(true)),
            Phase::DirectoryRemove => {
                (Call::Rmdir { dir: DirSlot::ROOT }, walk.directory_to_remove(name))
            }
            _ => (Call::Unlink { dir: DirSlot::ROOT }, walk.file(name)),
        };
        op.call = call;
        // A process of the original makes all the calls on the names in one directory but mkdir.
        op.compute = if first == Some(false) { Nanos(0) } else { walk.work.fork_time };
        if first.is_none() && self.phase == Phase::DirectoryRemove && !self.ended {
            name.truncate(ROOT.len());
            self.ended = true;
            return true;
        }
        first.is_some()
    }
}

/// dd for each file: open, a write for each block, close.
struct WriteFiles<'a> {
    walk: Walk<'a>,
    /// The rest to be written of the open file.
    left: Option<Payload>,
}

impl OpSource for WriteFiles<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        op.compute = Nanos(0);
        match self.left {
            Some(left) if left.length > 0 => {
                op.call = Call::Write { file: FILE, payload: Payload { length: BLOCK, ..left } };
                self.left = Some(Contents::rest(left, BLOCK));
            }
            Some(_) => {
                op.call = Call::Close { file: FILE };
                self.left = None;
            }
            None => {
                if self.walk.file(&mut op.name).is_none() {
                    return false;
                }
                let work = self.walk.work;
                op.call = CREATE;
                op.compute = work.fork_time;
                self.left = Some(work.payload(self.walk.number(), self.walk.k + 1));
            }
        }
        true
    }
}
