//! Records the calls of programs by BPF: small programs that the kernel runs at its tracepoints.
//!
//! They put each call with its arguments and result into a ring ([`ring`]), from which this process takes them some time
//! later. So nothing is stopped, and a program need not be started by the recorder. What a path meant at the time of
//! the call is known from the names at the start and from the calls since then ([`names`], [`walk`]); from there on a
//! call is recorded like one that was seen inside a program.

mod asm;
mod btf;
mod calls;
mod files;
mod kernel;
mod layout;
pub mod names;
pub mod parts;
mod process;
mod program;
mod ring;
mod session;
mod shapes;
mod walk;

pub use process::{Bounds, attach, directory_of};
pub use session::{Session, command, read_names};
