//! Ephemeral media, created for a trial and removed after it; one source file each.

use std::fmt;
use std::path::Path;

use fsdyno_record::Bytes;

use crate::device::Device;
use crate::error::MediaError;
use crate::{loop_file, loops, ram};

/// All ephemeral media, in the order of `fsdyno list`.
pub const KINDS: &[&Kind] = &[&loop_file::KIND, &ram::KIND];

/// The unit and least size of a medium.
const LEAST: Bytes = Bytes(1 << 20);

/// A kind of ephemeral medium.
#[derive(Debug)]
pub struct Kind {
    /// The name before the colon in `--on NAME:SIZE`.
    pub name: &'static str,
    /// A description for users.
    pub about: &'static str,
    /// Returns its description in records, for a folder.
    pub what: fn(&Path) -> Result<String, MediaError>,
    /// Returns the available space, for a folder.
    pub available: fn(&Path) -> Result<Bytes, MediaError>,
    /// Creates one of a size; the folder is that of its file, if it has one.
    pub(crate) make: fn(&Path, Bytes) -> Result<Device, MediaError>,
}

/// A requested medium, `NAME:SIZE`.
#[derive(Clone, Copy, Debug)]
pub struct EphemeralMedium {
    /// The kind.
    pub kind: &'static Kind,
    /// The size.
    pub size: Bytes,
}

impl EphemeralMedium {
    /// Parses `NAME:SIZE`; none if the name is not that of an ephemeral medium.
    pub fn parse(text: &str) -> Option<Result<EphemeralMedium, String>> {
        let (name, size) = text.split_once(':').unwrap_or((text, ""));
        let kind = KINDS.iter().find(|kind| kind.name == name)?;
        let size = size.parse().ok().filter(|Bytes(size)| size % LEAST.0 == 0 && *size > 0);
        Some(size.map(|size| EphemeralMedium { kind, size }).ok_or_else(|| {
            format!("'{text}' is invalid; write {name}:SIZE in whole mebibytes, such as {name}:4G")
        }))
    }

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
    /// Something is missing.
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
    /// Something is missing.
    pub fn check_privileges(&self) -> Result<(), MediaError> {
        if !may_mount() {
            return Err(MediaError::NeedsRoot(self.to_string()));
        }
        loops::check()
    }
}

/// Writes the request, in the largest whole unit.
impl fmt::Display for EphemeralMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.size.0 >> 20;
        match mebibytes % 1024 {
            0 => write!(f, "{}:{}G", self.kind.name, mebibytes / 1024),
            _ => write!(f, "{}:{mebibytes}M", self.kind.name),
        }
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

    #[test]
    fn a_medium_is_shown_as_it_is_given() {
        for text in ["loop:8G", "ram:512M", "loop:1536M"] {
            assert_eq!(EphemeralMedium::parse(text).unwrap().unwrap().to_string(), text);
        }
        assert_eq!(EphemeralMedium::parse("loop:2048M").unwrap().unwrap().to_string(), "loop:2G");
        for wrong in ["loop", "loop:", "ram:1000", "loop:-1G", "ram:0", "loop:x"] {
            assert!(EphemeralMedium::parse(wrong).unwrap().unwrap_err().contains(":4G"), "{wrong}");
        }
        for other in ["lab", "/tmp", "loops:1G"] {
            assert!(EphemeralMedium::parse(other).is_none(), "{other}");
        }
    }
}
