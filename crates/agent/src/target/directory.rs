//! A directory as it is: nothing is formatted, and what needs root is done only with root.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use fsdyno_record::trial::{Conditions, Device};
use fsdyno_workload::GapKind;

use super::Target;
use crate::account;
use crate::mount_info::{self, Mount};

/// A subdirectory that the venue made and hands over by descriptor.
pub struct Directory {
    root: OwnedFd,
    /// The block device below, in /sys; none for memory file systems, networks, btrfs volumes.
    device: Option<PathBuf>,
    flushes_before: u64,
}

impl Directory {
    /// The trial's tree lies below `root`.
    ///
    /// # Errors
    /// What fstat(2) reports.
    pub fn new(root: OwnedFd) -> io::Result<Directory> {
        let stat = rustix::fs::fstat(&root)?;
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let device = folder.join("stat").exists().then_some(folder);
        Ok(Directory { root, device, flushes_before: 0 })
    }

    /// A setting of the device's queue; a partition's lies in its parent.
    fn queue(&self, key: &str) -> Option<String> {
        let folder = self.device.as_ref()?;
        ["queue", "../queue"]
            .iter()
            .find_map(|at| fs::read_to_string(folder.join(at).join(key)).ok())
            .map(|text| text.trim().to_string())
    }

    /// Flushes of the whole device: the kernel does not count them for a partition
    /// (Documentation/block/stat.rst, field 16).
    fn flushes(&self) -> u64 {
        let Some(folder) = &self.device else { return 0 };
        let whole = if folder.join("partition").exists() { "../stat" } else { "stat" };
        let stat = fs::read_to_string(folder.join(whole)).unwrap_or_default();
        account::parse_device_stat(&stat).map_or(0, |device| device.flushes)
    }

    fn drop_caches() -> bool {
        fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
    }
}

impl Target for Directory {
    fn prepare(&mut self, conditions: &mut Conditions) -> io::Result<()> {
        let stat = rustix::fs::fstat(&self.root)?;
        let device =
            format!("{}:{}", rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        conditions.mount = mount_info::in_effect(&Mount::Device(&device))?
            .unwrap_or_else(|| "unknown".to_string());
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

    /// syncfs(2) has just come back. A device without a volatile cache has nothing left; one with
    /// it is shown to be flushed only if it was sent a flush during that call.
    fn flush_device(&mut self) -> io::Result<bool> {
        let flushed = self.flushes() > self.flushes_before;
        Ok(flushed || self.queue("write_cache").as_deref() == Some("write through"))
    }

    fn set_timed(&self, _timed: bool) {}

    fn device(&self) -> Option<Device> {
        let stat = fs::read_to_string(self.device.as_ref()?.join("stat")).ok()?;
        account::parse_device_stat(&stat)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
