//! What `tarball` is made of: archives of the user's and made ones, and GNU tar's calls for both.

pub mod archive;
pub(crate) mod made_archive;
pub(crate) mod packed;
pub mod unpack;
