//! Parameter ranges of the solid-state model, its maximum rates, and the disk built from the parameters.

use super::params::{Interface, Ssd};
use super::{MAX_PAGES_PER_PROGRAM, MAX_SLOTS, MAX_SUPERBLOCKS, RESERVE, SolidStateDisk, geometry};
use crate::disk::Disk;
use crate::limits::Limits;
use crate::models::Model;
use crate::models::parameters::Parameters;
use crate::spec::{Check, DiskSpec, SpecError};

impl Ssd {
    /// Checks the cache with one bit per cell: all of its parameters must be given, or none.
    fn check_slc(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError> {
        let used = self.slc_program_us > 0 || self.slc_fold_rate_kb > 0;
        // One bit takes the space of three.
        let maximum = spec.capacity.0 / 3;
        check.within("model.slc_cache", self.slc_cache.0, u64::from(used), maximum)?;
        let minimum = u64::from(self.slc_cache.0 > 0);
        let maximum = |maximum: u64| maximum * minimum;
        let program = self.slc_program_us;
        check.within("model.slc_program_us", program, minimum, maximum(self.program_us))?;
        check.within("model.slc_fold_rate_kb", self.slc_fold_rate_kb, minimum, maximum(100_000_000))
    }
}

impl Parameters for Ssd {
    fn check(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError> {
        check.within("model.channels", self.channels.into(), 1, 64)?;
        check.within("model.dies", self.dies.into(), self.channels.into(), 256)?;
        check.within("model.spare_permille", self.spare_permille, 10, 2000)?;
        for (name, size, minimum, maximum) in [
            ("model.program_size", self.program_size, 4096, MAX_PAGES_PER_PROGRAM as u64 * 4096),
            ("model.flash_page", self.flash_page, 4096, 1 << 20),
            ("model.block", self.block, self.program_size.0, 1 << 30),
        ] {
            check.within(name, size.0, minimum, maximum)?;
            check.require(name, size, size.0 % 4096 == 0, "a multiple of 4096")?;
        }
        // Firmware determines the time of a flush of an NVMe drive without capacitors, so its profile must state it.
        let decides = self.interface == Interface::Nvme && !self.power_loss_protection;
        let least_firmware = u64::from(decides);
        for (name, time, minimum) in [
            ("model.read_us", self.read_us, 1),
            ("model.program_us", self.program_us, 1),
            ("model.erase_us", self.erase_us, 0),
            ("model.suspend_us", self.suspend_us, 1),
            ("model.trim_us", self.trim_us, 0),
            ("model.destage_us", self.destage_us, 1),
            ("model.flush_us", self.flush_us, least_firmware),
            ("model.fua_us", self.fua_us, least_firmware),
        ] {
            check.within(name, time, minimum, 10_000_000)?;
        }
        for (name, time) in [
            ("model.read_command_ns", self.read_command_ns),
            ("model.write_command_ns", self.write_command_ns),
            ("model.read_latency_ns", self.read_latency_ns),
            ("model.write_latency_ns", self.write_latency_ns),
        ] {
            check.within(name, time, 1, 100_000_000)?;
        }
        for (name, rate) in [
            ("model.channel_rate_kb", self.channel_rate_kb),
            ("model.read_rate_kb", self.read_rate_kb),
            ("model.write_rate_kb", self.write_rate_kb),
        ] {
            check.within(name, rate, 100, 100_000_000)?;
        }
        self.check_slc(spec, check)?;
        // One page more than the largest request, which may not start at a page boundary.
        let minimum = u64::from(spec.queue.max_sectors_kb) * 1024 + 4096;
        let maximum = MAX_SLOTS as u64 * 4096;
        check.within("model.write_buffer", self.write_buffer.0, minimum, maximum)?;
        check.within("model.prefilled_percent", self.prefilled_percent, 0, 100)?;
        let (pages, superblocks, size) = geometry(self, spec.capacity);
        let is_valid = superblocks <= MAX_SUPERBLOCKS;
        let range = format!("such that the drive has at most {} superblocks", MAX_SUPERBLOCKS);
        check.require("model.block", self.block, is_valid, &range)?;
        let spare = superblocks.saturating_sub(pages.div_ceil(size));
        let least = RESERVE as u64 + 3;
        let range = format!("such that at least {least} superblocks are spare");
        check.require("model.spare_permille", self.spare_permille, spare >= least, &range)
    }

    fn limits(&self) -> Option<Limits> {
        let bytes = |kb: u64| kb as f64 * 1e3;
        Some(Limits { read: bytes(self.read_rate_kb), write: bytes(self.write_rate_kb) })
    }

    fn build(&self, spec: &DiskSpec, seed: u64) -> Box<dyn Disk> {
        Box::new(SolidStateDisk::new(spec, self, seed))
    }

    fn preconditioned(&self) -> Option<Model> {
        Some(Model::Ssd(Ssd { prefilled_percent: 100, ..self.clone() }))
    }
}
