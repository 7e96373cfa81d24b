//! The live files of a steady state: their identity and contents, in 16 bytes per file.
//!
//! Operations are drawn one by one, each from its sequence number, so that the generator, the counts and the verifier
//! compute the same files when they replay the same numbers.

use fsdyno_record::seed::{SplitMix64, mix};

use crate::op::Payload;
use crate::sizes::{MAX_SIZE, Sizes};
use crate::weights::Weights;

/// The names of the actions in `mix`, in the order of [`Action`].
pub const ACTION_NAMES: &[&str] =
    &["create", "write", "append", "read", "stat", "rename", "link", "unlink", "readdir"];

/// Size of a file's head in bytes: one block of most file systems.
pub const HEAD: u32 = 4096;

/// Maximum number of names of one file; the strictest file system allows 250.
const MAX_NAMES: u32 = 100;

/// Modulus of the sequence numbers of a file's names.
const NAME_MODULUS: u32 = 1 << 24;

/// The odd number nearest to 2^64 divided by the golden ratio: it maps neighbouring numbers to distant seeds (Knuth 3,
/// 6.4).
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// A constant that separates the draws of the initial files from those of operations.
const INITIAL_DRAWS: u64 = 0x6269_7274_6800;

/// An action on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates a file.
    Create,
    /// Overwrites a file.
    Write,
    /// Appends to a file.
    Append,
    /// Reads a file from its beginning to its end.
    Read,
    /// Looks up a name with stat.
    Stat,
    /// Replaces a file's oldest name with a new one.
    Rename,
    /// Adds a name to a file.
    Link,
    /// Removes a file's oldest name; the file is deleted with its last name.
    Unlink,
    /// Reads a directory.
    Readdir,
}

impl Action {
    /// Every action, in the order of [`ACTION_NAMES`].
    pub const ALL: [Action; 9] = [
        Action::Create,
        Action::Write,
        Action::Append,
        Action::Read,
        Action::Stat,
        Action::Rename,
        Action::Link,
        Action::Unlink,
        Action::Readdir,
    ];
}

/// The method of overwriting a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Truncates the file and rewrites it with a new size.
    Truncate,
    /// Writes the file in place from beginning to end.
    Whole,
    /// Writes the first [`HEAD`] bytes of the file in place, or all of a shorter file.
    Head,
}

/// The rules that all populations of a workload share.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Weights of the actions.
    pub action_weights: Weights,
    /// Sizes of new and rewritten files.
    pub sizes: Sizes,
    /// Sizes of appends.
    pub appends: Sizes,
    /// The method of overwriting.
    pub overwrite: Overwrite,
    /// Percentage of creations, overwrites and appends that are followed by fsync(2).
    pub fsync_percent: u64,
    /// `(files, accesses)`: this percentage of the files receives this percentage of the accesses, or `None` for no
    /// preference.
    pub hot: Option<(u64, u64)>,
}

/// One live file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Number of files of its population that were created before it.
    pub serial: u32,
    /// The index of its oldest name, times 256, plus the count of its names; names are numbered in sequence.
    packed_names: u32,
    /// Number of writes from beginning to end, modulo 2^16.
    version: u16,
    /// Number of writes of its head since its last write from beginning to end; wraps from 2^16 - 1 to 1.
    head_version: u16,
    /// Size in bytes.
    pub length: u32,
}

/// A check of the limit on a generator's memory per live file.
const _: () = assert!(size_of::<File>() <= 16);

impl File {
    fn new(serial: u32, length: u32) -> File {
        File { serial, packed_names: 1, version: 0, head_version: 0, length }
    }

    /// Returns the number of its names.
    pub fn link_count(self) -> u32 {
        self.packed_names & 0xff
    }

    /// Returns the number of the file's name at `index`; the oldest name is at index zero.
    pub fn name(self, index: u32) -> u32 {
        ((self.packed_names >> 8) + index) % NAME_MODULUS
    }

    /// Returns true if the file has the name with this number.
    pub fn has_name(self, name: u32) -> bool {
        name < NAME_MODULUS
            && name.wrapping_sub(self.packed_names >> 8) % NAME_MODULUS < self.link_count()
    }

    /// Returns true if its head was written separately from the rest.
    pub fn has_head(self) -> bool {
        self.head_version > 0
    }

    /// Records a write from beginning to end.
    fn count_rewrite(&mut self) {
        self.version = self.version.wrapping_add(1);
        self.head_version = 0;
    }

    fn set_names(&mut self, first: u32, links: u32) {
        self.packed_names = (first % NAME_MODULUS) << 8 | links;
    }
}

/// An operation, with everything that its calls need.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Its action.
    pub action: Action,
    /// The file after the operation, but with the names that it had before a rename, link or unlink.
    pub file: File,
    /// The number of the file's name that is used.
    pub name: u32,
    /// The number of the new name.
    pub new_name: u32,
    /// The data that is written, appended or read, with its offset.
    pub payload: Payload,
    /// True if the file is truncated to zero bytes first.
    pub truncate: bool,
    /// True if fsync(2) follows.
    pub fsync: bool,
    /// A random word that selects the directory to read.
    pub word: u64,
}

/// Live files that are changed by one thread at a time.
#[derive(Clone, Debug)]
pub struct Population {
    seed: u64,
    /// Minimum and maximum number of live names.
    min_names: u64,
    max_names: u64,
    /// Maximum number of bytes of all live files.
    max_bytes: u64,
    files: Vec<File>,
    names: u64,
    bytes: u64,
    created: u32,
}

impl Population {
    /// Creates a population of new files, numbered in sequence; `files` must be at least one. The number of names stays
    /// within `variation_percent` percent of `files` (at least one more is allowed), and the bytes grow by at most
    /// `max_growth`, or at most double if it is `None`.
    pub fn new(
        seed: u64,
        files: u32,
        variation_percent: u64,
        max_growth: Option<u64>,
        rules: &Rules,
    ) -> Population {
        let count = u64::from(files);
        let margin = count * variation_percent / 100;
        let mut population = Population {
            seed,
            min_names: (count - margin).max(1),
            max_names: count + margin.max(1),
            max_bytes: 0,
            files: Vec::with_capacity((count + margin.max(1)) as usize),
            names: count,
            bytes: 0,
            created: files,
        };
        for serial in 0..files {
            let mut draws = SplitMix64::new(mix(seed ^ INITIAL_DRAWS ^ u64::from(serial) << 32));
            let length = rules.sizes.draw(&mut draws);
            population.files.push(File::new(serial, length as u32));
            population.bytes += length;
        }
        population.max_bytes = population.bytes + max_growth.unwrap_or(population.bytes);
        population
    }

    /// Returns the live files, in arbitrary order.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the number of names.
    pub fn names(&self) -> u64 {
        self.names
    }

    /// Returns the number of bytes of the live files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the maximum number of names and the maximum number of bytes.
    pub fn bounds(&self) -> (u64, u64) {
        (self.max_names, self.max_bytes)
    }

    /// Sorts the files in order of creation, for [`Population::find`]; operations drawn afterwards differ from those
    /// drawn without sorting.
    pub fn sort(&mut self) {
        self.files.sort_unstable_by_key(|file| file.serial);
    }

    /// Returns the file with this name, after [`Population::sort`].
    pub fn find(&self, serial: u32, name: u32) -> Option<File> {
        let index = self.files.binary_search_by_key(&serial, |file| file.serial).ok()?;
        self.files.get(index).copied().filter(|file| file.has_name(name))
    }

    /// Returns the random word that belongs to a name and determines its directory.
    pub fn random_word(&self, serial: u32, name: u32) -> u64 {
        mix(self.seed ^ mix((u64::from(serial) << 24 | u64::from(name)).wrapping_mul(GOLDEN_RATIO)))
    }

    /// Returns the content of the file from `offset` to the end of its separately written head, or else of the file.
    pub fn content(&self, file: File, offset: u32) -> Payload {
        let is_head = file.has_head() && offset < HEAD;
        let id = self.content_id(file, is_head);
        let end = if is_head { HEAD } else { file.length };
        Payload { id, offset: u64::from(offset), length: end.saturating_sub(offset) }
    }

    fn content_id(&self, file: File, is_head: bool) -> u64 {
        let version = u64::from(if is_head { file.head_version } else { file.version });
        let packed = u64::from(is_head) << 48 | u64::from(file.serial) << 16 | version;
        // Halved, so that no id is one of the special ids.
        mix(self.seed.wrapping_add(packed.wrapping_mul(GOLDEN_RATIO))) >> 1
    }

    /// Draws operation `number`, applies it to the files, and returns it.
    pub fn next_operation(&mut self, number: u64, rules: &Rules) -> Operation {
        let mut draws = SplitMix64::new(mix(self.seed ^ number.wrapping_mul(GOLDEN_RATIO)));
        let action_index = rules.action_weights.pick(draws.below(rules.action_weights.total()));
        let mut operation = match Action::ALL.get(action_index).copied().unwrap_or(Action::Stat) {
            Action::Create | Action::Link if self.names >= self.max_names => {
                self.unlink(&mut draws)
            }
            Action::Unlink if self.names <= self.min_names => self.create(rules, &mut draws),
            Action::Create => self.create(rules, &mut draws),
            Action::Unlink => self.unlink(&mut draws),
            action @ (Action::Rename | Action::Link) => self.rename_or_link(action, &mut draws),
            Action::Write => self.write(rules, &mut draws),
            Action::Append => self.append(rules, &mut draws),
            action @ (Action::Read | Action::Stat | Action::Readdir) => {
                let index = self.draw_accessed(rules, &mut draws);
                self.draw_operation_on(action, index, &mut draws)
            }
        };
        let writes = matches!(operation.action, Action::Create | Action::Write | Action::Append);
        operation.fsync = draws.below(100) < rules.fsync_percent && writes;
        operation
    }

    /// Draws the index of the file that is accessed; the hot files come first.
    fn draw_accessed(&self, rules: &Rules, draws: &mut SplitMix64) -> usize {
        let file_count = self.files.len() as u64;
        let Some((files, accesses)) = rules.hot else { return draws.below(file_count) as usize };
        let hot = (file_count * files / 100).clamp(1, file_count);
        let index = match draws.below(100) < accesses || hot == file_count {
            true => draws.below(hot),
            false => hot + draws.below(file_count - hot),
        };
        index as usize
    }

    /// Draws an operation on the file at `index`, by any of its names.
    fn draw_operation_on(&self, action: Action, index: usize, draws: &mut SplitMix64) -> Operation {
        let file = self.files[index];
        Operation {
            action,
            file,
            name: file.name(draws.below(u64::from(file.link_count())) as u32),
            new_name: 0,
            payload: Payload { length: file.length, ..self.content(file, 0) },
            truncate: false,
            fsync: false,
            word: draws.draw(),
        }
    }

    /// Creates a file. If it does not fit, a name is removed instead, or, at the minimum number of names, the file is
    /// made as large as the free space.
    fn create(&mut self, rules: &Rules, draws: &mut SplitMix64) -> Operation {
        let (length, free) = (rules.sizes.draw(draws), self.max_bytes - self.bytes);
        if length > free && self.names > self.min_names {
            return self.unlink(draws);
        }
        let length = length.min(free);
        self.files.push(File::new(self.created, length as u32));
        self.created = self.created.wrapping_add(1);
        self.names += 1;
        self.bytes += length;
        self.draw_operation_on(Action::Create, self.files.len() - 1, draws)
    }

    /// Removes the oldest name of a random file; a file without names is deleted, and the last file takes its index.
    fn unlink(&mut self, draws: &mut SplitMix64) -> Operation {
        let index = draws.below(self.files.len() as u64) as usize;
        let operation = self.draw_operation_on(Action::Unlink, index, draws);
        let file = operation.file;
        match file.link_count() {
            1 => {
                self.files.swap_remove(index);
                self.bytes -= u64::from(file.length);
            }
            links => self.files[index].set_names(file.name(1), links - 1),
        }
        self.names -= 1;
        Operation { name: file.name(0), ..operation }
    }

    /// Renames the oldest name of a random file, or adds a new name to the file.
    fn rename_or_link(&mut self, action: Action, draws: &mut SplitMix64) -> Operation {
        let index = draws.below(self.files.len() as u64) as usize;
        let file = self.files[index];
        let links = file.link_count();
        let is_link = action == Action::Link && links < MAX_NAMES;
        match is_link {
            true => self.files[index].set_names(file.name(0), links + 1),
            false => self.files[index].set_names(file.name(1), links),
        }
        self.names += u64::from(is_link);
        let action = if is_link { Action::Link } else { Action::Rename };
        let operation = self.draw_operation_on(action, index, draws);
        Operation { file, name: file.name(0), new_name: file.name(links), ..operation }
    }

    fn write(&mut self, rules: &Rules, draws: &mut SplitMix64) -> Operation {
        let index = self.draw_accessed(rules, draws);
        match rules.overwrite {
            Overwrite::Truncate => self.rewrite(index, rules, draws),
            Overwrite::Head if self.files[index].length >= HEAD => {
                let file = &mut self.files[index];
                file.head_version = file.head_version.checked_add(1).unwrap_or(1);
                let operation = self.draw_operation_on(Action::Write, index, draws);
                Operation { payload: self.content(operation.file, 0), ..operation }
            }
            Overwrite::Head | Overwrite::Whole => {
                self.files[index].count_rewrite();
                self.draw_operation_on(Action::Write, index, draws)
            }
        }
    }

    /// Truncates a file and rewrites it with a new size; if that does not fit, with at most its old size.
    fn rewrite(&mut self, index: usize, rules: &Rules, draws: &mut SplitMix64) -> Operation {
        let new_length = rules.sizes.draw(draws);
        let old_length = u64::from(self.files[index].length);
        let fits = self.bytes - old_length + new_length <= self.max_bytes;
        let length = if fits { new_length } else { new_length.min(old_length) };
        self.bytes = self.bytes - old_length + length;
        self.files[index].count_rewrite();
        self.files[index].length = length as u32;
        Operation { truncate: true, ..self.draw_operation_on(Action::Write, index, draws) }
    }

    /// Appends to a file; if the data does not fit, the file is rewritten, like a full log.
    fn append(&mut self, rules: &Rules, draws: &mut SplitMix64) -> Operation {
        let index = self.draw_accessed(rules, draws);
        let (appended, old_length) = (rules.appends.draw(draws), self.files[index].length);
        if self.bytes + appended > self.max_bytes || u64::from(old_length) + appended > MAX_SIZE {
            return self.rewrite(index, rules, draws);
        }
        self.bytes += appended;
        self.files[index].length += appended as u32;
        let operation = self.draw_operation_on(Action::Append, index, draws);
        let payload =
            Payload { offset: u64::from(old_length), length: appended as u32, ..operation.payload };
        // Appended data is never part of a separately written head, so it has the content ID of the rest of the file.
        let id = self.content_id(operation.file, false);
        Operation { payload: Payload { id, ..payload }, ..operation }
    }
}
