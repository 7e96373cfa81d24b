//! Machinery of the workload `tenant`: which files there are, the rounds of tenants, and what they leave.

pub mod files;
pub mod rounds;
pub mod tree;
