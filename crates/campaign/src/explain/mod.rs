//! Explanations: which stored trials they are of, and their second run under observation.

mod explainer;
mod select;
mod steps;

pub use explainer::Explainer;
pub use select::{check_phase, pairs, select};
pub use steps::steps;
