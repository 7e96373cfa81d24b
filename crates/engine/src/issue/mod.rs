//! The issuers, which make the calls of ops.

use fsdyno_workload::Op;

use crate::failure::Failure;
use crate::meter::Meter;

pub mod acked;
mod aligned;
mod lane;
pub mod null;
mod rare;
pub mod raw;
pub mod shared;
pub mod sync;
pub mod uring;

/// An issuer of calls: one way to reach the kernel, or none.
pub trait Issuer {
    /// Makes the call of `op`, and returns the kernel's result: the negative error number, or the bytes moved, which
    /// are zero for a call that moves none.
    fn issue(&mut self, op: &Op) -> i64;

    /// Makes all calls of an op whose calls depend on the file system (a scan, the
    /// removal of a tree) and reports each to the meter.
    ///
    /// # Errors
    /// The first call that fails.
    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure>;

    /// Returns true if think time is spent, as the workload requests.
    fn spends_think_time(&self) -> bool {
        true
    }

    /// Returns the path of an op, relative to the trial's root, for messages.
    fn path_of(&self, op: &Op) -> String {
        op.name.display()
    }
}
