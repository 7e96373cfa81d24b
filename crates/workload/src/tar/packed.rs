//! The interface of an archive that `tarball` extracts and removes: generated, or the user's.

use fsdyno_record::Nanos;

use crate::op::{Name, OpenFlags};
use crate::permutation::Order;
use crate::until::Items;
use crate::workload::{Needs, OpCounts, OpSource, Tree};

/// The directory that contains everything.
pub const TOP: &[u8] = b"t";

/// GNU tar's default record of 20 blocks, which is also its buffer.
pub const RECORD: u64 = 20 * 512;

/// The flags with which GNU tar opens a file that it extracts.
pub const FILE_FLAGS: OpenFlags =
    OpenFlags { write: true, exclusive: true, nonblock: true, noctty: true, ..OpenFlags::NONE };

/// A tree in an archive, all of it below [`TOP`]. "Files" are all entries but directories.
pub trait Packed: Send + Sync {
    /// GNU tar's calls, with `unpack` of processor time before each file.
    fn extract(&self, unpack: Nanos) -> Box<dyn OpSource + Send + '_>;
    /// The same calls, file by file; none if it cannot be cut.
    fn items(&self, _unpack: Nanos) -> Option<Box<dyn Items + Send + '_>> {
        None
    }
    /// The first `most` files and the directories made for them, with their numbers in all; none if it cannot be cut.
    fn cut(&self, _most: u64) -> Option<Box<dyn Packed>> {
        None
    }
    /// The numbers of files and of directories end before these.
    fn numbers(&self) -> (u64, u64) {
        (self.files(), self.directories())
    }
    /// Reports whether the file of a number is extracted.
    fn has_file(&self, _file: u64) -> bool {
        true
    }
    /// Reports whether the directory of a number is made.
    fn has_directory(&self, _directory: u64) -> bool {
        true
    }
    /// Number of those calls.
    fn extract_counts(&self) -> OpCounts;
    /// The tree after them.
    fn tree(&self) -> Box<dyn Tree + '_>;
    /// The space, inodes and name length they require.
    fn needs(&self) -> Needs;
    /// Number of files.
    fn files(&self) -> u64;
    /// Number of directories below [`TOP`].
    fn directories(&self) -> u64;
    /// The files' numbers in the order called `creation`, `reverse` (of that) or `random`.
    fn order(&self, word: &str, seed: u64) -> Order;
    /// Writes the whole path of a file by its number.
    fn name_file(&self, name: &mut Name, file: u64);
    /// Writes the whole path of a directory; in the order of their numbers each is empty once those
    /// before it are removed.
    fn name_directory(&self, name: &mut Name, directory: u64);
}
