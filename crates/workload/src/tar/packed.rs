//! What `tarball` extracts and removes: an archive that is made up, or one of the user's.

use fsdyno_record::Nanos;

use crate::op::{Name, OpenFlags};
use crate::permutation::Order;
use crate::workload::{Needs, OpCounts, OpSource, Tree};

/// The directory that everything is below.
pub const TOP: &[u8] = b"t";

/// GNU tar's default record of 20 blocks, which is also its buffer.
pub const RECORD: u64 = 20 * 512;

/// How GNU tar opens a file that it extracts.
pub const FILE_FLAGS: OpenFlags =
    OpenFlags { write: true, exclusive: true, nonblock: true, noctty: true, ..OpenFlags::NONE };

/// A tree in an archive, of which all is below [`TOP`]. "Files" are whatever is no directory.
pub trait Packed: Send + Sync {
    /// GNU tar's calls, with so much processor time before each file.
    fn extract(&self, unpack: Nanos) -> Box<dyn OpSource + Send + '_>;
    /// How many calls those are.
    fn extract_counts(&self) -> OpCounts;
    /// What they leave.
    fn tree(&self) -> Box<dyn Tree + '_>;
    /// What they need.
    fn needs(&self) -> Needs;
    /// How many files there are.
    fn files(&self) -> u64;
    /// How many directories there are below [`TOP`].
    fn directories(&self) -> u64;
    /// The files' numbers in the order called `creation`, `reverse` (of that) or `random`.
    fn order(&self, word: &str, seed: u64) -> Order;
    /// Writes the whole path of a file by its number.
    fn name_file(&self, name: &mut Name, file: u64);
    /// Writes the whole path of a directory; in the order of their numbers each is empty once those
    /// before it are gone.
    fn name_directory(&self, name: &mut Name, directory: u64);
}
