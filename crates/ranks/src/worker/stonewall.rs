//! The stonewall of a share in a worker.

use std::sync::Arc;

use fsdyno_engine::op_clock::OpClock;
use fsdyno_record::Nanos;
use fsdyno_workload::{ItemLimit, Pass};

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
    most: Option<u64>,
}

impl Stonewall {
    pub(super) fn new(state: Arc<State>, thread: u32, limit: Nanos) -> Stonewall {
        Stonewall { state, thread, limit, running: None, reported: false, most: None }
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

    fn pass(&mut self, done: u64, more: bool) -> Pass {
        if let Some(most) = self.most {
            return Pass { most, ..Pass::GO_ON };
        }
        let Some((clock, start)) = &mut self.running else { return Pass::GO_ON };
        let at = clock.now().since(*start);
        let start = *start;
        if !more {
            self.report(done, at);
            return Pass::GO_ON;
        }
        // Each share does at least one item, so that the phases that follow have work.
        if done == 0 || at < self.limit {
            return Pass::GO_ON;
        }
        self.report(done, at);
        // If all must stop, the share ends here.
        let most = self.state.wait_for_goal().map_or(done, |goal| goal.most);
        self.most = Some(most);
        let waited_until = match &mut self.running {
            Some((clock, _)) => clock.now().since(start),
            None => Nanos(0),
        };
        Pass { most, waited_until }
    }
}
