//! The settings of a guest's machine that differ between trials.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fsdyno_record::Bytes;
use fsdyno_record::plan::AccelPlan;

use crate::image::Image;

/// The settings that differ between trials.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The guest's RAM.
    pub ram: Bytes,
    /// The accelerator.
    pub accel: AccelPlan,
    /// The regions of the modelled disks, in the order of their PCI slots.
    pub disks: Vec<DiskRegion>,
    /// The disks' initial contents, of which each guest gets its own copy; `None` leaves the disks empty.
    pub image: Option<Arc<Image>>,
    /// The workload's input, if it has one: a file whose size is a power of two. The guest reads it from a
    /// separate PCI memory region, outside its RAM.
    pub input: Option<Arc<File>>,
    /// Memory for the log of the requests to the disks that the guest itself serves, if there are any; rounded up to a
    /// power of two.
    pub log: Option<Bytes>,
    /// The folder of the disks' nameless files on the host.
    pub workdir: PathBuf,
    /// The host time without any sign of life after which the guest counts as hung.
    pub stall: Duration,
    /// The limit of a run's host time.
    pub deadline: Duration,
}

/// Memory of the host that serves as a disk of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRegion {
    /// The addressable size; rounded up to a power of two for a PCI region. It takes space on the host only
    /// where it has been written.
    pub region: Bytes,
    /// The method of attachment.
    pub attach: Attach,
}

/// A method of attaching a disk to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// A PCI memory region, which the agent serves through nbd.
    Nbd,
    /// An NVDIMM (/dev/pmem0, ...; modules nfit and nd_pmem): an instant disk without a server.
    Pmem,
}

/// The start of a machine: boots a guest or restores one, and may stop once the guest has booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMode {
    /// The machine boots and continues.
    GoOn,
    /// The machine boots and stops between two instructions, to be saved.
    Save,
    /// The machine does not boot, but continues from a saved state.
    Restore,
}

impl DiskRegion {
    /// Returns the size in the guest, in bytes: a PCI region is a power of two and at least a page; an
    /// NVDIMM is a multiple of 2 MiB.
    pub fn size(&self) -> u64 {
        match self.attach {
            Attach::Nbd => self.region.0.max(4096).checked_next_power_of_two().unwrap_or(1 << 63),
            Attach::Pmem => {
                self.region.0.max(1).checked_next_multiple_of(2 << 20).unwrap_or(1 << 63)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_region_is_rounded_up_and_never_overflows() {
        let size = |region, attach| DiskRegion { region: Bytes(region), attach }.size();
        assert_eq!([0, 5000, 8192].map(|bytes| size(bytes, Attach::Nbd)), [4096, 8192, 8192]);
        assert_eq!([0, (2 << 20) + 1].map(|bytes| size(bytes, Attach::Pmem)), [2 << 20, 4 << 20]);
        assert_eq!([Attach::Nbd, Attach::Pmem].map(|it| size(u64::MAX, it)), [1 << 63; 2]);
    }
}
