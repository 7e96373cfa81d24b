//! tarball: extract an archive of many small files as GNU tar does, then remove it as Guenter did.
//!
//! The archive is generated ([`crate::tar::generated_archive`]) or the user's own
//! ([`crate::tar::unpack`]); either is [`PackedTree`], and this file handles both.

use fsdyno_record::{Nanos, OpKind, quote};

use crate::input::Setting;
use crate::items::Items;
use crate::op::{Call, Compound, DirSlot, Expect, Op, RemoveOrder};
use crate::op_source::{NoOps, OpSource};
use crate::params::{Domain, Param, ParamError, Values};
use crate::permutation::Order;
use crate::tar::generated_archive::GeneratedArchive;
use crate::tar::packed::{PackedTree, TOP};
use crate::tar::unpack::Unpack;
use crate::workload::{
    Expected, GapKind, Needs, OpCounts, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;

/// This workload's entry in the table of workloads.
pub const KIND: Kind = Kind {
    name: "tarball",
    about: "Extract an archive of many small files in random order with GNU tar's calls, then \
            remove the tree.",
    source: "B. Guenter, ext4 unlink performance, linux-ext4 mailing list, November 2008",
    params: PARAMS,
    more_work: &["files"],
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Tarball::new(values, setting)?)),
};

/// The description of the model, shown by `fsdyno show workload`.
const DOC: &str = "\
An archive is extracted with the calls of GNU tar 1.34 as root, then removed as rm -r does.

The generated archive [PUB: about 725,000 files in random order, most of one block, about 15 % \
of more; the rest DER] contains only files, so that parents are made when they are first needed. As strace \
shows it [RUN: GNU tar 1.34]:
- per file openat(O_WRONLY|O_CREAT|O_EXCL|O_NOCTTY|O_NONBLOCK|O_CLOEXEC) with the whole path and the \
owner's bits of its mode, write(2) of its part of tar's buffer of one record (20 blocks of 512 bytes), \
futimens(UTIME_OMIT, mtime), fchown, fchmod if the mode has other bits too, close;
- if a parent is missing that openat fails with ENOENT, then mkdirat(0755) of every parent from the \
top, of which those that exist fail with EEXIST, then the openat again.

Your archive (archive=FILE: v7, ustar, GNU and pax headers) is extracted into a folder of its own, \
in its own order, with its contents, modes, times (in whole seconds) and links, all of which are \
verified. In addition [RUN: GNU tar 1.34, members of every kind]:
- a directory is made with the owner's bits of its mode, and gets time, owner and mode when the first \
member follows that is not below it; an existing one gets a stat and stays;
- symlinkat, utimensat and fchownat for a symbolic link; one with an absolute target or '..' in it is made \
last of all, with an empty file of mode 0 in its place until then;
- linkat for a hard link; an entry in the place of another member (a member twice) is unlinked when the \
first try has failed with EEXIST.
Owners are the caller's own. Refused, with the member: paths that are absolute or have '..', members \
below a link, hard links to anything but an earlier file, a file in the place of a directory, sparse files, \
devices and pipes. An ordinary user can neither fill nor remove a directory that lacks the owner's w and x.

Omitted: reads of the archive, which is elsewhere; statfs and fstat of the archive; openat(O_PATH), \
fstat and close around a chmod that must not follow links, which the observed C library made \
and newer ones do not (fchmodat2), and which no file system notices. The time that unpacking took is \
unpack-time (the 55 s of user time in the original suggest a compressed archive [DER]).

The removal is one RemoveTree (order readdir, inode or name: the counts omit the getdents64 calls, whose \
number the file system decides), or file by file in an order over all of them, then the directories.";

/// The value that means a generated archive.
const NO_ARCHIVE: &str = "none";

const PARAMS: &[Param] = &[
    Param {
        name: "files",
        default: "725000",
        domain: Domain::Whole { min: 1, max: 100_000_000 },
        about: "Number of files.",
        source: "[PUB] about 725,000",
    },
    Param {
        name: "directories",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 10_000_000 }),
        about: "Number of directories for them, all in one; auto is one per 1,000 files, but at \
                least 10 (and no more than files).",
        source: "[DER] not published; 725 is within the likely range of 100 to 1,000",
    },
    Param {
        name: "size",
        default: "mix",
        domain: Domain::Or("mix", &Domain::Size { min: 0, max: 1 << 30 }),
        about: "Size of every file; mix is 85 % from 1 to 4,096 bytes and 15 % of 2 to 16 blocks of \
                4 KiB, each octave equally likely.",
        source: "[DER] published: mostly of one block, about 15 % of more",
    },
    Param {
        name: "order",
        default: "readdir",
        domain: Domain::Choice(&["readdir", "inode", "name", "creation", "reverse", "random"]),
        about: "The order of removal: as directories are read, sorted within each directory by inode \
                or name, or over all files in, against or without regard to the order of creation.",
        source: "[DER] rm -r is published; the order of names in the rm of 2008 is not",
    },
    Param {
        name: "cache",
        default: "cold",
        domain: Domain::Choice(&["cold", "hot"]),
        about: "Unmount and mount the file system before the removal, or not.",
        source: "[OWN] not published; measure both",
    },
    Param {
        name: "archive",
        default: NO_ARCHIVE,
        domain: Domain::Or(NO_ARCHIVE, &Domain::File),
        about: "Your archive, extracted instead of a generated one: tar, plain or in gz, \
                xz or zst. A folder is packed first: its regular files, by name.",
        source: "[OWN]",
    },
    Param {
        name: "unpack-time",
        default: "0",
        domain: Domain::Whole { min: 0, max: 1_000_000_000 },
        about: "Nanoseconds of processor time before each file, for the unpacking of a compressed \
                archive; it is in the phase's times and in no latency.",
        source: "[DER] off; the 55 s of user time for 725,000 files suggest 76,000",
    },
];

/// Parameters of a generated archive.
const GENERATED: &[&str] = &["files", "directories", "size"];

const EXTRACT: usize = 0;
const REMOVE: usize = 1;

/// The method of removing the tree.
#[derive(Clone, Debug)]
enum Removal {
    /// As a whole tree, in an order that only the file system knows.
    Tree(RemoveOrder),
    /// File by file, then the directories by number.
    Files(Order),
}

/// The workload, with its parameters bound.
struct Tarball {
    packed: Box<dyn PackedTree>,
    /// True if the archive is the user's.
    is_given: bool,
    removal: Removal,
    gap: GapKind,
    unpack_time: Nanos,
}

impl Tarball {
    fn new(values: &Values, setting: &Setting) -> Result<Tarball, ParamError> {
        let packed = select_archive(values, setting)?;
        let removal = match values.text("order") {
            "inode" => Removal::Tree(RemoveOrder::Inode),
            "name" => Removal::Tree(RemoveOrder::Name),
            "readdir" => Removal::Tree(RemoveOrder::Readdir),
            word => Removal::Files(packed.order(word, setting.seed)),
        };
        Ok(Tarball {
            packed,
            is_given: values.text("archive") != NO_ARCHIVE,
            removal,
            gap: if values.text("cache") == "hot" { GapKind::None } else { GapKind::Remount },
            unpack_time: Nanos(values.number_or_zero("unpack-time")),
        })
    }
}

/// Returns the archive that the parameters select.
fn select_archive(values: &Values, setting: &Setting) -> Result<Box<dyn PackedTree>, ParamError> {
    let parameter = values.text("archive");
    if parameter == NO_ARCHIVE {
        let (files, seed) = (values.number_or_zero("files"), setting.seed);
        let (directories, size) = (values.number("directories"), values.number("size"));
        return Ok(Box::new(GeneratedArchive::new(files, directories, size, seed)?));
    }
    let archive = quote::escape(parameter);
    for param in PARAMS.iter().filter(|param| GENERATED.contains(&param.name)) {
        let value = values.text(param.name);
        if value != param.default {
            return Err(ParamError::Conflict(format!(
                "{}={value} is for a generated archive, and archive={archive} has its own \
                 files; omit one of them",
                param.name
            )));
        }
    }
    let input = setting.input.as_ref().ok_or_else(|| {
        ParamError::Conflict(format!("--set archive={archive}: the file has not been read"))
    })?;
    let unpack = Unpack::new(input)
        .map_err(|error| ParamError::Conflict(format!("--set archive={archive}: {error}")))?;
    Ok(Box::new(unpack))
}

impl Workload for Tarball {
    fn phases(&self) -> Vec<PhaseSpec> {
        vec![
            PhaseSpec { name: "extract", gap: GapKind::None, verify: true, threads: Threads::One },
            PhaseSpec { name: "remove", gap: self.gap, verify: true, threads: Threads::One },
        ]
    }

    /// Assigns all ops to rank 0, because tar and rm are one process each.
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        match (phase, &self.removal) {
            (EXTRACT, _) if share.rank == 0 => self.packed.extract(self.unpack_time),
            (REMOVE, Removal::Tree(order)) if share.rank == 0 => Box::new(RemoveTree(Some(*order))),
            (REMOVE, Removal::Files(order)) if share.rank == 0 => {
                Box::new(RemoveFiles { packed: &*self.packed, order, index: 0 })
            }
            _ => Box::new(NoOps),
        }
    }

    fn stonewalled(&self) -> Option<(usize, &'static str)> {
        (!self.is_given).then_some((EXTRACT, "files"))
    }

    fn after_stonewall(&self, max_items: u64, _: u32) -> Option<Box<dyn Workload>> {
        let (packed, removal) = (self.packed.truncated_to(max_items)?, self.removal.clone());
        Some(Box::new(Tarball { packed, removal, ..*self }))
    }

    fn items(&self, share: Share) -> Option<Box<dyn Items + Send + '_>> {
        self.packed.items(self.unpack_time).filter(|_| share.rank == 0)
    }

    /// Omits the getdents64(2) calls of a removal in directory order, whose number depends on the file
    /// system.
    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        let (files, directories) = (self.packed.files(), self.packed.directories());
        let counts = match (phase, &self.removal) {
            (EXTRACT, _) => self.packed.extract_counts(),
            (REMOVE, Removal::Tree(_)) => OpCounts::from([
                (OpKind::Open, directories + 1),
                (OpKind::Close, directories + 1),
                (OpKind::Unlink, files),
                (OpKind::Rmdir, directories + 1),
            ]),
            (REMOVE, Removal::Files(_)) => {
                OpCounts::from([(OpKind::Unlink, files), (OpKind::Rmdir, directories + 1)])
            }
            _ => OpCounts::new(),
        };
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        if phase == EXTRACT { self.packed.tree() } else { Box::new(EmptyTree) }
    }

    fn needs(&self) -> Needs {
        self.packed.needs()
    }

    fn unused_params(&self) -> &'static [&'static str] {
        if self.is_given { GENERATED } else { &[] }
    }
}

/// The tree after the removal.
struct EmptyTree;

impl Tree for EmptyTree {
    fn lookup(&self, _: &[u8]) -> Option<Expected> {
        None
    }

    fn files(&self) -> u64 {
        0
    }

    fn directories(&self) -> u64 {
        0
    }
}

/// A single op, which the engine expands.
struct RemoveTree(Option<RemoveOrder>);

impl OpSource for RemoveTree {
    fn next(&mut self, op: &mut Op) -> bool {
        let Some(order) = self.0.take() else { return false };
        op.name.clear();
        op.name.push(TOP);
        op.call = Call::Compound(Compound::RemoveTree { dir: DirSlot::ROOT, order, synced: false });
        op.expect = Expect::Success;
        true
    }
}

/// The removal of every file in a given order, then of the directories by number, then of the top directory.
struct RemoveFiles<'a> {
    packed: &'a dyn PackedTree,
    order: &'a Order,
    index: u64,
}

impl OpSource for RemoveFiles<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let (files, directories) = self.packed.number_bounds();
        op.expect = Expect::Success;
        while self.index < files {
            let file = self.order.at(self.index);
            self.index += 1;
            if self.packed.has_file(file) {
                self.packed.write_file_path(&mut op.name, file);
                op.call = Call::Unlink { dir: DirSlot::ROOT };
                return true;
            }
        }
        op.call = Call::Rmdir { dir: DirSlot::ROOT };
        while self.index < files + directories {
            let directory = self.index - files;
            self.index += 1;
            if self.packed.has_directory(directory) {
                self.packed.write_directory_path(&mut op.name, directory);
                return true;
            }
        }
        self.index += 1;
        op.name.clear();
        op.name.push(TOP);
        self.index == files + directories + 1
    }
}
