//! Explains where the time of a trial went.
//!
//! The disk's side: every request in a trial's log is attributed to the file-system structure that it touches
//! ([`account`]), with maps made by the file system's own tools ([`map`]). The processor's side: the instructions
//! counted in a second pass are attributed to the kernel's functions ([`kernel`]). This crate does not run the guest,
//! which provides the log, the images and the counts, and shows nothing itself: showing results is the report's task.

pub mod account;
pub mod explained;
pub mod functions;
pub mod grid;
pub mod kernel;
pub mod map;
pub mod sentences;
pub mod stored;
pub mod time;

pub use account::{Account, Cause, FsDevices, Key, Place, StageMap, Sum};
pub use explained::{Access, Explained, FunctionRow, Log, Phase, Row};
pub use grid::Grid;
pub use map::{Map, MapError, Structure};
pub use stored::StoredExplanation;
