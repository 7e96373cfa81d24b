//! The kernel's functions: their addresses, their layers, and the instructions executed in them.

pub mod kallsyms;
pub mod module;
pub mod names;
pub mod place;
pub mod tree;

pub use names::{EntryPoints, Function, Names, entry_points};
pub use place::Calls;
pub use tree::{Counted, Frame, Task, trees};
