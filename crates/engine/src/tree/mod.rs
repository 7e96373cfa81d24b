//! Copying a tree, packing it into an archive and unpacking that, call by call.
//!
//! The calls are those of cp -a (GNU coreutils 9.1) and tar (GNU tar 1.34) as strace shows them, but
//! for three things. Left out are questions whose answers the trees of a benchmark do not need:
//! extended attributes, ACLs, a second status of what was just opened. Where cp would ask for a clone
//! or for copy_file_range(2) it reads and writes, as it does where a file system has neither. And
//! tar's reads and writes of a file are whole records from the file's beginning, not cut where a
//! record of the archive ends, so that their number does not depend on the order of the names.

mod archive;
mod calls;
mod copy;
mod ustar;

pub use archive::{pack, unpack};
pub use calls::{Calls, Place};
pub use copy::copy;
