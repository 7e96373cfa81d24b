//! An issuer that makes no calls: the remaining time is the instrument overhead.

use fsdyno_workload::{Expect, Op};

use crate::failure::Failure;
use crate::issue::Issuer;
use crate::meter::Meter;

/// Returns the result that the workload expects, without making the call. An op that can be expanded
/// only on a file system makes no calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Issuer for Null {
    fn issue(&mut self, op: &Op) -> i64 {
        match op.expect {
            Expect::Success | Expect::Any => 0,
            Expect::Missing => -i64::from(libc::ENOENT),
            Expect::Exists => -i64::from(libc::EEXIST),
            Expect::Errno => -(op.result as i64),
            Expect::Result => op.result as i64,
        }
    }

    fn expand(&mut self, _: &Op, _: &mut Meter<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns false: think time is not part of the instrument overhead.
    fn spends_think_time(&self) -> bool {
        false
    }
}
