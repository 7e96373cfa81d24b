//! Why a trial took its time.
//!
//! The disk's side: every request of a trial's log is put to the structure of the file system that it
//! touches ([`account`]), by maps that the file system's own tools make ([`map`]). The processor's side:
//! what a second pass counted, instruction by instruction, is put to the kernel's functions
//! ([`kernel`]). Nothing here runs a guest; what does hands over the log, the images and the counts. Nor is
//! anything shown here: that is the report's.

pub mod account;
pub mod explained;
pub mod functions;
pub mod grid;
pub mod kernel;
pub mod map;
pub mod say;
pub mod stored;
pub mod time;

pub use account::{Account, Cause, Ground, Key, Moment, Place, Sum};
pub use explained::{Explained, FunctionRow, Log, Phase, Row};
pub use grid::Grid;
pub use map::{Map, MapError, Structure};
pub use stored::Told;
