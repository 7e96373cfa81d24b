//! Media of file systems: directory, loop device, RAM, block device.
//!
//! The user's data is never touched: a directory is used only through a new subdirectory that fsdyno
//! creates, marks and removes; a drive that is probed is opened read-only; a drive is formatted only
//! if [`block`] finds it unused, without signatures and confirmed by its serial number.

pub mod block;
pub mod device;
pub mod directory;
pub mod ephemeral;
pub mod error;
pub mod file;
mod kind;
pub mod leftovers;
mod loop_file;
pub mod loops;
pub mod mark;
mod marker;
mod note;
pub mod probed;
pub mod process;
mod ram;
mod remove;
mod walk;

pub use block::BlockError;
pub use device::Device;
pub use directory::{Directory, Room, check};
pub use ephemeral::EphemeralMedium;
pub use error::MediaError;
pub use leftovers::{Leftover, clean, leftovers};
pub use mark::Mark;
pub use marker::ROOT as TREE;
pub use note::Note;
pub use probed::{ProbeError, Probed};
pub use walk::NewFolder;
