//! Implementation of the workload `tarball`: the user's archives and generated ones, and GNU tar's calls for both.

pub mod archive;
mod created_directories;
pub(crate) mod generated_archive;
pub(crate) mod packed;
pub mod unpack;
