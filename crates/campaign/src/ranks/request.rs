//! The request for trials that several processes share.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use fsdyno_ranks::Group;
use fsdyno_ranks::ssh::Host;
use fsdyno_record::Nanos;
use fsdyno_record::plan::RanksPlan;

/// The processes that a user requests, and how they share the work.
#[derive(Clone, Debug, Default)]
pub struct RanksOptions {
    /// `Some` if a launcher started the processes; the inner value is their number, for launchers that do not state it.
    pub ranks: Option<Option<u32>>,
    /// The hosts on which fsdyno starts the processes itself.
    pub hosts: Option<Vec<Host>>,
    /// The path of fsdyno on those hosts, if it differs from that on this host.
    pub hosts_program: Option<PathBuf>,
    /// True if each rank does the whole workload in its own directory.
    pub own: bool,
    /// The number of places by which the items of ranks are shifted from phase to phase.
    pub shift: u32,
    /// The time after which all ranks end a phase at the items of the fastest.
    pub stonewall: Option<Nanos>,
}

/// The processes of a command and what they share.
#[derive(Clone, Debug)]
pub struct RanksRequest {
    /// The part that plans contain.
    pub plan: RanksPlan,
    /// The processes, once they have found each other.
    pub group: Arc<OnceLock<Arc<Group>>>,
}

impl RanksRequest {
    /// Creates a request whose processes have not found each other yet.
    pub fn new(plan: RanksPlan) -> RanksRequest {
        RanksRequest { plan, group: Arc::default() }
    }
}
