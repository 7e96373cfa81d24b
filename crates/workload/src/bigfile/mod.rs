//! Implementation of the workload `bigfile`: the layout of the file and the ops on it.

pub mod layout;
pub mod ops;
