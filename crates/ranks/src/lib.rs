//! Processes on one or several hosts that share a trial: ranks.
//!
//! A launcher starts one process for each rank ([`launcher`]); they find each other by its key-value store or by a file
//! in the shared directory ([`meet`]), and prove to each other that they belong to one run ([`secret`]). Rank 0
//! coordinates them over TCP ([`Group`]). The calls of each rank are issued by a child process of it, the worker
//! ([`work`]), so that a rank whose worker is killed or hangs in the kernel can still say so.

pub mod cleanup;
pub mod launcher;
pub mod meet;
pub mod parent;
pub mod secret;
pub mod ssh;

mod address;
mod clocks;
mod frame;
mod group;
mod pmi;
mod wire;
mod worker;

pub use group::{Group, GroupError, Patience, Trial};
pub use launcher::{Kind, Position};
pub use meet::Meeting;
pub use worker::{Join, work};
