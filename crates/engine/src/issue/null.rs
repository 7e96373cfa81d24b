//! No calls at all: what is left is the cost of the instrument.

use fsdyno_workload::{Expect, Op};

use crate::issue::Issuer;
use crate::run::{Failure, Meter};

/// Answers every call as its workload says, without making it. What only a file system could expand
/// comes to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Issuer for Null {
    fn issue(&mut self, op: &Op) -> i64 {
        match op.expect {
            Expect::Success => 0,
            Expect::Missing => -i64::from(libc::ENOENT),
            Expect::Exists => -i64::from(libc::EEXIST),
        }
    }

    fn expand(&mut self, _: &Op, _: &mut Meter<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// What callers do between their calls is not the instrument's cost.
    fn thinks(&self) -> bool {
        false
    }
}
