//! What a killed fsdyno left of a claim: its two parts in the kernel's table of a drive.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::drive::Drive;
use super::layout::{DATA, GUARD, Layout};
use super::refusal::{BlockError, Reason};
use super::{Signature, blkpg, inspect};

/// A drive that a killed fsdyno has left divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftDrive {
    /// Its node.
    pub path: PathBuf,
    /// Its serial number.
    pub serial: String,
    /// What lies in its data part by now that fsdyno has not made: then its parts stay.
    pub foreign: Option<Signature>,
}

/// The drives of this machine with parts of ours, our mark, and nobody who uses them. Only such are opened,
/// and only to be read; who is not root sees none.
pub fn left_drives() -> Vec<LeftDrive> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut found: Vec<LeftDrive> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().replace('!', "/");
            let drive = Drive::find(&Path::new("/dev").join(name)).ok()?;
            is_divided(&drive).then_some(())?;
            read_anew(&drive, drive.open_to_read().ok()?.as_fd()).ok()?;
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
    /// Takes the parts out of the kernel's table, once the data part was looked at. Nothing is written on the
    /// drive.
    ///
    /// # Errors
    /// [`BlockError::Foreign`] where something lies there that fsdyno has not made: its parts stay, for they are
    /// the way to it. Else what has come to speak against it since, and what the kernel refused.
    pub fn clear(&self) -> Result<(), BlockError> {
        let drive = Drive::find(&self.path)?;
        // Nobody can take the drive, or a part of it, from here on.
        let held = drive.open_to_hold()?;
        read_anew(&drive, held.as_fd())?;
        let divided = is_divided(&drive);
        let (seen, reasons) = inspect(drive, true)?;
        if let (Some(found), 1) = (foreign(&reasons), reasons.len()) {
            let (path, part) = (self.path.clone(), seen.data_path());
            let (serial, found) = (seen.serial, found.to_string());
            return Err(BlockError::Foreign { path, part, serial, found });
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
fn foreign(reasons: &[Reason]) -> Option<Signature> {
    reasons.iter().find_map(|reason| match reason {
        Reason::NotLeft { found, .. } => Some(found.clone()),
        _ => None,
    })
}

/// Has what is read next come from the drive: its own page cache does not see what was written through a part.
fn read_anew(drive: &Drive, opened: BorrowedFd<'_>) -> Result<(), BlockError> {
    blkpg::forget_cached(opened).map_err(|error| BlockError::io("read anew", drive.path(), error))
}

/// Whether the kernel knows parts of it, and none but such as ours.
fn is_divided(drive: &Drive) -> bool {
    let (parts, layout) = (drive.parts(), Layout::of(drive.size()));
    !parts.is_empty() && parts.iter().all(|part| layout.has(part))
}
