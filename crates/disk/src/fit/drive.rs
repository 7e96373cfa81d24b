//! What is probed: a drive that says how long a read took. A modelled disk is one too: that is how
//! a fit is checked against what it was fitted to.

use std::io;

use fsdyno_record::Nanos;

use crate::disk::{Action, Disk, Request, build};
use crate::spec::DiskSpec;

/// Something that reads and tells the time that it took.
pub trait Drive {
    /// Its size in sectors of 512 bytes.
    fn sectors(&self) -> u64;
    /// Reads `sectors` from `sector` on; the time from asking until the last byte was there.
    ///
    /// # Errors
    /// What the kernel said; `Interrupted` if somebody wants it to end.
    fn read(&mut self, sector: u64, sectors: u32) -> io::Result<Nanos>;
    /// Reads as many sectors at each of these places with `depth` reads in flight; the time for all.
    ///
    /// # Errors
    /// As [`Drive::read`].
    fn read_all(&mut self, places: &[u64], sectors: u32, depth: u32) -> io::Result<Nanos>;
}

/// A modelled disk, in its own virtual time.
pub struct Modelled {
    disk: Box<dyn Disk>,
    sectors: u64,
    now: Nanos,
}

impl Modelled {
    /// The disk of a valid spec, its platter at an angle drawn from `seed`.
    pub fn new(spec: &DiskSpec, seed: u64) -> Modelled {
        let (disk, sectors) = (build(spec, seed), spec.capacity.0 / crate::SECTOR);
        Modelled { disk, sectors, now: Nanos(0) }
    }

    fn submit(&mut self, sector: u64, sectors: u32) {
        let request = Request { id: 0, action: Action::Read, sector, sectors, fua: false };
        self.disk.submit(self.now, request);
    }

    /// Waits until a read is done. A disk with nothing in flight has nothing to wait for.
    fn wait(&mut self) {
        while let Some(due) = self.disk.next_due() {
            self.now = self.now.max(due);
            if self.disk.completed(self.now).is_some() {
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

    fn read_all(&mut self, places: &[u64], sectors: u32, depth: u32) -> io::Result<Nanos> {
        let begin = self.now;
        for (at, place) in places.iter().enumerate() {
            if at >= depth as usize {
                self.wait();
            }
            self.submit(*place, sectors);
        }
        (0..places.len().min(depth as usize)).for_each(|_| self.wait());
        Ok(self.now.since(begin))
    }
}
