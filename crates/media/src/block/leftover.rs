//! Partitions that a killed fsdyno left in the kernel's partition table of a drive.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::drive::Drive;
use super::layout::{DATA, GUARD, Layout};
use super::refusal::{BlockError, Reason};
use super::{Signature, blkpg, inspect};

/// A drive with partitions left by a killed fsdyno.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftoverDrive {
    /// The device node.
    pub path: PathBuf,
    /// The serial number.
    pub serial: String,
    /// A signature in the data partition that is not fsdyno's. If there is one, the partitions are kept.
    pub foreign: Option<Signature>,
}

/// Returns the drives of this machine that are not in use and have fsdyno's partitions and mark. Only drives with
/// fsdyno's partitions are opened, read-only; without root privileges the result is empty.
pub fn find_leftover_drives() -> Vec<LeftoverDrive> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut found: Vec<LeftoverDrive> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().replace('!', "/");
            let drive = Drive::find(&Path::new("/dev").join(name)).ok()?;
            has_fsdyno_parts(&drive).then_some(())?;
            drop_cache(&drive, drive.open_to_read().ok()?.as_fd()).ok()?;
            let path = drive.path();
            let (inspected, reasons) = inspect(drive, false).ok()?;
            let foreign = foreign_signature(&reasons);
            let is_leftover =
                inspected.mark.is_some() && reasons.len() == usize::from(foreign.is_some());
            is_leftover.then_some(LeftoverDrive { path, serial: inspected.serial, foreign })
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

impl LeftoverDrive {
    /// Removes the partitions from the kernel's table after inspecting the data part. Nothing is written to
    /// the drive.
    ///
    /// # Errors
    /// [`BlockError::Foreign`] if the data part has contents that are not fsdyno's: the partitions stay, because
    /// they give access to these contents. [`BlockError::Refused`] if a reason to refuse the drive has arisen in the
    /// meantime. I/O errors.
    pub fn clear(&self) -> Result<(), BlockError> {
        let drive = Drive::find(&self.path)?;
        // From here on no other process can take the drive or a partition of it.
        let held = drive.open_exclusively()?;
        drop_cache(&drive, held.as_fd())?;
        let has_parts = has_fsdyno_parts(&drive);
        let (inspected, reasons) = inspect(drive, true)?;
        if let (Some(found), 1) = (foreign_signature(&reasons), reasons.len()) {
            let (path, part) = (self.path.clone(), inspected.data_path());
            let (serial, found) = (inspected.serial, found.to_string());
            return Err(BlockError::Foreign { path, part, serial, found });
        }
        if !has_parts
            || inspected.mark.is_none()
            || inspected.serial != self.serial
            || !reasons.is_empty()
        {
            let reasons = if reasons.is_empty() { vec![Reason::Busy] } else { reasons };
            let (path, what) = (self.path.clone(), inspected.drive.describe());
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

/// Returns the signature in the data partition if fsdyno did not leave it.
fn foreign_signature(reasons: &[Reason]) -> Option<Signature> {
    reasons.iter().find_map(|reason| match reason {
        Reason::ForeignContents { found, .. } => Some(found.clone()),
        _ => None,
    })
}

/// Drops the page cache of the drive, which is stale after writes through a partition.
fn drop_cache(drive: &Drive, opened: BorrowedFd<'_>) -> Result<(), BlockError> {
    blkpg::drop_cache(opened)
        .map_err(|error| BlockError::io("drop the cache of", drive.path(), error))
}

/// Reports whether the kernel's table of the drive has partitions, all of them with fsdyno's numbers and ranges.
fn has_fsdyno_parts(drive: &Drive) -> bool {
    let (parts, layout) = (drive.parts(), Layout::of(drive.size()));
    !parts.is_empty() && parts.iter().all(|part| layout.contains(part))
}
