//! Run one trial: prepare, phases, verify, tear down; PID 1 of the lab's guest; serve the disk.
//!
//! A plan comes in through the mailbox and a report goes out through it, in a guest and in a child
//! process of a host alike.

mod account;
mod acks;
mod age;
mod block_queue;
mod books;
mod entropy;
mod guest;
mod held;
mod host;
mod keeper;
mod kernel_log;
mod machine;
mod memory;
mod mount_info;
mod over_time;
mod process;
mod proven;
mod recover;
mod room;
mod said;
mod sampler;
mod serve_disk;
mod stuck;
mod target;
mod trial;

pub use guest::guest;
pub use host::host;
