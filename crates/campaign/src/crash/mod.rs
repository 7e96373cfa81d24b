//! Crash tests: a workload runs once, its power is cut many times, and what survives is judged.

pub mod folder;
mod test;

pub use test::{CrashTest, check, job};
