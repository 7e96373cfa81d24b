//! Calls on whole trees, of which only the file system knows the parts.

use crate::op::{Call, Op};
use crate::workload::OpSource;

/// A call on a whole tree: the call, its name, and the other name where it has one.
pub type WholeTree = (Call, &'static [u8], &'static [u8]);

/// Such calls, one after the other.
pub struct WholeTrees(std::vec::IntoIter<WholeTree>);

impl WholeTrees {
    /// These calls, in this order.
    pub fn new(calls: Vec<WholeTree>) -> WholeTrees {
        WholeTrees(calls.into_iter())
    }
}

impl OpSource for WholeTrees {
    fn next(&mut self, op: &mut Op) -> bool {
        let Some((call, name, other)) = self.0.next() else { return false };
        op.call = call;
        op.name.clear();
        op.name.push(name);
        op.other.clear();
        op.other.push(other);
        true
    }
}
