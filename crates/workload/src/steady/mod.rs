//! A working set in a steady state: files created, deleted, read and written, with exact counts.

pub mod calls;
pub mod parts;
pub mod paths;
pub mod population;
pub mod totals;
pub mod tree;
