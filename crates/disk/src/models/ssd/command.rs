//! A command in the drive: where it is, and how long its steps take.

use super::buffer::PAGE;
use super::dies::PageRead;
use crate::SECTOR;
use crate::disk::{Action, Request};
use crate::model::Ssd;

/// A drive's times, in ns and kB/s.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A read, a flush or a TRIM on the link, besides its data.
    pub read_command: u64,
    /// A write on the link, besides its data.
    pub write_command: u64,
    /// A read, besides, while the drive serves others.
    pub read_latency: u64,
    /// A write or a flush, besides, while the drive serves others.
    pub write_latency: u64,
    /// Data on their way out.
    pub read_rate: u64,
    /// Data on their way in.
    pub write_rate: u64,
    /// A TRIM, besides.
    pub trim: u64,
    /// How long a page waits at most for others to fill a program.
    pub destage: u64,
    /// One program.
    pub program: u64,
}

impl Times {
    /// The times of a disk's file.
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
        }
    }

    /// Time that a command takes of the link in the stage that it is in.
    pub fn on_link(&self, command: &Command) -> u64 {
        match (command.request.action, command.stage) {
            (Action::Read, Stage::Leaving) => command.bytes() * 1_000_000 / self.read_rate,
            (Action::Write, _) => {
                self.write_command + command.bytes() * 1_000_000 / self.write_rate
            }
            _ => self.read_command,
        }
    }
}

/// Where a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for room in the buffer.
    Room,
    /// It waits for the link or is on it, on its way in.
    Arriving,
    /// Dies read so many pages for it, the last not before so long.
    Reading { pages: u32, ready: u64 },
    /// Its data wait for the link.
    Leaving,
    /// It waits until all pages up to this arrival are on flash.
    Settling { arrival: u64 },
    /// It waits for the record, which is not done before so long.
    Recording { ready: u64 },
    /// It is through, and is answered after the drive's latency.
    Ripening,
}

#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// As it was submitted.
    pub request: Request,
    /// Where it is.
    pub stage: Stage,
    /// A read that the buffer serves.
    pub hit: bool,
}

impl Command {
    /// Its first sector, and one past the last.
    pub fn range(&self) -> (u64, u64) {
        (self.request.sector, self.request.sector + u64::from(self.request.sectors))
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.request.sectors) * SECTOR
    }

    /// Pages of the translation layer that it touches.
    pub fn pages(&self) -> usize {
        let (first, end) = self.range();
        (end.div_ceil(PAGE) - first / PAGE) as usize
    }
}

/// The flash pages of a range of sectors.
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
