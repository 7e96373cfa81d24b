//! A modelled disk under a file system: its device, what it is for, its figures.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsdyno_disk::{DiskSpec, Partition};
use fsdyno_record::Nanos;
use fsdyno_record::trial::{Device, DiskConditions, DiskRole};

use crate::account;
use crate::block_queue;
use crate::serve_disk::{BlockDevice, Shared};

/// A modelled disk of the guest.
pub struct ModelledDisk {
    /// Its name in the plan.
    pub name: String,
    /// Its file.
    pub spec: DiskSpec,
    /// What it is for.
    pub role: DiskRole,
    /// The part of it that is used.
    pub partition: Partition,
    /// Its device.
    pub medium: Medium,
}

/// How the kernel sees a disk.
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
}

impl ModelledDisk {
    /// As the kernel names its device: `nbd0`.
    pub fn device_name(&self) -> &str {
        match &self.medium {
            Medium::Served { device, .. } => &device.name,
            Medium::Instant { name } => name,
        }
    }

    /// Its node: `/dev/nbd0`.
    pub fn path(&self) -> PathBuf {
        match &self.medium {
            Medium::Served { device, .. } => device.path.clone(),
            Medium::Instant { name } => Path::new("/dev").join(name),
        }
    }

    /// The server's words, if it has a server.
    pub fn shared(&self) -> Option<&Shared> {
        match &self.medium {
            Medium::Served { shared, .. } => Some(shared),
            Medium::Instant { .. } => None,
        }
    }

    /// Makes its block queue what the disk's file says; what the driver does not let itself be told,
    /// in sentences.
    ///
    /// # Errors
    /// A setting that the kernel refuses.
    pub fn set_queue(&self, scheduler: Option<&str>) -> io::Result<Vec<String>> {
        match &self.medium {
            Medium::Served { device, .. } => {
                block_queue::set(&device.name, &self.spec.queue, scheduler)?;
            }
            Medium::Instant { name } => block_queue::count_requests(name)?,
        }
        Ok(block_queue::differences(&self.spec.queue, &block_queue::read_back(self.device_name())))
    }

    /// What it is and what is in effect.
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
            Medium::Instant { name } => {
                let stat = Path::new("/sys/block").join(name).join("stat");
                let device = account::parse_device_stat(&fs::read_to_string(stat).ok()?)?;
                Some(Device { busy_ns: None, ..device })
            }
        }
    }

    /// How much later than due its answers were so far, in all.
    pub fn late(&self) -> Nanos {
        self.shared().map_or(Nanos(0), Shared::late)
    }
}
