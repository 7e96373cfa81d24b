//! Crash tests: workloads run once, their power is cut many times, and what survives is judged.

pub mod folder;
pub mod replay;
mod run;
pub mod stored;
mod test;

pub use run::{CrashRun, Cuts, Tested};
pub use test::{CrashTest, check, job};
