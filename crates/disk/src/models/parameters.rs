//! The interface of a model's parameters: their ranges, the maximum rates, and the disk built from them.

use super::Model;
use crate::disk::Disk;
use crate::limits::Limits;
use crate::spec::{Check, DiskSpec, SpecError};

/// The parameters of a model, as in a disk profile.
pub(crate) trait Parameters {
    /// Checks that the parameters are in range.
    ///
    /// # Errors
    /// [`SpecError::Parameter`] for the first that is not in range.
    fn check(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError>;

    /// Returns the maximum rates, or `None` if requests take no time.
    fn limits(&self) -> Option<Limits>;

    /// Builds an idle disk.
    fn build(&self, spec: &DiskSpec, seed: u64) -> Box<dyn Disk>;

    /// Returns the same model as if the whole disk had been overwritten at random, if it can start in that state.
    fn preconditioned(&self) -> Option<Model> {
        None
    }
}

impl Model {
    /// Returns the maximum rates, or `None` if requests take no time.
    pub fn limits(&self) -> Option<Limits> {
        self.parameters().limits()
    }

    /// Returns true if requests take time.
    pub fn takes_time(&self) -> bool {
        self.limits().is_some()
    }

    pub(crate) fn check(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError> {
        self.parameters().check(spec, check)
    }

    pub(crate) fn build(&self, spec: &DiskSpec, seed: u64) -> Box<dyn Disk> {
        self.parameters().build(spec, seed)
    }

    pub(crate) fn preconditioned(&self) -> Option<Model> {
        self.parameters().preconditioned()
    }
}

/// Builds an idle disk, with a rotational position drawn from `seed`.
///
/// The spec must be valid ([`DiskSpec::validate`]); the times of an invalid one are
/// meaningless.
pub fn build(spec: &DiskSpec, seed: u64) -> Box<dyn Disk> {
    spec.model.build(spec, seed)
}
