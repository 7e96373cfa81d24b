//! Implementation of the workload `postmark`: PostMark's configuration, random stream, table of files and calls.

pub mod config;
pub mod mt19937;
pub mod ops;
pub mod pool;
pub mod stdio;
pub mod tree;
