//! The ops of recorded programs, from recordings that are compiled on the host.

pub mod code;
pub mod format;
mod phases;
mod source;
mod tree;

pub use format::{Boundary, Compiled, Section};
pub use phases::{Part, Split, parts};
pub use source::{Options, Order, Source, Think};
pub use tree::FlatTree;
