//! A working set in a steady state: files born and gone, read and written, with exact books.

pub mod account;
pub mod calls;
pub mod names;
pub mod parts;
pub mod population;
pub mod tree;
