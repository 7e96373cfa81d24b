//! Sources that finish early: after a time limit, or when another rank has ended.

use fsdyno_record::Nanos;
use fsdyno_workload::{Op, OpSource};

use crate::op_clock::OpClock;
use crate::progress::PhaseProgress;

/// Adds a time limit to a source, if the phase has one.
pub fn with_time_limit<'a>(
    source: Box<dyn OpSource + Send + 'a>,
    limit: Option<Nanos>,
) -> Box<dyn OpSource + Send + 'a> {
    match limit {
        Some(limit) => Box::new(TimeLimited { source, limit, deadline: None, finishing: false }),
        None => source,
    }
}

/// Makes the source of `rank` finish when rank `last` has ended, if the phase ends that way and `rank` is a different
/// rank.
pub fn until_rank_ends<'a>(
    source: Box<dyn OpSource + Send + 'a>,
    progress: &'a PhaseProgress,
    rank: u32,
    last: Option<u32>,
) -> Box<dyn OpSource + Send + 'a> {
    match last.filter(|last| *last != rank) {
        Some(last) => Box::new(RankLimited { source, progress, last, finishing: false }),
        None => source,
    }
}

/// A source with a time limit, which starts at the first op; only such a source reads the clock before each op.
struct TimeLimited<'a> {
    source: Box<dyn OpSource + Send + 'a>,
    limit: Nanos,
    /// The clock and the deadline.
    deadline: Option<(OpClock, Nanos)>,
    finishing: bool,
}

impl TimeLimited<'_> {
    fn has_expired(&mut self) -> bool {
        let limit = self.limit;
        let (clock, end) = self.deadline.get_or_insert_with(|| {
            let mut clock = OpClock::start();
            let end = clock.now() + limit;
            (clock, end)
        });
        clock.now() >= *end
    }
}

impl OpSource for TimeLimited<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if !self.finishing && self.has_expired() {
            self.finish();
        }
        self.source.next(op)
    }

    fn finish(&mut self) {
        self.finishing = true;
        self.source.finish();
    }

    fn handle_full(&mut self) -> bool {
        self.source.handle_full()
    }

    fn handle_unsupported(&mut self) -> bool {
        self.source.handle_unsupported()
    }

    fn done(&self) -> u64 {
        self.source.done()
    }
}

/// A source that finishes when another rank has ended; only such a source checks for that before each op.
struct RankLimited<'a> {
    source: Box<dyn OpSource + Send + 'a>,
    progress: &'a PhaseProgress,
    last: u32,
    finishing: bool,
}

impl OpSource for RankLimited<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if !self.finishing && self.progress.has_ended(self.last) {
            self.finish();
        }
        self.source.next(op)
    }

    fn finish(&mut self) {
        self.finishing = true;
        self.source.finish();
    }

    fn handle_full(&mut self) -> bool {
        self.source.handle_full()
    }

    fn handle_unsupported(&mut self) -> bool {
        self.source.handle_unsupported()
    }

    fn done(&self) -> u64 {
        self.source.done()
    }
}
