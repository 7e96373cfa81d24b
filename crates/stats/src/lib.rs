//! Statistical functions on plain numbers, with a source for every constant; nothing in this crate depends on trials.

pub mod bootstrap;
pub mod compare;
pub mod consistency;
pub mod describe;
pub mod drift;
pub mod estimate;
pub mod growth;
pub mod holm;
pub mod interval;
pub mod levels;
pub mod normal;
pub mod outlier;
pub mod permutation;
pub mod plan;
pub mod power;
pub mod proportion;
pub mod student;
pub mod warmup;

pub use estimate::Estimate;
pub use interval::Summary;
