//! The disk models and their parameters, as in a disk profile.

use fsdyno_record::Bytes;
use serde::{Deserialize, Serialize};

/// The model of service times, selected by `law` in the disk profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "lowercase")]
pub enum Model {
    /// Every request completes at once.
    Instant(Instant),
    /// A hard disk: arm, platter, command queue, caches.
    Hdd(Hdd),
    /// A solid-state disk: link, write buffer, translation layer, dies.
    Ssd(Ssd),
}

/// Parameters of the instant disk: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instant {}

/// The three seek times of a data sheet, in microseconds, settling included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// To the next cylinder.
    pub track_to_track_us: u64,
    /// The mean over all pairs of cylinders, as makers define it ("the weighted average of all
    /// possible seek combinations": IBM Deskstar 60GXP specification, 4.3.2.1, and Hitachi's after
    /// it). It is not the seek over a third of the stroke, which is some 6 % longer.
    pub average_us: u64,
    /// Over all cylinders.
    pub full_stroke_us: u64,
}

/// Parameters of a hard disk. Rates are in units of 1000 bytes, as data sheets give them.
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
    /// Switch from one head to the next of the same cylinder, in microseconds: the arm stays, but the tracks of
    /// two surfaces are not exactly aligned and the servo has to find the new one.
    pub head_switch_us: u64,
    /// Seeks before a read.
    pub seek_read: Seek,
    /// Seeks before a write, for which the arm has to settle better.
    pub seek_write: Seek,
    /// Rate of the interface, in kB/s.
    pub interface_rate_kb: u64,
    /// Controller overhead of a command, in microseconds.
    pub overhead_us: u64,
    /// Controller overhead of a read that misses the drive's memory, until the arm starts.
    pub miss_overhead_us: u64,
    /// A command that has waited this long is served next, in microseconds.
    pub age_limit_us: u64,
    /// The part of the drive's memory that holds writes.
    pub write_cache: Bytes,
    /// Number of read segments, each with its read-ahead.
    pub read_segments: u32,
    /// Bytes of a read segment.
    pub read_segment: Bytes,
    /// True if a flush runs alone in the drive, like ATA's FLUSH CACHE (it is
    /// not a queued command).
    pub flush_alone: bool,
}

/// Parameters of a solid-state disk. Rates are in units of 1000 bytes, as data sheets give them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Channels between the controller and the flash.
    pub channels: u32,
    /// Number of dies, distributed over the channels.
    pub dies: u32,
    /// Flash beyond the capacity, in thousandths of it: over-provisioning.
    pub spare_permille: u64,
    /// Bytes that a die erases at once (all its planes).
    pub block: Bytes,
    /// Bytes that a die programs at once (all its planes).
    pub program_size: Bytes,
    /// Bytes that a die senses at once for a read.
    pub flash_page: Bytes,
    /// Sensing, in microseconds.
    pub read_us: u64,
    /// Programming, in microseconds.
    pub program_us: u64,
    /// Erasing, in microseconds.
    pub erase_us: u64,
    /// Suspending a program for a read, in microseconds.
    pub suspend_us: u64,
    /// Rate of a channel, in kB/s.
    pub channel_rate_kb: u64,
    /// Rate of the interface for reads, in kB/s, framing included.
    pub read_rate_kb: u64,
    /// Rate of the interface for writes, in kB/s.
    pub write_rate_kb: u64,
    /// Interface time of a read, a flush or a TRIM in addition to its data, in ns.
    pub read_command_ns: u64,
    /// Interface time of a write in addition to its data, in ns.
    pub write_command_ns: u64,
    /// Additional latency of a read, during which the drive serves others, in ns.
    pub read_latency_ns: u64,
    /// Additional latency of a write or a flush, during which the drive serves others, in ns.
    pub write_latency_ns: u64,
    /// Time of a TRIM, in microseconds.
    pub trim_us: u64,
    /// The part of the drive's memory that holds writes.
    pub write_buffer: Bytes,
    /// Maximum age of a write in the buffer of an idle drive, in microseconds.
    pub destage_us: u64,
    /// Percentage of the drive that holds data before the trial, written by random
    /// overwriting; 0 is a new or completely trimmed drive.
    pub prefilled_percent: u64,
}
