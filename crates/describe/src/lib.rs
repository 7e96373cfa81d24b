//! Descriptions for users: lists of available items, single items in full, and the parts that this host lacks.
//!
//! An item is shown as text or as JSON; lists and findings implement [`Output`](fsdyno_report::Output) and thus have
//! every format.

pub mod doctor;
pub mod list;
mod listing;
pub mod show;

pub use listing::Listing;
