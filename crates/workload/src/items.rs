//! The ops of a share that a stonewall ends ([`crate::item_limit`]).

use fsdyno_record::Nanos;

use crate::item_limit::ItemLimit;
use crate::op::Op;
use crate::op_source::OpSource;

/// The items of a share. An item is a unit of work, such as a file, and usually has at least one op.
pub trait Items: OpSource {
    /// Returns the number of items done, and true if another item follows; none if the next op belongs to an item that
    /// has begun, or does not belong to an item.
    fn item_boundary(&mut self) -> Option<(u64, bool)>;

    /// Limits the total number of items, including those done, to `most`.
    fn end_after(&mut self, most: u64);
}

/// The ops of a share that consults an item limit before each item.
pub(crate) struct LimitedOps<'a> {
    ops: Box<dyn Items + Send + 'a>,
    limit: Box<dyn ItemLimit + 'a>,
    done: u64,
    begun: bool,
}

impl<'a> LimitedOps<'a> {
    pub(crate) fn new(
        ops: Box<dyn Items + Send + 'a>,
        limit: Box<dyn ItemLimit + 'a>,
    ) -> LimitedOps<'a> {
        LimitedOps { ops, limit, done: 0, begun: false }
    }
}

impl OpSource for LimitedOps<'_> {
    fn next(&mut self, op: &mut Op) -> bool {
        if !self.begun {
            self.begun = true;
            self.limit.begin();
        }
        let mut waited = Nanos(0);
        if let Some((done, more)) = self.ops.item_boundary() {
            self.done = done;
            let pass = self.limit.pass(done, more);
            waited = pass.waited_until;
            if pass.most < u64::MAX {
                self.ops.end_after(pass.most);
            }
        }
        let has_op = self.ops.next(op);
        if !has_op && let Some((done, _)) = self.ops.item_boundary() {
            // The last items may not have had any ops.
            self.done = done;
            self.limit.pass(done, false);
        }
        // The op's own compute time follows the wait, and is not part of its latency either.
        op.due = if waited == Nanos(0) { waited } else { waited + op.compute };
        has_op
    }

    fn done(&self) -> u64 {
        self.done
    }
}
