//! Children that cannot outlive us, and nameless memory shared with them.
//!
//! Whatever happens to this process, SIGKILL too, nothing is left of either.

pub mod memory;
pub mod orphans;
pub mod process;

pub use memory::{Mapped, SharedMailbox, memory_file};
pub use process::{Ended, Process};
