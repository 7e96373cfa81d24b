//! A stonewall: each share of a phase works until a time limit, then all continue to the largest number of items that
//! any of them has done. All shares thus do the same work, and a slow one makes the phase longer.

use fsdyno_record::Nanos;

/// A limit that a share checks before each of its items.
pub trait ItemLimit: Send {
    /// Starts the clock, at the first op of the share.
    fn begin(&mut self);

    /// Returns the limit on the total number of items of the share, of which `done` are complete. Once the time is
    /// over, waits for the other shares if the share has `more` items.
    fn check(&mut self, done: u64, more: bool) -> Allowance;
}

/// The result of [`ItemLimit::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Maximum number of items that the share does in total.
    pub max_items: u64,
    /// Time since the start of the phase at which a wait of the share ended, which is not part of a latency, or zero.
    pub waited_until: Nanos,
}

impl Allowance {
    /// A result without a limit and without a wait.
    pub const UNLIMITED: Allowance = Allowance { max_items: u64::MAX, waited_until: Nanos(0) };
}
