//! A flash card or stick: one command at a time, few open allocation units, and no volatile cache.
//!
//! A read takes a constant time plus the transfer of its data on the bus. A write takes a constant time, the
//! transfer, the programs that it needs, and the copies and erasures of the units that it closes ([`units`]). It
//! completes when all of that is done, so a completed write survives a power cut and a flush has nothing to do.
//!
//! Not modelled: command queueing and the volatile cache of the A2 class (Linux enables neither on many hosts), wear,
//! errors, heat, clock changes of the bus, an SLC cache, copying in idle time, and the loss of
//! data that were written long before a power cut.

pub(crate) mod params;
mod units;

use std::collections::VecDeque;

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos};

use self::params::Card;
use self::units::Units;
use crate::SECTOR;
use crate::disk::{Action, Disk, Request, count};
use crate::spec::DiskSpec;

/// Maximum number of open units.
pub const MAX_OPEN: usize = 1024;
/// Maximum number of units.
pub const MAX_UNITS: u64 = 1 << 20;
/// Initial capacity of the queues: more than the tags of any block driver.
const QUEUE_CAPACITY: usize = 1024;

/// A flash card in virtual time.
pub struct FlashCard {
    card: Card,
    units: Units,
    clock: Nanos,
    waiting: VecDeque<Request>,
    /// The command that the card executes, and its end.
    current: Option<(Request, Nanos)>,
    completions: VecDeque<(Nanos, u64)>,
    persisted: VecDeque<(u64, u64)>,
    counters: Device,
}

impl FlashCard {
    /// Creates an idle card without data.
    pub fn new(spec: &DiskSpec, card: &Card) -> FlashCard {
        let count = spec.capacity.0.div_ceil(card.unit.0.max(1));
        FlashCard {
            units: Units::new(card.unit.0, count, card.open_units.max(1) as usize),
            card: card.clone(),
            clock: Nanos(0),
            waiting: VecDeque::with_capacity(QUEUE_CAPACITY),
            current: None,
            completions: VecDeque::with_capacity(QUEUE_CAPACITY),
            persisted: VecDeque::with_capacity(QUEUE_CAPACITY),
            counters: Device {
                busy_ns: Some(Nanos(0)),
                peak_in_flight: Some(0),
                ..Device::default()
            },
        }
    }

    /// Processes all events up to `now`.
    fn advance(&mut self, now: Nanos) {
        let now = now.max(self.clock);
        loop {
            self.start();
            let Some((request, until)) = self.current.take_if(|(_, until)| *until <= now) else {
                break;
            };
            self.advance_clock(until, true);
            if request.action == Action::Write {
                self.persisted.push_back((request.sector, request.sectors.into()));
            }
            self.completions.push_back((until, request.id));
        }
        self.advance_clock(now, self.current.is_some());
    }

    fn advance_clock(&mut self, to: Nanos, busy: bool) {
        if busy {
            let before = self.counters.busy_ns.unwrap_or_default();
            self.counters.busy_ns = Some(before + to.since(self.clock));
        }
        self.clock = to;
    }

    /// Gives the next command to an idle card.
    fn start(&mut self) {
        if self.current.is_none() {
            if let Some(request) = self.waiting.pop_front() {
                let time = self.service_time(&request);
                self.current = Some((request, self.clock + Nanos(time)));
            }
        }
    }

    /// Applies a command to the card; returns its time in ns.
    fn service_time(&mut self, request: &Request) -> u64 {
        let bytes = u64::from(request.sectors) * SECTOR;
        let on_bus = bytes * 1_000_000 / self.card.bus_rate_kb.max(1);
        match request.action {
            Action::Read => self.card.read_us * 1000 + on_bus,
            Action::Write => self.card.write_us * 1000 + on_bus + self.write(request.sector, bytes),
            // Nothing is volatile.
            Action::Flush => 0,
            Action::Trim => {
                let (first, unit) = (request.sector * SECTOR, self.card.unit.0);
                self.units.trim(first.div_ceil(unit), (first + bytes) / unit);
                self.card.trim_us * 1000
            }
        }
    }

    /// Writes to the units; returns the time of the programs, copies and erasures in ns.
    fn write(&mut self, sector: u64, bytes: u64) -> u64 {
        let (program, unit) = (self.card.program_size.0, self.card.unit.0);
        let (mut at, end) = (sector * SECTOR, sector * SECTOR + bytes);
        let (mut programmed, mut copied, mut erased) = (0, 0, 0);
        while at < end {
            let part = (unit - at % unit).min(end - at);
            let programs = (at % program + part).div_ceil(program) * program;
            let upkeep = self.units.write(at / unit, at % unit, part, programs);
            programmed += programs;
            copied += upkeep.copied;
            erased += upkeep.erased;
            at += part;
        }
        programmed * 1_000_000 / self.card.program_rate_kb.max(1)
            + copied * 1_000_000 / self.card.copy_rate_kb.max(1)
            + erased * self.card.erase_us * 1000
    }
}

impl Disk for FlashCard {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now);
        count(&mut self.counters, &request);
        self.waiting.push_back(request);
        self.start();
        let in_flight = self.waiting.len() as u64 + u64::from(self.current.is_some());
        self.counters.peak_in_flight = self.counters.peak_in_flight.max(Some(in_flight));
    }

    fn next_due(&self) -> Option<Nanos> {
        let done = self.completions.front().map(|(due, _)| *due);
        done.or(self.current.map(|(_, until)| until))
    }

    fn pop_completed(&mut self, now: Nanos) -> Option<u64> {
        self.advance(now);
        self.completions.pop_front().map(|(_, id)| id)
    }

    fn pop_persisted(&mut self) -> Option<(u64, u64)> {
        self.persisted.pop_front()
    }

    fn advance_to(&mut self, now: Nanos) {
        self.advance(now);
    }

    fn volatile_bytes(&mut self, now: Nanos) -> Bytes {
        self.advance(now);
        Bytes(0)
    }

    fn note_untimed(&mut self, request: Request) {
        let (first, unit) = (request.sector * SECTOR, self.card.unit.0);
        let end = first + u64::from(request.sectors) * SECTOR;
        match request.action {
            Action::Write => (first / unit..end.div_ceil(unit)).for_each(|at| self.units.fill(at)),
            Action::Trim => self.units.trim(first.div_ceil(unit), end / unit),
            Action::Read | Action::Flush => {}
        }
    }

    fn counters(&self) -> Device {
        self.counters
    }
}
