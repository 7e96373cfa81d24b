//! Claims a drive, and releases it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;

use super::drive::Drive;
use super::layout::{DATA, GUARD, Layout};
use super::mark::{DataContents, DriveMark, normalize_uuid, uuids_in};
use super::refusal::{BlockError, Reason};
use super::{InspectedDrive, blkid, blkpg, inspect};
use crate::Device;

/// Maximum wait for temporary conditions to end: a device node that has yet to appear, a lock of udev, a
/// descriptor that a child briefly holds.
const TEMPORARY_TIMEOUT: Duration = Duration::from_secs(3);

/// Number of bytes cleared at each end of the data part: more than libblkid reads.
const CLEARED: usize = 4 << 20;

/// An exclusively claimed drive, released on drop.
#[derive(Debug)]
pub struct Claim {
    drive: Drive,
    layout: Layout,
    /// The mark of the drive when it was claimed.
    mark: DriveMark,
    /// Open with O_EXCL, which excludes all other users of the whole drive.
    guard: Option<File>,
    /// True if the kernel's table has fsdyno's partitions.
    has_parts: bool,
    /// Locked, so that udev does not probe the device (systemd's rule for block devices).
    whole: File,
}

impl Claim {
    pub(super) fn take(inspected: InspectedDrive) -> Result<Claim, BlockError> {
        let InspectedDrive { drive, serial, .. } = inspected;
        let held = drive.open_exclusively().map_err(|error| as_busy(&drive, error))?;
        let whole = drive.open_to_read()?;
        lock(&drive, &whole)?;
        // Inspect again, because the drive may have changed; from here on it cannot. Writes through a
        // partition are not in the drive's page cache, so drop it.
        blkpg::drop_cache(whole.as_fd())
            .map_err(|error| BlockError::io("drop the cache of", drive.path(), error))?;
        let (inspected, mut reasons) = inspect(drive, true)?;
        let InspectedDrive { drive, layout, serial: current_serial, .. } = inspected;
        if current_serial != serial {
            let (path, former, current) = (drive.path(), serial, current_serial);
            return Err(BlockError::Changed { path, former, current });
        }
        if !reasons.is_empty() {
            return Err(refusal_error(&drive, std::mem::take(&mut reasons)));
        }
        // The current contents have been accepted as fsdyno's until they are cleared.
        let found = blkid::part_signature(&drive.path(), layout.data)?;
        let uuids = found
            .into_iter()
            .map(|found| normalize_uuid(&found.uuid))
            .filter(|uuid| !uuid.is_empty());
        let contents = DataContents::Unfinished(uuids.collect());
        let mark = DriveMark { serial, size: drive.size(), left: contents };
        let mut claim = Claim { drive, layout, mark, guard: None, has_parts: false, whole };
        claim.add_parts()?;
        // A partition cannot be opened exclusively while the whole drive is, so close the drive first.
        drop(held);
        claim.guard = Some(claim.open_part(GUARD)?);
        // Check that no other process has taken the data part in the meantime.
        drop(claim.open_part(DATA)?);
        claim.write_mark(claim.mark.left.clone())?;
        Ok(claim)
    }

    /// Removes the two partitions and adds them again, so that their positions are known to be correct.
    fn add_parts(&mut self) -> Result<(), BlockError> {
        self.remove_parts().map_err(|error| BlockError::io("free", self.drive.path(), error))?;
        self.has_parts = true;
        for (number, part) in [(DATA, self.layout.data), (GUARD, self.layout.guard)] {
            match blkpg::add(self.whole.as_fd(), number, part) {
                Ok(()) => {}
                Err(Errno::INVAL | Errno::NXIO | Errno::NOTTY | Errno::OPNOTSUPP) => {
                    return Err(refusal_error(&self.drive, vec![Reason::NoParts]));
                }
                Err(Errno::ACCESS | Errno::PERM) => {
                    return Err(BlockError::NotAllowed(self.drive.path()));
                }
                Err(error) => {
                    return Err(BlockError::io("add partitions to", self.drive.path(), error));
                }
            }
        }
        Ok(())
    }

    /// Removes both partitions. A child that another thread is just starting has copies of all descriptors
    /// until its exec, so "busy" may be temporary.
    fn remove_parts(&mut self) -> io::Result<()> {
        let remove = |number| match blkpg::remove(self.whole.as_fd(), number) {
            Ok(()) | Err(Errno::NXIO) => Ok(()),
            Err(error) => Err(error.into()),
        };
        let is_temporary = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
        retry(|| remove(DATA), is_temporary)?;
        retry(|| remove(GUARD), is_temporary)?;
        self.has_parts = false;
        Ok(())
    }

    /// Opens a partition for writing, exclusively; waits for its node to appear and for another user to release it.
    fn open_part(&self, number: u32) -> Result<File, BlockError> {
        let path = self.drive.part_path(number);
        let parts = self.drive.parts();
        let partition = parts.iter().find(|part| part.number == number);
        let Some(device) = partition.map(|part| part.device) else {
            return Err(BlockError::io("find", path, io::Error::from(io::ErrorKind::NotFound)));
        };
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(OFlags::EXCL.bits() as i32);
            options.open(&path)
        };
        let is_temporary = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ResourceBusy)
        };
        let file = retry(open, is_temporary)
            .map_err(|error| as_busy(&self.drive, BlockError::io("open", &path, error)))?;
        let status = fstat(&file).map_err(|error| BlockError::io("inspect", &path, error))?;
        if status.st_rdev != device {
            let current = "another device's node".to_string();
            return Err(BlockError::Changed {
                path,
                former: "a part of the drive".into(),
                current,
            });
        }
        Ok(file)
    }

    fn write_mark(&self, left: DataContents) -> Result<(), BlockError> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let written = DriveMark { left, ..self.mark.clone() }.write(guard);
        written.map_err(|error| BlockError::io("mark", self.drive.path(), error))
    }

    /// Returns the data part, which mkfs, mount and fsck can claim, one at a time. The device must be dropped
    /// before the claim.
    ///
    /// # Errors
    /// Too many open files.
    pub fn device(&self) -> Result<Device, BlockError> {
        let guard = self.guard.as_ref().unwrap_or(&self.whole).try_clone();
        let held = guard.map_err(|error| BlockError::io("open again", self.drive.path(), error))?;
        let held = OwnedFd::from(held);
        let (path, size) = (self.drive.part_path(DATA), self.layout.data.size);
        Ok(Device { path, size, held, what: self.what() })
    }

    /// Returns the description of the drive for records.
    pub fn what(&self) -> String {
        format!("{} {}", self.drive.model(), self.mark.serial)
    }

    /// Clears both ends of the data part, so that the next mkfs finds a blank drive, as in the lab: some mkfs programs
    /// refuse to overwrite a file system. Then records the UUIDs in the mkfs command: contents with one of them are
    /// fsdyno's from here on, however this process ends.
    ///
    /// # Errors
    /// Errors from the kernel; `ResourceBusy` if the part is still mounted after the time limit: the mount of a killed
    /// trial ends shortly after its last process.
    pub fn clear(&self, mkfs: &[String]) -> Result<(), BlockError> {
        let path = self.drive.part_path(DATA);
        let part = self.open_part(DATA)?;
        let zeros = vec![0; CLEARED];
        let end = self.layout.data.size.0 - CLEARED as u64;
        for offset in [0, end] {
            part.write_all_at(&zeros, offset)
                .map_err(|error| BlockError::io("clear", &path, error))?;
        }
        part.sync_all().map_err(|error| BlockError::io("clear", &path, error))?;
        self.write_mark(DataContents::Unfinished(uuids_in(mkfs)))
    }

    /// Releases the drive: records its contents in the mark, and removes the partitions.
    ///
    /// # Errors
    /// The first step that fails; a partition that is still mounted stays.
    pub fn release(mut self) -> Result<(), BlockError> {
        self.release_drive()
    }

    fn release_drive(&mut self) -> Result<(), BlockError> {
        if self.guard.is_none() {
            return Ok(());
        }
        let found = blkid::device_signature(&self.drive.part_path(DATA))?;
        self.write_mark(
            found.map_or(DataContents::Nothing, |found| DataContents::Formatted(found.to_string())),
        )?;
        self.guard = None;
        let removed = self.remove_parts();
        removed.map_err(|error| BlockError::io("release", self.drive.path(), error))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // If this fails, the next claim completes it: the mark shows that the release is incomplete.
        let _ = self.release_drive();
        self.guard = None;
        if self.has_parts {
            let _ = self.remove_parts();
        }
    }
}

fn refusal_error(drive: &Drive, reasons: Vec<Reason>) -> BlockError {
    BlockError::Refused { path: drive.path(), what: drive.describe(), reasons }
}

/// Converts `ResourceBusy` to [`Reason::Busy`].
fn as_busy(drive: &Drive, error: BlockError) -> BlockError {
    match error {
        BlockError::Io { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
            refusal_error(drive, vec![Reason::Busy])
        }
        error => error,
    }
}

fn lock(drive: &Drive, whole: &File) -> Result<(), BlockError> {
    let lock = || Ok(flock(whole, FlockOperation::NonBlockingLockExclusive)?);
    retry(lock, |error| error.kind() == io::ErrorKind::WouldBlock).map_err(|error| {
        match error.kind() {
            io::ErrorKind::WouldBlock => refusal_error(drive, vec![Reason::Locked]),
            _ => BlockError::io("lock", drive.path(), error),
        }
    })
}

/// Repeats an attempt while its error is temporary.
fn retry<T>(
    mut attempt: impl FnMut() -> io::Result<T>,
    is_temporary: impl Fn(&io::Error) -> bool,
) -> io::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_temporary(&error) && start.elapsed() < TEMPORARY_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}
