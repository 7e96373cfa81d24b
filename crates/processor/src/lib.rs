//! Processor profiles: the CPUs of the lab by name, their files, and the fit of a profile to a real machine.

mod catalog;
pub mod fit;
mod profile;

pub use catalog::{ProcessorError, find, names, parse, profile, text};
pub use profile::{CacheSizes, Errors, Profile, ProfileError};
