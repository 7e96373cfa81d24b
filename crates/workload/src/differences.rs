//! Ops whose result differs from the expected one, after which the phase continued.

use std::collections::BTreeMap;

use fsdyno_record::OpKind;

use crate::op::{Expect, Op};

/// Maximum number of ops kept as examples of each difference.
pub const EXAMPLES: usize = 5;

/// The outcome of a call: 0 for success, else the error number.
pub type OutcomeCode = u16;

/// Differences by kind of call, expected outcome and actual outcome. If both are success, the results differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences(BTreeMap<(OpKind, OutcomeCode, OutcomeCode), Difference>);

/// The ops with the same difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Number of these ops.
    pub count: u64,
    /// The first of these ops, ordered by `call`.
    pub examples: Vec<Example>,
}

/// An op whose result differs from the expected one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Example {
    /// Number of the op among the ops of its rank in the phase, from one.
    pub call: u64,
    /// The name that is the call's argument, as in [`Op::name`].
    pub name: String,
    /// The expected result: bytes or a size, or `None` if the recorded call has no result, or failed.
    pub expected: Option<u64>,
    /// The actual result, if the call succeeded.
    pub found: Option<u64>,
}

impl Differences {
    /// Adds op number `call` of a rank, with its result: a negative error number, or the return value.
    pub fn add(&mut self, op: &Op, result: i64, call: u64) {
        let Some(kind) = op.call.kind() else { return };
        let (expected_code, expected) = match op.expect {
            Expect::Success | Expect::Any => (0, None),
            Expect::Missing => (2, None),
            Expect::Exists => (17, None),
            Expect::Errno => (op.result as OutcomeCode, None),
            Expect::Result => (0, Some(op.result)),
        };
        let found = u64::try_from(result).ok();
        let found_code = if found.is_some() { 0 } else { result.unsigned_abs() as OutcomeCode };
        let row = self.0.entry((kind, expected_code, found_code)).or_default();
        row.count += 1;
        if row.examples.len() < EXAMPLES {
            row.examples.push(Example { call, name: op.name.display(), expected, found });
        }
    }

    /// Adds the differences of another thread.
    pub fn merge(&mut self, other: Differences) {
        for (key, difference) in other.0 {
            let row = self.0.entry(key).or_default();
            row.count += difference.count;
            row.examples.extend(difference.examples);
            row.examples.sort();
            row.examples.truncate(EXAMPLES);
        }
    }

    /// Returns the number of ops.
    pub fn count(&self) -> u64 {
        self.0.values().map(|row| row.count).sum()
    }

    /// Returns the rows: kind, expected outcome, actual outcome, and the ops.
    pub fn rows(
        &self,
    ) -> impl Iterator<Item = (OpKind, OutcomeCode, OutcomeCode, &Difference)> + '_ {
        self.0.iter().map(|((kind, expected, found), row)| (*kind, *expected, *found, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, DirSlot, FileSlot};

    #[test]
    fn differences_are_counted_by_call_and_outcome_and_the_first_ones_are_kept() {
        let read = Op {
            call: Call::Read { file: FileSlot(1), length: 9 },
            expect: Expect::Result,
            result: 9,
            ..Op::default()
        };
        let stat = Op { call: Call::Stat { dir: DirSlot::ROOT }, ..Op::default() };
        let (mut first, mut second) = (Differences::default(), Differences::default());
        for call in 0..4 {
            first.add(&read, 5, 2 * call + 1);
            second.add(&read, 4, 2 * call);
        }
        second.add(&stat, -2, 100);
        first.merge(second);
        assert_eq!(first.count(), 9);
        let rows: Vec<_> = first.rows().map(|(kind, a, b, row)| (kind, a, b, row.count)).collect();
        assert_eq!(rows, [(OpKind::Read, 0, 0, 8), (OpKind::Stat, 0, 2, 1)]);
        let (.., row) = first.rows().next().unwrap();
        let calls: Vec<u64> = row.examples.iter().map(|example| example.call).collect();
        assert_eq!(calls, [0, 1, 2, 3, 4]);
        assert_eq!((row.examples[0].expected, row.examples[0].found), (Some(9), Some(4)));
    }
}
