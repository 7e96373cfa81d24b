//! Copies a tree, packs it into an archive and unpacks it, call by call.
//!
//! The calls are those of cp -a (GNU coreutils 9.1) and tar (GNU tar 1.34) as strace shows them, with
//! three exceptions. Queries that the trees of a benchmark do not need are omitted:
//! extended attributes, ACLs, a second stat of a file just opened. If cp would try a clone
//! or copy_file_range(2), it reads and writes, as on a file system that has neither. And
//! tar's reads and writes of a file are whole records from the file's beginning, not cut where a
//! record of the archive ends, so that their number does not depend on the order of the names.

mod archive;
mod calls;
mod copy;
mod ustar;

pub use archive::{pack, unpack};
pub use calls::{Calls, TreePath};
pub use copy::copy;
