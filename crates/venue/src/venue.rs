//! The trait of venues, which run a job and return its agent's report.

use std::collections::BTreeMap;

use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::{AgentReport, Host};
use fsdyno_record::{Job, Plan};

use crate::error::VenueError;

/// The decision of a watcher: the trial continues, or is killed immediately.
pub use fsdyno_lab::Watch;

/// A venue, which executes trials.
///
/// It is `Sync` because several trials run in parallel, each on its own thread.
pub trait Venue: Sync {
    /// Returns the identity of the lab that would run this plan, and its components; `None` on a host. Exact results of
    /// two runs may be compared only if their identities are equal.
    ///
    /// # Errors
    /// Something that the plan needs is missing.
    fn identity(&self, plan: &Plan) -> Result<Option<Identity>, VenueError>;

    /// Returns the key of the snapshot that a trial of this plan resumes from, if a guest has to boot first to save it.
    ///
    /// # Errors
    /// Something that the plan needs is missing.
    fn missing_snapshot(&self, _plan: &Plan) -> Result<Option<String>, VenueError> {
        Ok(None)
    }

    /// Returns the host fingerprint of every trial of this plan, keyed by the names of the conditions, or empty if an
    /// identity covers it. All trials of a configuration have the same fingerprint.
    ///
    /// # Errors
    /// The target cannot be inspected.
    fn fingerprint(&self, _plan: &Plan) -> Result<BTreeMap<String, String>, VenueError> {
        Ok(BTreeMap::new())
    }

    /// Runs one trial to its end; `watch` is called about every 10 to 20 ms.
    ///
    /// # Errors
    /// Something is missing, the trial died, or it was stopped.
    fn run(
        &self,
        job: &Job,
        watch: &mut dyn FnMut(&Progress) -> Watch,
    ) -> Result<FinishedTrial, VenueError>;
}

/// The identity of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The hash; equal identities mean bit-identical results.
    pub lab_id: String,
    /// The inputs of the hash, by name.
    pub components: BTreeMap<String, String>,
}

/// A trial that ended with a report, successful or failed.
#[derive(Clone, Debug)]
pub struct FinishedTrial {
    /// The agent's report.
    pub report: AgentReport,
    /// The values that depend on the host's speed.
    pub host: Host,
    /// The identity of the lab; `None` on a host.
    pub identity: Option<Identity>,
}
