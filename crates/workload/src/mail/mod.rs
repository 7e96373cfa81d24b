//! Mail as files: messages, their names, and the calls that deliver and read them.

pub mod contradictions;
pub mod job;
pub mod layout;
pub mod messages;
pub mod names;
pub mod operations;
pub mod params;
pub mod protocol;
pub mod reading;
pub mod runner;
pub mod step;
pub mod store;
pub mod tree;
