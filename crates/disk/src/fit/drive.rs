//! Drives that can be probed: real ones, and modelled ones to check a fit.

use std::io;

use fsdyno_record::Nanos;

use crate::build;
use crate::disk::{Action, Disk, Request};
use crate::spec::DiskSpec;

/// A drive that measures the time of its reads.
pub trait Drive {
    /// Returns the size in sectors of 512 bytes.
    fn sectors(&self) -> u64;
    /// Reads `sectors` sectors from `sector` on; returns the time from submission until the last byte arrives.
    ///
    /// # Errors
    /// The kernel's error; `Interrupted` if the user stops the probe.
    fn read(&mut self, sector: u64, sectors: u32) -> io::Result<Nanos>;
    /// Reads `sectors` sectors at each of these offsets with `depth` reads in flight; returns the total time.
    ///
    /// # Errors
    /// As [`Drive::read`].
    fn read_all(&mut self, offsets: &[u64], sectors: u32, depth: u32) -> io::Result<Nanos>;
}

/// A modelled disk, in its own virtual time.
pub struct Modelled {
    disk: Box<dyn Disk>,
    sectors: u64,
    now: Nanos,
}

impl Modelled {
    /// Creates the disk of a valid spec, with a rotational position drawn from `seed`.
    pub fn new(spec: &DiskSpec, seed: u64) -> Modelled {
        let (disk, sectors) = (build(spec, seed), spec.capacity.0 / crate::SECTOR);
        Modelled { disk, sectors, now: Nanos(0) }
    }

    fn submit(&mut self, sector: u64, sectors: u32) {
        let request = Request { id: 0, action: Action::Read, sector, sectors, fua: false };
        self.disk.submit(self.now, request);
    }

    /// Waits until a read completes, if any is in flight.
    fn wait(&mut self) {
        while let Some(due) = self.disk.next_due() {
            self.now = self.now.max(due);
            if self.disk.pop_completed(self.now).is_some() {
                return;
            }
        }
    }
}

impl Drive for Modelled {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read(&mut self, sector: u64, sectors: u32) -> io::Result<Nanos> {
        self.read_all(&[sector], sectors, 1)
    }

    fn read_all(&mut self, offsets: &[u64], sectors: u32, depth: u32) -> io::Result<Nanos> {
        let start = self.now;
        for (at, offset) in offsets.iter().enumerate() {
            if at >= depth as usize {
                self.wait();
            }
            self.submit(*offset, sectors);
        }
        (0..offsets.len().min(depth as usize)).for_each(|_| self.wait());
        Ok(self.now.since(start))
    }
}
