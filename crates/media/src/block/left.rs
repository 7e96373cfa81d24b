//! What a killed fsdyno left of a claim: its two parts in the kernel's table of a drive.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::drive::Drive;
use super::layout::{DATA, GUARD, Layout};
use super::refusal::{BlockError, Reason};
use super::{blkpg, inspect};

/// A drive that a killed fsdyno has left divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftDrive {
    /// Its node.
    pub path: PathBuf,
    /// Its serial number.
    pub serial: String,
    /// What lies in its data part by now that fsdyno has not left there.
    pub foreign: Option<String>,
}

/// The drives of this machine with parts of ours, our mark, and nobody who uses them. Only such are opened,
/// and only to be read; who is not root sees none. What lies in the parts does not matter: they stand in no
/// table on the drive, and go without a byte of it being written.
pub fn left_drives() -> Vec<LeftDrive> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut found: Vec<LeftDrive> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().replace('!', "/");
            let drive = Drive::find(&Path::new("/dev").join(name)).ok()?;
            is_divided(&drive).then_some(())?;
            let path = drive.path();
            let (seen, reasons) = inspect(drive, false).ok()?;
            let foreign = foreign(&reasons);
            let ours = seen.mark.is_some() && reasons.len() == usize::from(foreign.is_some());
            ours.then_some(LeftDrive { path, serial: seen.serial, foreign })
        })
        .collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

impl LeftDrive {
    /// Takes the parts out of the kernel's table. Nothing is written on the drive.
    ///
    /// # Errors
    /// What has come to speak against it since, and what the kernel refused.
    pub fn clear(&self) -> Result<(), BlockError> {
        let drive = Drive::find(&self.path)?;
        // Nobody can take the drive, or a part of it, from here on.
        let held = drive.open_to_hold()?;
        let divided = is_divided(&drive);
        let (seen, mut reasons) = inspect(drive, true)?;
        // Of what lies there the user was told; what else speaks against it counts.
        if foreign(&reasons) == self.foreign {
            reasons.retain(|reason| !matches!(reason, Reason::NotLeft { .. }));
        }
        if !divided || seen.mark.is_none() || seen.serial != self.serial || !reasons.is_empty() {
            let reasons = if reasons.is_empty() { vec![Reason::Busy] } else { reasons };
            let (path, what) = (self.path.clone(), seen.drive.describe());
            return Err(BlockError::Refused { path, what, reasons });
        }
        for number in [GUARD, DATA] {
            match blkpg::remove(held.as_fd(), number) {
                Ok(()) | Err(Errno::NXIO) => {}
                Err(error) => {
                    let error = std::io::Error::from(error);
                    return Err(BlockError::io("free", &self.path, error));
                }
            }
        }
        Ok(())
    }
}

/// What is in the data part in place of what the mark says.
fn foreign(reasons: &[Reason]) -> Option<String> {
    reasons.iter().find_map(|reason| match reason {
        Reason::NotLeft { found, .. } => Some(found.to_string()),
        _ => None,
    })
}

/// Whether the kernel knows parts of it, and none but such as ours.
fn is_divided(drive: &Drive) -> bool {
    let (parts, layout) = (drive.parts(), Layout::of(drive.size()));
    !parts.is_empty() && parts.iter().all(|part| layout.has(part))
}
