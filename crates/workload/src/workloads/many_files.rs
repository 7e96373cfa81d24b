//! many-files: write many small files into the leaves of a tree, then remove it, as
//! make-many-files of linuxinsight did.

use fsdyno_record::{Bytes, OpKind};

use crate::items::Items;
use crate::op::{Call, Compound, DirSlot, FileSlot, Name, Op, OpenFlags, Payload, RemoveOrder};
use crate::op_source::{NoOps, OpSource};
use crate::params::{Domain, Param, ParamError, Values};
use crate::widths::Widths;
use crate::workload::{
    Expected, GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "many-files",
    about: "Write many small files into the leaves of a tree of directories, then remove the tree.",
    source: "make-many-files.c of linuxinsight, 2006; its ancestor is A. Morton's, 2001",
    params: PARAMS,
    more_work: &["files"],
    doc: DOC,
    config: None,
    build: |values, _| Ok(Box::new(ManyFiles::new(values)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
linuxinsight compared ext3, ext4 and reiser4 in 2006 by creating 405,000 small files in a tree and \
deleting them [PUB]. The program is lost. Its ancestor is known: nested loops of Andrew Morton's that \
make a directory as they enter it and, in the innermost one, ten files, each with creat, one write of \
4,096 zero bytes and close; paths are whole, nothing is synced [PUB: Linux kernel mailing list, \
2001-10-31].

create: mkdir(0777) of each directory when it is entered, and in each leaf its files: open \
O_WRONLY|O_CREAT|O_TRUNC with 0666, one write, close. Directories and files are named by their numbers \
from 0 [DER]. remove: rm -r of each directory of the top level, in the order of their numbers \
[OWN]; within them the order is `order`. Several threads take equal parts of the top level \
[OWN]; the original is one process.

That the 405,000 files were 15 in each leaf of 30/30/30 is a guess that fits the number [DER]; so are \
`set=wide` (120 in 15/15/15) and `set=deep` (8 in 15/15/15/15), and `set=morton` is the ancestor \
[PUB]. The size is the ancestor's; that of 2006 is not known. Before the removal the file system is \
remounted, so that it begins cold; linuxinsight continued with a warm cache, which is \
`cache=hot` [DER]. Zeros flatter a file system that compresses: try `data=random`.

With data=zeros a file's expected content equals a hole: lost data in a file of the correct size is not detected; with \
data=random it is.";

const PARAMS: &[Param] = &[
    Param {
        name: "set",
        default: "none",
        domain: Domain::Choice(&["none", "wide", "deep", "morton"]),
        about: "A named tree; widths and files must then be auto.",
        source: "[DER] two that fit 405,000 files as well; morton is [PUB]",
    },
    Param {
        name: "widths",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Widths),
        about: "Directories in each directory of a level, the top first; auto is the set's, or \
                30/30/30.",
        source: "[DER] fits 405,000 files; not published",
    },
    Param {
        name: "files",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 100_000_000 }),
        about: "Files in each directory of the last level; auto is the set's, or 15.",
        source: "[DER] see `widths`",
    },
    Param {
        name: "size",
        default: "4096",
        domain: Domain::Size { min: 0, max: 1 << 30 },
        about: "Bytes written into every file, in one call up to 1 MiB.",
        source: "[PUB] the ancestor's",
    },
    Param {
        name: "data",
        default: "zeros",
        domain: Domain::Choice(&["zeros", "random"]),
        about: "The contents of the files.",
        source: "[PUB] the ancestor's buffer is zeros",
    },
    Param {
        name: "order",
        default: "readdir",
        domain: Domain::Choice(&["readdir", "inode", "name"]),
        about: "The order of removal in each directory: as it is read, or sorted.",
        source: "[DER] only the deletion of the files is published",
    },
    Param {
        name: "cache",
        default: "cold",
        domain: Domain::Choice(&["cold", "hot"]),
        about: "Unmount and mount the file system before the removal, or not.",
        source: "[OWN] the original's removal followed at once [DER]",
    },
];

/// Parameter sets: name, widths, number of files per leaf.
const SETS: [(&str, &str, u64); 4] = [
    ("none", "30/30/30", 15),
    ("wide", "15/15/15", 120),
    ("deep", "15/15/15/15", 8),
    ("morton", "10/10/10/10", 10),
];

/// Maximum number of files; more would be a typing error.
const MAX_FILES: u64 = 1_000_000_000;
const FILE: FileSlot = FileSlot(0);
const FLAGS: OpenFlags = OpenFlags { write: true, truncate: true, ..OpenFlags::NONE };
const CREATE: Call = Call::Create { dir: DirSlot::ROOT, file: FILE, flags: FLAGS, mode: 0o666 };
const MKDIR: Call = Call::Mkdir { dir: DirSlot::ROOT, mode: 0o777 };
const PHASE_CREATE: usize = 0;
const PHASE_REMOVE: usize = 1;

/// The tree, with its parameters bound.
#[derive(Clone, Debug)]
struct ManyFiles {
    widths: Widths,
    /// Number of files per leaf.
    files: u64,
    size: u32,
    zeros: bool,
    order: RemoveOrder,
    gap: GapKind,
    /// Maximum number of files per share, and the number of shares, if a stonewall ended the creation of files.
    stonewall: Option<(u64, u32)>,
}

impl ManyFiles {
    fn new(values: &Values) -> Result<ManyFiles, ParamError> {
        let set = SETS.iter().find(|set| set.0 == values.text("set")).unwrap_or(&SETS[0]);
        let error = |()| ParamError::Conflict(format!("{} is not a tree", set.1));
        let widths: Widths = values.or_published("widths", "set", set.1.parse().map_err(error)?)?;
        let files = values.or_published("files", "set", set.2)?;
        if widths.leaves() * files > MAX_FILES {
            return Err(ParamError::Conflict(format!(
                "widths={widths} files={files} make more than {MAX_FILES} files; use fewer of one \
                 of them"
            )));
        }
        Ok(ManyFiles {
            widths,
            files,
            size: values.number_or_zero("size") as u32,
            zeros: values.text("data") == "zeros",
            order: match values.text("order") {
                "inode" => RemoveOrder::Inode,
                "name" => RemoveOrder::Name,
                _ => RemoveOrder::Readdir,
            },
            gap: if values.text("cache") == "hot" { GapKind::None } else { GapKind::Remount },
            stonewall: None,
        })
    }

    /// Returns the number of directories at the top level.
    fn top_count(&self) -> u64 {
        self.widths.widths().first().copied().unwrap_or(0)
    }

    /// Returns the first top-level directory of a share, and the first top-level directory after the share.
    fn top_range(&self, share: Share) -> (u64, u64) {
        let first_of =
            |rank: u32| self.top_count() * u64::from(rank) / u64::from(share.ranks.max(1));
        (first_of(share.rank), first_of(share.rank + 1))
    }

    /// Returns the number of files below a top-level directory once all files are created.
    fn files_in_top(&self, top: u64) -> u64 {
        let total = self.widths.leaves_below(0) * self.files;
        let Some((max_items, shares)) = self.stonewall else { return total };
        let rank = ((top + 1) * u64::from(shares.max(1)) - 1) / self.top_count().max(1);
        let (first, _) = self.top_range(Share { rank: rank as u32, ranks: shares });
        max_items.saturating_sub((top - first) * total).min(total)
    }

    /// Returns the number of directories with files in or below them, among a top-level directory and those below it.
    fn directories_in_top(&self, top: u64) -> u64 {
        let leaves = self.files_in_top(top).div_ceil(self.files);
        (0..self.widths.levels())
            .map(|level| leaves.div_ceil(self.widths.leaves_below(level)))
            .sum()
    }

    fn file_count(&self) -> u64 {
        match self.stonewall {
            None => self.widths.leaves() * self.files,
            Some(_) => (0..self.top_count()).map(|top| self.files_in_top(top)).sum(),
        }
    }

    fn directory_count(&self) -> u64 {
        match self.stonewall {
            None => self.widths.directories(),
            Some(_) => (0..self.top_count()).map(|top| self.directories_in_top(top)).sum(),
        }
    }

    /// Returns the ops that create a share's files.
    fn create_ops(&self, share: Share) -> Create<'_> {
        let leaves_per_top = self.widths.leaves_below(0);
        let (from, to) = self.top_range(share);
        Create {
            work: self,
            first: from * leaves_per_top,
            leaf: from * leaves_per_top,
            end: to * leaves_per_top,
            has_ended: false,
            step: Step::Enter,
        }
    }

    fn payload(&self, leaf: u64, file: u64) -> Payload {
        let id = if self.zeros { Payload::ZEROS } else { leaf * self.files + file };
        Payload { id, offset: 0, length: self.size }
    }

    /// Writes the path of the directory at `level` that is `leaf` or contains it: `7/0/12`.
    fn write_directory_path(&self, name: &mut Name, leaf: u64, level: usize) {
        name.clear();
        for (ancestor_level, width) in self.widths.widths().iter().enumerate().take(level + 1) {
            if ancestor_level > 0 {
                name.push(b"/");
            }
            name.push_number(leaf / self.widths.leaves_below(ancestor_level) % width, 1);
        }
    }
}

impl Workload for ManyFiles {
    fn phases(&self) -> Vec<PhaseSpec> {
        vec![
            PhaseSpec { name: "create", gap: GapKind::None, verify: true, threads: Threads::Any },
            PhaseSpec { name: "remove", gap: self.gap, verify: true, threads: Threads::Any },
        ]
    }

    /// Assigns to each share consecutive top-level directories with everything below them.
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        match phase {
            PHASE_CREATE => Box::new(self.create_ops(share)),
            PHASE_REMOVE => {
                let (top, end) = self.top_range(share);
                Box::new(Remove { work: self, top, end })
            }
            _ => Box::new(NoOps),
        }
    }

    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        Some((PHASE_CREATE, "files"))
    }

    fn after_stonewall(&self, max_items: u64, shares: u32) -> Option<Box<dyn Workload>> {
        Some(Box::new(ManyFiles { stonewall: Some((max_items, shares)), ..self.clone() }))
    }

    fn items(&self, share: Share) -> Option<Box<dyn Items + Send + '_>> {
        Some(Box::new(self.create_ops(share)))
    }

    /// Omits the getdents64(2) calls of the removal, whose number depends on the file system.
    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        let (directories, files) = (self.directory_count(), self.file_count());
        match phase {
            PHASE_CREATE => {
                let mut counts = OpCounts::from([
                    (OpKind::Mkdir, directories),
                    (OpKind::Create, files),
                    (OpKind::Close, files),
                ]);
                if self.size > 0 {
                    counts.insert(OpKind::Write, files);
                }
                counts
            }
            PHASE_REMOVE => OpCounts::from([
                (OpKind::Open, directories),
                (OpKind::Close, directories),
                (OpKind::Unlink, files),
                (OpKind::Rmdir, directories),
            ]),
            _ => OpCounts::new(),
        }
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        Box::new(ManyFilesTree { work: self, exists: phase == PHASE_CREATE })
    }

    fn needs(&self) -> Needs {
        let widest = self.widths.widths().iter().copied().chain([self.files]).max().unwrap_or(1);
        Needs {
            bytes: Bytes(self.file_count() * u64::from(self.size)),
            inodes: self.widths.directories() + self.file_count(),
            longest_name: (widest - 1).to_string().len(),
        }
    }
}

/// The tree with the files that are created, or an empty tree.
struct ManyFilesTree<'a> {
    work: &'a ManyFiles,
    exists: bool,
}

impl ManyFilesTree<'_> {
    /// Returns true if a file of a leaf exists.
    fn has_file(&self, leaf: u64, file: u64) -> bool {
        let leaves_per_top = self.work.widths.leaves_below(0);
        let number = leaf % leaves_per_top * self.work.files + file;
        self.exists && number < self.work.files_in_top(leaf / leaves_per_top)
    }
}

impl Tree for ManyFilesTree<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let widths = &self.work.widths;
        let (mut leaf, mut parts) = (0, path.split(|byte| *byte == b'/'));
        for (level, width) in widths.widths().iter().enumerate() {
            let Some(part) = parts.next() else {
                let first = leaf * widths.leaves_below(level - 1);
                return self.has_file(first, 0).then_some(Expected::DIRECTORY);
            };
            leaf =
                leaf * width + parse_number(part).filter(|number| number < width && self.exists)?;
        }
        let Some(part) = parts.next() else {
            return self.has_file(leaf, 0).then_some(Expected::DIRECTORY);
        };
        let file = parse_number(part).filter(|file| *file < self.work.files)?;
        let exists = parts.next().is_none() && self.has_file(leaf, file);
        exists.then(|| Expected::file(self.work.payload(leaf, file)))
    }

    fn files(&self) -> u64 {
        if self.exists { self.work.file_count() } else { 0 }
    }

    fn directories(&self) -> u64 {
        if self.exists { self.work.directory_count() } else { 0 }
    }
}

/// Parses a number as written in a name, without leading zeros.
fn parse_number(text: &[u8]) -> Option<u64> {
    let is_canonical = text.len() == 1 || text.first() != Some(&b'0');
    let is_digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_canonical && is_digits)?.parse().ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The start of the next leaf.
    Enter,
    /// The mkdir of the directory at this level that contains the leaf, or of the leaf itself.
    Directory(usize),
    /// The next file of the leaf.
    File(u64),
    Write(u64),
    Close(u64),
}

/// The creation of directories as they are entered, and of the files in the leaves.
struct Create<'a> {
    work: &'a ManyFiles,
    first: u64,
    leaf: u64,
    end: u64,
    /// True if a stonewall has ended the creation early.
    has_ended: bool,
    step: Step,
}

impl Create<'_> {
    /// Returns the level of the highest directory of which this leaf is the first; all directories above it exist.
    fn first_new_level(&self) -> usize {
        let widths = &self.work.widths;
        let is_first_leaf = |level: &usize| self.leaf % widths.leaves_below(*level) == 0;
        (0..widths.levels()).find(is_first_leaf).unwrap_or(0)
    }

    fn create_file(&mut self, op: &mut Op, file: u64) {
        op.call = CREATE;
        if file == 0 {
            op.name.push(b"/");
        }
        let slash = op.name.as_bytes().iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        op.name.set_number(slash + 1, file, 1);
        self.step = if self.work.size > 0 { Step::Write(file) } else { Step::Close(file) };
    }
}

/// An item is a file; the first item of a leaf begins with the directories that are entered for it.
impl Items for Create<'_> {
    fn item_boundary(&mut self) -> Option<(u64, bool)> {
        let done = (self.leaf - self.first) * self.work.files;
        match self.step {
            Step::Enter => Some((done, self.leaf < self.end && !self.has_ended)),
            Step::File(file) if file > 0 => Some((done + file, !self.has_ended)),
            _ => None,
        }
    }

    /// Ends the creation if `max_items` items are done; must be called between two items.
    fn set_max_items(&mut self, max_items: u64) {
        self.has_ended |= self.item_boundary().is_some_and(|(done, _)| done >= max_items);
    }
}

impl OpSource for Create<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if self.has_ended {
            return false;
        }
        if self.step == Step::Enter {
            if self.leaf == self.end {
                return false;
            }
            self.step = Step::Directory(self.first_new_level());
        }
        match self.step {
            Step::Enter => return false,
            Step::Directory(level) => {
                op.call = MKDIR;
                self.work.write_directory_path(&mut op.name, self.leaf, level);
                let is_last = level + 1 == self.work.widths.levels();
                self.step = if is_last { Step::File(0) } else { Step::Directory(level + 1) };
            }
            Step::File(file) => self.create_file(op, file),
            Step::Write(file) => {
                op.call = Call::Write { file: FILE, payload: self.work.payload(self.leaf, file) };
                self.step = Step::Close(file);
            }
            Step::Close(file) => {
                op.call = Call::Close { file: FILE };
                self.step = Step::File(file + 1);
                if file + 1 == self.work.files {
                    self.leaf += 1;
                    self.step = Step::Enter;
                }
            }
        }
        true
    }
}

/// `rm -r` of each directory of the top level.
struct Remove<'a> {
    work: &'a ManyFiles,
    top: u64,
    end: u64,
}

impl OpSource for Remove<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        while self.top < self.end && self.work.files_in_top(self.top) == 0 {
            self.top += 1;
        }
        if self.top == self.end {
            return false;
        }
        op.name.clear();
        op.name.push_number(self.top, 1);
        op.call = Call::Compound(Compound::RemoveTree {
            dir: DirSlot::ROOT,
            order: self.work.order,
            synced: false,
        });
        self.top += 1;
        true
    }
}
