//! Power cuts: crash points, the disk images that they leave, and the oracle that judges the recovered file systems.
//!
//! A logged trial ([`fsdyno_disk::log::data`], [`fsdyno_record::acks`]) holds every byte written and the time at which
//! each op returned. [`cut`] draws crash points and surviving writes; [`image`] builds the disk that a cut leaves; a
//! guest mounts it and reports the tree that it finds ([`recovered`]); [`judge`] compares that tree with the ops done
//! ([`tree`]) and with the file system's durability guarantee ([`fsdyno_filesystem::Guarantee`]). All cuts of one file
//! system form a [`Row`] of the results. Nothing here reads a clock or does I/O.

mod atomic_unit;
mod content;
pub mod cut;
pub mod image;
pub mod judge;
mod recording_refusal;
pub mod recovered;
mod refusal;
mod replay;
pub mod request;
mod result;
pub mod tree;

pub use atomic_unit::{AtomicUnit, InvalidAtomicUnit};
pub use cut::{Cut, DiskFault, SurvivingWrites};
pub use judge::{Findings, judge};
pub use recovered::RecoveredTree;
pub use refusal::refusal;
pub use replay::{Replay, acknowledged};
pub use request::RecoveryRequest;
pub use result::{
    CutOutcome, Finding, PART_FILE, ROWS_FILE, Rate, Row, Unreadable, findings, rows,
};
