//! Loop devices that have fsdyno's mark and are detached when their last user has ended.
//!
//! A loop device is set up with LO_FLAGS_AUTOCLEAR and held by one open descriptor: when that is closed,
//! however its process ends, and nothing is mounted from it, the kernel detaches it.

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

/// Number of attempts: another process may take a free number before we do.
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

/// A loop device with fsdyno's mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedLoop {
    /// The device node.
    pub path: PathBuf,
    /// The mark of its owner.
    pub mark: Mark,
}

/// The backing of a loop device: a range of a file or of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backing {
    /// The device of its file system according to the loop driver, and according to stat(2) if that differs (btrfs).
    devices: Vec<u64>,
    inode: u64,
    /// The number of the block device, if it is one.
    pub block: Option<u64>,
    start: u64,
    end: u64,
}

impl Backing {
    /// Returns the backing of a loop device, or `None` if it is not an attached loop device.
    pub fn of(path: &Path) -> Option<Backing> {
        let info = info(&File::open(path).ok()?)?;
        let mut devices = vec![std_device_number(info.device)];
        let file = backing(path).and_then(|file| fs::metadata(file.trim_end()).ok());
        devices.extend(file.filter(|file| file.ino() == info.inode).map(|file| file.dev()));
        let block = Some(std_device_number(info.rdevice)).filter(|number| *number != 0);
        let end = match info.sizelimit {
            0 => u64::MAX,
            limit => info.offset.saturating_add(limit),
        };
        Some(Backing { devices, inode: info.inode, block, start: info.offset, end })
    }

    /// Reports whether this is the backing file.
    pub fn is(&self, device: u64, inode: u64) -> bool {
        self.inode == inode && self.devices.contains(&device)
    }

    /// Reports whether the two share bytes.
    pub fn overlaps(&self, other: &Backing) -> bool {
        let same = other.devices.iter().any(|device| self.is(*device, other.inode));
        same && self.start < other.end && other.start < self.end
    }
}

/// Converts a device number of the kernel (32 bits, linux/kdev_t.h) to the form of the standard library.
fn std_device_number(number: u64) -> u64 {
    let (major, minor) = (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff00);
    rustix::fs::makedev(major as u32, minor as u32)
}

/// Checks that loop devices can be set up here.
///
/// # Errors
/// /dev/loop-control cannot be opened.
pub(crate) fn check() -> Result<(), MediaError> {
    control().map(|_| ())
}

/// Attaches a loop device to all of `backing`, bypassing its page cache if its file system supports that.
pub(crate) fn attach(
    backing: BorrowedFd<'_>,
    size: Bytes,
    what: String,
) -> Result<Device, MediaError> {
    let control = control()?;
    let failed = |path: &Path, error| MediaError::io_error("set up", path, error);
    for _ in 0..TRIES {
        // SAFETY: the request takes no argument and returns a number.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
        if number < 0 {
            return Err(failed(Path::new(CONTROL), io::Error::last_os_error()));
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        // A loop device configured through a read-only descriptor would be read-only.
        let open = OpenOptions::new().read(true).write(true).open(&path);
        let device = open.map_err(|error| failed(&path, error))?;
        match configure(&device, backing) {
            Ok(()) => {
                // Some kernels (CONFIG_BLK_DEV_WRITE_MOUNTED=n) mount nothing that is open for
                // writing, so the loop device is held by a read-only descriptor.
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
    let mark = Mark::current().to_string();
    info.file_name.iter_mut().zip(mark.bytes()).for_each(|(to, byte)| *to = byte);
    let fd = u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?;
    let config = Config { fd, block_size: 0, info, reserved: [0; 8] };
    // SAFETY: the kernel reads the one struct, which is laid out as in linux/loop.h.
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

/// Reports whether a whole device is a loop device.
pub fn is_loop(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    Path::new("/sys/block").join(name).join("loop").exists()
}

/// Reports whether a loop device bypasses the page cache of its file.
pub fn is_direct(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let file = Path::new("/sys/block").join(name).join("loop/dio");
    fs::read_to_string(file).is_ok_and(|text| text.trim() == "1")
}

/// Returns the kernel's name of the backing file, or `None` once the loop device is detached.
pub fn backing(path: &Path) -> Option<String> {
    let file = Path::new("/sys/block").join(path.file_name()?).join("loop/backing_file");
    fs::read_to_string(file).ok()
}

/// Returns all loop devices with fsdyno's mark that this user may inspect.
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
    // SAFETY: the kernel fills the one struct, which is laid out as in linux/loop.h.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as _, &mut info) };
    (answer >= 0).then_some(info)
}

fn mark_of(device: &File) -> Option<Mark> {
    let info = info(device)?;
    let name: Vec<u8> = info.file_name.iter().copied().take_while(|byte| *byte != 0).collect();
    Mark::parse(std::str::from_utf8(&name).ok()?)
}

/// Detaches a loop device if it still has its mark; the kernel completes this once nothing uses the device. It is not
/// an error if the device is already detached, or attached to something else, which is not touched.
///
/// # Errors
/// The error of ioctl(2) or open(2).
pub fn clear(left: &MarkedLoop) -> Result<(), MediaError> {
    let failed = |error| MediaError::io_error("detach", &left.path, error);
    let device = File::open(&left.path).map_err(failed)?;
    // It was already detached, with its last mount.
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
    fn the_structs_have_the_kernels_sizes() {
        assert_eq!((size_of::<Info>(), size_of::<Config>()), (232, 304));
    }

    #[test]
    fn ranges_of_one_file_are_distinguished() {
        let part = |start, end| Backing { devices: vec![5, 6], inode: 7, block: None, start, end };
        assert!(part(0, u64::MAX).overlaps(&part(2048, u64::MAX)));
        assert!(part(0, 4096).overlaps(&part(4095, 8192)));
        assert!(!part(0, 4096).overlaps(&part(4096, 8192)));
        let other = Backing { devices: vec![8], ..part(0, 4096) };
        assert!(!part(0, 4096).overlaps(&other) && other.overlaps(&other));
        assert_eq!(std_device_number(0x0010_3407), rustix::fs::makedev(0x34, 0x107));
    }

    #[test]
    fn a_loop_device_has_our_mark_and_is_detached_with_its_last_user() {
        let backing = tempfile::tempfile().unwrap();
        backing.set_len(1 << 20).unwrap();
        let device = match attach(backing.as_fd(), Bytes(1 << 20), "a test".into()) {
            Ok(device) => device,
            Err(error) => return println!("skipped: {error}"),
        };
        let ours = MarkedLoop { path: device.path.clone(), mark: Mark::current() };
        assert!(marked().contains(&ours));
        assert!(
            super::backing(&ours.path).is_some()
                && super::backing(Path::new("/dev/null")).is_none()
        );
        let other = MarkedLoop { mark: Mark { pid: 4_194_305, ..ours.mark }, ..ours.clone() };
        clear(&other).unwrap();
        assert!(marked().contains(&ours), "a loop device with another mark is not detached");
        drop(device);
        // udev and the like may hold a new block device a moment longer.
        let is_detached = (0..400).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            !marked().contains(&ours)
        });
        assert!(is_detached, "{} is still attached", ours.path.display());
    }
}
