//! Pure statistics of trials, every constant with its source.

pub mod bootstrap;
pub mod compare;
pub mod consistency;
pub mod describe;
pub mod drift;
pub mod estimate;
mod flag;
pub mod growth;
pub mod holm;
pub mod interval;
pub mod levels;
pub mod measure;
pub mod normal;
pub mod outlier;
pub mod permutation;
pub mod plan;
pub mod power;
pub mod proportion;
pub mod student;
pub mod validity;
pub mod warmup;

pub use estimate::Estimate;
pub use interval::Summary;
