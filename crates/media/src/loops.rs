//! Loop devices that vanish with their last user, marked as fsdyno's.
//!
//! A loop is set up with LO_FLAGS_AUTOCLEAR and kept by one open descriptor: when that is closed,
//! by whatever end of its process, and nothing is mounted from it, the kernel clears it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsdyno_record::Bytes;

use crate::device::Device;
use crate::error::MediaError;
use crate::mark::Mark;

const CONTROL: &str = "/dev/loop-control";

// linux/loop.h
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Between asking for a free number and taking it somebody else may take it; so often it is tried.
const TRIES: u32 = 64;

/// linux/loop.h `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// linux/loop.h `struct loop_config`.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A loop device that bears fsdyno's mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedLoop {
    /// Its node.
    pub path: PathBuf,
    /// Whose it is.
    pub mark: Mark,
}

/// What lies below a loop: a stretch of a file or of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backing {
    /// The device of its file system, as the loop's driver knows it, and as stat(2) does where that differs
    /// (btrfs).
    devices: Vec<u64>,
    inode: u64,
    /// The number of the block device that it is, if it is one.
    pub block: Option<u64>,
    start: u64,
    end: u64,
}

impl Backing {
    /// What lies below a loop; none where it is no loop, or is not set up.
    pub fn of(path: &Path) -> Option<Backing> {
        let info = info(&File::open(path).ok()?)?;
        let mut devices = vec![new_number(info.device)];
        let there = backing(path).and_then(|file| fs::metadata(file.trim_end()).ok());
        devices.extend(there.filter(|file| file.ino() == info.inode).map(|file| file.dev()));
        let block = Some(new_number(info.rdevice)).filter(|number| *number != 0);
        let end = match info.sizelimit {
            0 => u64::MAX,
            limit => info.offset.saturating_add(limit),
        };
        Some(Backing { devices, inode: info.inode, block, start: info.offset, end })
    }

    /// Whether this is the file below.
    pub fn is(&self, device: u64, inode: u64) -> bool {
        self.inode == inode && self.devices.contains(&device)
    }

    /// Whether the two have bytes in common.
    pub fn overlaps(&self, other: &Backing) -> bool {
        let same = other.devices.iter().any(|device| self.is(*device, other.inode));
        same && self.start < other.end && other.start < self.end
    }
}

/// The number of a device as the standard library gives it, from the kernel's 32 bits of linux/kdev_t.h.
fn new_number(number: u64) -> u64 {
    let (major, minor) = (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff00);
    rustix::fs::makedev(major as u32, minor as u32)
}

/// Whether loop devices can be made here.
///
/// # Errors
/// What is missing.
pub(crate) fn check() -> Result<(), MediaError> {
    control().map(|_| ())
}

/// Lays a loop over all of `backing`, past its page cache where its file system can do that.
pub(crate) fn attach(
    backing: BorrowedFd<'_>,
    size: Bytes,
    what: String,
) -> Result<Device, MediaError> {
    let control = control()?;
    let failed = |path: &Path, error| MediaError::io_error("set up", path, error);
    for _ in 0..TRIES {
        // SAFETY: the request takes no argument and gives a number.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
        if number < 0 {
            return Err(failed(Path::new(CONTROL), io::Error::last_os_error()));
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        // The kernel takes a loop that is opened for reading only as one that must not be written.
        let open = OpenOptions::new().read(true).write(true).open(&path);
        let device = open.map_err(|error| failed(&path, error))?;
        match configure(&device, backing) {
            Ok(()) => {
                // Some kernels (CONFIG_BLK_DEV_WRITE_MOUNTED=n) mount nothing that is open for
                // writing, so what keeps the loop is open for reading.
                let held = File::open(&path).map_err(|error| failed(&path, error))?;
                return Ok(Device { path, size, held: OwnedFd::from(held), what });
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(failed(&path, error)),
        }
    }
    Err(failed(Path::new(CONTROL), io::ErrorKind::ResourceBusy.into()))
}

fn control() -> Result<File, MediaError> {
    let opened = OpenOptions::new().read(true).write(true).open(CONTROL);
    opened.map_err(|error| MediaError::NoLoops(error.to_string()))
}

fn configure(device: &File, backing: BorrowedFd<'_>) -> io::Result<()> {
    let mut info = Info::zeroed();
    info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    let mark = Mark::mine().to_string();
    info.file_name.iter_mut().zip(mark.bytes()).for_each(|(place, byte)| *place = byte);
    let fd = u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?;
    let config = Config { fd, block_size: 0, info, reserved: [0; 8] };
    // SAFETY: the kernel reads the one struct, which is laid out as linux/loop.h has it.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &config) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Info {
    fn zeroed() -> Info {
        Info {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            sizelimit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: 0,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

/// Whether a whole device is a loop.
pub fn is_loop(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    Path::new("/sys/block").join(name).join("loop").exists()
}

/// Whether requests to a loop go past the page cache of its file, as the kernel says.
pub fn is_direct(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let file = Path::new("/sys/block").join(name).join("loop/dio");
    fs::read_to_string(file).is_ok_and(|text| text.trim() == "1")
}

/// What the kernel calls the file below a loop; none once it has been cleared.
pub fn backing(path: &Path) -> Option<String> {
    let file = Path::new("/sys/block").join(path.file_name()?).join("loop/backing_file");
    fs::read_to_string(file).ok()
}

/// The loops that bear fsdyno's mark, whoever's they are; none where they cannot be looked at.
pub fn marked() -> Vec<MarkedLoop> {
    let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let bound = blocks.filter(|entry| entry.path().join("loop/backing_file").exists());
    let mut found: Vec<MarkedLoop> = bound
        .filter_map(|entry| {
            let path = Path::new("/dev").join(entry.file_name());
            let mark = mark_of(&File::open(&path).ok()?)?;
            Some(MarkedLoop { path, mark })
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn info(device: &File) -> Option<Info> {
    let mut info = Info::zeroed();
    // SAFETY: the kernel fills the one struct, which is laid out as linux/loop.h has it.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as _, &mut info) };
    (answer >= 0).then_some(info)
}

fn mark_of(device: &File) -> Option<Mark> {
    let info = info(device)?;
    let name: Vec<u8> = info.file_name.iter().copied().take_while(|byte| *byte != 0).collect();
    Mark::parse(std::str::from_utf8(&name).ok()?)
}

/// Clears a loop if it still bears that mark; the kernel does it when nothing uses it any more. A loop
/// that went by itself is none that is left, also where its device is another loop by now, which stays.
///
/// # Errors
/// What the kernel refuses.
pub fn clear(left: &MarkedLoop) -> Result<(), MediaError> {
    let failed = |error| MediaError::io_error("clear", &left.path, error);
    let device = File::open(&left.path).map_err(failed)?;
    // It went by itself, when what was mounted from it did.
    if mark_of(&device) != Some(left.mark) {
        return Ok(());
    }
    // SAFETY: the request takes no argument and touches no memory of this process.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD as _) } {
        0.. => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
            error => Err(failed(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_structs_are_as_large_as_the_kernels() {
        assert_eq!((size_of::<Info>(), size_of::<Config>()), (232, 304));
    }

    #[test]
    fn stretches_of_one_file_are_told_apart() {
        let part = |start, end| Backing { devices: vec![5, 6], inode: 7, block: None, start, end };
        assert!(part(0, u64::MAX).overlaps(&part(2048, u64::MAX)));
        assert!(part(0, 4096).overlaps(&part(4095, 8192)));
        assert!(!part(0, 4096).overlaps(&part(4096, 8192)));
        let other = Backing { devices: vec![8], ..part(0, 4096) };
        assert!(!part(0, 4096).overlaps(&other) && other.overlaps(&other));
        assert_eq!(new_number(0x0010_3407), rustix::fs::makedev(0x34, 0x107));
    }

    #[test]
    fn a_loop_bears_our_mark_and_goes_with_its_last_user() {
        let backing = tempfile::tempfile().unwrap();
        backing.set_len(1 << 20).unwrap();
        let device = match attach(backing.as_fd(), Bytes(1 << 20), "a test".into()) {
            Ok(device) => device,
            Err(error) => return println!("skipped: {error}"),
        };
        let ours = MarkedLoop { path: device.path.clone(), mark: Mark::mine() };
        assert!(marked().contains(&ours));
        assert!(
            super::backing(&ours.path).is_some()
                && super::backing(Path::new("/dev/null")).is_none()
        );
        let other = MarkedLoop { mark: Mark { pid: 4_194_305, ..ours.mark }, ..ours.clone() };
        clear(&other).unwrap();
        assert!(marked().contains(&ours), "a loop that took the place of another stays");
        drop(device);
        // Whoever looks at block devices as they appear may hold it a moment longer.
        let gone = (0..400).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            !marked().contains(&ours)
        });
        assert!(gone, "{} is still there", ours.path.display());
    }
}
