//! Disk models, write cache, queue and store: pure, in virtual time, no I/O.
//!
//! A disk of the catalog is one file ([`spec`], [`catalog`]); its law of service times is one
//! file below `models/`; the bytes it holds lie in a [`store`]. Whoever serves the disk tells it
//! the time with every call, so the same calls give the same answers on every machine.

pub mod array;
mod cache;
pub mod catalog;
pub mod disk;
pub mod fit;
mod geometry;
pub mod limits;
pub mod log;
pub mod model;
mod models;
pub mod partition;
pub mod profile;
mod queue;
mod read_cache;
pub mod spec;
pub mod store;

pub use disk::{Action, Disk, Request, build};
pub use partition::Partition;
pub use spec::{Attach, DiskSpec, Queue, WriteCache};
pub use store::Store;

/// Bytes in a sector, the unit of every address that a [`Request`] carries.
pub const SECTOR: u64 = 512;
