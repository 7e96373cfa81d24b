//! Disk models, write cache, queue and store: pure code in virtual time, without I/O.
//!
//! A disk of the catalog is one profile ([`spec`], [`catalog`]); each model of service times is one
//! folder in `models/`; a [`store`] holds the bytes. The disk's server passes the
//! time with every call, so the same calls give the same results on every machine.

pub mod array;
pub mod catalog;
pub mod disk;
pub mod fit;
pub mod limits;
pub mod log;
pub mod models;
pub mod partition;
pub mod profile;
pub mod spec;
pub mod store;

pub use disk::{Action, Disk, Request};
pub use models::parameters::build;
pub use partition::Partition;
pub use spec::{Attach, DiskSpec, Queue, WriteCache};
pub use store::Store;

/// Bytes in a sector, the unit of every address in a [`Request`].
pub const SECTOR: u64 = 512;
