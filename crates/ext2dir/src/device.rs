//! The disk below the model: its law, the clock, and who waits for it.

use std::collections::BTreeMap;

use fsdyno_disk::{Action, Disk, DiskSpec, Partition, Request, SECTOR};
use fsdyno_record::Nanos;
use fsdyno_record::trial::Device as Counters;

/// A disk and the time.
pub struct Device {
    disk: Box<dyn Disk>,
    /// First sector of the volume.
    start: u64,
    /// Sectors of a block.
    sectors: u64,
    /// Blocks that one request may have.
    most: u64,
    /// Now.
    now: Nanos,
    next: u64,
    /// Requests that are not done.
    in_flight: BTreeMap<u64, ()>,
}

impl Device {
    /// A disk at rest, with a volume of blocks of `block_size` in `partition`.
    pub fn new(spec: &DiskSpec, seed: u64, partition: Partition, block_size: u64) -> Device {
        Device {
            disk: fsdyno_disk::build(spec, seed),
            start: partition.start.0 / SECTOR,
            sectors: block_size / SECTOR,
            most: (u64::from(spec.queue.max_sectors_kb) * 1024 / block_size).max(1),
            now: Nanos(0),
            next: 0,
            in_flight: BTreeMap::new(),
        }
    }

    /// Now.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The caller computes for so long.
    pub fn pass(&mut self, time: Nanos) {
        self.now += time;
    }

    /// Reads a block and waits for it.
    pub fn read(&mut self, block: u64) {
        let id = self.submit(Action::Read, block, 1);
        self.wait(id);
    }

    /// Hands in writes of these blocks, in ascending order, neighbours as one; the last of them.
    pub fn write(&mut self, blocks: impl IntoIterator<Item = u64>) -> Option<u64> {
        let mut run: Option<(u64, u64)> = None;
        let mut last = None;
        for block in blocks {
            match &mut run {
                Some((first, count)) if *first + *count == block && *count < self.most => {
                    *count += 1
                }
                other => {
                    if let Some((first, count)) = other.replace((block, 1)) {
                        last = Some(self.submit(Action::Write, first, count));
                    }
                }
            }
        }
        if let Some((first, count)) = run {
            last = Some(self.submit(Action::Write, first, count));
        }
        last
    }

    /// Waits until nothing is in flight.
    pub fn drain(&mut self) {
        while let Some((id, ())) = self.in_flight.first_key_value() {
            self.wait(*id);
        }
    }

    /// Has the disk empty its own cache and waits for it.
    pub fn flush(&mut self) {
        let id = self.submit(Action::Flush, 0, 0);
        self.wait(id);
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.disk.counters()
    }

    fn submit(&mut self, action: Action, block: u64, count: u64) -> u64 {
        self.settle();
        let id = self.next;
        self.next += 1;
        let sector = self.start + block * self.sectors;
        let sectors = (count * self.sectors) as u32;
        let sector = if action == Action::Flush { 0 } else { sector };
        self.disk.submit(self.now, Request { id, action, sector, sectors, fua: false });
        self.in_flight.insert(id, ());
        id
    }

    /// Takes note of what is done by now. What is due between two calls is told to the disk at its own
    /// time, one after the other, as whoever serves it would.
    fn settle(&mut self) {
        while let Some(due) = self.disk.next_due().filter(|due| *due <= self.now) {
            self.take(due);
        }
        self.take(self.now);
    }

    fn take(&mut self, now: Nanos) {
        while let Some(id) = self.disk.completed(now) {
            self.in_flight.remove(&id);
        }
        while self.disk.landed().is_some() {}
    }

    fn wait(&mut self, id: u64) {
        self.settle();
        while self.in_flight.contains_key(&id) {
            // Something is in the disk, so it knows when to be asked again.
            let Some(due) = self.disk.next_due() else { break };
            self.now = self.now.max(due);
            self.take(self.now);
        }
    }
}
