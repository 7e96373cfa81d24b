//! A block device that may be written: what every way of getting one ends in.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use fsdyno_record::Bytes;

/// A block device that is fsdyno's to format until this is dropped.
#[derive(Debug)]
pub struct Device {
    /// Its node, such as /dev/loop3 or /dev/sdb: what mkfs, mount and check are given.
    pub path: PathBuf,
    /// How much of it a file system may use.
    pub size: Bytes,
    /// What keeps the claim: nobody else may take the device while it is open.
    pub held: OwnedFd,
    /// What it is, in words for records: `loop over FILE`, `disk MODEL SERIAL`.
    pub what: String,
}
