//! Explanations: which stored trials they are of, and their second run under observation.

mod explainer;
mod select;

pub use explainer::Explainer;
pub use select::{check_phase, pairs, select};
