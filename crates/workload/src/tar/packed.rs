//! The interface of an archive that `tarball` extracts and removes: generated, or the user's.

use fsdyno_record::Nanos;

use crate::items::Items;
use crate::op::{Name, OpenFlags};
use crate::op_source::OpSource;
use crate::permutation::Order;
use crate::workload::{Needs, OpCounts, Tree};

/// The directory that contains everything.
pub const TOP: &[u8] = b"t";

/// Size of GNU tar's default record in bytes: 20 blocks, which is also the size of its buffer.
pub const RECORD: u64 = 20 * 512;

/// The flags with which GNU tar opens a file that it extracts.
pub const FILE_FLAGS: OpenFlags =
    OpenFlags { write: true, exclusive: true, nonblock: true, noctty: true, ..OpenFlags::NONE };

/// A tree in an archive, entirely below [`TOP`]. "Files" are all entries except directories.
pub trait PackedTree: Send + Sync {
    /// Returns GNU tar's calls that extract the archive, with `unpack_time` of CPU time before each file.
    fn extract(&self, unpack_time: Nanos) -> Box<dyn OpSource + Send + '_>;
    /// Returns the calls of [`PackedTree::extract`], file by file; `None` if the archive cannot be truncated.
    fn items(&self, _unpack_time: Nanos) -> Option<Box<dyn Items + Send + '_>> {
        None
    }
    /// Returns the archive truncated to its first `max_files` files and the directories created for them, which keep
    /// their numbers, or `None` if the archive cannot be truncated.
    fn truncated_to(&self, _max_files: u64) -> Option<Box<dyn PackedTree>> {
        None
    }
    /// Returns exclusive upper bounds of the files' and the directories' numbers (IDs).
    fn number_bounds(&self) -> (u64, u64) {
        (self.files(), self.directories())
    }
    /// Reports whether the file with this number is extracted.
    fn has_file(&self, _file: u64) -> bool {
        true
    }
    /// Reports whether the directory with this number is created.
    fn has_directory(&self, _directory: u64) -> bool {
        true
    }
    /// Returns the number of calls of the extraction, by kind.
    fn extract_counts(&self) -> OpCounts;
    /// Returns the tree after the extraction.
    fn tree(&self) -> Box<dyn Tree + '_>;
    /// Returns the space, inodes and name length that the extraction requires.
    fn needs(&self) -> Needs;
    /// Returns the number of files.
    fn files(&self) -> u64;
    /// Returns the number of directories below [`TOP`].
    fn directories(&self) -> u64;
    /// Returns the files' numbers in the order called `creation`, `reverse` (of creation) or `random`.
    fn order(&self, kind: &str, seed: u64) -> Order;
    /// Writes the full path of a file, given its number.
    fn write_file_path(&self, name: &mut Name, file: u64);
    /// Writes the full path of a directory. In the order of their numbers, each directory is empty once the directories
    /// before it are removed.
    fn write_directory_path(&self, name: &mut Name, directory: u64);
}
