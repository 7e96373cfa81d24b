//! Tests of the command line that run guests. Where the lab cannot run, they are skipped with the reason; with CI set
//! in the environment, that is a failure.

#[path = "../common/mod.rs"]
mod common;

mod cache;
mod clock;
mod cluster;
mod compare;
mod crash;
mod cut;
mod failures;
mod filesystems;
mod full;
mod identity;
mod images;
mod issuers;
mod kernels;
mod network;
mod options;
mod processor;
mod replay;
mod resumed;
mod trials;
mod why;
