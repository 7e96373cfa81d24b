//! The instant disk: every request completes when it is submitted.

use std::collections::VecDeque;

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::disk::{Action, Disk, Request, count};
use crate::limits::Limits;
use crate::models::parameters::Parameters;
use crate::spec::{Check, DiskSpec, SpecError};

/// Initial capacity for pending completions: more than the tags of NBD.
const CAPACITY: usize = 1024;

/// Parameters of the instant disk: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instant {}

impl Parameters for Instant {
    fn check(&self, _: &DiskSpec, _: &Check<'_>) -> Result<(), SpecError> {
        Ok(())
    }

    fn limits(&self) -> Option<Limits> {
        None
    }

    fn build(&self, _: &DiskSpec, _: u64) -> Box<dyn Disk> {
        Box::new(InstantDisk::new())
    }
}

/// A disk that takes no time.
pub struct InstantDisk {
    completions: VecDeque<(Nanos, u64)>,
    /// Written sectors not yet reported as persisted.
    persisted: VecDeque<(u64, u64)>,
    now: Nanos,
    counters: Device,
}

impl InstantDisk {
    /// Creates an idle disk.
    pub(super) fn new() -> InstantDisk {
        let counters =
            Device { busy_ns: Some(Nanos(0)), peak_in_flight: Some(0), ..Device::default() };
        let (completions, persisted) =
            (VecDeque::with_capacity(CAPACITY), VecDeque::with_capacity(CAPACITY));
        InstantDisk { completions, persisted, now: Nanos(0), counters }
    }
}

impl Disk for InstantDisk {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.now = self.now.max(now);
        count(&mut self.counters, &request);
        self.completions.push_back((self.now, request.id));
        if request.action == Action::Write {
            self.persisted.push_back((request.sector, request.sectors.into()));
        }
        self.counters.peak_in_flight =
            self.counters.peak_in_flight.max(Some(self.completions.len() as u64));
    }

    fn next_due(&self) -> Option<Nanos> {
        self.completions.front().map(|(due, _)| *due)
    }

    fn pop_completed(&mut self, now: Nanos) -> Option<u64> {
        self.now = self.now.max(now);
        self.completions.pop_front().map(|(_, id)| id)
    }

    fn pop_persisted(&mut self) -> Option<(u64, u64)> {
        self.persisted.pop_front()
    }

    fn advance_to(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    fn volatile_bytes(&mut self, now: Nanos) -> Bytes {
        self.advance_to(now);
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
    fn every_request_completes_at_its_submission() {
        let mut disk = InstantDisk::new();
        for id in 0..3 {
            disk.submit(
                Nanos(7),
                Request { id, action: Action::Write, sector: 8, sectors: 8, fua: false },
            );
        }
        assert_eq!(disk.next_due(), Some(Nanos(7)));
        assert_eq!(
            std::array::from_fn(|_| disk.pop_completed(Nanos(7))),
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!((disk.next_due(), disk.pop_completed(Nanos(9))), (None, None));
        assert_eq!(disk.counters().bytes_written, Bytes(3 * 4096));
        assert_eq!(disk.volatile_bytes(Nanos(9)), Bytes(0));
    }
}
