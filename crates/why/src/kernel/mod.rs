//! The kernel's functions: where they lie, which layer they belong to, and what was executed in them.

pub mod kallsyms;
pub mod module;
pub mod names;
pub mod place;
pub mod tree;

pub use names::{Entrances, Function, Names, entrances};
pub use place::Calls;
pub use tree::{Counted, Frame, Task, trees};
