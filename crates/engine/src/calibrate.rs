//! Calibration of the engine's own cost: the whole loop with an issuer that makes no call.

use fsdyno_record::Nanos;
use fsdyno_workload::{Call, DirSlot, Op, OpSource};

use crate::issue::null::Null;
use crate::recorder::Recorder;
use crate::run::run_phase;

/// The number of ops per round.
const OPS: u64 = 16_384;
/// The number of rounds; the fastest counts, since other activity only adds time.
const ROUNDS: u32 = 5;

/// The engine's own time, as measured for a number of ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineCost {
    ops: u64,
    elapsed: Nanos,
}

impl EngineCost {
    /// Returns the engine's own time for `ops` ops: reading the clock, names, histograms, the loop.
    pub fn for_ops(&self, ops: u64) -> Nanos {
        Nanos((u128::from(self.elapsed.0) * u128::from(ops) / u128::from(self.ops.max(1))) as u64)
    }
}

/// Measures the engine's own cost on this machine; takes about a million instructions per round.
pub fn calibrate() -> EngineCost {
    let mut recorder = Recorder::new();
    let elapsed = (0..ROUNDS)
        .filter_map(|_| {
            run_phase(&mut NamedOps { next: 0 }, &mut Null, &mut recorder, &mut |_| {}).ok()
        })
        .map(|outcome| outcome.returned.since(outcome.started))
        .min();
    EngineCost { ops: OPS, elapsed: elapsed.unwrap_or_default() }
}

/// A source of ops with distinct names, as in a workload.
struct NamedOps {
    next: u64,
}

impl OpSource for NamedOps {
    fn next(&mut self, op: &mut Op) -> bool {
        if self.next == 0 {
            op.name.push(b"f");
        }
        op.name.set_number(1, self.next, 7);
        op.call = Call::Stat { dir: DirSlot::ROOT };
        self.next += 1;
        self.next <= OPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_the_engine_is_positive_and_proportional_to_the_ops() {
        let cost = calibrate();
        assert!(cost.for_ops(1_000_000) > Nanos(0));
        assert!(cost.for_ops(2_000_000).0.abs_diff(2 * cost.for_ops(1_000_000).0) <= 1);
        assert_eq!(cost.for_ops(0), Nanos(0));
    }
}
