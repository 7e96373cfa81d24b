//! Media that are made for a trial and gone after it, one file each.

use std::fmt;
use std::path::Path;

use fsdyno_record::Bytes;

use crate::device::Device;
use crate::error::MediaError;
use crate::{loop_file, loops, ram};

/// Every medium that is made, in the order in which they are told.
pub const KINDS: &[&Kind] = &[&loop_file::KIND, &ram::KIND];

/// Less does not hold a file system.
const LEAST: Bytes = Bytes(1 << 20);

/// A kind of medium that is made.
#[derive(Debug)]
pub struct Kind {
    /// What stands before the colon in `--on NAME:SIZE`.
    pub name: &'static str,
    /// What it is, for people.
    pub about: &'static str,
    /// What records call it when it lies in this folder.
    pub what: fn(&Path) -> Result<String, MediaError>,
    /// How large it can be there.
    pub room: fn(&Path) -> Result<Bytes, MediaError>,
    /// Makes one of so many bytes; the folder is where it lies if it is a file.
    pub(crate) make: fn(&Path, Bytes) -> Result<Device, MediaError>,
}

/// A medium that was typed as `NAME:SIZE`.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// What it is.
    pub kind: &'static Kind,
    /// How large.
    pub size: Bytes,
}

impl Made {
    /// Reads `NAME:SIZE`; none for what names no such medium.
    pub fn parse(typed: &str) -> Option<Result<Made, String>> {
        let (name, size) = typed.split_once(':').unwrap_or((typed, ""));
        let kind = KINDS.iter().find(|kind| kind.name == name)?;
        let size = size.parse().ok().filter(|Bytes(size)| size % LEAST.0 == 0 && *size > 0);
        Some(size.map(|size| Made { kind, size }).ok_or_else(|| {
            format!(
                "'{typed}' is not right; write {name}:SIZE in whole mebibytes, such as {name}:4G"
            )
        }))
    }

    /// Makes `size` of it.
    ///
    /// # Errors
    /// Why it cannot be made here.
    pub fn make(&self, folder: &Path, size: Bytes) -> Result<Device, MediaError> {
        (self.kind.make)(folder, size)
    }

    /// Whether this process may make it, mount what lies on it, and has room for all of `size`.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self, folder: &Path, size: Bytes) -> Result<(), MediaError> {
        self.allowed()?;
        let have = (self.kind.room)(folder)?;
        if size > have {
            return Err(MediaError::NoRoomForMedium { what: self.to_string(), have, need: size });
        }
        Ok(())
    }

    /// Whether this process may make it and mount what lies on it.
    ///
    /// # Errors
    /// What is missing.
    pub fn allowed(&self) -> Result<(), MediaError> {
        if !may_mount() {
            return Err(MediaError::NeedsRoot(self.to_string()));
        }
        loops::check()
    }
}

/// As it is typed, in the largest unit that is whole.
impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.size.0 >> 20;
        match mebibytes % 1024 {
            0 => write!(f, "{}:{}G", self.kind.name, mebibytes / 1024),
            _ => write!(f, "{}:{mebibytes}M", self.kind.name),
        }
    }
}

/// Whether this process has CAP_SYS_ADMIN, number 21 of linux/capability.h (proc(5), `CapEff`).
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
        assert_eq!(media.count(), KINDS.len(), "each file with a KIND stands in KINDS");
    }

    #[test]
    fn a_medium_is_told_as_it_is_typed() {
        for typed in ["loop:8G", "ram:512M", "loop:1536M"] {
            assert_eq!(Made::parse(typed).unwrap().unwrap().to_string(), typed);
        }
        assert_eq!(Made::parse("loop:2048M").unwrap().unwrap().to_string(), "loop:2G");
        for wrong in ["loop", "loop:", "ram:1000", "loop:-1G", "ram:0", "loop:x"] {
            assert!(Made::parse(wrong).unwrap().unwrap_err().contains(":4G"), "{wrong}");
        }
        for other in ["lab", "/tmp", "loops:1G"] {
            assert!(Made::parse(other).is_none(), "{other}");
        }
    }
}
