//! A block device that fsdyno may write, of any medium.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use fsdyno_record::Bytes;

/// A block device that fsdyno may format until this is dropped.
#[derive(Debug)]
pub struct Device {
    /// The device node for mkfs, mount and check, such as /dev/loop3 or /dev/sdb.
    pub path: PathBuf,
    /// The usable size.
    pub size: Bytes,
    /// The descriptor that holds the claim: no other process can take the device while it is open.
    pub held: OwnedFd,
    /// The description of the device for records: `loop over FILE`, `disk MODEL SERIAL`.
    pub what: String,
}
