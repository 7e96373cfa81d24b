//! Trials that several processes share: the request and its checks, and this process as one of them.

mod check;
mod process;
mod refusal;
mod request;

pub(crate) use check::{check, check_workload, for_all_ranks};
pub use process::{RankProcess, work};
pub use refusal::report_refusal;
pub use request::{RanksOptions, RanksRequest};
