//! A hard disk: one controller that takes commands in order, one arm that serves them by shortest
//! access time, a volatile write cache that is destaged when the arm is idle, and read-ahead.
//!
//! Nothing runs by itself. Every call first processes all events up to its own time
//! ([`HardDisk::advance`]), so an idle disk has destaged its cache by the next call.
//!
//! Depth 1 is a drive without a queue: it takes a command when the previous one is done, hence in
//! order of arrival.
//!
//! Not modelled: tracks laid out surface by surface (here the head is switched after each track;
//! current drives fill a band of one surface first), reads that begin in the middle of
//! their part of a track because that passes the head first, memory shared dynamically between reads and writes,
//! retries and remapped sectors, thermal recalibration, spin-down, reading
//! a physical sector before a part of it is written, and the last sector's transfer over the interface.

mod cache;
pub(crate) mod geometry;
mod motion;
pub(crate) mod params;
mod queue;
mod ranges;
mod read_cache;

use std::collections::VecDeque;

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos, seed};

use self::cache::{DestageRun, WriteCache};
use self::geometry::{Geometry, Position, revolution};
use self::params::Hdd;
use self::queue::{Command, Queue};
use self::read_cache::ReadCache;
use crate::SECTOR;
use crate::disk::{Action, Disk, Request, count};
use crate::spec::{self, DiskSpec};

/// Maximum number of sectors destaged before the arm takes other work. 1 MiB is about one revolution of
/// current disks and three of those of 2001: the maximum wait of a read behind a run.
const MAX_DESTAGE_RUN: u64 = 2048;

/// A hard disk in virtual time.
pub struct HardDisk {
    geometry: Geometry,
    queue: Queue,
    cache: WriteCache,
    segments: ReadCache,
    /// True if writes complete from the cache.
    write_back: bool,
    /// Identifier bits that mark requests whose sectors are not reported as persisted.
    unreported_mask: u64,
    /// Controller time of a command, in ns.
    overhead: u64,
    /// Controller time of a read that misses memory, in ns.
    miss_overhead: u64,
    /// Rate of the interface, in units of 1000 bytes per second.
    interface_rate: u64,
    age_limit: u64,

    /// The time up to which all events are processed.
    clock: Nanos,
    controller: Option<Transfer>,
    arm: Option<Motion>,
    /// The track that the head is over while the arm is free.
    head: Position,
    /// Commands that are admitted but not yet taken by the controller.
    arrived: VecDeque<Command>,
    /// Writes that wait for space in the cache, and flushes behind them.
    space_queue: VecDeque<Command>,
    /// Commands that need the arm before they complete.
    arm_queue: Vec<Command>,
    /// Flushes, each with the cache epoch that it waits for.
    flush_queue: VecDeque<(Command, u64)>,
    completions: VecDeque<(Nanos, u64)>,
    /// Persisted sectors not yet reported.
    persisted: VecDeque<(u64, u64)>,
    counters: Device,
}

/// The command that the controller is processing.
#[derive(Clone, Copy)]
struct Transfer {
    command: Command,
    until: Nanos,
    next: NextStep,
}

/// The next step of a command after the controller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextStep {
    Complete,
    Cache,
    Arm,
    Flush,
}

/// The current work of the arm.
#[derive(Clone, Copy)]
struct Motion {
    until: Nanos,
    /// Position of the head at the end.
    head: Position,
    work: Work,
}

#[derive(Clone, Copy)]
enum Work {
    Command(Command),
    Destage(DestageRun),
    ReadAhead {
        first: u64,
        sectors: u64,
        /// Time at which the head reaches the first sector.
        reading_since: Nanos,
        /// True if it ends early.
        stopped: bool,
    },
}

/// A candidate for the arm's next work. Commands precede destaging, unless a flush or a write waits for it or
/// the cache is nearly full: then the shortest access comes first. Overdue work precedes all else.
#[derive(Clone, Copy)]
enum Candidate {
    Command(usize),
    Extent(usize),
}

impl HardDisk {
    /// Creates an idle drive with its head at the outer edge and its rotational position drawn from `seed`.
    pub fn new(spec: &DiskSpec, hdd: &Hdd, seed: u64) -> HardDisk {
        let phase = seed::stream(seed, "platter").below(revolution(hdd));
        let geometry = Geometry::new(hdd, spec.capacity.0 / SECTOR, phase);
        let depth = spec.queue.depth.max(1);
        let capacity = depth as usize;
        HardDisk {
            head: geometry.locate(0),
            geometry,
            queue: Queue::new(depth, hdd.flush_alone),
            cache: WriteCache::new(hdd.write_cache.0 / SECTOR, hdd.write_extents, depth),
            segments: ReadCache::new(hdd.read_segments, hdd.read_segment.0 / SECTOR),
            write_back: spec.queue.write_cache == spec::WriteCache::WriteBack,
            unreported_mask: 0,
            overhead: hdd.overhead_us * 1000,
            miss_overhead: hdd.miss_overhead_us * 1000,
            interface_rate: hdd.interface_rate_kb.max(1),
            age_limit: hdd.age_limit_us * 1000,
            clock: Nanos(0),
            controller: None,
            arm: None,
            arrived: VecDeque::with_capacity(capacity),
            space_queue: VecDeque::with_capacity(capacity),
            arm_queue: Vec::with_capacity(capacity),
            flush_queue: VecDeque::with_capacity(capacity),
            completions: VecDeque::with_capacity(1024),
            persisted: VecDeque::with_capacity(cache::MAX_EXTENTS + 1024),
            counters: Device {
                seeks: Some(0),
                busy_ns: Some(Nanos(0)),
                peak_in_flight: Some(0),
                ..Device::default()
            },
        }
    }

    /// Creates a drive below a model that adds its own requests: sectors written by requests with a bit of `own`
    /// in their identifiers are not reported as persisted.
    pub fn with_own_requests(spec: &DiskSpec, hdd: &Hdd, seed: u64, own: u64) -> HardDisk {
        HardDisk { unreported_mask: own, ..HardDisk::new(spec, hdd, seed) }
    }

    /// Processes all events up to `now`.
    fn advance(&mut self, now: Nanos) {
        let now = now.max(self.clock);
        loop {
            self.dispatch();
            let controller = self.controller.map(|transfer| transfer.until);
            let arm = self.arm.map(|motion| motion.until);
            let next = controller.into_iter().chain(arm).min();
            let Some(next) = next.filter(|next| *next <= now) else { break };
            self.advance_clock(next);
            if controller == Some(next) {
                self.finish_transfer();
            }
            if arm == Some(next) {
                self.finish_motion();
            }
        }
        self.advance_clock(now);
    }

    fn advance_clock(&mut self, to: Nanos) {
        let reads_ahead = |motion: Motion| matches!(motion.work, Work::ReadAhead { .. });
        if self.controller.is_some() || self.arm.is_some_and(|motion| !reads_ahead(motion)) {
            let busy = self.counters.busy_ns.unwrap_or_default();
            self.counters.busy_ns = Some(busy + to.since(self.clock));
        }
        self.clock = to;
    }

    /// Gives work to the idle controller and arm.
    fn dispatch(&mut self) {
        while let Some((arrived, request)) = self.queue.admit() {
            let position = self.geometry.locate(request.sector);
            let from = request.sector;
            self.arrived.push_back(Command { request, arrived, from, position });
        }
        if self.controller.is_none() {
            self.controller = self.next_transfer();
        }
        if self.is_urgent() {
            self.stop_read_ahead();
        }
        if self.arm.is_none() {
            self.arm = self.next_motion();
        }
    }

    fn complete(&mut self, command: &Command) {
        self.queue.leave();
        self.completions.push_back((self.clock, command.request.id));
    }

    // The controller: each command costs its overhead. Its bytes are transferred before it (writes) or after
    // it (reads that hit); bytes from the platter are transferred while it turns.

    fn next_transfer(&mut self) -> Option<Transfer> {
        if let Some(command) = self.space_queue.front().copied() {
            let flush = command.request.action == Action::Flush;
            if flush || self.cache.reserve(command.request.sectors.into()) {
                self.space_queue.pop_front();
                let next = if flush { NextStep::Flush } else { NextStep::Cache };
                return Some(self.transfer(command, !flush, next));
            }
        }
        while let Some(command) = self.arrived.pop_front() {
            let sectors = u64::from(command.request.sectors);
            match command.request.action {
                Action::Trim => return Some(self.transfer(command, false, NextStep::Complete)),
                Action::Flush if self.space_queue.is_empty() => {
                    return Some(self.transfer(command, false, NextStep::Flush));
                }
                Action::Flush => self.space_queue.push_back(command),
                Action::Read => {
                    let (first, end) = (command.request.sector, command.end());
                    let hit = self.cache.hit(first, end) || self.segments.hit(first, end);
                    let next = if hit { NextStep::Complete } else { NextStep::Arm };
                    return Some(self.transfer(command, hit, next));
                }
                Action::Write if self.is_cached(&command) => {
                    if self.space_queue.is_empty() && self.cache.reserve(sectors) {
                        return Some(self.transfer(command, true, NextStep::Cache));
                    }
                    self.space_queue.push_back(command);
                }
                Action::Write => return Some(self.transfer(command, true, NextStep::Arm)),
            }
        }
        None
    }

    fn is_cached(&self, command: &Command) -> bool {
        let fits = u64::from(command.request.sectors) <= self.cache.limit();
        self.write_back && !command.request.fua && fits
    }

    fn transfer(&self, command: Command, moves_bytes: bool, next: NextStep) -> Transfer {
        let bytes = if moves_bytes { u64::from(command.request.sectors) * SECTOR } else { 0 };
        let misses = command.request.action == Action::Read && next == NextStep::Arm;
        let overhead = if misses { self.miss_overhead } else { self.overhead };
        let time = overhead + bytes * 1_000_000 / self.interface_rate;
        Transfer { command, until: self.clock + Nanos(time), next }
    }

    fn finish_transfer(&mut self) {
        let Some(Transfer { mut command, next, .. }) = self.controller.take() else { return };
        let (first, end) = (command.request.sector, command.end());
        if command.request.action == Action::Write {
            self.segments.forget(first, end);
        }
        match next {
            NextStep::Complete => self.complete(&command),
            NextStep::Cache => {
                self.cache.insert(first, end, &self.geometry);
                self.complete(&command);
            }
            NextStep::Flush if self.cache.dirty() == 0 => self.complete(&command),
            NextStep::Flush => {
                let epoch = self.cache.begin_epoch();
                self.flush_queue.push_back((command, epoch));
            }
            NextStep::Arm if command.request.action == Action::Read => {
                self.stop_read_ahead();
                command.from = self.segments.missing_from(first, end);
                if command.from >= end {
                    self.complete(&command);
                } else {
                    command.position = self.geometry.locate(command.from);
                    self.arm_queue.push(command);
                }
            }
            NextStep::Arm => self.arm_queue.push(command),
        }
    }
}

impl Disk for HardDisk {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now);
        count(&mut self.counters, &request);
        self.queue.push(self.clock, request);
        let in_flight = self.queue.in_flight() as u64;
        self.counters.peak_in_flight = self.counters.peak_in_flight.max(Some(in_flight));
        self.dispatch();
    }

    fn next_due(&self) -> Option<Nanos> {
        if let Some((due, _)) = self.completions.front() {
            return Some(*due);
        }
        if self.queue.admitted_count() == 0 {
            return None;
        }
        let controller = self.controller.map(|transfer| transfer.until);
        let arm = self.arm.map(|motion| motion.until);
        // The arm's work affects only commands that wait for it.
        let waits = self.is_urgent()
            || self.arm.is_some_and(|motion| matches!(motion.work, Work::Command(_)));
        let arm = if waits || controller.is_none() { arm } else { None };
        controller.into_iter().chain(arm).min()
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
        Bytes(self.cache.dirty() * SECTOR)
    }

    fn counters(&self) -> Device {
        self.counters
    }
}
