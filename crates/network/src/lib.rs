//! Modelled networks of the lab: a link's rate, delay and queue under one name, one file each.

mod catalog;
mod file;

pub use catalog::{DEFAULT, NetworkError, find, names, plan, text};
pub use file::Network;
pub use fsdyno_catalog::{FileError, Source};
