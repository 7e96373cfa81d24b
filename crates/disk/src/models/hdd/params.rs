//! Parameters of the hard-disk model.

use fsdyno_record::Bytes;
use serde::{Deserialize, Serialize};

/// The three seek times of a data sheet, in microseconds, settling included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// Seek to the next cylinder.
    pub track_to_track_us: u64,
    /// The mean over all pairs of cylinders, as manufacturers define it ("the weighted average of all
    /// possible seek combinations": IBM Deskstar 60GXP specification, 4.3.2.1, and later Hitachi's).
    /// It is not the seek over a third of the stroke, which takes about 6 % longer.
    pub average_us: u64,
    /// Seek over all cylinders.
    pub full_stroke_us: u64,
}

/// Parameters of a hard disk. Rates are in units of 1000 bytes per second, as in data sheets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hdd {
    /// Revolutions per minute.
    pub rpm: u32,
    /// Surfaces that hold data.
    pub heads: u32,
    /// Zones of equal width; all tracks of a zone hold the same number of sectors.
    pub zones: u32,
    /// Sustained rate of the outermost zone, in kB/s (1000 bytes per second).
    pub outer_rate_kb: u64,
    /// Sustained rate of the innermost zone, in kB/s.
    pub inner_rate_kb: u64,
    /// Time to switch to another head of the same cylinder, in microseconds: the arm stays, but the tracks of
    /// two surfaces are not exactly aligned, and the servo has to find the new one.
    pub head_switch_us: u64,
    /// Settling after each seek of more than a track that does not continue a transfer, in microseconds, in
    /// addition to the seek times: the measured excess over a drive's data sheet. 0 if absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub settle_us: u64,
    /// Minimum time, in microseconds, of a seek to a track of another surface that does not continue a transfer:
    /// the servo has to find a track of a surface that is not aligned with the last one. 0 if absent: seeks
    /// are as fast between surfaces as within one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub head_change_us: u64,
    /// Seeks before a read.
    pub seek_read: Seek,
    /// Seeks before a write, for which the arm has to settle more precisely.
    pub seek_write: Seek,
    /// Rate of the interface, in kB/s.
    pub interface_rate_kb: u64,
    /// Controller overhead of a command, in microseconds.
    pub overhead_us: u64,
    /// Controller overhead of a read that misses the drive's memory, until the arm starts, in microseconds.
    pub miss_overhead_us: u64,
    /// Age, in microseconds, from which a waiting command is served next.
    pub age_limit_us: u64,
    /// The part of the drive's memory that holds writes.
    pub write_cache: Bytes,
    /// Maximum number of separate writes in the cache, among which the drive chooses the next to destage. Further
    /// writes wait. Absent or 0: [`MAX_EXTENTS`](super::cache::MAX_EXTENTS).
    #[serde(default, skip_serializing_if = "is_none")]
    pub write_extents: u32,
    /// Number of read segments, each with its own read-ahead.
    pub read_segments: u32,
    /// Bytes of a read segment.
    pub read_segment: Bytes,
    /// True if a flush runs alone in the drive, like ATA's FLUSH CACHE, which is
    /// not a queued command.
    pub flush_alone: bool,
}

// Serde's predicates take references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(time: &u64) -> bool {
    *time == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_none(count: &u32) -> bool {
    *count == 0
}
