//! The interface of an archive that `tarball` extracts and removes: generated, or the user's.

use fsdyno_record::Nanos;

use crate::op::{Name, OpenFlags};
use crate::permutation::Order;
use crate::until::Items;
use crate::workload::{Needs, OpCounts, OpSource, Tree};

/// The directory that contains everything.
pub const TOP: &[u8] = b"t";

/// Size of GNU tar's default record in bytes: 20 blocks, which is also the size of its buffer.
pub const RECORD: u64 = 20 * 512;

/// The flags with which GNU tar opens a file that it extracts.
pub const FILE_FLAGS: OpenFlags =
    OpenFlags { write: true, exclusive: true, nonblock: true, noctty: true, ..OpenFlags::NONE };

/// A tree in an archive, entirely below [`TOP`]. "Files" are all entries except directories.
pub trait Packed: Send + Sync {
    /// GNU tar's calls that extract the archive, with `unpack` of processor time before each file.
    fn extract(&self, unpack: Nanos) -> Box<dyn OpSource + Send + '_>;
    /// The calls of [`Packed::extract`], file by file; none if the archive cannot be cut.
    fn items(&self, _unpack: Nanos) -> Option<Box<dyn Items + Send + '_>> {
        None
    }
    /// The first `most` files and the directories made for them, which keep their numbers; none if the archive cannot
    /// be cut.
    fn cut(&self, _most: u64) -> Option<Box<dyn Packed>> {
        None
    }
    /// Exclusive upper bounds of the numbers of files and of directories.
    fn numbers(&self) -> (u64, u64) {
        (self.files(), self.directories())
    }
    /// Reports whether the file with a number is extracted.
    fn has_file(&self, _file: u64) -> bool {
        true
    }
    /// Reports whether the directory with a number is made.
    fn has_directory(&self, _directory: u64) -> bool {
        true
    }
    /// Number of calls of the extraction, by kind.
    fn extract_counts(&self) -> OpCounts;
    /// The tree after the extraction.
    fn tree(&self) -> Box<dyn Tree + '_>;
    /// The space, inodes and name length that the extraction requires.
    fn needs(&self) -> Needs;
    /// Number of files.
    fn files(&self) -> u64;
    /// Number of directories below [`TOP`].
    fn directories(&self) -> u64;
    /// The files' numbers in the order called `creation`, `reverse` (of that) or `random`.
    fn order(&self, word: &str, seed: u64) -> Order;
    /// Writes the full path of a file, given its number.
    fn name_file(&self, name: &mut Name, file: u64);
    /// Writes the full path of a directory. In the order of their numbers, each directory is empty once those before it
    /// are removed.
    fn name_directory(&self, name: &mut Name, directory: u64);
}
