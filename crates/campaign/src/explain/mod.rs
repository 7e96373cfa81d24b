//! Explanations: which stored trials they are of, their second run under observation, and where they are kept.

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
