//! An existing directory, used as it is: nothing is formatted, and steps that need root are done only as root.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use fsdyno_engine::device_caches::{self, DeviceCaches, setting};
use fsdyno_record::mount_table::{self, MountLine};
use fsdyno_record::trial::{Conditions, Device};
use fsdyno_workload::GapKind;

use super::Target;
use crate::account;

/// A subdirectory of the existing directory; the venue created it and passes it as a descriptor.
pub struct Directory {
    root: OwnedFd,
    mount: Option<MountLine>,
    caches: DeviceCaches,
}

impl Directory {
    /// Creates a target whose tree is in the directory `root`.
    ///
    /// # Errors
    /// Errors from fstat(2).
    pub fn new(root: OwnedFd) -> io::Result<Directory> {
        let mount = mount_table::mount_of_file(root.as_fd())?;
        let caches = DeviceCaches::of_filesystem(root.as_fd(), mount.as_ref())?;
        Ok(Directory { root, mount, caches })
    }

    /// Returns the distinct values of a queue setting over all devices.
    fn queue(&self, key: &str) -> Option<String> {
        let values: BTreeSet<String> =
            self.caches.devices().iter().filter_map(|folder| setting(folder, key)).collect();
        let values: Vec<String> = values.into_iter().collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    fn drop_caches() -> bool {
        fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
    }
}

impl Target for Directory {
    fn prepare(&mut self, conditions: &mut Conditions) -> io::Result<()> {
        let mount = self.mount.as_ref().map(MountLine::type_and_options);
        conditions.mount = mount.unwrap_or_else(|| "unknown".to_string());
        for key in ["rotational", "scheduler", "write_cache", "read_ahead_kb"] {
            if let Some(value) = self.queue(key) {
                conditions.queue.insert(key.to_string(), value);
            }
        }
        if !rustix::process::geteuid().is_root() {
            conditions.notes.push(
                "without root, caches cannot be dropped between phases; gaps only sync".to_string(),
            );
        }
        conditions.notes.push(
            "an existing directory, used as is: neither newly created nor checked; kernel threads, dirty pages and \
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
        self.caches.count_flushes_before_sync();
        Ok(rustix::fs::syncfs(&self.root)?)
    }

    fn flush_device(&mut self) -> io::Result<bool> {
        Ok(self.caches.are_empty())
    }

    fn set_timed(&self, _timed: bool) {}

    fn device(&self) -> Option<Device> {
        let of_device = |folder: &PathBuf| {
            device_caches::counters(&fs::read_to_string(folder.join("stat")).ok()?)
        };
        account::sum(self.caches.devices().iter().filter_map(of_device))
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
