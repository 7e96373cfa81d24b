//! Phases that somebody else ends: a source is asked to finish when the time is up, or when another
//! rank has ended.

use fsdyno_record::Nanos;
use fsdyno_workload::{Op, OpSource};

use crate::board::Board;
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

/// The source of `rank` in a phase that ends with `last`; as it is where the phase does not, and for that
/// rank itself.
pub fn until<'a>(
    source: Box<dyn OpSource + Send + 'a>,
    board: &'a Board,
    rank: u32,
    last: Option<u32>,
) -> Box<dyn OpSource + Send + 'a> {
    match last.filter(|last| *last != rank) {
        Some(last) => Box::new(Until { source, board, last, asked: false }),
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

    fn unsupported(&mut self) -> bool {
        self.source.unsupported()
    }

    fn done(&self) -> u64 {
        self.source.done()
    }
}

/// Looks before each op whether another rank has ended, which other phases are spared.
struct Until<'a> {
    source: Box<dyn OpSource + Send + 'a>,
    board: &'a Board,
    last: u32,
    asked: bool,
}

impl OpSource for Until<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if !self.asked && self.board.has_ended(self.last) {
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

    fn unsupported(&mut self) -> bool {
        self.source.unsupported()
    }

    fn done(&self) -> u64 {
        self.source.done()
    }
}
