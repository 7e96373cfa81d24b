//! A stonewall: each share of a phase works until a time limit, then all continue to the largest number of items that
//! any of them has done. All shares thus do the same work, and a slow one makes the phase longer.

use fsdyno_record::Nanos;

/// The limit that a share consults before each of its items.
pub trait ItemLimit: Send {
    /// Starts the clock, at the first op of the share.
    fn begin(&mut self);

    /// Returns the limit on the total number of items of the share, of which `done` are complete. Once the time is
    /// over, waits for the other shares if the share has `more` items.
    fn pass(&mut self, done: u64, more: bool) -> Pass;
}

/// The result of [`ItemLimit::pass`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Maximum total number of items that the share does.
    pub most: u64,
    /// Time since the start of the phase at which a wait of the share ended, which is not part of a latency; else zero.
    pub waited_until: Nanos,
}

impl Pass {
    /// A result without a limit and without a wait.
    pub const GO_ON: Pass = Pass { most: u64::MAX, waited_until: Nanos(0) };
}
