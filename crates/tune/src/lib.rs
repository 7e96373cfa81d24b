//! The search for the best options of a file system.
//!
//! A [`Space`] has the options worth trying, as data. [`search()`] asks an [`Evaluator`] for the times of its points,
//! and returns the recommended point with the worth of each option and a certificate: which part of the space is
//! excluded, on what evidence. This crate itself runs no trials.

mod certificate;
mod design;
mod effects;
mod evaluations;
mod linear;
mod model;
mod related_work;
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
pub use related_work::{RelatedWork, related_work};
pub use search::{Measured, SearchError, SearchResult, least_trials, search};
pub use settings::Settings;
pub use space::{AcceptedLoss, Configuration, Loss, Point, Space, SpaceError};
