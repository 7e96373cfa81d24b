//! The failure of an op, and its cause.

use std::fmt;

use fsdyno_record::OpKind;
use fsdyno_workload::ProgressPoint;

use crate::errno::Errno;
use crate::progress::Halt;

/// An op with a result that its workload does not expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of op.
    pub op: OpKind,
    /// Its path below the trial's root.
    pub path: String,
    /// The cause.
    pub cause: Cause,
    /// The number of ops of the phase that all threads completed before it.
    pub completed_ops: u64,
}

/// The cause of a failed op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel returned an error.
    Errno(Errno),
    /// It succeeded, but the workload expects it to fail.
    Succeeded,
    /// It returned this instead of the result that the workload expects.
    Result(i64),
    /// The op for which it waited can never return.
    Unreachable(ProgressPoint),
    /// It was not issued, because another thread failed.
    Stopped,
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Cause {
        Cause::Errno(errno)
    }
}

impl From<Halt> for Cause {
    fn from(halt: Halt) -> Cause {
        match halt {
            Halt::Stopped => Cause::Stopped,
            Halt::Unreachable(after) => Cause::Unreachable(after),
        }
    }
}

impl Failure {
    /// Returns a remedy for the user, if known.
    pub fn hint(&self) -> Option<&'static str> {
        match self.cause {
            Cause::Errno(errno) => errno.hint(),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    /// Formats the failure: `create d/f00017: No space left on device (ENOSPC) after 17 ops`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.op, self.path)?;
        match self.cause {
            Cause::Errno(errno) => write!(f, "{errno}")?,
            Cause::Succeeded => write!(f, "succeeded, though the workload expects it to fail")?,
            Cause::Result(result) => {
                write!(f, "returned {result}, which the workload does not expect")?
            }
            Cause::Unreachable(ProgressPoint { thread, ops }) => {
                write!(f, "waits for op {ops} of thread {thread}, which can never return,")?;
            }
            Cause::Stopped => write!(f, "not issued, because another thread failed,")?,
        }
        write!(f, " after {} ops", self.completed_ops)
    }
}

impl std::error::Error for Failure {}
