//! Calls on whole trees whose parts only the file system knows.

use crate::op::{Call, Op};
use crate::op_source::OpSource;

/// A call on a whole tree: the call, its name, and its second name, if any.
pub type WholeTree = (Call, &'static [u8], &'static [u8]);

/// A sequence of calls on whole trees.
pub struct WholeTrees(std::vec::IntoIter<WholeTree>);

impl WholeTrees {
    /// Creates the sequence of these calls.
    pub fn new(calls: Vec<WholeTree>) -> WholeTrees {
        WholeTrees(calls.into_iter())
    }
}

impl OpSource for WholeTrees {
    fn next(&mut self, op: &mut Op) -> bool {
        let Some((call, name, second_name)) = self.0.next() else { return false };
        op.call = call;
        op.name.clear();
        op.name.push(name);
        op.second_name.clear();
        op.second_name.push(second_name);
        true
    }
}
