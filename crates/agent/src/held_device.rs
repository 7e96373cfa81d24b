//! Devices of this host that the venue holds open for the agent. The agent holds them open, too, while any process may
//! write to them, and checks that each name still refers to its device.
//!
//! A loop device disappears with its last user, and its number may then be reused by any process. Because the keeper
//! (the agent's outer process) and the trial have it open too, it stays until both have ended, whatever happens to the
//! venue.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat, fstat, major, minor, stat};
use rustix::io::{FdFlags, fcntl_setfd};

/// A device that is held open.
#[derive(Debug)]
pub struct HeldDevice {
    fd: OwnedFd,
    path: PathBuf,
}

impl HeldDevice {
    /// Takes a device that was handed over; programs started later do not inherit it.
    ///
    /// # Errors
    /// A file that is not a block device, or not the device with that name.
    pub fn new(fd: OwnedFd, path: PathBuf) -> io::Result<HeldDevice> {
        fcntl_setfd(fd.as_fd(), FdFlags::CLOEXEC)?;
        let held = HeldDevice { fd, path };
        held.verify()?;
        Ok(held)
    }

    /// Returns its device node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the name still refers to the held device, or to a partition of the same drive.
    ///
    /// # Errors
    /// If the name refers to another device.
    pub fn verify(&self) -> io::Result<()> {
        let (held, named) = (fstat(&self.fd)?, stat(&self.path)?);
        let is_block = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        let refuse = |problem: &str| {
            Err(io::Error::other(format!("{}: {problem}; nothing is written", self.path.display())))
        };
        if !is_block(&held) || !is_block(&named) {
            return refuse("it is not a block device");
        }
        let is_same_device = held.st_rdev == named.st_rdev
            || drive_of(held.st_rdev).is_some_and(|drive| drive_of(named.st_rdev) == Some(drive));
        if is_same_device {
            Ok(())
        } else {
            refuse("it is not the device that is held for this trial")
        }
    }
}

/// Returns the sysfs folder of the drive that a partition is on; `None` if the device is not a partition.
fn drive_of(number: u64) -> Option<PathBuf> {
    let link = format!("/sys/dev/block/{}:{}", major(number), minor(number));
    let folder = std::fs::canonicalize(link).ok()?;
    folder.join("partition").exists().then(|| folder.parent().map(Path::to_path_buf))?
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_that_is_not_a_block_device_is_refused() {
        let null = || OwnedFd::from(File::open("/dev/null").unwrap());
        let error = HeldDevice::new(null(), "/dev/null".into()).unwrap_err();
        assert!(error.to_string().contains("not a block device"), "{error}");
        assert!(HeldDevice::new(null(), "/no/such/device".into()).is_err());
    }

    #[test]
    fn a_name_that_now_refers_to_another_device_is_refused() {
        let blocks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let nodes = blocks.map(|entry| Path::new("/dev").join(entry.file_name()));
        let opened = nodes.filter_map(|node| Some((File::open(&node).ok()?, node)));
        let mut opened = opened.take(2);
        let (Some((file, first)), Some((_, second))) = (opened.next(), opened.next()) else {
            return println!("skipped: no two block devices to open here");
        };
        let copy = || OwnedFd::from(file.try_clone().unwrap());
        assert!(HeldDevice::new(copy(), first.clone()).is_ok());
        // A symbolic link stands for a name that was reassigned to another device.
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("name");
        std::os::unix::fs::symlink(&first, &name).unwrap();
        let held = HeldDevice::new(copy(), name.clone()).unwrap();
        std::fs::remove_file(&name).unwrap();
        std::os::unix::fs::symlink(&second, &name).unwrap();
        let error = held.verify().unwrap_err().to_string();
        assert!(error.contains("not the device that is held"), "{error}");
    }
}
