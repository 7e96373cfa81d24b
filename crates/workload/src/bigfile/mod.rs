//! Machinery of the workload `bigfile`: what lies where in the file, and who writes and reads it.

pub mod ops;
pub mod places;
