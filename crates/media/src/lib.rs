//! What a file system lies on: directory, later loop file, block device, RAM.
//!
//! Nothing of the user's is ever touched: a directory is used only through a fresh subdirectory
//! that fsdyno creates, marks and removes.

pub mod directory;
pub mod error;
pub mod leftovers;
mod marker;
mod remove;

pub use directory::{Directory, Room, check};
pub use error::MediaError;
pub use leftovers::{Leftover, clean, leftovers};
