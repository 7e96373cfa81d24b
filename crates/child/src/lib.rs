//! Children that cannot outlive us, processors of their own, and nameless memory shared with them.
//!
//! Whatever happens to this process, SIGKILL too, nothing is left of either.

pub mod memory;
pub mod orphans;
pub mod process;
pub mod seat;

pub use memory::{Mapped, SharedMailbox, memory_file, sealed_file};
pub use process::{Ended, Process};
pub use seat::Seat;
