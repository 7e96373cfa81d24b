//! A command in the drive: its stage, and the times of its steps.

use super::buffer::PAGE;
use super::dies::PageRead;
use super::params::{Interface, Ssd};
use crate::SECTOR;
use crate::disk::{Action, Request};

/// A drive's times, in ns and kB/s.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Link time of a read, a flush or a TRIM in addition to its data.
    pub read_command: u64,
    /// Link time of a write in addition to its data.
    pub write_command: u64,
    /// Additional latency of a read, during which the drive serves others.
    pub read_latency: u64,
    /// Additional latency of a write or a flush, during which the drive serves others.
    pub write_latency: u64,
    /// Rate of read data.
    pub read_rate: u64,
    /// Rate of write data.
    pub write_rate: u64,
    /// Additional time of a TRIM.
    pub trim: u64,
    /// Maximum wait of a page for others to fill a program.
    pub destage: u64,
    /// Time of a program.
    pub program: u64,
    /// Time of the fastest program: with one bit per cell, if the drive has such a mode.
    pub least_program: u64,
    /// Firmware time of a flush that has persisted something, in addition to the flash.
    pub flush: u64,
    /// Firmware time of a write with FUA, in addition to the flash.
    pub fua: u64,
    /// True if commands and each direction of data have their own paths.
    pub full_duplex: bool,
}

impl Times {
    /// Returns the times of a disk profile.
    pub fn new(ssd: &Ssd) -> Times {
        Times {
            read_command: ssd.read_command_ns,
            write_command: ssd.write_command_ns,
            read_latency: ssd.read_latency_ns,
            write_latency: ssd.write_latency_ns,
            read_rate: ssd.read_rate_kb.max(1),
            write_rate: ssd.write_rate_kb.max(1),
            trim: ssd.trim_us * 1000,
            destage: ssd.destage_us * 1000,
            program: ssd.program_us * 1000,
            least_program: match ssd.slc_program_us {
                0 => ssd.program_us * 1000,
                slc => slc * 1000,
            },
            flush: ssd.flush_us * 1000,
            fua: ssd.fua_us * 1000,
            full_duplex: ssd.interface == Interface::Nvme,
        }
    }

    /// Returns the link time of a command in its current stage.
    pub fn on_link(&self, command: &Command) -> u64 {
        let written = || command.bytes() * 1_000_000 / self.write_rate;
        match (command.request.action, command.stage) {
            (Action::Read, Stage::Leaving) => command.bytes() * 1_000_000 / self.read_rate,
            (Action::Write, Stage::Incoming) => written(),
            (_, Stage::Incoming) => 0,
            (Action::Write, _) if self.full_duplex => self.write_command,
            (Action::Write, _) => self.write_command + written(),
            _ => self.read_command,
        }
    }

    /// Returns the firmware time from the record of a command on flash to its completion.
    pub fn after_record(&self, command: &Command) -> u64 {
        match command.request.action {
            Action::Flush => self.flush,
            _ => self.fua,
        }
    }
}

/// The stage of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for space in the buffer.
    NeedsSpace,
    /// Waiting for the link, or arriving over it.
    Arriving,
    /// Its data wait for the path from the host, or arrive over it. With NVMe, flushes and TRIMs pass
    /// through this stage too, which keeps them behind the data of earlier writes.
    Incoming,
    /// Dies have still to read `pages` pages for it, the last of them not before `ready`.
    Reading { pages: u32, ready: u64 },
    /// Its data wait for the link.
    Leaving,
    /// Waiting until all pages up to this arrival are on flash.
    Settling { arrival: u64 },
    /// Waiting for the record, which is not complete before `ready`.
    Recording { ready: u64 },
    /// Its completion time is known.
    Completing,
}

#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The submitted request.
    pub request: Request,
    /// Its stage.
    pub stage: Stage,
    /// True for a read that the buffer serves.
    pub hit: bool,
}

impl Command {
    /// Returns the first sector, and one past the last.
    pub fn range(&self) -> (u64, u64) {
        (self.request.sector, self.request.sector + u64::from(self.request.sectors))
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.request.sectors) * SECTOR
    }

    /// Returns the number of pages of the translation layer that the command touches.
    pub fn pages(&self) -> usize {
        let (first, end) = self.range();
        (end.div_ceil(PAGE) - first / PAGE) as usize
    }
}

/// Returns the reads of flash pages for a range of sectors.
pub fn page_reads(
    command: usize,
    first: u64,
    end: u64,
    flash_page: u64,
) -> impl Iterator<Item = PageRead> {
    (first / flash_page..end.div_ceil(flash_page)).map(move |page| {
        let sectors = end.min((page + 1) * flash_page) - first.max(page * flash_page);
        PageRead { command, page, bytes: sectors * SECTOR }
    })
}
