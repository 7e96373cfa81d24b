//! Crash tests: each workload runs once, power is cut at many points of that run, and the recovered state is judged.

mod clock;
pub mod folder;
mod observed;
pub mod part;
pub mod replay;
mod run;
pub mod stored;
mod test;

pub use run::{CrashRun, Cuts, Tested};
pub use test::{CrashTest, check, job};
