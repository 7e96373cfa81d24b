//! Explanations of stored trials: their selection, a second run under observation, and where explanations are kept.

mod command;
mod explainer;
mod figures;
mod select;
mod sidecar;
mod steps;

pub use command::{WhyRequest, why};
pub use explainer::Explainer;
pub use select::{check_phase, pairs, select};
pub use steps::steps;
