//! Taking a drive, and giving it back.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;

use super::drive::Drive;
use super::layout::{DATA, GUARD, Layout};
use super::mark::{Left, Mark, plain, uuids_in};
use super::refusal::{BlockError, Reason};
use super::{Seen, blkpg, inspect, signature};
use crate::Device;

/// How long something that passes is waited for: a node that is made, a lock of udev's, a descriptor that
/// a child has for a moment.
const PATIENCE: Duration = Duration::from_secs(3);

/// How much at both ends of the data part is cleared: more than libblkid looks at.
const CLEARED: usize = 4 << 20;

/// A drive that is ours alone until this is dropped.
#[derive(Debug)]
pub struct Claim {
    drive: Drive,
    layout: Layout,
    /// The drive's, as it was when the claim was taken.
    mark: Mark,
    /// Open with O_EXCL: keeps everybody else off the whole drive.
    guard: Option<File>,
    /// Whether the kernel's table has parts of ours.
    divided: bool,
    /// Asks udev not to look into what is made and measured here (systemd's rule for block devices).
    whole: File,
}

impl Claim {
    pub(super) fn take(seen: Seen) -> Result<Claim, BlockError> {
        let Seen { drive, serial, .. } = seen;
        let held = drive.open_to_hold().map_err(|error| busy(&drive, error))?;
        let whole = drive.open_to_read()?;
        lock(&drive, &whole)?;
        // What was true when it was looked at need not be true any more; from here on it stays true.
        // Somebody may have written through a partition, which the drive's page cache does not see.
        blkpg::forget_cached(whole.as_fd())
            .map_err(|error| BlockError::io("read anew", drive.path(), error))?;
        let (seen, mut reasons) = inspect(drive, true)?;
        let Seen { drive, layout, serial: now, .. } = seen;
        if now != serial {
            let (path, was, is) = (drive.path(), serial, now);
            return Err(BlockError::Changed { path, was, is });
        }
        if !reasons.is_empty() {
            return Err(refused(&drive, std::mem::take(&mut reasons)));
        }
        // What is there until it is cleared has passed as our own.
        let there = signature::at(&drive.path(), layout.data)?;
        let own = there.into_iter().map(|found| plain(&found.uuid)).filter(|it| !it.is_empty());
        let left = Left::Unfinished(own.collect());
        let mark = Mark { serial, size: drive.size(), left };
        let mut claim = Claim { drive, layout, mark, guard: None, divided: false, whole };
        claim.divide()?;
        // The kernel lets nobody take a part while the whole is held, so the hold has to change hands.
        drop(held);
        claim.guard = Some(claim.open_part(GUARD)?);
        // Nobody took the data part meanwhile.
        drop(claim.open_part(DATA)?);
        claim.note(claim.mark.left.clone())?;
        Ok(claim)
    }

    /// Makes the two parts anew, so that they are certainly where they should be.
    fn divide(&mut self) -> Result<(), BlockError> {
        self.undivide().map_err(|error| BlockError::io("free", self.drive.path(), error))?;
        self.divided = true;
        for (number, part) in [(DATA, self.layout.data), (GUARD, self.layout.guard)] {
            match blkpg::add(self.whole.as_fd(), number, part) {
                Ok(()) => {}
                Err(Errno::INVAL | Errno::NXIO | Errno::NOTTY | Errno::OPNOTSUPP) => {
                    return Err(refused(&self.drive, vec![Reason::NoParts]));
                }
                Err(Errno::ACCESS | Errno::PERM) => {
                    return Err(BlockError::NotAllowed(self.drive.path()));
                }
                Err(error) => return Err(BlockError::io("divide", self.drive.path(), error)),
            }
        }
        Ok(())
    }

    /// Takes both parts away. A child that another thread is just starting has a copy of all that is open
    /// until it becomes another program, so "busy" may pass.
    fn undivide(&mut self) -> io::Result<()> {
        let remove = |number| match blkpg::remove(self.whole.as_fd(), number) {
            Ok(()) | Err(Errno::NXIO) => Ok(()),
            Err(error) => Err(error.into()),
        };
        let passes = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
        patiently(|| remove(DATA), passes)?;
        patiently(|| remove(GUARD), passes)?;
        self.divided = false;
        Ok(())
    }

    /// Opens a part for writing, so that nobody else may take it; its node is waited for, and so is
    /// whoever has it.
    fn open_part(&self, number: u32) -> Result<File, BlockError> {
        let path = self.drive.part_path(number);
        let parts = self.drive.parts();
        let known = parts.iter().find(|part| part.number == number);
        let Some(device) = known.map(|part| part.device) else {
            return Err(BlockError::io("find", path, io::Error::from(io::ErrorKind::NotFound)));
        };
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(OFlags::EXCL.bits() as i32);
            options.open(&path)
        };
        let passes = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ResourceBusy)
        };
        let file = patiently(open, passes)
            .map_err(|error| busy(&self.drive, BlockError::io("open", &path, error)))?;
        let status = fstat(&file).map_err(|error| BlockError::io("look at", &path, error))?;
        if status.st_rdev != device {
            let is = "another device's node".to_string();
            return Err(BlockError::Changed { path, was: "a part of the drive".into(), is });
        }
        Ok(file)
    }

    fn note(&self, left: Left) -> Result<(), BlockError> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let written = Mark { left, ..self.mark.clone() }.write(guard);
        written.map_err(|error| BlockError::io("mark", self.drive.path(), error))
    }

    /// The part that a file system gets. It is free for mkfs, mount and fsck to take, one at a time. The
    /// device is dropped before the claim.
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

    /// What it is, in words for records.
    pub fn what(&self) -> String {
        format!("{} {}", self.drive.model(), self.mark.serial)
    }

    /// Clears both ends of the data part, so that the next mkfs finds a blank drive, as it does in
    /// the lab: some refuse where they see a file system. Then notes the UUIDs in the words of that command: what
    /// has one of them is ours from here on, however this ends.
    ///
    /// # Errors
    /// What the kernel says, `ResourceBusy` where it is still mounted after a while: the mount of a trial
    /// that was killed goes a moment after its last process.
    pub fn blank(&self, mkfs: &[String]) -> Result<(), BlockError> {
        let path = self.drive.part_path(DATA);
        let part = self.open_part(DATA)?;
        let zeros = vec![0; CLEARED];
        let end = self.layout.data.size.0 - CLEARED as u64;
        for at in [0, end] {
            part.write_all_at(&zeros, at).map_err(|error| BlockError::io("clear", &path, error))?;
        }
        part.sync_all().map_err(|error| BlockError::io("clear", &path, error))?;
        self.note(Left::Unfinished(uuids_in(mkfs)))
    }

    /// Gives the drive back: notes on it what is left there, and takes the parts away.
    ///
    /// # Errors
    /// What could not be done; a part that is still mounted stays.
    pub fn release(mut self) -> Result<(), BlockError> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), BlockError> {
        if self.guard.is_none() {
            return Ok(());
        }
        let found = signature::of(&self.drive.part_path(DATA))?;
        self.note(found.map_or(Left::Nothing, |found| Left::Made(found.to_string())))?;
        self.guard = None;
        let undivided = self.undivide();
        undivided.map_err(|error| BlockError::io("give back", self.drive.path(), error))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // What cannot be done here the next claim does: the mark says that it was not finished.
        let _ = self.give_back();
        self.guard = None;
        if self.divided {
            let _ = self.undivide();
        }
    }
}

fn refused(drive: &Drive, reasons: Vec<Reason>) -> BlockError {
    BlockError::Refused { path: drive.path(), what: drive.describe(), reasons }
}

/// An error that means "somebody has it", in those words.
fn busy(drive: &Drive, error: BlockError) -> BlockError {
    match error {
        BlockError::Io { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
            refused(drive, vec![Reason::Busy])
        }
        other => other,
    }
}

fn lock(drive: &Drive, whole: &File) -> Result<(), BlockError> {
    let lock = || Ok(flock(whole, FlockOperation::NonBlockingLockExclusive)?);
    patiently(lock, |error| error.kind() == io::ErrorKind::WouldBlock).map_err(|error| match error
        .kind()
    {
        io::ErrorKind::WouldBlock => refused(drive, vec![Reason::Locked]),
        _ => BlockError::io("lock", drive.path(), error),
    })
}

/// Tries again while the error is one that passes.
fn patiently<T>(
    mut attempt: impl FnMut() -> io::Result<T>,
    passes: impl Fn(&io::Error) -> bool,
) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(error) if passes(&error) && begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}
