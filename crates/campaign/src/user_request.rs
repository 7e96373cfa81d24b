//! Resolves the request of a user, which may first need a recording, or name many kernels at once.

use std::path::Path;

use crate::failure::Failure;
use crate::{Experiment, RunSpec, crash, labs, recording, target};

/// Resolves and checks a request whose results are for this folder. Returns `None` for a dry run of a command that would
/// first be recorded.
///
/// # Errors
/// The first value that is invalid; a folder of crash tests; a command that cannot be recorded; a missing permission,
/// except for a dry run, which reports it together with the plan.
pub fn resolve(
    mut spec: RunSpec,
    folder: &Path,
    is_dry: bool,
) -> Result<Option<Experiment>, Failure> {
    crash::folder::refuse(folder)?;
    if recording::needs_recording(&spec) {
        match recording::record_for_replay(spec, folder, is_dry)? {
            Some(replayed) => spec = replayed,
            None => return Ok(None),
        }
    }
    let mut experiment = Experiment::resolve(spec)?;
    if let Some(kernels) = labs::expand_kernels(&experiment.spec.axes.kernels)? {
        experiment.spec.axes.kernels = kernels;
        experiment = Experiment::resolve(experiment.spec)?;
    }
    if !is_dry {
        target::check_permission(&experiment.requests)?;
    }
    Ok(Some(experiment))
}
