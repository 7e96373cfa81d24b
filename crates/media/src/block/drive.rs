//! Identifies a drive, and reads its properties from sysfs and udev.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fsdyno_record::Bytes;
use rustix::fs::{OFlags, fstat, major, minor};

use super::layout::{KernelPart, Part};
use super::refusal::BlockError;
use crate::loops::Backing;

/// The unit of sizes and starts in sysfs, in bytes, whatever the drive's own sector size is.
const SECTOR: u64 = 512;

/// A whole drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    requested: PathBuf,
    number: u64,
    /// The folder in sysfs.
    folder: PathBuf,
    /// The disk sequence number (diskseq): a device number may be reused by another drive.
    sequence: Option<String>,
}

impl Drive {
    /// Finds the drive to which a path currently refers.
    ///
    /// # Errors
    /// A path that is not a whole drive.
    pub fn find(requested: &Path) -> Result<Drive, BlockError> {
        let status = fs::metadata(requested).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BlockError::Missing(requested.into()),
            io::ErrorKind::PermissionDenied => BlockError::NotAllowed(requested.into()),
            _ => BlockError::io("inspect", requested, error),
        })?;
        if !status.file_type().is_block_device() {
            return Err(BlockError::NotADevice(requested.into()));
        }
        let number = status.rdev();
        let folder =
            folder_of(number).map_err(|error| BlockError::io("inspect", requested, error))?;
        if folder.join("partition").exists() {
            let whole = folder.parent().and_then(Path::file_name).unwrap_or_default();
            let whole = format!("/dev/{}", whole.to_string_lossy());
            return Err(BlockError::Partition { path: requested.into(), whole });
        }
        let sequence = read_attribute(&folder, "diskseq");
        let drive = Drive { requested: requested.into(), number, folder, sequence };
        if !rustix::process::geteuid().is_root() {
            return Err(BlockError::NotAllowed(requested.into()));
        }
        Ok(drive)
    }

    /// Returns the device number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the folder in sysfs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the name, such as sdb.
    pub fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the kernel's device node, since the target of a requested link may change.
    pub fn path(&self) -> PathBuf {
        node_of(&self.folder)
    }

    /// Returns the node of a partition. If the name ends in a digit, a `p` precedes the number.
    pub fn part_path(&self, number: u32) -> PathBuf {
        let mut path = self.path().into_os_string();
        if path.to_string_lossy().ends_with(|last: char| last.is_ascii_digit()) {
            path.push("p");
        }
        path.push(number.to_string());
        path.into()
    }

    /// Opens the drive for reading.
    ///
    /// # Errors
    /// An error from the kernel, or a path that now refers to a different drive.
    pub fn open_to_read(&self) -> Result<File, BlockError> {
        self.open(OFlags::empty())
    }

    /// Opens the drive for reading, exclusively.
    ///
    /// # Errors
    /// Those of [`Drive::open_to_read`]; `ResourceBusy` if the drive is already claimed.
    pub fn open_exclusively(&self) -> Result<File, BlockError> {
        self.open(OFlags::EXCL)
    }

    fn open(&self, extra_flags: OFlags) -> Result<File, BlockError> {
        let flags = (OFlags::NONBLOCK | extra_flags).bits() as i32;
        let opened = File::options().read(true).custom_flags(flags).open(&self.requested);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => BlockError::NotAllowed(self.requested.clone()),
            _ => BlockError::io("open", &self.requested, error),
        })?;
        self.check(file.as_fd())?;
        Ok(file)
    }

    /// Checks that the opened device is this drive: a link may now refer to a different device, and a number may
    /// have been reused.
    fn check(&self, opened: BorrowedFd<'_>) -> Result<(), BlockError> {
        let status =
            fstat(opened).map_err(|error| BlockError::io("inspect", &self.requested, error))?;
        let sequence = read_attribute(&self.folder, "diskseq");
        if status.st_rdev == self.number && sequence == self.sequence {
            return Ok(());
        }
        let describe = |number, sequence: &Option<String>| {
            let device = format!("device {}:{}", major(number), minor(number));
            sequence
                .as_ref()
                .map_or(device.clone(), |sequence| format!("{device}, disk {sequence}"))
        };
        Err(BlockError::Changed {
            path: self.requested.clone(),
            former: describe(self.number, &self.sequence),
            current: describe(status.st_rdev, &sequence),
        })
    }

    /// Describes a device that is not a drive but is mapped onto others.
    pub fn mapping(&self) -> Option<&'static str> {
        if Backing::of(&self.path()).is_some_and(|backing| backing.block.is_some()) {
            return Some("a loop device over another block device");
        }
        let kinds =
            [("dm", "a device-mapper volume (LVM, crypt, multipath)"), ("md", "an md array")];
        kinds
            .iter()
            .find(|(name, _)| self.folder.join(name).exists())
            .map(|(_, description)| *description)
    }

    /// Reports whether the drive cannot be written.
    pub fn is_read_only(&self) -> bool {
        read_attribute(&self.folder, "ro").is_none_or(|text| text != "0")
    }

    /// Returns the size.
    pub fn size(&self) -> Bytes {
        Bytes(read_number(&self.folder, "size").unwrap_or(0) * SECTOR)
    }

    /// Returns the model, or the kind of device.
    pub fn model(&self) -> String {
        if self.folder.join("loop").exists() {
            return "loop over".into();
        }
        let attribute = |name| read_attribute(&self.folder, name);
        let (vendor, model) = (attribute("device/vendor"), attribute("device/model"));
        match (vendor, model) {
            // libata's vendor is always "ATA", and virtio's is a number.
            (Some(vendor), Some(model)) if vendor != "ATA" && !vendor.starts_with("0x") => {
                format!("disk {vendor} {model}")
            }
            (_, Some(model)) => format!("disk {model}"),
            _ => format!("disk {}", self.name()),
        }
    }

    /// Returns the serial number from the driver, or else from SCSI's vital product data, or else from udev. A
    /// loop device has none and is identified by its backing file.
    pub fn serial(&self) -> Option<String> {
        let direct = ["loop/backing_file", "serial", "device/serial"];
        let serial = direct.iter().find_map(|name| read_attribute(&self.folder, name));
        let serial = serial.or_else(|| vpd_serial(&self.folder)).or_else(|| self.udev_serial());
        // The serial number must be usable in a command line, a record and the mark.
        serial.filter(|serial| !serial.chars().any(char::is_control))
    }

    fn udev_serial(&self) -> Option<String> {
        let path = format!("/run/udev/data/b{}:{}", major(self.number), minor(self.number));
        let text = fs::read_to_string(path).ok()?;
        ["E:ID_SERIAL_SHORT=", "E:ID_SERIAL="]
            .iter()
            .find_map(|key| text.lines().find_map(|line| line.strip_prefix(key)))
            .map(str::to_string)
    }

    /// Describes the drive for the user.
    pub fn describe(&self) -> String {
        match self.serial() {
            Some(serial) if self.folder.join("loop").exists() => {
                format!("a loop device of {} over {serial}", self.size())
            }
            Some(serial) => format!("{}, {}, serial number {serial}", self.model(), self.size()),
            None => format!("{}, {}", self.model(), self.size()),
        }
    }

    /// Returns the partitions in the kernel's table, by number.
    pub fn parts(&self) -> Vec<KernelPart> {
        let folders = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut parts: Vec<KernelPart> =
            folders.filter_map(|entry| part_of(&entry.path())).collect();
        parts.sort_by_key(|part| part.number);
        parts
    }
}

fn part_of(folder: &Path) -> Option<KernelPart> {
    let bytes_of = |name| Some(Bytes(read_number(folder, name)? * SECTOR));
    let (major, minor) =
        read_attribute(folder, "dev")?.split_once(':').map(|(a, b)| (a.parse(), b.parse()))?;
    Some(KernelPart {
        name: folder.file_name()?.to_string_lossy().into_owned(),
        number: u32::try_from(read_number(folder, "partition")?).ok()?,
        device: rustix::fs::makedev(major.ok()?, minor.ok()?),
        part: Part { start: bytes_of("start")?, size: bytes_of("size")? },
    })
}

/// Returns the sysfs folder of a device number.
fn folder_of(number: u64) -> io::Result<PathBuf> {
    fs::canonicalize(format!("/sys/dev/block/{}:{}", major(number), minor(number)))
}

/// Returns the node named in `uevent`; some names have a slash there and a `!` in sysfs.
pub fn node_of(folder: &Path) -> PathBuf {
    let text = fs::read_to_string(folder.join("uevent")).unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("DEVNAME="));
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    Path::new("/dev").join(named.unwrap_or(&name))
}

/// Reads the unit serial number, page 80h (SPC-4): two bytes of length, then text.
fn vpd_serial(folder: &Path) -> Option<String> {
    let page = fs::read(folder.join("device/vpd_pg80")).ok()?;
    let length = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
    let text = String::from_utf8_lossy(page.get(4..4 + length)?).trim().to_string();
    (!text.is_empty()).then_some(text)
}

fn read_number(folder: &Path, name: &str) -> Option<u64> {
    read_attribute(folder, name)?.parse().ok()
}

/// Reads a file in sysfs; returns `None` if it is missing or empty.
pub fn read_attribute(folder: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(name)).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_number_of_a_scsi_disk_is_read_from_its_page() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("device")).unwrap();
        let page = |bytes: &[u8]| fs::write(folder.path().join("device/vpd_pg80"), bytes).unwrap();
        page(b"\x00\x80\x00\x08  S5XYZ ");
        assert_eq!(vpd_serial(folder.path()).as_deref(), Some("S5XYZ"));
        page(b"\x00\x80\x00\x09  S5XYZ ");
        assert_eq!(vpd_serial(folder.path()), None, "shorter than its length");
        page(b"\x00\x80\x00\x00");
        assert_eq!(vpd_serial(folder.path()), None);
    }
}
