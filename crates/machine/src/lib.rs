//! Machines of the lab: a disk, a CPU and RAM under one name, one file each.

mod catalog;
mod file;

pub use catalog::{CLASSIC, DEFAULT, MachineError, find, names, text};
pub use file::{MIN_RAM, Machine};
pub use fsdyno_catalog::{FileError, Source};
