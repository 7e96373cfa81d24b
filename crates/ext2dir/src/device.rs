//! The disk below the model: its timing model, the clock, and waiting for requests.

use std::collections::BTreeMap;

use fsdyno_disk::{Action, Disk, DiskSpec, Partition, Request, SECTOR};
use fsdyno_record::Nanos;
use fsdyno_record::trial::Device as Counters;

/// A modelled disk and its clock.
pub struct Device {
    disk: Box<dyn Disk>,
    /// First sector of the volume.
    start: u64,
    /// Number of sectors per block.
    sectors_per_block: u64,
    /// Maximum number of blocks per request.
    max_blocks: u64,
    /// Current time.
    now: Nanos,
    next_id: u64,
    /// Requests in flight.
    in_flight: BTreeMap<u64, ()>,
}

impl Device {
    /// Creates an idle disk, with a volume of blocks of `block_size` in `partition`.
    pub fn new(spec: &DiskSpec, seed: u64, partition: Partition, block_size: u64) -> Device {
        Device {
            disk: fsdyno_disk::build(spec, seed),
            start: partition.start.0 / SECTOR,
            sectors_per_block: block_size / SECTOR,
            max_blocks: (u64::from(spec.queue.max_sectors_kb) * 1024 / block_size).max(1),
            now: Nanos(0),
            next_id: 0,
            in_flight: BTreeMap::new(),
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Advances the clock by the caller's processor time.
    pub fn pass(&mut self, time: Nanos) {
        self.now += time;
    }

    /// Reads a block and waits for completion.
    pub fn read(&mut self, block: u64) {
        let id = self.submit(Action::Read, block, 1);
        self.wait(id);
    }

    /// Submits writes of these blocks, in ascending order, with adjacent blocks in one request; returns the last
    /// request's id.
    pub fn write(&mut self, blocks: impl IntoIterator<Item = u64>) -> Option<u64> {
        let mut run: Option<(u64, u64)> = None;
        let mut last = None;
        for block in blocks {
            match &mut run {
                Some((first, count)) if *first + *count == block && *count < self.max_blocks => {
                    *count += 1
                }
                run => {
                    if let Some((first, count)) = run.replace((block, 1)) {
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

    /// Waits until no request is in flight.
    pub fn drain(&mut self) {
        while let Some((id, ())) = self.in_flight.first_key_value() {
            self.wait(*id);
        }
    }

    /// Flushes the disk's own cache and waits for completion.
    pub fn flush(&mut self) {
        let id = self.submit(Action::Flush, 0, 0);
        self.wait(id);
    }

    /// Returns counts of the requests completed so far.
    pub fn counters(&self) -> Counters {
        self.disk.counters()
    }

    fn submit(&mut self, action: Action, block: u64, count: u64) -> u64 {
        self.collect_completions();
        let id = self.next_id;
        self.next_id += 1;
        let sector = self.start + block * self.sectors_per_block;
        let sectors = (count * self.sectors_per_block) as u32;
        let sector = if action == Action::Flush { 0 } else { sector };
        self.disk.submit(self.now, Request { id, action, sector, sectors, fua: false });
        self.in_flight.insert(id, ());
        id
    }

    /// Collects the completions up to the current time. Events due between two calls are delivered to the disk at
    /// their own times, one by one, as its server would deliver them.
    fn collect_completions(&mut self) {
        while let Some(due) = self.disk.next_due().filter(|due| *due <= self.now) {
            self.pop_completions(due);
        }
        self.pop_completions(self.now);
    }

    fn pop_completions(&mut self, now: Nanos) {
        while let Some(id) = self.disk.pop_completed(now) {
            self.in_flight.remove(&id);
        }
        while self.disk.pop_persisted().is_some() {}
    }

    fn wait(&mut self, id: u64) {
        self.collect_completions();
        while self.in_flight.contains_key(&id) {
            // A request is in flight, so the disk has a next event.
            let Some(due) = self.disk.next_due() else { break };
            self.now = self.now.max(due);
            self.pop_completions(self.now);
        }
    }
}
