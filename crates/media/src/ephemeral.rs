//! Ephemeral media, created for a trial and removed after it; one source file each.

use std::fmt;
use std::path::Path;

use fsdyno_record::Bytes;
use fsdyno_record::plan::{EphemeralKind, EphemeralSize};

use crate::device::Device;
use crate::error::MediaError;
use crate::kind::Kind;
use crate::{loop_file, loops, ram};

/// All ephemeral media, in the order of `fsdyno list`.
pub const KINDS: &[&Kind] = &[&loop_file::KIND, &ram::KIND];

/// A requested medium, `NAME:SIZE`.
#[derive(Clone, Copy, Debug)]
pub struct EphemeralMedium {
    /// The kind.
    pub kind: &'static Kind,
    /// The size.
    pub size: Bytes,
}

impl EphemeralMedium {
    /// Creates a device of `size`.
    ///
    /// # Errors
    /// It cannot be created here.
    pub fn make(&self, folder: &Path, size: Bytes) -> Result<Device, MediaError> {
        (self.kind.make)(folder, size)
    }

    /// Checks that this process may create and mount it, and that `size` is available.
    ///
    /// # Errors
    /// Missing privileges or loop devices, or too little space.
    pub fn check(&self, folder: &Path, size: Bytes) -> Result<(), MediaError> {
        self.check_privileges()?;
        let have = (self.kind.available)(folder)?;
        if size > have {
            return Err(MediaError::NoSpaceForMedium { what: self.to_string(), have, need: size });
        }
        Ok(())
    }

    /// Checks that this process may create and mount it.
    ///
    /// # Errors
    /// Missing privileges or loop devices.
    pub fn check_privileges(&self) -> Result<(), MediaError> {
        if !may_mount() {
            return Err(MediaError::NeedsRoot(self.to_string()));
        }
        loops::check()
    }
}

impl From<EphemeralSize> for EphemeralMedium {
    fn from(EphemeralSize { kind, size }: EphemeralSize) -> EphemeralMedium {
        let kind = match kind {
            EphemeralKind::Loop => &loop_file::KIND,
            EphemeralKind::Ram => &ram::KIND,
        };
        EphemeralMedium { kind, size }
    }
}

/// Formats the request.
impl fmt::Display for EphemeralMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        EphemeralSize { kind: self.kind.kind, size: self.size }.fmt(f)
    }
}

/// Reports whether this process has CAP_SYS_ADMIN, number 21 of linux/capability.h (proc(5), `CapEff`).
fn may_mount() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .is_some_and(|hex| u64::from_str_radix(hex.trim(), 16).is_ok_and(|set| set >> 21 & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_of_a_medium_is_forgotten() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let media = std::fs::read_dir(folder).unwrap().flatten().filter(|entry| {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            text.lines().any(|line| line.starts_with("pub const KIND: Kind"))
        });
        assert_eq!(media.count(), KINDS.len(), "each file with a KIND must be in KINDS");
    }
}
