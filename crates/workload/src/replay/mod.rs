//! Recordings of programs, compiled on the host, as ops.

pub mod code;
pub mod format;
mod source;
mod tree;

pub use format::{Compiled, Section};
pub use source::{Options, Order, Source, Think};
pub use tree::FlatTree;
