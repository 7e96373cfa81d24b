//! One file of the top directory goes: the phase with which bonnie and bigfile take their large file away.

use crate::op::{Call, DirSlot, Op};
use crate::workload::OpSource;

/// The unlink of one file.
pub(crate) struct Unlink {
    name: &'static [u8],
    there: bool,
}

impl Unlink {
    /// Of the file with this name.
    pub fn of(name: &'static [u8]) -> Unlink {
        Unlink { name, there: true }
    }
}

impl OpSource for Unlink {
    fn next(&mut self, op: &mut Op) -> bool {
        op.name.clear();
        op.name.push(self.name);
        op.call = Call::Unlink { dir: DirSlot::ROOT };
        std::mem::replace(&mut self.there, false)
    }
}
