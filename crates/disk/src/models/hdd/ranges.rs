//! Parameter ranges of the hard-disk model, its maximum rates, and the disk built from the parameters.

use super::HardDisk;
use super::cache::MAX_EXTENTS;
use super::geometry::{Geometry, full_stroke_range};
use super::params::{Hdd, Seek};
use crate::SECTOR;
use crate::disk::Disk;
use crate::limits::Limits;
use crate::models::parameters::Parameters;
use crate::spec::{Check, DiskSpec, SpecError};

impl Parameters for Hdd {
    fn check(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError> {
        check.within("model.rpm", self.rpm.into(), 600, 60_000)?;
        check.within("model.heads", self.heads.into(), 1, 64)?;
        check.within("model.zones", self.zones.into(), 1, 256)?;
        check.within("model.outer_rate_kb", self.outer_rate_kb, 100, 10_000_000)?;
        check.within("model.inner_rate_kb", self.inner_rate_kb, 100, self.outer_rate_kb)?;
        check.within("model.head_switch_us", self.head_switch_us, 1, 100_000)?;
        check.within("model.settle_us", self.settle_us, 0, 100_000)?;
        check.within("model.head_change_us", self.head_change_us, 0, 100_000)?;
        check_seek("model.seek_read", &self.seek_read, check)?;
        check_seek("model.seek_write", &self.seek_write, check)?;
        check.within("model.interface_rate_kb", self.interface_rate_kb, 100, 100_000_000)?;
        check.within("model.overhead_us", self.overhead_us, 0, 100_000)?;
        check.within("model.miss_overhead_us", self.miss_overhead_us, self.overhead_us, 100_000)?;
        // A full queue that is served in order of arrival must not reach the age limit, or that order would
        // sustain itself.
        let turn = 60_000_000 / u64::from(self.rpm);
        let seek = self.seek_write.average_us.max(self.head_change_us) + self.settle_us;
        let minimum = u64::from(spec.queue.depth) * (seek + turn);
        check.within("model.age_limit_us", self.age_limit_us, minimum, 600_000_000)?;
        check.within("model.write_cache", self.write_cache.0, 64 << 10, 16 << 30)?;
        check.within("model.write_extents", self.write_extents.into(), 0, MAX_EXTENTS as u64)?;
        check.within("model.read_segments", self.read_segments.into(), 1, 1024)?;
        check.within("model.read_segment", self.read_segment.0, 4096, 1 << 30)?;
        let geometry = Geometry::new(self, spec.capacity.0 / SECTOR, 0);
        let range =
            "such that each zone has three cylinders or more (larger capacity, fewer zones)";
        check.require(
            "model.zones",
            self.zones,
            geometry.cylinders() >= 3 * u64::from(self.zones),
            range,
        )
    }

    fn limits(&self) -> Option<Limits> {
        let rate = self.outer_rate_kb.max(self.inner_rate_kb) as f64 * 1e3;
        Some(Limits { read: rate, write: rate })
    }

    fn build(&self, spec: &DiskSpec, seed: u64) -> Box<dyn Disk> {
        Box::new(HardDisk::new(spec, self, seed))
    }
}

fn check_seek(name: &str, seek: &Seek, check: &Check<'_>) -> Result<(), SpecError> {
    let Seek { track_to_track_us: nearest, average_us: average, full_stroke_us: full } = *seek;
    check.within(&format!("{name}.track_to_track_us"), nearest, 1, 100_000)?;
    check.within(&format!("{name}.average_us"), average, nearest, 1_000_000)?;
    let (minimum, maximum) = full_stroke_range(nearest, average);
    check.within(&format!("{name}.full_stroke_us"), full, minimum, maximum)
}
