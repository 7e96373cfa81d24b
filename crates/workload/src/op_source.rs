//! Streams of ops.

use std::collections::BTreeMap;

use crate::differences::Differences;
use crate::op::Op;

/// Work done in a phase, in the workload's own units, such as `files read` or `transactions`. The name
/// of a unit ends in `bytes` if and only if it counts bytes.
pub type WorkUnits = BTreeMap<&'static str, u64>;

/// A stream of ops. The caller passes the same `Op` each time.
pub trait OpSource {
    /// Rewrites `op` as the next op; returns false at the end.
    fn next(&mut self, op: &mut Op) -> bool;

    /// Requests an early end because the phase's time is up: the source continues until all its files
    /// are closed and its current work is complete, then [`OpSource::next`] returns false. Only a
    /// source of a phase with a [`Workload::limit`](crate::Workload::limit), or one that ends by
    /// [`Workload::ends_with`](crate::Workload::ends_with), reacts.
    fn finish(&mut self) {}

    /// Handles the failure of the last op for lack of space (ENOSPC); returns true if the phase is
    /// meant to end this way. Then the op counts as not done, and the ops that follow clean up.
    fn handle_full(&mut self) -> bool {
        false
    }

    /// Handles the failure of the last op because the file system does not support it (EOPNOTSUPP); returns true
    /// if there is an alternative. Then the op counts as not done, and the ops that follow use the alternative.
    fn handle_unsupported(&mut self) -> bool {
        false
    }

    /// Handles a result of the last op that [`Op::expect`] does not allow: a negative error number, or the return
    /// value. Returns true if the phase continues; then the op counts as done.
    fn handle_difference(&mut self, _op: &Op, _result: i64) -> bool {
        false
    }

    /// Returns the ops with unexpected results, for a source that continues after them.
    fn differences(&mut self) -> Differences {
        Differences::default()
    }

    /// Returns the amount of work done in the phase, in the units that
    /// [`Workload::tree_after`](crate::Workload::tree_after) and similar methods expect; valid once [`OpSource::next`]
    /// has returned false.
    fn done(&self) -> u64 {
        0
    }
}

/// A source without ops: the share of a rank that has nothing to do.
#[derive(Clone, Copy, Debug)]
pub struct NoOps;

impl OpSource for NoOps {
    fn next(&mut self, _: &mut Op) -> bool {
        false
    }
}
