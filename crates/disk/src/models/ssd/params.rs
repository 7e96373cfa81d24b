//! Parameters of the solid-state model.

use fsdyno_record::Bytes;
use serde::{Deserialize, Serialize};

/// The interface between host and drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    /// Serial ATA: commands and the data of both directions share the link; a flush and a TRIM run
    /// alone.
    #[default]
    Sata,
    /// NVMe on PCI Express: the controller takes commands while data flow in both directions; a flush and a
    /// TRIM are commands like any other.
    Nvme,
}

/// Returns true for a parameter's default, which is not written to profiles, so that older ones keep their hash.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Parameters of a solid-state disk. Rates are in units of 1000 bytes per second, as in data sheets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// The interface; SATA if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interface: Interface,
    /// True if capacitors save the write buffer in a power cut: a write is persisted once it is in the
    /// buffer, and a flush and FUA have nothing to wait for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub power_loss_protection: bool,
    /// Channels between the controller and the flash.
    pub channels: u32,
    /// Number of dies, distributed over the channels.
    pub dies: u32,
    /// Flash beyond the capacity (over-provisioning), in thousandths of the capacity.
    pub spare_permille: u64,
    /// Bytes that a die erases at once (all its planes).
    pub block: Bytes,
    /// Bytes that a die programs at once (all its planes).
    pub program_size: Bytes,
    /// Bytes that a die senses at once for a read.
    pub flash_page: Bytes,
    /// Time to sense a page, in microseconds.
    pub read_us: u64,
    /// Time to program, in microseconds.
    pub program_us: u64,
    /// Time to erase, in microseconds.
    pub erase_us: u64,
    /// Time to suspend a program for a read, in microseconds.
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
    /// Firmware time of a flush that persists something, in addition to the flash, in microseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flush_us: u64,
    /// Firmware time of a write with FUA, in addition to the flash, in microseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fua_us: u64,
    /// Capacity of the cache with one bit per cell, which the drive empties when it is idle; 0 for a drive without
    /// such a cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slc_cache: Bytes,
    /// Time to program with one bit per cell, in microseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slc_program_us: u64,
    /// Rate at which an idle drive empties the cache with one bit per cell, in kB/s.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slc_fold_rate_kb: u64,
    /// Percentage of the drive that holds data before the trial, written by random
    /// overwriting; 0 for a new or completely trimmed drive.
    pub prefilled_percent: u64,
}
