//! Plain data that crosses a boundary: plan, job, trial record, mailbox, units, schema version.
//!
//! The inside of a trial (agent over engine, workload, disk, file system) and the code around trials (study over venue,
//! lab, media; report over stats) meet only here.

pub mod acks;
pub mod age;
pub mod agent;
pub mod bounded;
pub mod build;
pub mod canonical;
pub mod guest;
pub mod histogram;
pub mod job;
pub mod lines;
pub mod mailbox;
pub mod mount_table;
pub mod op;
pub mod plan;
pub mod processor;
pub mod quote;
pub mod ranks;
pub mod repeats;
#[cfg(feature = "schema")]
mod schema;
pub mod seed;
pub mod series;
pub mod shared;
pub mod shell;
pub mod stages;
pub mod suggest;
pub mod trial;
pub mod units;
pub mod value_pool;

pub use build::Build;
pub use histogram::Histogram;
pub use job::Job;
pub use op::{Moved, OnDevice, OpKind};
pub use plan::Plan;
pub use repeats::Repeats;
pub use shared::Shared;
pub use trial::Trial;
pub use units::{Bytes, Count, Nanos};

/// Version of the schema of records; a reader refuses versions newer than this one.
pub const SCHEMA: u32 = 2;
