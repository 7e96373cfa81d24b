//! The search for the best options of a file system.
//!
//! A [`Space`] lists the options worth trying. [`search()`] asks an [`Evaluator`] for the times of points of the space,
//! and returns the recommended point with the worth of each option and a certificate, which states which part of the
//! space is excluded and on what evidence. This crate itself runs no trials.

mod certificate;
mod design;
mod effects;
mod evaluations;
mod linear;
mod model;
mod related_workloads;
mod search;
mod settings;
pub mod space;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod synthetic;

pub use certificate::{Certificate, DEVIATIONS, Evidence, Excluded};
pub use effects::{Effect, Interaction};
pub use evaluations::{Evaluator, Sample};
pub use related_workloads::{RelatedWorkloads, related_workloads};
pub use search::{Measured, SearchError, SearchResult, least_trials, search};
pub use settings::Settings;
pub use space::{AcceptedLoss, Configuration, Loss, Point, Space, SpaceError};
