//! Explanations of stored trials: their selection, their profiled runs, and the storage of explanations.

mod command;
mod explainer;
mod figures;
mod select;
mod sidecar;
mod steps;

pub use command::{WhyRequest, explain_result};
pub use explainer::Explainer;
pub use select::{pairs, select};
pub use steps::steps;
