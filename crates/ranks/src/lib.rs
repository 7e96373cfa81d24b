//! Processes on one or several hosts that share a trial: ranks.
//!
//! A launcher starts one process for each rank ([`launcher`]). The processes find each other by the launcher's
//! key-value store or by a file in the shared directory ([`meet`]), and prove to each other that they belong to the
//! same run ([`secret`]). Rank 0 coordinates them over TCP ([`Group`]). A child process of each rank, the worker
//! ([`work`]), issues its calls, so that the rank can still report that its worker was killed or hangs in the kernel.

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
mod input;
mod messages;
mod pmi;
mod processors;
mod wire;
mod worker;

pub use group::{Group, GroupError, Timeouts, Trial};
pub use input::TrialInput;
pub use launcher::{Kind, Position};
pub use meet::Meeting;
pub use worker::{Join, work};
