//! The laws of service times, one file each.

pub mod hdd;
pub mod instant;
pub mod ssd;
