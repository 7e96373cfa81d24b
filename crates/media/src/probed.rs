//! A drive opened read-only, bypassing the page cache, to measure the times of reads.
//!
//! Nothing here can write, because the descriptor is O_RDONLY. A drive may therefore be probed while it is mounted;
//! other reads and writes during the probe only distort the times.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_record::Bytes;
use fsdyno_record::mount_table::{MountLine, mounts};
use rustix::fs::{OFlags, SeekFrom, major, minor, seek};

/// The alignment of addresses and lengths for O_DIRECT: the largest logical block of any drive.
const ALIGNED: usize = 4096;

/// The unit of positions, in bytes.
const SECTOR: u64 = 512;

/// The reason why a drive cannot be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It is neither a block device nor a file.
    #[error("'{}' is not a block device; name one such as /dev/sda (lsblk lists them)", .0.display())]
    NotADevice(PathBuf),
    /// It is a partition.
    #[error(
        "'{}' is a partition, and a disk model needs a whole drive; name {whole}", .path.display()
    )]
    Partition {
        /// The path.
        path: PathBuf,
        /// The whole drive.
        whole: String,
    },
    /// This user or container may not read it.
    #[error("no permission to read '{}'; {}", .0.display(), permission(.0))]
    NotAllowed(PathBuf),
    /// The path does not exist.
    #[error("'{}' does not exist; lsblk lists the drives", .0.display())]
    Missing(PathBuf),
    /// It does not support reads that bypass the page cache.
    #[error(
        "'{}' does not support reads that bypass the page cache (O_DIRECT), so its times would be those of memory",
        .0.display()
    )]
    Cached(PathBuf),
    /// It is too small for reads at sufficiently different positions.
    #[error("'{}' has {size}; a disk model needs at least {least}", .path.display())]
    TooSmall {
        /// The path.
        path: PathBuf,
        /// Its size.
        size: Bytes,
        /// The minimum.
        least: Bytes,
    },
    /// A system call failed.
    #[error("failed to {what} '{}': {source}", .path.display())]
    Io {
        /// The attempted action.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Returns the remedy for a missing permission.
fn permission(path: &Path) -> String {
    if rustix::process::geteuid().is_root() {
        return "even root lacks it here, as in a container: run it on the host itself".into();
    }
    format!("run it as root: sudo fsdyno fit '{}'", path.display())
}

/// Minimum size: enough for a long read at each of a dozen positions.
const MIN_SIZE: Bytes = Bytes(1 << 30);

/// A drive, open for reading.
#[derive(Debug)]
pub struct Probed {
    path: PathBuf,
    file: File,
    size: Bytes,
    /// The sysfs folder of the device, or of a file's device.
    sysfs: Option<PathBuf>,
    is_file: bool,
    stop: Arc<AtomicBool>,
}

impl Probed {
    /// Opens a block device, or a file instead of one. Reads fail with `Interrupted` once `stop` is set.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn open(path: &Path, stop: Arc<AtomicBool>) -> Result<Probed, ProbeError> {
        let io = |what| {
            move |source: io::Error| match source.kind() {
                io::ErrorKind::NotFound => ProbeError::Missing(path.into()),
                io::ErrorKind::PermissionDenied => ProbeError::NotAllowed(path.into()),
                _ => ProbeError::Io { what, path: path.into(), source },
            }
        };
        let status = std::fs::metadata(path).map_err(io("inspect"))?;
        let kind = status.file_type();
        if !kind.is_block_device() && !kind.is_file() {
            return Err(ProbeError::NotADevice(path.into()));
        }
        let device = if kind.is_file() { status.dev() } else { status.rdev() };
        let sysfs = sysfs(device);
        if let Some(whole) = sysfs.as_deref().filter(|_| !kind.is_file()).and_then(whole_drive) {
            return Err(ProbeError::Partition { path: path.into(), whole });
        }
        let mut options = File::options();
        options.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
        let file = options.open(path).map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::INVAL.raw_os_error() => {
                ProbeError::Cached(path.into())
            }
            _ => io("open")(error),
        })?;
        let size = seek(&file, SeekFrom::End(0)).map_err(|error| io("measure")(error.into()))?;
        let size = Bytes(size / ALIGNED as u64 * ALIGNED as u64);
        if size < MIN_SIZE {
            return Err(ProbeError::TooSmall { path: path.into(), size, least: MIN_SIZE });
        }
        let sysfs = sysfs.map(|folder| disk_of(&folder));
        Ok(Probed { path: path.into(), file, size, sysfs, is_file: kind.is_file(), stop })
    }

    /// Returns the size in bytes, a multiple of 4096.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Reports whether it is a file, whose times depend on its file system.
    pub fn is_file(&self) -> bool {
        self.is_file
    }

    /// Returns the name of the device in sysfs, if any.
    pub fn name(&self) -> Option<String> {
        Some(self.sysfs.as_ref()?.file_name()?.to_string_lossy().into_owned())
    }

    /// Reads a file below `/sys/block/NAME/`, without surrounding white space; returns `None` if it is missing or
    /// empty.
    pub fn attribute(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.sysfs.as_ref()?.join(name)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_string())
    }

    /// Returns the revolutions per minute from the drive's page of block device characteristics (SBC-4, VPD
    /// page B1h, bytes 4 and 5; libata derives it from ATA's word 217), if reported.
    pub fn rpm(&self) -> Option<u32> {
        let page = std::fs::read(self.sysfs.as_ref()?.join("device/vpd_pgb1")).ok()?;
        let rate = u32::from(u16::from_be_bytes([*page.get(4)?, *page.get(5)?]));
        // 0 is unknown, 1 is non-rotating, the values up to 0x400 are reserved.
        (rate > 0x400 && rate < 0xffff).then_some(rate)
    }

    /// Reports whether a file system on it or on one of its partitions is mounted.
    pub fn is_mounted(&self) -> bool {
        let Some(sysfs) = &self.sysfs else { return false };
        let parts = std::fs::read_dir(sysfs).into_iter().flatten().flatten();
        let parts = parts.map(|entry| entry.path()).filter(|path| path.join("partition").exists());
        let mut devices: Vec<String> = Vec::new();
        for folder in parts.chain([sysfs.clone()]) {
            devices.extend(std::fs::read_to_string(folder.join("dev")).ok());
        }
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let number = |line: MountLine| format!("{}:{}", line.device.0, line.device.1);
        mounts(&table).map(number).any(|number| devices.iter().any(|it| it.trim() == number))
    }

    /// Reads `sectors` sectors from `sector` on, discards the data, and returns the time of the read.
    ///
    /// # Errors
    /// An error from the kernel, or `Interrupted`.
    pub fn read(&self, sector: u64, sectors: u32) -> io::Result<Duration> {
        self.read_into(&mut Buffer::new(sectors), sector)
    }

    fn read_into(&self, buffer: &mut Buffer, sector: u64) -> io::Result<Duration> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let bytes = buffer.aligned();
        let start = Instant::now();
        self.file.read_exact_at(bytes, sector * SECTOR)?;
        Ok(start.elapsed())
    }

    /// Reads at all positions with `depth` threads that each have one read in flight.
    ///
    /// # Errors
    /// The first error of any thread.
    pub fn read_all(&self, positions: &[u64], sectors: u32, depth: u32) -> io::Result<Duration> {
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..depth {
                scope.spawn(|| {
                    let mut buffer = Buffer::new(sectors);
                    while let Some(position) = positions.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = self.read_into(&mut buffer, *position) {
                            failed
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .get_or_insert(error);
                            return;
                        }
                    }
                });
            }
        });
        let elapsed = start.elapsed();
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(elapsed), Err)
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Memory aligned for O_DIRECT.
struct Buffer {
    bytes: Vec<u8>,
    length: usize,
}

impl Buffer {
    fn new(sectors: u32) -> Buffer {
        let length = sectors as usize * SECTOR as usize;
        Buffer { bytes: vec![0; length + ALIGNED], length }
    }

    fn aligned(&mut self) -> &mut [u8] {
        let start = self.bytes.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        &mut self.bytes[start..start + self.length]
    }
}

/// Returns the sysfs folder of a device number, or `None` for a file system without a device.
fn sysfs(device: u64) -> Option<PathBuf> {
    let link = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    std::fs::canonicalize(link).ok()
}

/// Returns the whole drive of a partition's folder, as a path in /dev.
fn whole_drive(folder: &Path) -> Option<String> {
    let parent = folder.join("partition").exists().then(|| folder.parent()).flatten()?;
    Some(format!("/dev/{}", parent.file_name()?.to_string_lossy()))
}

/// Returns the folder of the whole drive.
fn disk_of(folder: &Path) -> PathBuf {
    let parent = folder.join("partition").exists().then(|| folder.parent()).flatten();
    parent.unwrap_or(folder).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Result<Probed, ProbeError> {
        Probed::open(path, Arc::default())
    }

    #[test]
    fn paths_that_are_not_drives_are_refused() {
        assert!(matches!(open(Path::new("/dev/null")), Err(ProbeError::NotADevice(_))));
        assert!(matches!(open(Path::new("/")), Err(ProbeError::NotADevice(_))));
        assert!(matches!(open(Path::new("/dev/nowhere")), Err(ProbeError::Missing(_))));
        let small = tempfile::NamedTempFile::new().unwrap();
        // Temporary files in memory may not support O_DIRECT either.
        assert!(matches!(
            open(small.path()),
            Err(ProbeError::TooSmall { .. } | ProbeError::Cached(_))
        ));
    }

    #[test]
    fn a_file_is_read_past_the_page_cache_by_one_and_many_threads_until_stopped() {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(MIN_SIZE.0).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let drive = match Probed::open(file.path(), Arc::clone(&stop)) {
            Err(ProbeError::Cached(_)) => return println!("skipped: no O_DIRECT here"),
            opened => opened.unwrap(),
        };
        assert!(drive.is_file() && drive.size() == MIN_SIZE);
        assert!(drive.read(8, 8).unwrap() > Duration::ZERO);
        let positions: Vec<u64> = (0..200).map(|at| at * 8).collect();
        assert!(drive.read_all(&positions, 8, 32).unwrap() > Duration::ZERO);
        assert!(drive.read_all(&[MIN_SIZE.0 / SECTOR], 8, 4).is_err(), "read past the end");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(drive.read(8, 8).unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
