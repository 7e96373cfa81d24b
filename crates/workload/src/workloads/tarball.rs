//! tarball: extract an archive in random order as GNU tar does, then remove it as Guenter did.
//!
//! What GNU tar 1.34 does as root with an archive that holds only files (so that parents are made
//! when they are first needed), as strace shows it [RUN]:
//!
//! - per file openat(O_WRONLY|O_CREAT|O_EXCL|O_NOCTTY|O_NONBLOCK|O_CLOEXEC, 0600) with the whole
//!   path, write(2) of what its buffer of one record (20 blocks of 512 bytes) holds of the file,
//!   futimens(UTIME_OMIT, mtime), fchown, fchmod(0644), close;
//! - where a parent is missing that openat fails with ENOENT, then mkdirat(0755) of every parent
//!   from the top, of which those that exist fail with EEXIST, then the openat again;
//! - nothing more for directories: tar delays times and modes only of directories that are members
//!   of the archive, and a random order over all paths has files come before their directories.
//!
//! The ops are these calls, one by one. Left out: reads of the archive, which lies elsewhere, and
//! the time that unpacking it took (the 55 s of user time in the original suggest a compressed one).

use std::sync::OnceLock;

use fsdyno_record::seed::mix;
use fsdyno_record::{Bytes, OpKind};

use crate::numbered::Numbered;
use crate::op::{Call, DirSlot, Expect, FileSlot, Name, Op, OpenFlags, Payload, RemoveOrder};
use crate::params::{Domain, Param, ParamError, Values};
use crate::permutation::{Order, Permutation};
use crate::sizes;
use crate::workload::{
    Expected, GapKind, Needs, NoOps, OpCounts, OpSource, PhaseSpec, Share, Threads, Tree, Workload,
};
use crate::workloads::Kind;

/// The row of the table.
pub const KIND: Kind = Kind {
    name: "tarball",
    about: "Extract an archive of many small files in random order with GNU tar's calls, then \
            remove the tree.",
    source: "B. Guenter, ext4 unlink performance, linux-ext4 mailing list, November 2008",
    params: PARAMS,
    doc: DOC,
    config: None,
    build: |values, setting| Ok(Box::new(Tarball::new(values, setting.seed)?)),
};

/// What it models; shown by `fsdyno show workload`.
const DOC: &str = "\
An archive of many small files is extracted in random order with the calls of GNU tar 1.34 [RUN: \
strace], then removed as rm -r does.";

const PARAMS: &[Param] = &[
    Param {
        name: "files",
        default: "725000",
        domain: Domain::Whole { min: 1, max: 100_000_000 },
        about: "How many files.",
        source: "[PUB] about 725,000",
    },
    Param {
        name: "directories",
        default: "auto",
        domain: Domain::Or("auto", &Domain::Whole { min: 1, max: 10_000_000 }),
        about: "How many directories hold them, all in one; auto is one per 1,000 files, but at \
                least 10 (and no more than files).",
        source: "[DER] not published; 725 is within the 100 to 1,000 taken for likely",
    },
    Param {
        name: "size",
        default: "mix",
        domain: Domain::Or("mix", &Domain::Size { min: 0, max: 1 << 30 }),
        about: "Size of every file; mix is 85 % from 1 to 4,096 bytes and 15 % of 2 to 16 blocks of \
                4 KiB, as likely in each octave.",
        source: "[DER] published is: mostly of one block, about 15 % of more",
    },
    Param {
        name: "order",
        default: "readdir",
        domain: Domain::Choice(&["readdir", "inode", "name", "creation", "reverse", "random"]),
        about: "The order of removal: as directories are read, sorted within each directory by inode \
                or name, or over all files in, against or without regard to the order of creation.",
        source: "[DER] published is rm -r; in which order the rm of 2008 took names is not",
    },
    Param {
        name: "cache",
        default: "cold",
        domain: Domain::Choice(&["cold", "hot"]),
        about: "Whether the file system is unmounted and mounted before the removal.",
        source: "[OWN] not published; ask both",
    },
];

/// The directory that holds the directories.
const TOP: &[u8] = b"t";
/// The block of an archive: headers and padding come in such.
const BLOCK: u64 = 512;
/// GNU tar's default record of 20 blocks, which is also its buffer.
const RECORD: u64 = 20 * BLOCK;
/// The time that every file is given: the day of Guenter's post, 2008-11-13 00:00 UTC.
const MTIME: i64 = 1_226_534_400;
const FILE: FileSlot = FileSlot(0);
const FLAGS: OpenFlags =
    OpenFlags { write: true, exclusive: true, nonblock: true, noctty: true, ..OpenFlags::NONE };

const EXTRACT: usize = 0;
const REMOVE: usize = 1;

/// How the tree is removed.
#[derive(Debug)]
enum Removal {
    /// In an order that only the file system knows.
    Tree(RemoveOrder),
    /// File by file, then the directories by number.
    Files(Order),
}

/// Extract and remove; with its parameters bound.
#[derive(Debug)]
struct Tarball {
    files: u64,
    directories: u64,
    /// None for the mix.
    size: Option<u64>,
    seed: u64,
    archive: Permutation,
    removal: Removal,
    gap: GapKind,
    directory_names: Numbered,
    file_names: Numbered,
    totals: OnceLock<Totals>,
}

/// What only a pass over all files can tell.
#[derive(Clone, Copy, Debug)]
struct Totals {
    bytes: u64,
    writes: u64,
}

impl Tarball {
    fn new(values: &Values, seed: u64) -> Result<Tarball, ParamError> {
        let files = values.whole("files");
        let directories =
            values.number("directories").unwrap_or_else(|| (files / 1000).max(10).min(files));
        if directories > files {
            return Err(ParamError::Conflict(format!(
                "directories={directories} is more than files={files}: each directory comes into \
                 being for a file; use directories={files} or fewer"
            )));
        }
        let archive = Permutation::new(files, seed, "archive");
        let removal = match values.text("order") {
            "inode" => Removal::Tree(RemoveOrder::Inode),
            "name" => Removal::Tree(RemoveOrder::Name),
            "creation" => Removal::Files(Order::Random(archive.clone())),
            "reverse" => Removal::Files(Order::RandomReverse(archive.clone())),
            "random" => Removal::Files(Order::named("random", files, seed, "order")),
            _ => Removal::Tree(RemoveOrder::Readdir),
        };
        Ok(Tarball {
            files,
            directories,
            size: values.number("size"),
            seed: mix(seed ^ 0x7461_7262_616c_6c00),
            archive,
            removal,
            gap: if values.text("cache") == "hot" { GapKind::None } else { GapKind::Remount },
            directory_names: Numbered::for_count("d", directories),
            file_names: Numbered::for_count("f", files),
            totals: OnceLock::new(),
        })
    }

    /// Size of a file in bytes.
    #[inline]
    fn size_of(&self, file: u64) -> u64 {
        if let Some(size) = self.size {
            return size;
        }
        sizes::mix(mix(file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.seed))
    }

    /// The directory of a file: neighbours by number share one.
    #[inline]
    fn directory_of(&self, file: u64) -> u64 {
        file * self.directories / self.files
    }

    fn payload(&self, file: u64) -> Payload {
        Payload { id: file, offset: 0, length: self.size_of(file) as u32 }
    }

    /// One pass in the order of the archive, for the place of a file in it decides its writes.
    fn totals(&self) -> Totals {
        *self.totals.get_or_init(|| {
            let mut totals = Totals { bytes: 0, writes: 0 };
            let mut position = 0;
            for place in 0..self.files {
                let size = self.size_of(self.archive.at(place));
                let first = first_write(position, size);
                totals.bytes += size;
                totals.writes += u64::from(size > 0) + (size - first).div_ceil(RECORD);
                position = after_member(position, size);
            }
            totals
        })
    }

    /// Writes the directory's path: `t/d012`.
    fn name_directory(&self, name: &mut Name, directory: u64) {
        name.clear();
        name.push(TOP);
        name.push(b"/");
        self.directory_names.push(name, directory);
    }

    /// Writes the file's path: `t/d012/f000345`.
    #[inline]
    fn name_file(&self, name: &mut Name, file: u64) {
        self.name_directory(name, self.directory_of(file));
        name.push(b"/");
        self.file_names.push(name, file);
    }
}

/// How much of a file is in the record that its header ends in: the file's first write. `position`
/// is the header's place in its record.
#[inline]
fn first_write(position: u64, size: u64) -> u64 {
    size.min(RECORD - (position + BLOCK) % RECORD)
}

/// The place of the next header in its record.
#[inline]
fn after_member(position: u64, size: u64) -> u64 {
    (position + BLOCK + size.next_multiple_of(BLOCK)) % RECORD
}

impl Workload for Tarball {
    fn phases(&self) -> Vec<PhaseSpec> {
        vec![
            PhaseSpec { name: "extract", gap: GapKind::None, verify: true, threads: Threads::One },
            PhaseSpec { name: "remove", gap: self.gap, verify: true, threads: Threads::One },
        ]
    }

    /// tar and rm are one process each: all of it falls to rank 0.
    fn ops(&self, phase: usize, share: Share) -> Box<dyn OpSource + Send + '_> {
        match (phase, &self.removal) {
            (EXTRACT, _) if share.rank == 0 => Box::new(Extract::new(self)),
            (REMOVE, Removal::Tree(order)) if share.rank == 0 => Box::new(RemoveTree(Some(*order))),
            (REMOVE, Removal::Files(order)) if share.rank == 0 => {
                Box::new(RemoveFiles { work: self, order, place: 0 })
            }
            _ => Box::new(NoOps),
        }
    }

    /// Of a removal whose order the file system decides, the getdents64(2) calls are left out: how
    /// many there are is its affair. Failed calls count as what they are calls of.
    fn counts(&self, phase: usize, _: u32) -> OpCounts {
        let (files, directories) = (self.files, self.directories);
        match (phase, &self.removal) {
            (EXTRACT, _) => OpCounts::from([
                // Each directory is missed once, and the top is asked for with each.
                (OpKind::Create, files + directories),
                (OpKind::Mkdir, 2 * directories),
                (OpKind::Write, self.totals().writes),
                (OpKind::Utimes, files),
                (OpKind::Chown, files),
                (OpKind::Chmod, files),
                (OpKind::Close, files),
            ]),
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
        }
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
    }

    fn tree(&self, phase: usize) -> Box<dyn Tree + '_> {
        if phase == EXTRACT { Box::new(Extracted(self)) } else { Box::new(Removed) }
    }

    fn needs(&self) -> Needs {
        let longest_file = self.file_names.length_of(self.files - 1);
        Needs {
            bytes: Bytes(self.totals().bytes),
            inodes: self.files + self.directories + 1,
            longest_name: longest_file.max(self.directory_names.length_of(self.directories - 1)),
        }
    }
}

/// The tree after the extraction.
struct Extracted<'a>(&'a Tarball);

impl Tree for Extracted<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let mut parts = path.split(|byte| *byte == b'/');
        if parts.next()? != TOP {
            return None;
        }
        let Some(directory) = parts.next() else { return Some(Expected::DIRECTORY) };
        let directory = self.0.directory_names.read(directory)?;
        let Some(file) = parts.next() else {
            return (directory < self.0.directories).then_some(Expected::DIRECTORY);
        };
        let file = self.0.file_names.read(file)?;
        let there =
            file < self.0.files && self.0.directory_of(file) == directory && parts.next().is_none();
        there.then(|| Expected::file(self.0.payload(file)))
    }

    fn files(&self) -> u64 {
        self.0.files
    }

    fn directories(&self) -> u64 {
        self.0.directories + 1
    }
}

/// The tree after the removal.
struct Removed;

impl Tree for Removed {
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

/// What the next op of an extraction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The next file's openat, or the end.
    Open,
    /// The top of the tree, after an openat that failed.
    Top,
    /// The file's directory.
    Directory,
    /// The openat again.
    Again,
    Write,
    Utimes,
    Chown,
    Chmod,
    Close,
}

struct Extract<'a> {
    work: &'a Tarball,
    place: u64,
    /// The place of the current header in its record.
    position: u64,
    file: u64,
    size: u64,
    written: u64,
    step: Step,
    top_made: bool,
    /// A bit for each directory: it has been made.
    made: Vec<u64>,
}

impl<'a> Extract<'a> {
    fn new(work: &'a Tarball) -> Extract<'a> {
        let words = work.directories.div_ceil(64) as usize;
        Extract {
            work,
            place: 0,
            position: 0,
            file: 0,
            size: 0,
            written: 0,
            step: Step::Open,
            top_made: false,
            made: vec![0; words],
        }
    }

    /// Whether the directory is there; from now on it counts as made.
    #[inline]
    fn make(&mut self, directory: u64) -> bool {
        let bit = 1 << (directory % 64);
        match self.made.get_mut((directory / 64) as usize) {
            Some(word) => {
                let there = *word & bit != 0;
                *word |= bit;
                there
            }
            None => false,
        }
    }

    fn create(&mut self, op: &mut Op) {
        op.call = Call::Create { dir: DirSlot::ROOT, file: FILE, flags: FLAGS, mode: 0o600 };
        self.step = if self.size > 0 { Step::Write } else { Step::Utimes };
    }

    fn open(&mut self, op: &mut Op) -> bool {
        if self.place == self.work.files {
            return false;
        }
        self.file = self.work.archive.at(self.place);
        self.place += 1;
        self.size = self.work.size_of(self.file);
        self.written = 0;
        self.work.name_file(&mut op.name, self.file);
        self.create(op);
        if !self.make(self.work.directory_of(self.file)) {
            op.expect = Expect::Missing;
            self.step = Step::Top;
        }
        true
    }

    #[cold]
    fn parent(&mut self, op: &mut Op) {
        op.call = Call::Mkdir { dir: DirSlot::ROOT, mode: 0o755 };
        if self.step == Step::Top {
            op.name.clear();
            op.name.push(TOP);
            op.expect = if self.top_made { Expect::Exists } else { Expect::Success };
            self.top_made = true;
            self.step = Step::Directory;
        } else {
            self.work.name_directory(&mut op.name, self.work.directory_of(self.file));
            self.step = Step::Again;
        }
    }

    fn write(&mut self, op: &mut Op) {
        let length = if self.written == 0 {
            first_write(self.position, self.size)
        } else {
            (self.size - self.written).min(RECORD)
        };
        let payload = Payload { id: self.file, offset: self.written, length: length as u32 };
        op.call = Call::Write { file: FILE, payload };
        self.written += length;
        if self.written == self.size {
            self.step = Step::Utimes;
        }
    }
}

impl OpSource for Extract<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        op.expect = Expect::Success;
        match self.step {
            Step::Open => return self.open(op),
            Step::Top | Step::Directory => self.parent(op),
            Step::Again => {
                self.work.name_file(&mut op.name, self.file);
                self.create(op);
            }
            Step::Write => self.write(op),
            Step::Utimes => {
                op.call = Call::UtimesFile { file: FILE, mtime: MTIME };
                self.step = Step::Chown;
            }
            Step::Chown => {
                op.call = Call::ChownFile { file: FILE };
                self.step = Step::Chmod;
            }
            Step::Chmod => {
                op.call = Call::ChmodFile { file: FILE, mode: 0o644 };
                self.step = Step::Close;
            }
            Step::Close => {
                op.call = Call::Close { file: FILE };
                self.position = after_member(self.position, self.size);
                self.step = Step::Open;
            }
        }
        true
    }
}

/// The one op that the engine expands.
struct RemoveTree(Option<RemoveOrder>);

impl OpSource for RemoveTree {
    fn next(&mut self, op: &mut Op) -> bool {
        let Some(order) = self.0.take() else { return false };
        op.name.clear();
        op.name.push(TOP);
        op.call = Call::RemoveTree { dir: DirSlot::ROOT, order };
        op.expect = Expect::Success;
        true
    }
}

/// Every file in an order of its own, then the directories by number, then the top.
struct RemoveFiles<'a> {
    work: &'a Tarball,
    order: &'a Order,
    place: u64,
}

impl OpSource for RemoveFiles<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        let place = self.place;
        self.place += 1;
        op.expect = Expect::Success;
        let Some(directory) = place.checked_sub(self.work.files) else {
            self.work.name_file(&mut op.name, self.order.at(place));
            op.call = Call::Unlink { dir: DirSlot::ROOT };
            return true;
        };
        op.call = Call::Rmdir { dir: DirSlot::ROOT };
        if directory < self.work.directories {
            self.work.name_directory(&mut op.name, directory);
        } else {
            op.name.clear();
            op.name.push(TOP);
        }
        directory <= self.work.directories
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tarball(set: &[(&str, &str)]) -> Tarball {
        let values = Values::resolve("tarball", PARAMS, set.iter().copied()).unwrap();
        Tarball::new(&values, 1).unwrap()
    }

    #[test]
    fn the_size_mix_is_what_it_says() {
        let work = tarball(&[("files", "100000")]);
        let sizes: Vec<u64> = (0..work.files).map(|file| work.size_of(file)).collect();
        let share = |low, high| {
            sizes.iter().filter(|size| (low..=high).contains(*size)).count() as f64 / 1e5
        };
        // Four standard deviations of a share of 100,000 draws are below 0.005.
        assert!((share(1, 4096) - 0.85).abs() < 0.005);
        for octave in [4096, 8192, 16384, 32768] {
            assert!((share(octave + 1, 2 * octave) - 0.0375).abs() < 0.005, "{octave}");
        }
        assert_eq!(share(1, 65536), 1.0);
        assert!((share(1, 2048) - 0.425).abs() < 0.008);
    }

    #[test]
    fn writes_are_cut_where_strace_saw_tar_cut_them() {
        // The archive of the observation: 30,000, 300, 0 and 9,000 bytes, in this order, gave
        // writes of 9728, 10240, 10032; 300; none; 8192, 808.
        let mut position = 0;
        let firsts = [30_000, 300, 0, 9_000].map(|size| {
            let first = first_write(position, size);
            position = after_member(position, size);
            first
        });
        assert_eq!(firsts, [9728, 300, 0, 8192]);
    }

    #[test]
    fn every_directory_holds_files_and_their_numbers_are_neighbours() {
        let work = tarball(&[("files", "1003"), ("directories", "17")]);
        let mut counts = [0; 17];
        (0..work.files).for_each(|file| counts[work.directory_of(file) as usize] += 1);
        assert!(counts.iter().all(|count| (59..=60).contains(count)), "{counts:?}");
    }

    #[test]
    fn directories_follow_the_files_by_the_rule_and_contradictions_are_refused() {
        assert_eq!(tarball(&[]).directories, 725);
        assert_eq!(tarball(&[("files", "2000")]).directories, 10);
        assert_eq!(tarball(&[("files", "3")]).directories, 3);
        let values =
            Values::resolve("tarball", PARAMS, [("files", "3"), ("directories", "4")]).unwrap();
        let message = Tarball::new(&values, 1).unwrap_err().to_string();
        assert!(message.contains("use directories=3 or fewer"), "{message}");
    }
}
