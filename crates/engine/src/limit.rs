//! A phase with a limit of time: its source is asked to end when the time is up.

use fsdyno_record::Nanos;
use fsdyno_workload::{Op, OpSource};

use crate::op_clock::OpClock;

/// The source of a phase, as it is where the phase ends by itself.
pub fn limited<'a>(
    source: Box<dyn OpSource + Send + 'a>,
    limit: Option<Nanos>,
) -> Box<dyn OpSource + Send + 'a> {
    match limit {
        Some(limit) => Box::new(Limited { source, limit, running: None, asked: false }),
        None => source,
    }
}

/// Reads the clock before each op, which other phases are spared; the time begins with the first.
struct Limited<'a> {
    source: Box<dyn OpSource + Send + 'a>,
    limit: Nanos,
    /// The clock, and when the time is up.
    running: Option<(OpClock, Nanos)>,
    asked: bool,
}

impl Limited<'_> {
    fn is_up(&mut self) -> bool {
        let limit = self.limit;
        let (clock, end) = self.running.get_or_insert_with(|| {
            let mut clock = OpClock::start();
            let end = clock.now() + limit;
            (clock, end)
        });
        clock.now() >= *end
    }
}

impl OpSource for Limited<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if !self.asked && self.is_up() {
            self.finish();
        }
        self.source.next(op)
    }

    fn finish(&mut self) {
        self.asked = true;
        self.source.finish();
    }

    fn full(&mut self) -> bool {
        self.source.full()
    }

    fn done(&self) -> u64 {
        self.source.done()
    }
}
