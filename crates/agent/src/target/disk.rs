//! A disk under a file system, modelled or real: its device, role and counters.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_disk::{DiskSpec, Partition};
use fsdyno_engine::device_caches;
use fsdyno_record::Nanos;
use fsdyno_record::trial::{Device, DiskConditions, DiskRole};

use crate::block_queue;
use crate::serve_disk::{BlockDevice, Shared};

/// A disk of the target: a modelled one of the guest or, with [`Medium::Real`], a real device of this host.
pub struct ModelledDisk {
    /// Its name in the plan.
    pub name: String,
    /// Its disk profile, if it is modelled.
    pub spec: Option<DiskSpec>,
    /// Its role in the file system.
    pub role: DiskRole,
    /// The part of it that is used.
    pub partition: Partition,
    /// Its device.
    pub medium: Medium,
}

/// The kernel's access to a disk.
pub enum Medium {
    /// Through a server, which counts its requests.
    Served {
        /// The device.
        device: BlockDevice,
        /// Its server's counters.
        shared: Shared,
    },
    /// As a device that responds immediately and has no server (the lab's NVDIMM).
    Instant {
        /// The kernel's name: `pmem0`.
        name: String,
    },
    /// As a device of this host, whose queue stays as the host configured it.
    Real {
        /// The kernel's name: `loop0`.
        name: String,
    },
}

impl ModelledDisk {
    /// Returns the kernel's name of its device: `nbd0`.
    pub fn device_name(&self) -> &str {
        match &self.medium {
            Medium::Served { device, .. } => &device.name,
            Medium::Instant { name } | Medium::Real { name } => name,
        }
    }

    /// Returns its device node: `/dev/nbd0`.
    pub fn path(&self) -> PathBuf {
        match &self.medium {
            Medium::Served { device, .. } => device.path.clone(),
            Medium::Instant { name } | Medium::Real { name } => Path::new("/dev").join(name),
        }
    }

    /// Returns the memory shared with the server, if it has a server.
    pub fn shared(&self) -> Option<&Shared> {
        match &self.medium {
            Medium::Served { shared, .. } => Some(shared),
            Medium::Instant { .. } | Medium::Real { .. } => None,
        }
    }

    /// Returns true if it may hold data in a volatile cache that a flush persists.
    pub fn has_cache(&self) -> bool {
        !matches!(self.medium, Medium::Instant { .. })
    }

    /// Configures its block queue as its disk profile specifies; describes, in sentences, the settings that the driver
    /// does not support.
    ///
    /// # Errors
    /// A setting that the kernel refuses or changes.
    pub fn set_queue(&self, scheduler: Option<&str>) -> io::Result<Vec<String>> {
        let Some(spec) = &self.spec else { return Ok(Vec::new()) };
        match &self.medium {
            Medium::Served { device, .. } => {
                block_queue::set(&device.name, &spec.queue, scheduler)?;
            }
            Medium::Instant { name } => block_queue::count_requests(name)?,
            Medium::Real { .. } => {}
        }
        Ok(block_queue::differences(&spec.queue, &block_queue::read_back(self.device_name())))
    }

    /// Checks that the settings are still in effect: a mount may change them.
    ///
    /// # Errors
    /// The first setting that is not in effect.
    pub fn check_queue(&self, scheduler: Option<&str>) -> io::Result<()> {
        match (&self.spec, &self.medium) {
            (Some(spec), Medium::Served { device, .. }) => {
                block_queue::check(&device.name, &spec.queue, scheduler)
            }
            _ => Ok(()),
        }
    }

    /// Describes the disk and the settings in effect.
    pub fn conditions(&self) -> DiskConditions {
        DiskConditions {
            disk: self.name.clone(),
            role: self.role,
            partition_start: self.partition.start,
            size: self.partition.size,
            queue: block_queue::read_back(self.device_name()),
        }
    }

    /// Returns its counters.
    pub fn counters(&self) -> Option<Device> {
        match &self.medium {
            Medium::Served { shared, .. } => Some(shared.device()),
            Medium::Instant { name } => Some(Device { busy_ns: None, ..kernel_counters(name)? }),
            Medium::Real { name } => kernel_counters(name),
        }
    }

    /// Returns the file in which the kernel counts the sectors written to the disk, if no server of ours counts them.
    pub fn stat_file(&self) -> Option<PathBuf> {
        match &self.medium {
            Medium::Served { .. } => None,
            Medium::Instant { name } | Medium::Real { name } => {
                Some(block_queue::sysfs_folder(name).join("stat"))
            }
        }
    }

    /// Returns the lateness of its answers, summed over all requests.
    pub fn lateness(&self) -> Nanos {
        self.shared().map_or(Nanos(0), Shared::lateness)
    }
}

/// Reads the kernel's counters of a device. The kernel counts flushes only for the whole drive; the drive has no other
/// user while a partition of it belongs to a trial.
fn kernel_counters(name: &str) -> Option<Device> {
    let folder = block_queue::sysfs_folder(name);
    let read_counters =
        |folder: &Path| device_caches::counters(&fs::read_to_string(folder.join("stat")).ok()?);
    let counters = read_counters(&folder)?;
    if !folder.join("partition").exists() {
        return Some(counters);
    }
    // The partition is a folder within its drive's.
    let drive = fs::canonicalize(&folder).ok()?.parent().and_then(read_counters);
    Some(Device { flushes: drive.map_or(0, |drive| drive.flushes), ..counters })
}
