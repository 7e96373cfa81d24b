//! The commands of a plan that may run: always those of the catalog, never those in the plan.
//!
//! A plan may come from someone else's file (`fsdyno why RESULT`, `fsdyno crash --replay FILE`). All uses of a plan's
//! command lines go through here: the agent's job, the programs of a guest, and the check that runs on this host.

use std::ops::Deref;

use fsdyno_filesystem::rederive;
use fsdyno_record::plan::FilesystemPlan;
use fsdyno_record::{Job, Plan};

use crate::error::VenueError;

/// A file system's command lines and environment, derived from the catalog.
#[derive(Clone, Debug)]
pub struct Commands(FilesystemPlan);

impl Commands {
    /// Derives the commands of a plan; none without a file system.
    ///
    /// # Errors
    /// A plan whose commands are not those of the catalog.
    pub fn of(plan: &Plan) -> Result<Option<Commands>, VenueError> {
        let Some(stored) = &plan.filesystem else { return Ok(None) };
        let commands = rederive(stored, &plan.medium, &plan.venue).map_err(|error| {
            VenueError::Refused(format!("the plan of '{}' cannot be run: {error}", plan.label))
        })?;
        Ok(Some(Commands(commands)))
    }
}

#[cfg(test)]
impl Commands {
    /// Wraps arbitrary commands, for tests.
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

/// Serializes a job for its agent, in the flat form.
///
/// # Errors
/// As [`Commands::of`].
pub fn text_of(mut job: Job) -> Result<Vec<u8>, VenueError> {
    job.plan.filesystem = Commands::of(&job.plan)?.map(|commands| commands.0);
    let job = job.flat().map_err(VenueError::Died)?;
    serde_json::to_vec(&job).map_err(|error| VenueError::Died(error.to_string()))
}
