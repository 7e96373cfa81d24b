//! A directory as it is: nothing is formatted, and what needs root is done only with root.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fsdyno_record::mount_table::{self, MountLine};
use fsdyno_record::trial::{Conditions, Device};
use fsdyno_workload::GapKind;

use super::Target;
use crate::account;

/// A subdirectory that the venue made and hands over by descriptor.
pub struct Directory {
    root: OwnedFd,
    mount: Option<MountLine>,
    /// The block devices below, in /sys; none for memory file systems and networks.
    devices: Vec<PathBuf>,
    /// Flushes of each device when the last sync began.
    flushes_before: Vec<u64>,
}

impl Directory {
    /// The trial's tree lies below `root`.
    ///
    /// # Errors
    /// What fstat(2) reports.
    pub fn new(root: OwnedFd) -> io::Result<Directory> {
        let number = rustix::fs::fstat(&root)?.st_dev;
        let mount = mount_table::of_file(root.as_fd())?;
        let devices = match (folder_of(number), &mount) {
            (Some(folder), _) => vec![folder],
            (None, Some(mount)) => below(mount, Path::new("/sys/fs/btrfs")),
            (None, None) => Vec::new(),
        };
        Ok(Directory { root, mount, devices, flushes_before: Vec::new() })
    }

    /// A setting of the devices' queues, each value once.
    fn queue(&self, key: &str) -> Option<String> {
        let values: BTreeSet<String> =
            self.devices.iter().filter_map(|folder| setting(folder, key)).collect();
        let values: Vec<String> = values.into_iter().collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Flushes of each whole device: the kernel does not count them for a partition
    /// (Documentation/block/stat.rst, field 16).
    fn flushes(&self) -> Vec<u64> {
        let of_device = |folder: &PathBuf| {
            let whole = if folder.join("partition").exists() { "../stat" } else { "stat" };
            let stat = fs::read_to_string(folder.join(whole)).unwrap_or_default();
            account::parse_device_stat(&stat).map_or(0, |device| device.flushes)
        };
        self.devices.iter().map(of_device).collect()
    }

    fn drop_caches() -> bool {
        fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
    }
}

impl Target for Directory {
    fn prepare(&mut self, conditions: &mut Conditions) -> io::Result<()> {
        let mount = self.mount.as_ref().map(MountLine::in_effect);
        conditions.mount = mount.unwrap_or_else(|| "unknown".to_string());
        for key in ["rotational", "scheduler", "write_cache", "read_ahead_kb"] {
            if let Some(value) = self.queue(key) {
                conditions.queue.insert(key.to_string(), value);
            }
        }
        if !rustix::process::geteuid().is_root() {
            conditions.notes.push(
                "without root caches cannot be dropped between phases: gaps are a sync only"
                    .to_string(),
            );
        }
        conditions.notes.push(
            "a directory as it is: not freshly made, not checked; kernel threads, dirty pages and \
             the device's requests and flushes are those of the whole machine"
                .to_string(),
        );
        Ok(())
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    fn gap(&mut self, wanted: GapKind) -> io::Result<&'static str> {
        if matches!(wanted, GapKind::None | GapKind::BackToBack) {
            return Ok(wanted.name());
        }
        self.sync()?;
        if wanted == GapKind::Sync || !Directory::drop_caches() {
            return Ok(GapKind::Sync.name());
        }
        Ok(GapKind::Drop.name())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.flushes_before = self.flushes();
        Ok(rustix::fs::syncfs(&self.root)?)
    }

    /// syncfs(2) has just returned. A device without a volatile cache has nothing left; one with
    /// it is shown to be flushed only if it was sent a flush during that call.
    fn flush_device(&mut self) -> io::Result<bool> {
        let through =
            |folder: &Path| setting(folder, "write_cache").as_deref() == Some("write through");
        let counts = self.flushes_before.iter().zip(self.flushes());
        let safe = self
            .devices
            .iter()
            .zip(counts)
            .filter(|(folder, (before, now))| now > before || through(folder));
        Ok(!self.devices.is_empty() && safe.count() == self.devices.len())
    }

    fn set_timed(&self, _timed: bool) {}

    fn device(&self) -> Option<Device> {
        let of_device = |folder: &PathBuf| {
            account::parse_device_stat(&fs::read_to_string(folder.join("stat")).ok()?)
        };
        account::sum(self.devices.iter().filter_map(of_device))
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A setting of a device's queue; a partition's lies in its parent.
fn setting(folder: &Path, key: &str) -> Option<String> {
    let read = |at: &&str| fs::read_to_string(folder.join(at).join(key)).ok();
    ["queue", "../queue"].iter().find_map(read).map(|text| text.trim().to_string())
}

/// The folder of a block device in /sys, where its counters are.
fn folder_of(number: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    folder.join("stat").exists().then_some(folder)
}

/// The devices of a file system whose number is no device's: a btrfs or bcachefs names one or all of them as
/// its source, and `systems` has those of each mounted btrfs. Of no other file system a source is a device for
/// certain.
fn below(mount: &MountLine, systems: &Path) -> Vec<PathBuf> {
    if !["btrfs", "bcachefs"].contains(&mount.kind.as_str()) {
        return Vec::new();
    }
    let of_path = |path: &str| {
        let device = fs::metadata(path).ok().filter(|it| it.file_type().is_block_device())?;
        folder_of(device.rdev())
    };
    let named: Vec<PathBuf> = mount.source.split(':').filter_map(of_path).collect();
    let is_in = |devices: &PathBuf| {
        let name = |folder: &PathBuf| Some(folder.canonicalize().ok()?.file_name()?.to_owned());
        named.iter().filter_map(name).any(|name| devices.join(name).exists())
    };
    let systems = fs::read_dir(systems).into_iter().flatten().flatten();
    let all = systems.map(|system| system.path().join("devices")).find(is_in);
    let entries =
        all.and_then(|devices| fs::read_dir(devices).ok()).into_iter().flatten().flatten();
    let members: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    if members.is_empty() { named } else { members }
}
