//! Power cuts: when they come, what the disk holds then, and what must be there afterwards.
//!
//! A logged trial ([`fsdyno_disk::log::data`], [`fsdyno_record::acks`]) tells every byte that was
//! written and when each op came back. [`cut`] chooses moments and what of the volatile cache
//! survives; [`image`] builds the disk that such a cut leaves; a guest brings it back and tells what
//! it found ([`found`]); [`judge`] compares that with what was done ([`tree`]) and with what the file
//! system promises ([`promise`]); what came of all cuts of a file system is a [`Row`]. Nothing here reads
//! a clock or does I/O.

mod content;
pub mod cut;
mod done;
pub mod found;
pub mod image;
pub mod judge;
pub mod order;
pub mod promise;
mod refusal;
mod result;
mod tear;
pub mod tree;

pub use cut::{Choice, Cut, Disk};
pub use done::{Done, acknowledged};
pub use found::Found;
pub use judge::{Findings, judge};
pub use order::Order;
pub use refusal::refusal;
pub use result::{FILE, Finding, Rate, Row, Tried, Unreadable, findings, rows};
pub use tear::{NoTear, Tear};
