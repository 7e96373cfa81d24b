//! The disk that takes no time: every request completes at the instant it is submitted.

use std::collections::VecDeque;

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos};

use crate::disk::{Action, Disk, Request, count};

/// Room for completions that nobody has asked for yet; more than NBD has tags.
const ROOM: usize = 1024;

/// A disk without a law.
pub struct InstantDisk {
    done: VecDeque<(Nanos, u64)>,
    /// Sectors that were written and not asked for yet.
    landed: VecDeque<(u64, u64)>,
    now: Nanos,
    counters: Device,
}

impl InstantDisk {
    /// An idle disk.
    pub fn new() -> InstantDisk {
        let counters =
            Device { busy_ns: Some(Nanos(0)), peak_in_flight: Some(0), ..Device::default() };
        let (done, landed) = (VecDeque::with_capacity(ROOM), VecDeque::with_capacity(ROOM));
        InstantDisk { done, landed, now: Nanos(0), counters }
    }
}

impl Disk for InstantDisk {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.now = self.now.max(now);
        count(&mut self.counters, &request);
        self.done.push_back((self.now, request.id));
        if request.action == Action::Write {
            self.landed.push_back((request.sector, request.sectors.into()));
        }
        self.counters.peak_in_flight =
            self.counters.peak_in_flight.max(Some(self.done.len() as u64));
    }

    fn next_due(&self) -> Option<Nanos> {
        self.done.front().map(|done| done.0)
    }

    fn completed(&mut self, now: Nanos) -> Option<u64> {
        self.now = self.now.max(now);
        self.done.pop_front().map(|done| done.1)
    }

    fn landed(&mut self) -> Option<(u64, u64)> {
        self.landed.pop_front()
    }

    fn volatile_bytes(&mut self, now: Nanos) -> Bytes {
        self.now = self.now.max(now);
        Bytes(0)
    }

    fn counters(&self) -> Device {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_completes_at_the_instant_it_comes() {
        let mut disk = InstantDisk::new();
        for id in 0..3 {
            disk.submit(
                Nanos(7),
                Request { id, action: Action::Write, sector: 8, sectors: 8, fua: false },
            );
        }
        assert_eq!(disk.next_due(), Some(Nanos(7)));
        assert_eq!(std::array::from_fn(|_| disk.completed(Nanos(7))), [Some(0), Some(1), Some(2)]);
        assert_eq!((disk.next_due(), disk.completed(Nanos(9))), (None, None));
        assert_eq!(disk.counters().bytes_written, Bytes(3 * 4096));
        assert_eq!(disk.volatile_bytes(Nanos(9)), Bytes(0));
    }
}
