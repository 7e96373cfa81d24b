//! The request for trials that several processes share.

use std::sync::{Arc, OnceLock};

use fsdyno_ranks::Group;
use fsdyno_record::plan::RanksPlan;

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
