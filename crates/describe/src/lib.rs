//! Descriptions for users: lists of available items, single items in full, and what this host lacks.
//!
//! An item is shown as text or as JSON; lists and findings are an [`Output`](fsdyno_report::Output) in every format.

pub mod doctor;
pub mod list;
mod listing;
pub mod show;

pub use listing::Listing;
