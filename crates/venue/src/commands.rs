//! The commands of a plan that may run: those of the catalog, whatever the plan itself says.
//!
//! A plan may come from a file that somebody else wrote (`fsdyno why RESULT`, `fsdyno crash --replay FILE`). All
//! that is made of a plan's command lines goes through here: what an agent is given, which programs a guest gets, and
//! the check that runs on this host.

use std::ops::Deref;

use fsdyno_filesystem::rederive;
use fsdyno_record::plan::FilesystemPlan;
use fsdyno_record::{Job, Plan};

use crate::error::VenueError;

/// A file system's command lines and environment, derived from the catalog.
#[derive(Clone, Debug)]
pub struct Commands(FilesystemPlan);

impl Commands {
    /// Derives them for a plan; none where nothing is made.
    ///
    /// # Errors
    /// A plan with others than the catalog has.
    pub fn of(plan: &Plan) -> Result<Option<Commands>, VenueError> {
        let Some(stored) = &plan.filesystem else { return Ok(None) };
        let commands = rederive(stored, &plan.medium).map_err(|error| {
            VenueError::Refused(format!("the plan of '{}' cannot be run: {error}", plan.label))
        })?;
        Ok(Some(Commands(commands)))
    }
}

#[cfg(test)]
impl Commands {
    /// What no catalog has.
    pub fn made_up(plan: FilesystemPlan) -> Commands {
        Commands(plan)
    }
}

impl Deref for Commands {
    type Target = FilesystemPlan;

    fn deref(&self) -> &FilesystemPlan {
        &self.0
    }
}

/// A job as its agent reads it.
///
/// # Errors
/// As [`Commands::of`].
pub fn text_of(mut job: Job) -> Result<Vec<u8>, VenueError> {
    job.plan.filesystem = Commands::of(&job.plan)?.map(|commands| commands.0);
    serde_json::to_vec(&job).map_err(|error| VenueError::Died(error.to_string()))
}
