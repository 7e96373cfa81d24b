//! A generated archive: files of random sizes in directories, in random order.

use std::sync::OnceLock;

use fsdyno_record::seed::mix;
use fsdyno_record::{Bytes, Nanos, OpKind};

use crate::items::Items;
use crate::numbered::Numbered;
use crate::op::{Call, DirSlot, Expect, FileSlot, Name, Op, Payload};
use crate::op_source::OpSource;
use crate::params::ParamError;
use crate::permutation::{Order, Permutation};
use crate::sizes;
use crate::tar::created_directories::CreatedDirectories;
use crate::tar::packed::{FILE_FLAGS, PackedTree, RECORD, TOP};
use crate::workload::{Expected, Needs, OpCounts, Tree};

/// Size of an archive block in bytes; headers and padding are multiples of it.
const BLOCK: u64 = 512;
/// Modification time of every file in seconds: the day of Guenter's post, 2008-11-13 00:00 UTC.
const MTIME: i64 = 1_226_534_400;
/// Permission bits of every file.
const MODE: u32 = 0o644;
const FILE: FileSlot = FileSlot(0);

/// Files, the directories over which they are spread, and their order in the archive.
#[derive(Clone, Debug)]
pub struct GeneratedArchive {
    /// Number of files in the archive.
    members: u64,
    directories: u64,
    /// Size of each file in bytes, or `None` for the mix.
    size: Option<u64>,
    seed: u64,
    order: Permutation,
    /// Number of files that are extracted, from the beginning of the archive.
    extracted: u64,
    directory_names: Numbered,
    file_names: Numbered,
    totals: OnceLock<Totals>,
}

/// Totals that require a pass over all files.
#[derive(Clone, Debug)]
struct Totals {
    bytes: u64,
    writes: u64,
    created: CreatedDirectories,
}

impl GeneratedArchive {
    /// Creates an archive of a number of files in a number of directories (chosen by a rule if not given), of one size
    /// or of the mix.
    ///
    /// # Errors
    /// There are more directories than files.
    pub fn new(
        files: u64,
        directories: Option<u64>,
        size: Option<u64>,
        seed: u64,
    ) -> Result<GeneratedArchive, ParamError> {
        let directories = directories.unwrap_or_else(|| (files / 1000).max(10).min(files));
        if directories > files {
            return Err(ParamError::Conflict(format!(
                "directories={directories} is more than files={files}: each directory is created \
                 for a file; use directories={files} or fewer"
            )));
        }
        Ok(GeneratedArchive {
            members: files,
            directories,
            size,
            seed: mix(seed ^ 0x7461_7262_616c_6c00),
            order: Permutation::new(files, seed, "archive"),
            extracted: files,
            directory_names: Numbered::for_count("d", directories),
            file_names: Numbered::for_count("f", files),
            totals: OnceLock::new(),
        })
    }

    /// Returns the size of a file in bytes.
    #[inline]
    fn size_of(&self, file: u64) -> u64 {
        if let Some(size) = self.size {
            return size;
        }
        sizes::mix(mix(file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.seed))
    }

    /// Returns the directory of a file; files with neighbouring numbers share one.
    #[inline]
    fn directory_of(&self, file: u64) -> u64 {
        file * self.directories / self.members
    }

    fn payload(&self, file: u64) -> Payload {
        Payload { id: file, offset: 0, length: self.size_of(file) as u32 }
    }

    /// Returns the totals from one pass in archive order, because a file's position in the archive determines its
    /// writes.
    fn totals(&self) -> &Totals {
        self.totals.get_or_init(|| {
            let created = CreatedDirectories::new(self.directories);
            let mut totals = Totals { bytes: 0, writes: 0, created };
            let mut position = 0;
            for index in 0..self.extracted {
                let file = self.order.at(index);
                let size = self.size_of(file);
                let first = first_write_length(position, size);
                totals.bytes += size;
                totals.writes += u64::from(size > 0) + (size - first).div_ceil(RECORD);
                totals.created.mark_created(self.directory_of(file));
                position = next_header_position(position, size);
            }
            totals
        })
    }

    /// Writes the directory's path: `t/d012`.
    fn push_directory(&self, name: &mut Name, directory: u64) {
        name.clear();
        name.push(TOP);
        name.push(b"/");
        self.directory_names.push(name, directory);
    }

    /// Writes the file's path: `t/d012/f000345`.
    #[inline]
    fn push_file(&self, name: &mut Name, file: u64) {
        self.push_directory(name, self.directory_of(file));
        name.push(b"/");
        self.file_names.push(name, file);
    }
}

/// Returns the length of a file's first write: the part in the record in which its header ends. `position` is the
/// position of the header in its record.
#[inline]
fn first_write_length(position: u64, size: u64) -> u64 {
    size.min(RECORD - (position + BLOCK) % RECORD)
}

/// Returns the position of the next header in its record.
#[inline]
fn next_header_position(position: u64, size: u64) -> u64 {
    (position + BLOCK + size.next_multiple_of(BLOCK)) % RECORD
}

impl PackedTree for GeneratedArchive {
    fn extract(&self, unpack_time: Nanos) -> Box<dyn OpSource + Send + '_> {
        Box::new(Extract::new(self, unpack_time))
    }

    fn items(&self, unpack_time: Nanos) -> Option<Box<dyn Items + Send + '_>> {
        Some(Box::new(Extract::new(self, unpack_time)))
    }

    fn truncated_to(&self, max_items: u64) -> Option<Box<dyn PackedTree>> {
        let extracted = max_items.min(self.members);
        Some(Box::new(GeneratedArchive { extracted, totals: OnceLock::new(), ..self.clone() }))
    }

    fn number_bounds(&self) -> (u64, u64) {
        (self.members, self.directories)
    }

    fn has_file(&self, file: u64) -> bool {
        self.extracted == self.members || self.order.index_of(file) < self.extracted
    }

    fn has_directory(&self, directory: u64) -> bool {
        self.extracted == self.members || self.totals().created.contains(directory)
    }

    /// Returns the number of calls, including those that fail.
    fn extract_counts(&self) -> OpCounts {
        let (files, directories) = (self.files(), self.directories());
        let counts = [
            // Each directory is missing once, and each time mkdir of the top directory is tried first.
            (OpKind::Create, files + directories),
            (OpKind::Mkdir, 2 * directories),
            (OpKind::Write, self.totals().writes),
            (OpKind::Utimes, files),
            (OpKind::Chown, files),
            (OpKind::Chmod, files),
            (OpKind::Close, files),
        ];
        OpCounts::from(counts)
    }

    fn tree(&self) -> Box<dyn Tree + '_> {
        Box::new(Extracted(self))
    }

    fn needs(&self) -> Needs {
        let longest_file = self.file_names.length_of(self.members - 1);
        Needs {
            bytes: Bytes(self.totals().bytes),
            inodes: self.members + self.directories + 1,
            longest_name: longest_file.max(self.directory_names.length_of(self.directories - 1)),
        }
    }

    fn files(&self) -> u64 {
        self.extracted
    }

    fn directories(&self) -> u64 {
        match self.extracted == self.members {
            true => self.directories,
            false => self.totals().created.count(),
        }
    }

    fn order(&self, kind: &str, seed: u64) -> Order {
        match kind {
            "creation" => Order::Random(self.order.clone()),
            "reverse" => Order::RandomReverse(self.order.clone()),
            _ => Order::named("random", self.members, seed, "order"),
        }
    }

    #[inline]
    fn write_file_path(&self, name: &mut Name, file: u64) {
        self.push_file(name, file);
    }

    fn write_directory_path(&self, name: &mut Name, directory: u64) {
        self.push_directory(name, directory);
    }
}

/// The tree after the extraction.
struct Extracted<'a>(&'a GeneratedArchive);

impl Tree for Extracted<'_> {
    fn lookup(&self, path: &[u8]) -> Option<Expected> {
        let mut parts = path.split(|byte| *byte == b'/');
        if parts.next()? != TOP {
            return None;
        }
        let Some(directory) = parts.next() else { return Some(Expected::DIRECTORY) };
        let directory = self.0.directory_names.parse(directory)?;
        let Some(file) = parts.next() else {
            let exists = directory < self.0.directories && self.0.has_directory(directory);
            return exists.then_some(Expected::DIRECTORY);
        };
        let file = self.0.file_names.parse(file)?;
        let is_valid = file < self.0.members
            && self.0.directory_of(file) == directory
            && parts.next().is_none();
        let exists = is_valid && self.0.has_file(file);
        exists.then(|| Expected::file(self.0.payload(file)).with_mode(MODE).with_mtime(MTIME))
    }

    fn files(&self) -> u64 {
        self.0.files()
    }

    fn directories(&self) -> u64 {
        self.0.directories() + 1
    }
}

/// The next op of an extraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The openat of the next file, or the end.
    Open,
    /// The mkdir of the top directory, after an openat that failed.
    Top,
    /// The mkdir of the file's directory.
    Directory,
    /// The repeated openat.
    Reopen,
    Write,
    Utimes,
    Chown,
    Chmod,
    Close,
}

struct Extract<'a> {
    work: &'a GeneratedArchive,
    index: u64,
    end: u64,
    /// The position of the current header in its record.
    position: u64,
    file: u64,
    size: u64,
    written: u64,
    step: Step,
    top_exists: bool,
    /// Processor time before each file.
    unpack_time: Nanos,
    created: CreatedDirectories,
}

impl<'a> Extract<'a> {
    fn new(work: &'a GeneratedArchive, unpack_time: Nanos) -> Extract<'a> {
        Extract {
            work,
            index: 0,
            end: work.extracted,
            position: 0,
            file: 0,
            size: 0,
            written: 0,
            step: Step::Open,
            top_exists: false,
            unpack_time,
            created: CreatedDirectories::new(work.directories),
        }
    }

    fn create_op(&mut self, op: &mut Op) {
        op.call = Call::Create { dir: DirSlot::ROOT, file: FILE, flags: FILE_FLAGS, mode: 0o600 };
        self.step = if self.size > 0 { Step::Write } else { Step::Utimes };
    }

    fn open_op(&mut self, op: &mut Op) -> bool {
        if self.index == self.end {
            return false;
        }
        self.file = self.work.order.at(self.index);
        self.index += 1;
        self.size = self.work.size_of(self.file);
        self.written = 0;
        self.work.push_file(&mut op.name, self.file);
        op.compute = self.unpack_time;
        self.create_op(op);
        if !self.created.mark_created(self.work.directory_of(self.file)) {
            op.expect = Expect::Missing;
            self.step = Step::Top;
        }
        true
    }

    #[cold]
    fn mkdir_op(&mut self, op: &mut Op) {
        op.call = Call::Mkdir { dir: DirSlot::ROOT, mode: 0o755 };
        if self.step == Step::Top {
            op.name.clear();
            op.name.push(TOP);
            op.expect = if self.top_exists { Expect::Exists } else { Expect::Success };
            self.top_exists = true;
            self.step = Step::Directory;
        } else {
            self.work.push_directory(&mut op.name, self.work.directory_of(self.file));
            self.step = Step::Reopen;
        }
    }

    fn write_op(&mut self, op: &mut Op) {
        let length = if self.written == 0 {
            first_write_length(self.position, self.size)
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

/// An item is a file, with the directories created for it.
impl Items for Extract<'_> {
    fn item_boundary(&mut self) -> Option<(u64, bool)> {
        (self.step == Step::Open).then_some((self.index, self.index < self.end))
    }

    fn set_max_items(&mut self, max_items: u64) {
        self.end = self.end.min(max_items);
    }
}

impl OpSource for Extract<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        op.expect = Expect::Success;
        op.compute = Nanos(0);
        match self.step {
            Step::Open => return self.open_op(op),
            Step::Top | Step::Directory => self.mkdir_op(op),
            Step::Reopen => {
                self.work.push_file(&mut op.name, self.file);
                self.create_op(op);
            }
            Step::Write => self.write_op(op),
            Step::Utimes => {
                op.call = Call::UtimesFile { file: FILE, mtime: MTIME };
                self.step = Step::Chown;
            }
            Step::Chown => {
                op.call = Call::ChownFile { file: FILE };
                self.step = Step::Chmod;
            }
            Step::Chmod => {
                op.call = Call::ChmodFile { file: FILE, mode: MODE };
                self.step = Step::Close;
            }
            Step::Close => {
                op.call = Call::Close { file: FILE };
                self.position = next_header_position(self.position, self.size);
                self.step = Step::Open;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: u64, directories: Option<u64>) -> GeneratedArchive {
        GeneratedArchive::new(files, directories, None, 1).unwrap()
    }

    #[test]
    fn the_size_mix_has_the_stated_distribution() {
        let work = archive(100_000, None);
        let sizes: Vec<u64> = (0..work.members).map(|file| work.size_of(file)).collect();
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
    fn writes_are_split_as_traced_by_strace() {
        // The archive of the observation: 30,000, 300, 0 and 9,000 bytes, in this order, gave
        // writes of 9728, 10240, 10032; 300; none; 8192, 808.
        let mut position = 0;
        let firsts = [30_000, 300, 0, 9_000].map(|size| {
            let first = first_write_length(position, size);
            position = next_header_position(position, size);
            first
        });
        assert_eq!(firsts, [9728, 300, 0, 8192]);
    }

    #[test]
    fn every_directory_contains_files_with_consecutive_numbers() {
        let work = archive(1003, Some(17));
        let mut counts = [0; 17];
        (0..work.members).for_each(|file| counts[work.directory_of(file) as usize] += 1);
        assert!(counts.iter().all(|count| (59..=60).contains(count)), "{counts:?}");
    }

    #[test]
    fn directories_follow_the_files_by_the_rule_and_contradictions_are_refused() {
        assert_eq!(archive(725_000, None).directories, 725);
        assert_eq!(archive(2000, None).directories, 10);
        assert_eq!(archive(3, None).directories, 3);
        let message = GeneratedArchive::new(3, Some(4), None, 1).unwrap_err().to_string();
        assert!(message.contains("use directories=3 or fewer"), "{message}");
    }

    #[test]
    fn unpacking_time_precedes_each_file_and_nothing_else() {
        let work = GeneratedArchive::new(20, Some(3), Some(100), 1).unwrap();
        let mut ops = work.extract(Nanos(7));
        let (mut op, mut computed) = (Op::default(), 0);
        let mut creates = 0;
        while ops.next(&mut op) {
            let is_create = matches!(op.call, Call::Create { .. });
            assert!(is_create || op.compute == Nanos(0), "{:?}", op.call);
            creates += u64::from(is_create);
            computed += op.compute.0;
        }
        assert_eq!((creates, computed), (23, 20 * 7));
    }
}
