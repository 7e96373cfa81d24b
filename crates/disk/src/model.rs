//! The laws of service times that there are, and their parameters as a disk's file gives them.

use fsdyno_record::Bytes;
use serde::{Deserialize, Serialize};

/// How long the disk takes; `law` in the disk's file says which of these it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "lowercase")]
pub enum Model {
    /// Everything is done at once.
    Instant(Instant),
    /// A hard disk: arm, platter, command queue, caches.
    Hdd(Hdd),
    /// A solid-state disk: link, write buffer, translation layer, dies.
    Ssd(Ssd),
}

/// The law that needs no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instant {}

/// The three seeks of a data sheet, in microseconds, settling included.
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
    /// Revolutions a minute.
    pub rpm: u32,
    /// Surfaces that hold data.
    pub heads: u32,
    /// Zones of equal width; the tracks of one zone hold equally many sectors.
    pub zones: u32,
    /// Sustained rate of the outermost zone, in kB/s (1000 bytes a second).
    pub outer_rate_kb: u64,
    /// Sustained rate of the innermost zone, in kB/s.
    pub inner_rate_kb: u64,
    /// From one head to the next of the same cylinder, in microseconds: the arm stays, but tracks of
    /// two surfaces do not lie exactly above each other and the servo has to find the new one.
    pub head_switch_us: u64,
    /// Seeks before a read.
    pub seek_read: Seek,
    /// Seeks before a write, for which the arm has to settle better.
    pub seek_write: Seek,
    /// Rate of the interface, in kB/s.
    pub interface_rate_kb: u64,
    /// What the controller takes for a command, in microseconds.
    pub overhead_us: u64,
    /// What it takes instead for a read that is not in its memory, until the arm starts.
    pub miss_overhead_us: u64,
    /// A command that has waited this long is served next, in microseconds.
    pub age_limit_us: u64,
    /// The part of the drive's memory that holds writes.
    pub write_cache: Bytes,
    /// Reads that the drive's memory remembers, each with its read-ahead.
    pub read_segments: u32,
    /// Bytes that one of those holds.
    pub read_segment: Bytes,
    /// Whether a flush shares the drive with no other command, as ATA's FLUSH CACHE does (it is
    /// no queued command).
    pub flush_alone: bool,
}

/// Parameters of a solid-state disk. Rates are in units of 1000 bytes, as data sheets give them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Channels between the controller and the flash.
    pub channels: u32,
    /// Dies, dealt out over the channels.
    pub dies: u32,
    /// Flash behind the capacity, in thousandths of it: over-provisioning.
    pub spare_permille: u64,
    /// What a die erases at once (all its planes).
    pub block: Bytes,
    /// What a die programs at once (all its planes).
    pub program_size: Bytes,
    /// What a die senses at once for a read.
    pub flash_page: Bytes,
    /// Sensing, in microseconds.
    pub read_us: u64,
    /// Programming, in microseconds.
    pub program_us: u64,
    /// Erasing, in microseconds.
    pub erase_us: u64,
    /// Bringing a program to a stop for a read, in microseconds.
    pub suspend_us: u64,
    /// Rate of a channel, in kB/s.
    pub channel_rate_kb: u64,
    /// Rate at which data leave over the interface, in kB/s, framing and all.
    pub read_rate_kb: u64,
    /// Rate at which data come in over the interface, in kB/s.
    pub write_rate_kb: u64,
    /// What a read, a flush or a TRIM takes of the interface besides its data, in ns.
    pub read_command_ns: u64,
    /// What a write takes of the interface besides its data, in ns.
    pub write_command_ns: u64,
    /// What a read takes besides, while the drive serves others, in ns.
    pub read_latency_ns: u64,
    /// What a write or a flush takes besides, while the drive serves others, in ns.
    pub write_latency_ns: u64,
    /// What a TRIM takes, in microseconds.
    pub trim_us: u64,
    /// The part of the drive's memory that holds writes.
    pub write_buffer: Bytes,
    /// How long a write lies there at most when nothing else happens, in microseconds.
    pub destage_us: u64,
    /// How much of the drive holds data before the trial, in percent, left there by random
    /// overwriting; 0 is a drive as new, or wholly trimmed.
    pub prefilled_percent: u64,
}
