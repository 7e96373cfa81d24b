//! A device in place of a file: every file that is opened is the device, and none can be made or
//! removed.

use std::ffi::CString;

use fsdyno_workload::{Call, Op};

use crate::issue::Issuer;
use crate::issue::sync::Sync;
use crate::kernel;
use crate::run::{Failure, Meter};

/// Issues calls on a device as [`Sync`] does on files.
pub struct Raw {
    files: Sync,
    device: CString,
}

impl Raw {
    /// Calls on `device`; what is not on a file goes to `files`.
    pub fn new(files: Sync, device: CString) -> Raw {
        Raw { files, device }
    }
}

impl Issuer for Raw {
    /// O_CREAT, O_EXCL and O_TRUNC mean nothing on a device, nor does unlink(2): its bytes stay.
    fn issue(&mut self, op: &Op) -> i64 {
        let slot = match op.call {
            Call::Create { file, .. } | Call::Open { file, .. } => file,
            Call::Unlink { .. } => return 0,
            _ => return self.files.issue(op),
        };
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        // SAFETY: the path ends in NUL and lives as long as the call.
        let fd = unsafe { kernel::openat(libc::AT_FDCWD, self.device.as_ptr(), flags, 0) };
        if fd < 0 {
            return fd;
        }
        self.files.keep_file(slot, fd as i32);
        0
    }

    fn expand(&mut self, op: &Op, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self.files.expand(op, meter)
    }

    fn path_of(&self, op: &Op) -> String {
        self.files.path_of(op)
    }
}
