//! Parameters of the shingled model: their ranges, the maximum rates, and the disk built from them.

use fsdyno_record::Bytes;
use serde::{Deserialize, Serialize};

use super::ShingledDisk;
use super::map::{CHUNK, MAX_ENTRIES};
use crate::SECTOR;
use crate::disk::Disk;
use crate::limits::Limits;
use crate::models::Hdd;
use crate::models::parameters::Parameters;
use crate::spec::{Check, DiskSpec, SpecError};

/// Maximum number of bands.
const MAX_BANDS: u64 = 1 << 20;

/// Parameters of a drive-managed shingled disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smr {
    /// Size of a band: tracks that overlap and are written in order.
    pub band: Bytes,
    /// Size of the media cache: an area at the outer edge of the medium to which writes are appended.
    pub media_cache: Bytes,
    /// Maximum number of separate writes in the media cache: the size of its map.
    pub cache_entries: u32,
    /// Percentage of the map that random writes used before the trial; 0 for a drive that had time to clean.
    pub cached_percent: u32,
    /// Minimum size of a write that bypasses the media cache if it begins at a band's start.
    pub stream_least: Bytes,
    /// Maximum number of bands that are written directly at the same time.
    pub streams: u32,
    /// Idle time after which the drive begins to clean, in microseconds.
    pub idle_us: u64,
    /// The underlying hard disk: arm, platter, command queue, caches.
    pub drive: Hdd,
}

impl Parameters for Smr {
    fn check(&self, spec: &DiskSpec, check: &Check<'_>) -> Result<(), SpecError> {
        self.drive.check(spec, &check.inside("drive"))?;
        let chunk = CHUNK * SECTOR;
        check.within("model.band", self.band.0, chunk, 1 << 30)?;
        check.require("model.band", self.band, self.band.0 % chunk == 0, "a multiple of 1 MiB")?;
        let range = format!("such that the disk has at most {MAX_BANDS} bands");
        let is_valid = spec.capacity.0.div_ceil(self.band.0) <= MAX_BANDS;
        check.require("model.band", self.band, is_valid, &range)?;
        // The log must not wrap around to a write that is still in the volatile cache.
        let minimum = self.drive.write_cache.0.saturating_mul(4).max(64 << 20);
        check.within("model.media_cache", self.media_cache.0, minimum, 1 << 38)?;
        let is_valid = self.media_cache.0 % chunk == 0;
        check.require("model.media_cache", self.media_cache, is_valid, "a multiple of 1 MiB")?;
        let range = format!("smaller than the disk, which has {}", spec.capacity);
        let is_valid = self.media_cache.0 < spec.capacity.0;
        check.require("model.media_cache", self.media_cache, is_valid, &range)?;
        // The map must hold the largest request: one entry per piece, plus one for each existing entry that a piece
        // splits.
        let maximum = MAX_ENTRIES as u64;
        check.within("model.cache_entries", self.cache_entries.into(), 1024, maximum)?;
        check.within("model.cached_percent", self.cached_percent.into(), 0, 100)?;
        check.within("model.stream_least", self.stream_least.0, 4096, self.band.0)?;
        check.within("model.streams", self.streams.into(), 1, 64)?;
        check.within("model.idle_us", self.idle_us, 1, 600_000_000)
    }

    fn limits(&self) -> Option<Limits> {
        self.drive.limits()
    }

    fn build(&self, spec: &DiskSpec, seed: u64) -> Box<dyn Disk> {
        Box::new(ShingledDisk::new(spec, self, seed))
    }
}
