//! An issuer that replaces every file with a device, which can be opened but not created or
//! removed.

use std::ffi::CString;

use fsdyno_workload::{Effect, Op};

use crate::failure::Failure;
use crate::issue::Issuer;
use crate::issue::sync::SyncIssuer;
use crate::kernel;
use crate::meter::Meter;

/// Issues calls on a device, as [`SyncIssuer`] does on files.
pub struct Raw {
    files: SyncIssuer,
    device: CString,
}

impl Raw {
    /// Creates an issuer of calls on `device`; calls that are not on a file go to `files`.
    pub fn new(files: SyncIssuer, device: CString) -> Raw {
        Raw { files, device }
    }
}

impl Issuer for Raw {
    /// Ignores O_CREAT, O_EXCL, O_TRUNC and unlink(2): a device keeps its bytes.
    fn issue(&mut self, op: &Op) -> i64 {
        let effect = op.call.facts().effect;
        if let Effect::Remove { .. } = effect {
            return 0;
        }
        let Effect::Open { file: slot, .. } = effect else { return self.files.issue(op) };
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        // SAFETY: the path ends in NUL and lives as long as the call.
        let fd = unsafe { kernel::openat(libc::AT_FDCWD, self.device.as_ptr(), flags, 0) };
        if fd < 0 {
            return fd;
        }
        self.files.set_file(slot, fd as i32);
        0
    }

    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self.files.expand(op, meter)
    }

    fn path_of(&self, op: &Op) -> String {
        self.files.path_of(op)
    }
}
