//! The unlink of one file in the top directory: the phase in which bonnie and bigfile delete their
//! large file.

use crate::op::{Call, DirSlot, Op};
use crate::op_source::OpSource;

/// The unlink of one file.
pub(crate) struct Unlink {
    name: &'static [u8],
    exists: bool,
}

impl Unlink {
    /// Creates the unlink of the file `name`.
    pub fn new(name: &'static [u8]) -> Unlink {
        Unlink { name, exists: true }
    }
}

impl OpSource for Unlink {
    fn next(&mut self, op: &mut Op) -> bool {
        op.name.clear();
        op.name.push(self.name);
        op.call = Call::Unlink { dir: DirSlot::ROOT };
        std::mem::replace(&mut self.exists, false)
    }
}
