//! Child processes that die with their parent, CPU leases for them, and memory shared with them.
//!
//! None of them outlives this process, even if SIGKILL ends it.

pub mod cpu_lease;
pub mod memory;
pub mod orphans;
pub mod process;

pub use cpu_lease::CpuLease;
pub use memory::{Mapped, SharedMailbox, memory_file, sealed_file};
pub use process::{Process, ProcessOutcome};
