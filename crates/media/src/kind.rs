//! A kind of ephemeral medium: the entry in the table of media, which each kind's file provides.

use std::path::Path;

use fsdyno_record::Bytes;
use fsdyno_record::plan::EphemeralKind;

use crate::device::Device;
use crate::error::MediaError;

/// A kind of ephemeral medium.
#[derive(Debug)]
pub struct Kind {
    /// The kind in plans, and the name before the colon in `--on NAME:SIZE`.
    pub kind: EphemeralKind,
    /// A description for users.
    pub about: &'static str,
    /// Returns the description for records, given a folder.
    pub what: fn(&Path) -> Result<String, MediaError>,
    /// Returns the available space, given a folder.
    pub available: fn(&Path) -> Result<Bytes, MediaError>,
    /// Creates a medium of this size; `folder` is that of its backing file, if it has one.
    pub(crate) make: fn(&Path, Bytes) -> Result<Device, MediaError>,
}
