//! A disk under a file system, modelled or real: its device, what it is for, its figures.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_disk::{DiskSpec, Partition};
use fsdyno_engine::device_caches;
use fsdyno_record::Nanos;
use fsdyno_record::trial::{Device, DiskConditions, DiskRole};

use crate::block_queue;
use crate::serve_disk::{BlockDevice, Shared};

/// A disk: a modelled one of the guest, or a device of this host.
pub struct ModelledDisk {
    /// Its name in the plan.
    pub name: String,
    /// Its file, where it is modelled.
    pub spec: Option<DiskSpec>,
    /// Its role.
    pub role: DiskRole,
    /// The part of it that is used.
    pub partition: Partition,
    /// Its device.
    pub medium: Medium,
}

/// A disk as the kernel sees it.
pub enum Medium {
    /// Through a server, which tells what it did.
    Served {
        /// The device.
        device: BlockDevice,
        /// Its server's counters.
        shared: Shared,
    },
    /// As a device that answers at once and has no server (the lab's NVDIMM).
    Instant {
        /// As the kernel names it: `pmem0`.
        name: String,
    },
    /// As a device of this host, whose queue stays as the host has it.
    Real {
        /// As the kernel names it: `loop0`.
        name: String,
    },
}

impl ModelledDisk {
    /// As the kernel names its device: `nbd0`.
    pub fn device_name(&self) -> &str {
        match &self.medium {
            Medium::Served { device, .. } => &device.name,
            Medium::Instant { name } | Medium::Real { name } => name,
        }
    }

    /// Its node: `/dev/nbd0`.
    pub fn path(&self) -> PathBuf {
        match &self.medium {
            Medium::Served { device, .. } => device.path.clone(),
            Medium::Instant { name } | Medium::Real { name } => Path::new("/dev").join(name),
        }
    }

    /// The server's words, if it has a server.
    pub fn shared(&self) -> Option<&Shared> {
        match &self.medium {
            Medium::Served { shared, .. } => Some(shared),
            Medium::Instant { .. } | Medium::Real { .. } => None,
        }
    }

    /// True if it may hold in a cache of its own what a flush persists.
    pub fn has_cache(&self) -> bool {
        !matches!(self.medium, Medium::Instant { .. })
    }

    /// Makes its block queue what the disk's file says; what cannot be set in its driver, in sentences.
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

    /// Proves that what was set is in effect still: a mount may change it.
    ///
    /// # Errors
    /// The first setting that is not.
    pub fn prove_queue(&self, scheduler: Option<&str>) -> io::Result<()> {
        match (&self.spec, &self.medium) {
            (Some(spec), Medium::Served { device, .. }) => {
                block_queue::prove(&device.name, &spec.queue, scheduler)
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

    /// Its counters.
    pub fn counters(&self) -> Option<Device> {
        match &self.medium {
            Medium::Served { shared, .. } => Some(shared.device()),
            Medium::Instant { name } => Some(Device { busy_ns: None, ..kernel_counters(name)? }),
            Medium::Real { name } => kernel_counters(name),
        }
    }

    /// The file in which the kernel counts what is written to it, if no server of ours does.
    pub fn stat_file(&self) -> Option<PathBuf> {
        match &self.medium {
            Medium::Served { .. } => None,
            Medium::Instant { name } | Medium::Real { name } => {
                Some(block_queue::of_device(name).join("stat"))
            }
        }
    }

    /// Sum of the delays of its answers beyond the time due.
    pub fn late(&self) -> Nanos {
        self.shared().map_or(Nanos(0), Shared::late)
    }
}

/// Reads the kernel's counters of a device. It counts a flush on the whole drive only, which has no other
/// user while a part of it belongs to a trial.
fn kernel_counters(name: &str) -> Option<Device> {
    let folder = block_queue::of_device(name);
    let read =
        |folder: &Path| device_caches::counters(&fs::read_to_string(folder.join("stat")).ok()?);
    let counted = read(&folder)?;
    if !folder.join("partition").exists() {
        return Some(counted);
    }
    // The part is a folder within its drive's.
    let drive = fs::canonicalize(&folder).ok()?.parent().and_then(read);
    Some(Device { flushes: drive.map_or(0, |drive| drive.flushes), ..counted })
}
