//! Records the calls of a process with BPF: small programs that the kernel runs at its tracepoints.
//!
//! They write each call with its arguments and result to a ring buffer ([`ring`]), which this process reads a little
//! later. No thread is stopped, and the recorder need not have started the process. The file that a path meant at the
//! time of the call follows from the names at the start and the calls since then ([`names`], [`walk`]). After that, a
//! call is recorded like one that the code injected into a program saw.

mod asm;
mod btf;
mod calls;
mod command;
mod descriptors;
mod files;
mod kernel;
pub mod layout;
pub mod names;
pub mod parts;
mod place;
mod process;
mod program;
mod read;
mod ring;
mod session;
mod shapes;
mod stop;
mod walk;

pub use command::record_command;
pub use process::{Bounds, attach, directory_of};
pub use read::read_names;
pub use session::Session;
