//! A stonewall: each share of a phase works until a time is over, then all go on to the largest number of items that one
//! of them has done. So all shares do the same work, and a slow one shows as a longer phase.

use fsdyno_record::Nanos;

/// The limit that a share consults before each of its items.
pub trait Wall: Send {
    /// Starts the time, at the first op of the share.
    fn begin(&mut self);

    /// Returns how many items the share does in all, of which `done` are complete. Waits for the other shares when the time
    /// is over, unless the share has no `more` items than these.
    fn pass(&mut self, done: u64, more: bool) -> Pass;
}

/// The answer of a [`Wall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Most items that the share does.
    pub most: u64,
    /// Time since the start of the phase if the share has waited, which is no part of a latency; else zero.
    pub waited_until: Nanos,
}

impl Pass {
    /// No end yet.
    pub const GO_ON: Pass = Pass { most: u64::MAX, waited_until: Nanos(0) };
}
