//! The stonewall of a share in a worker.

use std::sync::Arc;

use fsdyno_engine::op_clock::OpClock;
use fsdyno_record::Nanos;
use fsdyno_workload::{Allowance, ItemLimit};

use super::link::State;
use crate::messages::{FromRank, Stopped};

/// A share's wall, at which it waits for rank 0.
pub(super) struct Stonewall {
    state: Arc<State>,
    thread: u32,
    limit: Nanos,
    /// The clock, and the time of the first op.
    running: Option<(OpClock, Nanos)>,
    reported: bool,
    max_items: Option<u64>,
}

impl Stonewall {
    pub(super) fn new(state: Arc<State>, thread: u32, limit: Nanos) -> Stonewall {
        Stonewall { state, thread, limit, running: None, reported: false, max_items: None }
    }

    fn report(&mut self, done: u64, at: Nanos) {
        if !std::mem::replace(&mut self.reported, true) {
            let stopped = Stopped { thread: self.thread, done, at };
            // If the connection is broken, the listening thread ends this process.
            let _ = self.state.send(&FromRank::Stonewall(stopped));
        }
    }
}

impl ItemLimit for Stonewall {
    fn begin(&mut self) {
        let mut clock = OpClock::start();
        let start = clock.now();
        self.running = Some((clock, start));
    }

    fn check(&mut self, done: u64, more: bool) -> Allowance {
        if let Some(max_items) = self.max_items {
            return Allowance { max_items, ..Allowance::UNLIMITED };
        }
        let Some((clock, start)) = &mut self.running else { return Allowance::UNLIMITED };
        let at = clock.now().since(*start);
        let start = *start;
        if !more {
            self.report(done, at);
            return Allowance::UNLIMITED;
        }
        // Each share does at least one item, so that the phases that follow have work.
        if done == 0 || at < self.limit {
            return Allowance::UNLIMITED;
        }
        self.report(done, at);
        // If all must stop, the share ends here.
        let max_items = self.state.wait_for_goal().map_or(done, |goal| goal.most);
        self.max_items = Some(max_items);
        let waited_until = match &mut self.running {
            Some((clock, _)) => clock.now().since(start),
            None => Nanos(0),
        };
        Allowance { max_items, waited_until }
    }
}
