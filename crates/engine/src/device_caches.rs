//! The block devices below a directory: their counters, and whether syncfs(2) has left their volatile caches empty.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fsdyno_record::mount_table::MountLine;
use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos};

/// The devices below a directory.
#[derive(Clone, Debug, Default)]
pub struct DeviceCaches {
    /// Their folders in /sys. Memory and network file systems have none.
    devices: Vec<PathBuf>,
    /// The number of flushes of each device when the last sync began.
    flushes_before: Vec<u64>,
}

impl DeviceCaches {
    /// Finds the devices of the file system of an open directory, which this line of the mount table describes.
    ///
    /// # Errors
    /// The error from fstat(2).
    pub fn of_filesystem(
        root: BorrowedFd<'_>,
        mount: Option<&MountLine>,
    ) -> io::Result<DeviceCaches> {
        let number = fs::File::from(root.try_clone_to_owned()?).metadata()?.dev();
        let devices = match (folder_of(number), mount) {
            (Some(folder), _) => vec![folder],
            (None, Some(mount)) => devices_of(mount, Path::new("/sys/fs/btrfs")),
            (None, None) => Vec::new(),
        };
        Ok(DeviceCaches { devices, flushes_before: Vec::new() })
    }

    /// Returns their folders in /sys.
    pub fn devices(&self) -> &[PathBuf] {
        &self.devices
    }

    /// Counts flushes before a call of syncfs(2).
    pub fn count_flushes_before_sync(&mut self) {
        self.flushes_before = self.flushes();
    }

    /// Reports whether the caches were empty when syncfs(2) returned.
    pub fn are_empty(&self) -> bool {
        self.uncertainty().is_none()
    }

    /// Returns why a cache may not have been empty when syncfs(2) returned; `None` if all were. A device without a
    /// volatile cache has nothing to flush; one with a cache counts as flushed only if sent a flush during that call.
    pub fn uncertainty(&self) -> Option<String> {
        if self.devices.is_empty() {
            return Some("the block device that holds the data is not known here".into());
        }
        let is_write_through =
            |folder: &Path| setting(folder, "write_cache").as_deref() == Some("write through");
        let counts = self.flushes_before.iter().zip(self.flushes());
        let flushed: Vec<bool> = counts.map(|(before, now)| now > *before).collect();
        let mut devices = self.devices.iter().enumerate();
        let (_, first) = devices.find(|(index, folder)| {
            !flushed.get(*index).copied().unwrap_or(false) && !is_write_through(folder)
        })?;
        let name = first.canonicalize().unwrap_or_else(|_| first.clone());
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(format!("{name} has a volatile cache, and syncfs(2) sent it no flush"))
    }

    /// Returns the number of flushes of each whole device: the kernel does not count them for a partition
    /// (Documentation/block/stat.rst, field 16).
    fn flushes(&self) -> Vec<u64> {
        let flushes_of = |folder: &PathBuf| {
            let stat_path = if folder.join("partition").exists() { "../stat" } else { "stat" };
            let stat = fs::read_to_string(folder.join(stat_path)).unwrap_or_default();
            counters(&stat).map_or(0, |device| device.flushes)
        };
        self.devices.iter().map(flushes_of).collect()
    }
}

/// Parses the counters of a block device in its `stat` file (Documentation/block/stat.rst): requests, sectors of 512
/// bytes, and flushes if the kernel counts them (5.5 and later).
pub fn counters(text: &str) -> Option<Device> {
    let fields: Vec<u64> =
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let field = |index: usize| fields.get(index).copied().unwrap_or(0);
    (fields.len() >= 11).then(|| Device {
        reads: field(0),
        writes: field(4),
        flushes: field(15),
        discards: field(11),
        bytes_read: Bytes(field(2) * 512),
        bytes_written: Bytes(field(6) * 512),
        seeks: None,
        busy_ns: Some(Nanos(field(9) * 1_000_000)),
        peak_in_flight: None,
    })
}

/// Returns a setting of a device's queue; a partition's is in its parent's folder.
pub fn setting(folder: &Path, key: &str) -> Option<String> {
    let read = |parent: &&str| fs::read_to_string(folder.join(parent).join(key)).ok();
    ["queue", "../queue"].iter().find_map(read).map(|text| text.trim().to_string())
}

/// Returns the folder of a block device in /sys, which has its counters.
fn folder_of(number: u64) -> Option<PathBuf> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    folder.join("stat").exists().then_some(folder)
}

/// Returns the devices of a file system whose device number is not that of a block device: btrfs or bcachefs has one
/// or all of them as its source, and the folder `file_systems` has those of each mounted btrfs. The source of any
/// other file system is not certain to be a device.
fn devices_of(mount: &MountLine, file_systems: &Path) -> Vec<PathBuf> {
    if !["btrfs", "bcachefs"].contains(&mount.kind.as_str()) {
        return Vec::new();
    }
    let device_of_path = |path: &str| {
        let device =
            fs::metadata(path).ok().filter(|metadata| metadata.file_type().is_block_device())?;
        folder_of(device.rdev())
    };
    let sources: Vec<PathBuf> = mount.source.split(':').filter_map(device_of_path).collect();
    let contains_source = |devices: &PathBuf| {
        let name = |folder: &PathBuf| Some(folder.canonicalize().ok()?.file_name()?.to_owned());
        sources.iter().filter_map(name).any(|name| devices.join(name).exists())
    };
    let file_systems = fs::read_dir(file_systems).into_iter().flatten().flatten();
    let folder = file_systems.map(|system| system.path().join("devices")).find(contains_source);
    let entries =
        folder.and_then(|devices| fs::read_dir(devices).ok()).into_iter().flatten().flatten();
    let members: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    if members.is_empty() { sources } else { members }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a folder like that of a device in /sys.
    fn device(cache: &str, flushes: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("queue")).unwrap();
        fs::write(folder.path().join("queue/write_cache"), format!("{cache}\n")).unwrap();
        count(folder.path(), flushes);
        folder
    }

    fn count(folder: &Path, flushes: u64) {
        let stat = format!(" 10 0 80 5 20 0 160 9 0 14 14 3 0 24 0 {flushes} 2\n");
        fs::write(folder.join("stat"), stat).unwrap();
    }

    #[test]
    fn a_cache_is_empty_if_its_device_was_sent_a_flush_or_has_none() {
        let (back, through) = (device("write back", 7), device("write through", 0));
        let devices = vec![back.path().to_path_buf(), through.path().to_path_buf()];
        let mut caches = DeviceCaches { devices, ..DeviceCaches::default() };
        caches.count_flushes_before_sync();
        let reason = caches.uncertainty().unwrap();
        let name = back.path().file_name().unwrap().to_string_lossy().into_owned();
        assert!(reason.contains("no flush") && reason.contains(&name), "{reason}");
        count(back.path(), 8);
        assert!(caches.are_empty());
    }

    #[test]
    fn without_a_known_device_the_state_of_the_caches_is_uncertain() {
        let reason = DeviceCaches::default().uncertainty().unwrap();
        assert!(reason.contains("the block device"), "{reason}");
    }

    #[test]
    fn a_device_stat_line_is_read_and_a_short_one_refused() {
        let line = " 10 0 80 5 20 0 160 9 0 14 14 3 0 24 0 7 2";
        let device = counters(line).unwrap();
        assert_eq!((device.reads, device.writes, device.discards, device.flushes), (10, 20, 3, 7));
        assert_eq!(device.bytes_written, Bytes(81_920));
        assert_eq!(counters("1 2 3"), None);
        assert_eq!(counters("a b"), None);
    }
}
