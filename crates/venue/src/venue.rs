//! What a venue is: it takes one job and gives what its agent reported.

use std::collections::BTreeMap;

use fsdyno_record::mailbox::Progress;
use fsdyno_record::trial::{AgentReport, Host};
use fsdyno_record::{Job, Plan};

use crate::error::VenueError;

/// Whether a trial that is being watched goes on, or is killed at once.
pub use fsdyno_lab::Watch;

/// Where trials run.
///
/// `Sync`, because several trials run side by side on threads of their own.
pub trait Venue: Sync {
    /// The identity of the lab that would run this plan, and what it was computed from; none on a
    /// host. Two runs may stand in one table of exact digits only if it is equal.
    ///
    /// # Errors
    /// What is missing to run it.
    fn identity(&self, plan: &Plan) -> Result<Option<Identity>, VenueError>;

    /// What the place itself gives to every trial of this plan, by the names of the conditions,
    /// where no identity tells it. A row holds trials of one ground only.
    ///
    /// # Errors
    /// A place that cannot be looked at.
    fn ground(&self, _plan: &Plan) -> Result<BTreeMap<String, String>, VenueError> {
        Ok(BTreeMap::new())
    }

    /// Runs one trial to its end; `watch` is called about every 20 ms.
    ///
    /// # Errors
    /// Why there is no report: something is missing, the trial died, or it was stopped.
    fn run(&self, job: &Job, watch: &mut dyn FnMut(&Progress) -> Watch) -> Result<Ran, VenueError>;
}

/// The identity of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Equal identities mean equal digits.
    pub lab_id: String,
    /// What it was computed from, by name.
    pub components: BTreeMap<String, String>,
}

/// A trial that came to its end, good or bad.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What the agent says.
    pub report: AgentReport,
    /// What depends on the host's speed.
    pub host: Host,
    /// The lab; none on a host.
    pub identity: Option<Identity>,
}
