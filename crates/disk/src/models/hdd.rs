//! A hard disk: one controller that takes commands in order, one arm that serves them by shortest
//! access time, a volatile write cache that is destaged when the arm is idle, and read-ahead.
//!
//! Nothing runs by itself. Every call first plays all events up to its own instant
//! ([`HardDisk::advance`]), so an idle disk has destaged its cache by the time somebody asks.
//!
//! Depth 1 is a drive without a queue: it takes a command when the one before it is done, hence in
//! order of arrival.
//!
//! What is left out: tracks laid out surface by surface (a head is changed after each track here;
//! makers of today's drives fill a band of one surface first), reads that begin in the middle of
//! their track's part because it comes by first, memory shared out by need between reads and writes,
//! retries and remapped sectors, thermal recalibration, spin-down, reading
//! a physical sector before a part of it is written, and the last sector's way over the interface.

use std::collections::VecDeque;

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos, seed};

use crate::SECTOR;
use crate::cache::{Pass, WriteCache};
use crate::disk::{Action, Disk, Request, count};
use crate::geometry::{Geometry, Place, revolution};
use crate::model::Hdd;
use crate::queue::{Command, Queue};
use crate::read_cache::ReadCache;
use crate::spec::{self, DiskSpec};

/// The most that is destaged before the arm looks at what else there is, in sectors (1 MiB: about
/// one revolution of today's disks, three of those of 2001; the longest that a read waits behind it).
const MOST_PER_PASS: u64 = 2048;

/// A hard disk in virtual time.
pub struct HardDisk {
    geometry: Geometry,
    queue: Queue,
    cache: WriteCache,
    segments: ReadCache,
    /// Whether writes complete out of the cache.
    write_back: bool,
    /// Time of the controller for a command, in ns.
    overhead: u64,
    /// Its time for a read that is not in memory, in ns.
    miss_overhead: u64,
    /// Rate of the interface, in units of 1000 bytes a second.
    interface_rate: u64,
    age_limit: u64,

    /// The instant up to which everything has happened.
    clock: Nanos,
    controller: Option<Transfer>,
    arm: Option<Motion>,
    /// The track that the head is over while the arm is free.
    head: Place,
    /// Let in, but not yet taken by the controller.
    arrived: VecDeque<Command>,
    /// Writes that wait for room in the cache, and flushes behind them.
    for_room: VecDeque<Command>,
    /// What has to go to the platter before it completes.
    for_arm: Vec<Command>,
    /// Flushes, and the epoch of the cache that each waits for.
    for_flush: VecDeque<(Command, u64)>,
    done: VecDeque<(Nanos, u64)>,
    /// Sectors that reached the platter and were not asked for yet.
    landed: VecDeque<(u64, u64)>,
    counters: Device,
}

/// A command in the hands of the controller.
#[derive(Clone, Copy)]
struct Transfer {
    command: Command,
    until: Nanos,
    then: Then,
}

/// Where a command goes when the controller is through with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Complete,
    Cache,
    Arm,
    Flush,
}

/// What the arm is doing.
#[derive(Clone, Copy)]
struct Motion {
    until: Nanos,
    /// Where the head is at the end.
    head: Place,
    work: Work,
}

#[derive(Clone, Copy)]
enum Work {
    Command(Command),
    Destage(Pass),
    ReadAhead {
        first: u64,
        sectors: u64,
        /// When the first sector comes under the head.
        from: Nanos,
        /// It has been told to stop.
        stopped: bool,
    },
}

/// What the arm could do next.
#[derive(Clone, Copy)]
enum Choice {
    Command(usize),
    Extent(usize),
}

impl HardDisk {
    /// A drive at rest, its head at the outer edge, its platter at an angle drawn from `seed`.
    pub fn new(spec: &DiskSpec, hdd: &Hdd, seed: u64) -> HardDisk {
        let phase = seed::stream(seed, "platter").below(revolution(hdd));
        let geometry = Geometry::new(hdd, spec.capacity.0 / SECTOR, phase);
        let depth = spec.queue.depth.max(1);
        let room = depth as usize;
        HardDisk {
            head: geometry.locate(0),
            geometry,
            queue: Queue::new(depth, hdd.flush_alone),
            cache: WriteCache::new(hdd.write_cache.0 / SECTOR, depth),
            segments: ReadCache::new(hdd.read_segments, hdd.read_segment.0 / SECTOR),
            write_back: spec.queue.write_cache == spec::WriteCache::WriteBack,
            overhead: hdd.overhead_us * 1000,
            miss_overhead: hdd.miss_overhead_us * 1000,
            interface_rate: hdd.interface_rate_kb.max(1),
            age_limit: hdd.age_limit_us * 1000,
            clock: Nanos(0),
            controller: None,
            arm: None,
            arrived: VecDeque::with_capacity(room),
            for_room: VecDeque::with_capacity(room),
            for_arm: Vec::with_capacity(room),
            for_flush: VecDeque::with_capacity(room),
            done: VecDeque::with_capacity(1024),
            landed: VecDeque::with_capacity(crate::cache::MOST_EXTENTS + 1024),
            counters: Device {
                seeks: Some(0),
                busy_ns: Some(Nanos(0)),
                peak_in_flight: Some(0),
                ..Device::default()
            },
        }
    }

    /// Plays all events up to `now`.
    fn advance(&mut self, now: Nanos) {
        let now = now.max(self.clock);
        loop {
            self.dispatch();
            let controller = self.controller.map(|transfer| transfer.until);
            let arm = self.arm.map(|motion| motion.until);
            let next = controller.into_iter().chain(arm).min();
            let Some(next) = next.filter(|next| *next <= now) else { break };
            self.pass_time(next);
            if controller == Some(next) {
                self.finish_transfer();
            }
            if arm == Some(next) {
                self.finish_motion();
            }
        }
        self.pass_time(now);
    }

    fn pass_time(&mut self, to: Nanos) {
        let reads_ahead = |motion: Motion| matches!(motion.work, Work::ReadAhead { .. });
        if self.controller.is_some() || self.arm.is_some_and(|motion| !reads_ahead(motion)) {
            let busy = self.counters.busy_ns.unwrap_or_default();
            self.counters.busy_ns = Some(busy + to.since(self.clock));
        }
        self.clock = to;
    }

    /// Gives work to whoever is free.
    fn dispatch(&mut self) {
        while let Some((arrived, request)) = self.queue.admit() {
            let place = self.geometry.locate(request.sector);
            let from = request.sector;
            self.arrived.push_back(Command { request, arrived, from, place });
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
        self.done.push_back((self.clock, command.request.id));
    }

    // The controller: each command costs its overhead, and its bytes pass over the interface
    // before (writes) or after (reads that hit) it; what the platter gives passes while it turns.

    fn next_transfer(&mut self) -> Option<Transfer> {
        if let Some(command) = self.for_room.front().copied() {
            let flush = command.request.action == Action::Flush;
            if flush || self.cache.reserve(command.request.sectors.into()) {
                self.for_room.pop_front();
                let then = if flush { Then::Flush } else { Then::Cache };
                return Some(self.transfer(command, !flush, then));
            }
        }
        while let Some(command) = self.arrived.pop_front() {
            let sectors = u64::from(command.request.sectors);
            match command.request.action {
                Action::Trim => return Some(self.transfer(command, false, Then::Complete)),
                Action::Flush if self.for_room.is_empty() => {
                    return Some(self.transfer(command, false, Then::Flush));
                }
                Action::Flush => self.for_room.push_back(command),
                Action::Read => {
                    let (first, end) = (command.request.sector, command.end());
                    let hit = self.cache.hit(first, end) || self.segments.hit(first, end);
                    let then = if hit { Then::Complete } else { Then::Arm };
                    return Some(self.transfer(command, hit, then));
                }
                Action::Write if self.is_cached(&command) => {
                    if self.for_room.is_empty() && self.cache.reserve(sectors) {
                        return Some(self.transfer(command, true, Then::Cache));
                    }
                    self.for_room.push_back(command);
                }
                Action::Write => return Some(self.transfer(command, true, Then::Arm)),
            }
        }
        None
    }

    fn is_cached(&self, command: &Command) -> bool {
        let fits = u64::from(command.request.sectors) <= self.cache.limit();
        self.write_back && !command.request.fua && fits
    }

    fn transfer(&self, command: Command, moves_bytes: bool, then: Then) -> Transfer {
        let bytes = if moves_bytes { u64::from(command.request.sectors) * SECTOR } else { 0 };
        let misses = command.request.action == Action::Read && then == Then::Arm;
        let overhead = if misses { self.miss_overhead } else { self.overhead };
        let time = overhead + bytes * 1_000_000 / self.interface_rate;
        Transfer { command, until: self.clock + Nanos(time), then }
    }

    fn finish_transfer(&mut self) {
        let Some(Transfer { mut command, then, .. }) = self.controller.take() else { return };
        let (first, end) = (command.request.sector, command.end());
        if command.request.action == Action::Write {
            self.segments.forget(first, end);
        }
        match then {
            Then::Complete => self.complete(&command),
            Then::Cache => {
                self.cache.insert(first, end, &self.geometry);
                self.complete(&command);
            }
            Then::Flush if self.cache.dirty() == 0 => self.complete(&command),
            Then::Flush => {
                let epoch = self.cache.begin_epoch();
                self.for_flush.push_back((command, epoch));
            }
            Then::Arm if command.request.action == Action::Read => {
                self.stop_read_ahead();
                command.from = self.segments.missing_from(first, end);
                if command.from >= end {
                    self.complete(&command);
                } else {
                    command.place = self.geometry.locate(command.from);
                    self.for_arm.push(command);
                }
            }
            Then::Arm => self.for_arm.push(command),
        }
    }

    // The arm: commands before the cache, unless a flush or a write without room needs the cache
    // emptied; among those the shortest access first; what has waited too long before all else.

    fn is_urgent(&self) -> bool {
        !self.for_arm.is_empty() || self.must_destage()
    }

    fn must_destage(&self) -> bool {
        let tight = self.cache.is_tight() && self.cache.has_extents();
        tight || !self.for_flush.is_empty() || !self.for_room.is_empty()
    }

    fn next_motion(&mut self) -> Option<Motion> {
        if self.is_urgent() {
            return self.choose().map(|choice| self.begin(choice));
        }
        if self.segments.is_sequential() || !self.cache.has_extents() {
            if let Some(motion) = self.read_ahead() {
                return Some(motion);
            }
        }
        let extent = self.nearest_extent(u64::MAX)?.0;
        Some(self.begin(Choice::Extent(extent)))
    }

    fn choose(&self) -> Option<Choice> {
        let commands = self.for_arm.iter().enumerate();
        let oldest = commands.clone().min_by_key(|(_, command)| command.arrived);
        let late = |command: &Command| self.clock.since(command.arrived).0 > self.age_limit;
        let flush = self.for_flush.front();
        let waiting = flush.map(|(command, _)| command).or(self.for_room.front());
        let first_is_waiting = match (oldest, waiting) {
            (Some((_, oldest)), Some(waiting)) => waiting.arrived < oldest.arrived,
            _ => false,
        };
        if let Some((at, command)) = oldest {
            if late(command) && !first_is_waiting {
                return Some(Choice::Command(at));
            }
        }
        let extent = if self.must_destage() {
            self.nearest_extent(flush.map_or(u64::MAX, |(_, epoch)| *epoch))
        } else {
            None
        };
        if let Some((at, _)) = extent {
            if first_is_waiting && waiting.is_some_and(late) {
                return Some(Choice::Extent(at));
            }
        }
        let command = commands
            .map(|(at, command)| {
                let write = command.request.action == Action::Write;
                (at, self.geometry.access(self.head, command.place, write, self.clock.0))
            })
            .min_by_key(|(_, time)| *time);
        match (command, extent) {
            (Some(command), Some(extent)) if extent.1 < command.1 => Some(Choice::Extent(extent.0)),
            (Some(command), _) => Some(Choice::Command(command.0)),
            (None, extent) => extent.map(|extent| Choice::Extent(extent.0)),
        }
    }

    fn nearest_extent(&self, epoch: u64) -> Option<(usize, u64)> {
        let sector = self.geometry.first_sector(self.head.track);
        self.cache.nearest(sector, epoch, |extent| {
            self.geometry.access(self.head, extent.place, true, self.clock.0)
        })
    }

    fn begin(&mut self, choice: Choice) -> Motion {
        match choice {
            Choice::Command(at) => {
                let command = self.for_arm.swap_remove(at);
                let write = command.request.action == Action::Write;
                let count = command.end() - command.from;
                self.go(command.from, command.place, count, write, Work::Command(command))
            }
            Choice::Extent(at) => {
                let pass = self.cache.take(at, MOST_PER_PASS, &self.geometry);
                let place = self.geometry.locate(pass.first);
                self.go(pass.first, place, pass.sectors, true, Work::Destage(pass))
            }
        }
    }

    fn go(&mut self, first: u64, place: Place, count: u64, write: bool, work: Work) -> Motion {
        if place.cylinder != self.head.cylinder {
            self.counters.seeks = self.counters.seeks.map(|seeks| seeks + 1);
        }
        let access = self.geometry.access(self.head, place, write, self.clock.0);
        let (transfer, head) = self.geometry.transfer(first, count);
        Motion { until: self.clock + Nanos(access + transfer), head, work }
    }

    fn read_ahead(&mut self) -> Option<Motion> {
        let (first, sectors) = self.segments.wanted(self.geometry.sectors())?;
        let place = self.geometry.locate(first);
        let access = self.geometry.access(self.head, place, false, self.clock.0);
        let from = self.clock + Nanos(access);
        let work = Work::ReadAhead { first, sectors, from, stopped: false };
        Some(self.go(first, place, sectors, false, work))
    }

    /// Ends read-ahead with the sector that is under the head now. What was read counts at once,
    /// so that a command can be split where it ends.
    fn stop_read_ahead(&mut self) {
        let Some(Motion { work: Work::ReadAhead { first, sectors, from, stopped: false }, .. }) =
            self.arm
        else {
            return;
        };
        if self.clock < from {
            // The arm turns back; it counts as if it had never left, its seek too.
            if self.geometry.locate(first).cylinder != self.head.cylinder {
                self.counters.seeks = self.counters.seeks.map(|seeks| seeks - 1);
            }
            self.arm = None;
            return;
        }
        let (passed, time) = self.geometry.passed(first, sectors, self.clock.since(from).0);
        self.segments.extend(first, passed);
        let work = Work::ReadAhead { first, sectors: passed, from, stopped: true };
        let until = (from + Nanos(time)).max(self.clock);
        self.arm = Some(Motion { until, head: self.geometry.locate(first + passed - 1), work });
    }

    fn finish_motion(&mut self) {
        let Some(motion) = self.arm.take() else { return };
        self.head = motion.head;
        match motion.work {
            Work::ReadAhead { first, sectors, stopped, .. } => {
                if !stopped {
                    self.segments.extend(first, sectors);
                }
            }
            Work::Destage(pass) => {
                self.cache.finish(pass);
                self.landed.push_back((pass.first, pass.sectors));
                while let Some((command, epoch)) = self.for_flush.front().copied() {
                    if !self.cache.is_settled(epoch) {
                        break;
                    }
                    self.for_flush.pop_front();
                    self.complete(&command);
                }
            }
            Work::Command(command) => {
                if command.request.action == Action::Read {
                    self.segments.add(command.request.sector, command.from, command.end());
                } else {
                    self.landed.push_back((command.request.sector, command.request.sectors.into()));
                }
                self.complete(&command);
            }
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
        if let Some((due, _)) = self.done.front() {
            return Some(*due);
        }
        if self.queue.inside() == 0 {
            return None;
        }
        let controller = self.controller.map(|transfer| transfer.until);
        let arm = self.arm.map(|motion| motion.until);
        // The arm's work matters only to what waits for it.
        let waits = self.is_urgent()
            || self.arm.is_some_and(|motion| matches!(motion.work, Work::Command(_)));
        let arm = if waits || controller.is_none() { arm } else { None };
        controller.into_iter().chain(arm).min()
    }

    fn completed(&mut self, now: Nanos) -> Option<u64> {
        self.advance(now);
        self.done.pop_front().map(|(_, id)| id)
    }

    fn landed(&mut self) -> Option<(u64, u64)> {
        self.landed.pop_front()
    }

    fn volatile_bytes(&mut self, now: Nanos) -> Bytes {
        self.advance(now);
        Bytes(self.cache.dirty() * SECTOR)
    }

    fn counters(&self) -> Device {
        self.counters
    }
}
