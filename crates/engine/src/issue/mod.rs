//! How a call is made: the seam between the loop and the system.

use fsdyno_workload::Op;

use crate::run::{Failure, Meter};

pub mod acked;
mod lane;
pub mod null;
pub mod raw;
pub mod sync;
pub mod uring;

/// Makes calls. One implementation is one way to reach the kernel, or none.
pub trait Issuer {
    /// Makes the call of `op` and answers as the kernel does: the negative error number, or the
    /// bytes moved, or zero for a call that moves none.
    fn issue(&mut self, op: &Op) -> i64;

    /// Makes the many calls of an op that only the file system can tell the parts of (a scan, the
    /// removal of a tree) and tells the meter of each.
    ///
    /// # Errors
    /// The first call that fails.
    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure>;

    /// Whether callers sleep and compute before their ops, as the workload says.
    fn thinks(&self) -> bool {
        true
    }

    /// The path of an op below the trial's root, for messages.
    fn path_of(&self, op: &Op) -> String {
        op.name.display()
    }
}
