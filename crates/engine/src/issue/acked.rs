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
pub struct LoggingIssuer<I> {
    issuer: I,
    acks: RankAcks,
}

impl<I> LoggingIssuer<I> {
    /// Creates an issuer that logs the calls of `issuer` in `acks`.
    pub fn new(issuer: I, acks: RankAcks) -> LoggingIssuer<I> {
        LoggingIssuer { issuer, acks }
    }
}

impl<I: Issuer> Issuer for LoggingIssuer<I> {
    fn issue(&mut self, op: &Op) -> i64 {
        let result = self.issuer.issue(op);
        let is_failure_expected =
            matches!(op.expect, Expect::Errno | Expect::Missing | Expect::Exists);
        self.acks.add_return(clock::now(), result < 0 && !is_failure_expected);
        result
    }

    /// Logs one return per op of the generator, whatever it expands to.
    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self.issuer.expand(op, meter)?;
        self.acks.add_return(clock::now(), false);
        Ok(())
    }

    fn spends_think_time(&self) -> bool {
        self.issuer.spends_think_time()
    }

    fn path_of(&self, op: &Op) -> String {
        self.issuer.path_of(op)
    }
}
