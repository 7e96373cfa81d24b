//! Tests of the workloads.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

mod all;
mod archive;
mod archives;
mod bad_values;
mod bigfile;
mod bonnie;
mod capacity;
mod churn;
mod corpus;
mod everyday;
mod fdtree;
mod mail;
mod mail_reading;
mod mail_real;
mod many_files;
mod memory;
mod postmark;
mod postmark_real;
mod reference;
mod source_tree;
mod tenant;
mod wall;
