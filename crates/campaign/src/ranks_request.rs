//! The request of trials that several processes share.

use std::sync::{Arc, OnceLock};

use fsdyno_ranks::Group;
use fsdyno_record::plan::RanksPlan;

/// The processes of a command and what they share.
#[derive(Clone, Debug)]
pub struct RanksRequest {
    /// The part of plans.
    pub plan: RanksPlan,
    /// The processes, once they have come together.
    pub group: Arc<OnceLock<Arc<Group>>>,
}

impl RanksRequest {
    /// A request of processes that have not come together yet.
    pub fn new(plan: RanksPlan) -> RanksRequest {
        RanksRequest { plan, group: Arc::default() }
    }

    /// The end of a row's label.
    pub(crate) fn label(&self) -> String {
        let RanksPlan { ranks, own, shift, stonewall } = &self.plan;
        let own = if *own { ", own" } else { "" };
        let shift = if *shift > 0 { format!(", shift {shift}") } else { String::new() };
        let wall = stonewall.map(|limit| format!(", stonewall {limit}")).unwrap_or_default();
        let s = if *ranks == 1 { "" } else { "s" };
        format!(", {ranks} rank{s}{own}{shift}{wall}")
    }
}
