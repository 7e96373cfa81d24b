//! Another issuer's calls, with a note of when each op came back.

use fsdyno_record::acks::RankAcks;
use fsdyno_workload::Op;

use crate::clock;
use crate::issue::Issuer;
use crate::run::{Failure, Meter};

/// Makes calls by another issuer. The note takes some hundred instructions after each op, which are
/// part of its latency; it is for trials that are looked into and not for those that are compared.
#[derive(Debug)]
pub struct Acked<I> {
    calls: I,
    line: RankAcks,
}

impl<I> Acked<I> {
    /// The calls of `calls`, noted in `line`.
    pub fn new(calls: I, line: RankAcks) -> Acked<I> {
        Acked { calls, line }
    }
}

impl<I: Issuer> Issuer for Acked<I> {
    fn issue(&mut self, op: &Op) -> i64 {
        let answer = self.calls.issue(op);
        self.line.returned(clock::now());
        answer
    }

    /// One op of the generator is one note, whatever it expands to.
    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self.calls.expand(op, meter)?;
        self.line.returned(clock::now());
        Ok(())
    }

    fn thinks(&self) -> bool {
        self.calls.thinks()
    }

    fn path_of(&self, op: &Op) -> String {
        self.calls.path_of(op)
    }
}
