//! A network block volume as sold by cloud providers: limits on I/O units and on bytes per second, both with
//! burst credit, and a latency drawn from a distribution.
//!
//! A request waits for the queue, then for both limits in order of arrival; then it takes the time of its
//! bytes on the link plus a latency, during which others are served. A write is acknowledged once it is
//! replicated, so nothing is volatile. The draws come from the trial's seed, one for each read or write in order
//! of admission.
//!
//! Not modelled: other users of the same hardware, limits of the instance other than its bandwidth, latency that
//! grows with load below the limits, volumes made from a snapshot (their first read is slower), failover.

mod bucket;
pub(crate) mod params;

use std::collections::VecDeque;

use fsdyno_record::seed::SplitMix64;
use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos, seed};

use self::bucket::Bucket;
use self::params::{MILLION, Network};
use crate::SECTOR;
use crate::disk::{Action, Disk, Request, count};
use crate::spec::DiskSpec;

/// Capacity of the queue for admission: more requests than the tags of any block driver.
const WAITING_CAPACITY: usize = 1024;

/// A network volume in virtual time. Times are in ns.
pub struct NetworkVolume {
    model: Network,
    ios: Bucket,
    bytes: Bucket,
    draws: SplitMix64,
    depth: usize,
    /// The last admitted request, its completion, and the number of bytes used of its last I/O unit.
    last: Option<(Request, u64, u64)>,
    /// The time up to which all events have been processed.
    clock: u64,
    waiting: VecDeque<Request>,
    /// Admitted requests in order of completion.
    in_flight: VecDeque<(u64, Request)>,
    completions: VecDeque<(u64, u64)>,
    persisted: VecDeque<(u64, u64)>,
    counters: Device,
}

impl NetworkVolume {
    /// Creates an idle volume with latencies drawn from `seed`.
    pub fn new(spec: &DiskSpec, model: &Network, seed: u64) -> NetworkVolume {
        let depth = spec.queue.depth.max(1) as usize;
        NetworkVolume {
            ios: model.io_bucket(),
            bytes: model.byte_bucket(),
            model: model.clone(),
            draws: seed::stream(seed, "network latency"),
            depth,
            last: None,
            clock: 0,
            waiting: VecDeque::with_capacity(WAITING_CAPACITY),
            in_flight: VecDeque::with_capacity(depth),
            completions: VecDeque::with_capacity(WAITING_CAPACITY),
            persisted: VecDeque::with_capacity(WAITING_CAPACITY),
            counters: Device {
                busy_ns: Some(Nanos(0)),
                peak_in_flight: Some(0),
                ..Device::default()
            },
        }
    }

    /// Processes all events up to `now`.
    fn advance(&mut self, now: u64) {
        let now = now.max(self.clock);
        while let Some((due, request)) = self.in_flight.front().copied() {
            if due > now {
                break;
            }
            self.advance_clock(due);
            self.in_flight.pop_front();
            if request.action == Action::Write {
                self.persisted.push_back((request.sector, request.sectors.into()));
            }
            self.completions.push_back((due, request.id));
            self.admit();
        }
        self.advance_clock(now);
    }

    fn advance_clock(&mut self, to: u64) {
        if !self.in_flight.is_empty() {
            let busy = self.counters.busy_ns.unwrap_or_default();
            self.counters.busy_ns = Some(busy + Nanos(to - self.clock));
        }
        self.clock = to;
    }

    fn admit(&mut self) {
        while self.in_flight.len() < self.depth {
            let Some(request) = self.waiting.pop_front() else { return };
            let due = self.completion_time(&request);
            let index = self.in_flight.partition_point(|(other, _)| *other <= due);
            self.in_flight.insert(index, (due, request));
        }
    }

    /// Returns the completion time of a request that is admitted now.
    fn completion_time(&mut self, request: &Request) -> u64 {
        let latency = match request.action {
            Action::Read => &self.model.read,
            Action::Write => &self.model.write,
            Action::Flush | Action::Trim => return self.clock + self.model.flush_us * 1000,
        };
        let latency = latency.at(self.draws.below(MILLION));
        let length = u64::from(request.sectors) * SECTOR;
        let (units, used) = self.units(request, length);
        let start = self.ios.take(self.clock, units);
        let start = self.bytes.take(start, length);
        let due = start + length * 1_000_000 / self.model.link_rate_kb.max(1) + latency;
        self.last = Some((*request, due, used));
        due
    }

    /// Returns the I/O units of a request, and the number of bytes used of its last one.
    fn units(&self, request: &Request, length: u64) -> (u64, u64) {
        let size = self.model.io_size.0.max(1);
        let follows = self.last.filter(|(last, due, _)| {
            last.action == request.action
                && last.sector + u64::from(last.sectors) == request.sector
                && *due > self.clock
                && length >= self.model.merge_least.0
        });
        let used = follows.map_or(0, |(_, _, used)| used);
        let units = (used + length).div_ceil(size) - used.div_ceil(size);
        (units, (used + length) % size)
    }
}

impl Disk for NetworkVolume {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now.0);
        count(&mut self.counters, &request);
        self.waiting.push_back(request);
        let in_flight = (self.in_flight.len() + self.waiting.len()) as u64;
        self.counters.peak_in_flight = self.counters.peak_in_flight.max(Some(in_flight));
        self.admit();
    }

    fn next_due(&self) -> Option<Nanos> {
        let due = self.in_flight.front().map(|(due, _)| *due);
        self.completions.front().map(|(due, _)| *due).or(due).map(Nanos)
    }

    fn pop_completed(&mut self, now: Nanos) -> Option<u64> {
        self.advance(now.0);
        self.completions.pop_front().map(|(_, id)| id)
    }

    fn pop_persisted(&mut self) -> Option<(u64, u64)> {
        self.persisted.pop_front()
    }

    fn advance_to(&mut self, now: Nanos) {
        self.advance(now.0);
    }

    fn volatile_bytes(&mut self, now: Nanos) -> Bytes {
        self.advance(now.0);
        Bytes(0)
    }

    fn counters(&self) -> Device {
        self.counters
    }
}
