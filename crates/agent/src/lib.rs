//! Runs one trial: prepare, phases, verify, tear down; acts as PID 1 of the lab's guest; serves the disk.
//!
//! The mailbox passes the plan in and the report out, both in a guest and in a child process on a host.

mod account;
mod acks;
mod age;
mod block_queue;
mod cacheable;
mod child_signal;
mod entropy;
mod exit_status;
mod free_space;
mod guest;
mod held_device;
mod host;
mod keeper;
mod kernel_log;
mod machine;
mod memory;
mod mount_info;
mod output;
mod over_time;
mod process;
mod processor;
mod recover;
mod sampler;
mod serve_disk;
mod shared;
mod shell;
mod stuck;
mod target;
mod tool;
mod tree_hash;
mod trial;

pub use guest::guest;
pub use host::host;
