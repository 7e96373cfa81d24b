//! The commands of a plan that may run: always those of the catalog, never the ones in the plan.
//!
//! A plan may come from another user's file (`fsdyno why RESULT`, `fsdyno crash --replay FILE`). All uses of a plan's
//! command lines go through here: the agent's job, the programs of a guest, and the check that runs on this host.

use std::ops::Deref;

use fsdyno_filesystem::rederive;
use fsdyno_record::job::Task;
use fsdyno_record::plan::FilesystemPlan;
use fsdyno_record::{Job, Plan};
use fsdyno_workload::workloads::command;

use crate::error::VenueError;

/// A file system's command lines and environment, derived from the catalog.
#[derive(Clone, Debug)]
pub struct Commands(FilesystemPlan);

impl Commands {
    /// Derives the commands of a plan; `None` for a plan without a file system.
    ///
    /// # Errors
    /// A plan whose commands are not those of the catalog.
    pub fn derive(plan: &Plan) -> Result<Option<Commands>, VenueError> {
        let Some(stored) = &plan.filesystem else { return Ok(None) };
        let commands = rederive(stored, &plan.medium, &plan.venue).map_err(|error| {
            VenueError::Refused(format!("the plan of '{}' cannot be run: {error}", plan.label))
        })?;
        Ok(Some(Commands(commands)))
    }
}

#[cfg(test)]
impl Commands {
    /// Wraps arbitrary commands for tests.
    pub fn unchecked(plan: FilesystemPlan) -> Commands {
        Commands(plan)
    }
}

impl Deref for Commands {
    type Target = FilesystemPlan;

    fn deref(&self) -> &FilesystemPlan {
        &self.0
    }
}

/// Refuses a plan whose workload is a user's command; only the command line that specified the command may run it.
///
/// # Errors
/// The plan has the workload `command`.
pub fn refuse_user_command(plan: &Plan) -> Result<(), VenueError> {
    let workload = &plan.workload;
    if workload.name != command::NAME {
        return Ok(());
    }
    let line = workload.params.get("command").map_or("", String::as_str);
    let label = &plan.label;
    Err(VenueError::Refused(format!(
        "the plan of '{label}' cannot be run: {}",
        command::refusal(line)
    )))
}

/// Serializes a job for its agent, in the flat form.
///
/// # Errors
/// As [`Commands::derive`] and, except for a job of the command line, [`refuse_user_command`].
pub fn serialize_job(mut job: Job) -> Result<Vec<u8>, VenueError> {
    if job.task != Task::Command {
        refuse_user_command(&job.plan)?;
    }
    job.plan.filesystem = Commands::derive(&job.plan)?.map(|commands| commands.0);
    let job = job.into_flat().map_err(VenueError::Failed)?;
    serde_json::to_vec(&job).map_err(|error| VenueError::Failed(error.to_string()))
}
