//! Fits profiles of disks and processors to those of this machine.

pub mod cpu;
mod disk;
mod file;

pub use disk::disk;
pub use file::{ProfileKind, check_out, write};
