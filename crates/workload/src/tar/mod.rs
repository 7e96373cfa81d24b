//! Machinery of the workload `tarball`: archives of the user and generated ones, and GNU tar's
//! calls for both.

pub mod archive;
pub(crate) mod generated_archive;
mod made;
pub(crate) mod packed;
pub mod unpack;
