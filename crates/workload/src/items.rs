//! The ops of a share that a stonewall ends ([`crate::item_limit`]).

use fsdyno_record::Nanos;

use crate::item_limit::ItemLimit;
use crate::op::Op;
use crate::op_source::OpSource;

/// The items of a share. An item is a unit of work, such as a file, and usually has at least one op.
pub trait Items: OpSource {
    /// Returns the number of items done, and true if another item follows, or `None` if the next op belongs to an item
    /// that has begun, or does not belong to an item.
    fn item_boundary(&mut self) -> Option<(u64, bool)>;

    /// Limits the total number of items, including those done, to `max_items`.
    fn set_max_items(&mut self, max_items: u64);
}

/// The ops of a share that checks an item limit before each item.
pub(crate) struct LimitedOps<'a> {
    ops: Box<dyn Items + Send + 'a>,
    limit: Box<dyn ItemLimit + 'a>,
    done: u64,
    has_begun: bool,
}

impl<'a> LimitedOps<'a> {
    pub(crate) fn new(
        ops: Box<dyn Items + Send + 'a>,
        limit: Box<dyn ItemLimit + 'a>,
    ) -> LimitedOps<'a> {
        LimitedOps { ops, limit, done: 0, has_begun: false }
    }
}

impl OpSource for LimitedOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if !self.has_begun {
            self.has_begun = true;
            self.limit.begin();
        }
        let mut waited_until = Nanos(0);
        if let Some((done, more)) = self.ops.item_boundary() {
            self.done = done;
            let allowance = self.limit.check(done, more);
            waited_until = allowance.waited_until;
            if allowance.max_items < u64::MAX {
                self.ops.set_max_items(allowance.max_items);
            }
        }
        let has_op = self.ops.next(op);
        if !has_op && let Some((done, _)) = self.ops.item_boundary() {
            // The last items may not have had any ops.
            self.done = done;
            self.limit.check(done, false);
        }
        // The op's own compute time follows the wait, and is not part of its latency either.
        op.due = if waited_until == Nanos(0) { waited_until } else { waited_until + op.compute };
        has_op
    }

    fn done(&self) -> u64 {
        self.done
    }
}
