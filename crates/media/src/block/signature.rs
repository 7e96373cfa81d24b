//! Signatures of contents, as libblkid identifies them.

use std::fmt;

/// The signature of a file system, a RAID member, a partition table or the like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The kind, such as `ext4` or `LVM2_member`.
    pub kind: String,
    /// The UUID, or empty.
    pub uuid: String,
    /// The label, or empty.
    pub label: String,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.uuid.is_empty() {
            write!(f, " {}", self.uuid)?;
        }
        match self.label.as_str() {
            "" => Ok(()),
            label => write!(f, " '{label}'"),
        }
    }
}
