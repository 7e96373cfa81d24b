//! `--on ram:SIZE`: a loop device over a file in memory. (brd needs no loop device, but few hosts have
//! the module loaded, and its disks remain after the end of the process that uses them.)

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use fsdyno_record::Bytes;
use fsdyno_record::plan::EphemeralKind;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::device::Device;
use crate::error::MediaError;
use crate::kind::Kind;
use crate::loops;

/// The entry in the table of media.
pub const KIND: Kind = Kind {
    kind: EphemeralKind::Ram,
    about: "a loop device over a file in memory (not a bare RAM disk: the loop's thread copies), as root",
    what: describe,
    available,
    make,
};

fn describe(_: &Path) -> Result<String, MediaError> {
    Ok("loop over a file in memory".to_string())
}

/// Returns the memory available without swapping (proc(5), `MemAvailable`).
fn available(_: &Path) -> Result<Bytes, MediaError> {
    let path = Path::new("/proc/meminfo");
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| MediaError::io_error("read", path, error))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(Bytes(kib.unwrap_or(0) * 1024))
}

fn make(folder: &Path, size: Bytes) -> Result<Device, MediaError> {
    let failed = |error| MediaError::io_error("create a file in", "/dev/shm", error);
    let file = memfd_create(c"fsdyno-ram", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let file = File::from(file);
    file.set_len(size.0).map_err(failed)?;
    loops::attach(file.as_fd(), size, describe(folder)?)
}
