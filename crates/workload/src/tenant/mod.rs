//! Implementation of the workload `tenant`: the files, the rounds of tenants, and the tree after them.

pub mod files;
pub mod rounds;
pub mod tree;
