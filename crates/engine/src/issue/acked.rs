//! An issuer that logs the return time of each op of another issuer.

use fsdyno_record::acks::RankAcks;
use fsdyno_workload::{Expect, Op};

use crate::clock;
use crate::failure::Failure;
use crate::issue::Issuer;
use crate::meter::Meter;

/// Wraps another issuer. Logging takes a few hundred instructions after each op, which are part of its latency; it is
/// for crash tests, not for trials that are compared.
#[derive(Debug)]
pub struct Acked<I> {
    calls: I,
    acks: RankAcks,
}

impl<I> Acked<I> {
    /// Creates an issuer that logs the calls of `calls` in `acks`.
    pub fn new(calls: I, acks: RankAcks) -> Acked<I> {
        Acked { calls, acks }
    }
}

impl<I: Issuer> Issuer for Acked<I> {
    fn issue(&mut self, op: &Op) -> i64 {
        let result = self.calls.issue(op);
        let fails = matches!(op.expect, Expect::Errno | Expect::Missing | Expect::Exists);
        self.acks.returned(clock::now(), result < 0 && !fails);
        result
    }

    /// Logs one return per op of the generator, whatever it expands to.
    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self.calls.expand(op, meter)?;
        self.acks.returned(clock::now(), false);
        Ok(())
    }

    fn thinks(&self) -> bool {
        self.calls.thinks()
    }

    fn path_of(&self, op: &Op) -> String {
        self.calls.path_of(op)
    }
}
