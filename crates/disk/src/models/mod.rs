//! The disk models, one file each.

pub mod hdd;
pub mod instant;
pub mod ssd;
