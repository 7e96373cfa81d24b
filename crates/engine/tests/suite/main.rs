//! Tests of the engine on a directory of this host, through the public interface.

#[path = "../script/mod.rs"]
mod script;

mod archive;
mod engine;
mod limit;
mod memory_fs;
mod threads;
mod tree;
mod uring;
mod verify;
mod whole_workloads;
