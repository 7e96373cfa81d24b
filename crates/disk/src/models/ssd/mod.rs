//! A solid-state disk on a serial interface: a link, a write buffer in DRAM, a translation layer
//! that writes to a log and collects garbage, an optional SLC cache, and dies that work in parallel.
//!
//! A command takes its turn on the link, each path of which carries one transfer at a time. A write completes
//! when it is in the buffer; dies program the buffer's pages as soon as there are enough for a program,
//! or a command waits for it, or they are old enough. A read is served from the buffer, or
//! by the dies, and its data take another turn on the link. A flush waits for all earlier
//! writes, and for a record of the mapping.
//!
//! Nothing runs by itself. Every call first processes all events up to its own time
//! ([`SolidStateDisk::advance`]).
//!
//! Not modelled: garbage collection in idle time, the location of a page written at random when it is
//! read (the die of a read follows from its address), wear, errors and heat.

mod buffer;
mod command;
mod destage;
mod dies;
mod due;
mod earliest;
mod ftl;
mod link;
mod map;
pub(crate) mod params;
mod ranges;
mod slc;

use std::collections::VecDeque;

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos, seed};

pub use self::buffer::MAX_SLOTS;
use self::buffer::{Buffer, PAGE};
use self::command::{Command, Stage, Times, page_reads};
pub use self::dies::MAX_PAGES_PER_PROGRAM;
use self::dies::{Dies, Finished};
use self::ftl::Ftl;
pub use self::ftl::RESERVE;
use self::link::Link;
use self::params::Ssd;
use self::slc::SlcCache;
use crate::SECTOR;
use crate::disk::{Action, Disk, Request, count};
use crate::spec::{self, DiskSpec};

/// Bytes of a page of the translation layer.
const PAGE_BYTES: u64 = PAGE * SECTOR;
/// Initial capacity of the queues of requests: more than the tags of any block driver.
const QUEUE_CAPACITY: usize = 1024;
/// Maximum number of superblocks, so that each generation can have a 16-bit number.
pub const MAX_SUPERBLOCKS: u64 = 50_000;

/// A solid-state disk in virtual time. Times are in ns.
pub struct SolidStateDisk {
    ftl: Ftl,
    buffer: Buffer,
    dies: Dies,
    times: Times,
    /// Sectors of a flash page.
    flash_page: u64,
    /// Pages of one program.
    program_pages: usize,
    write_back: bool,
    /// True if capacitors save the buffer in a power cut.
    protected: bool,
    slc: SlcCache,
    depth: usize,

    /// The time up to which all events are processed.
    clock: u64,
    /// Time of the last event or admission.
    last_event: u64,
    waiting: VecDeque<Request>,
    /// Slots for the commands in the drive; those from `used` on are empty.
    commands: Vec<Option<Command>>,
    used: usize,
    admitted: usize,
    /// True while a command runs alone in the drive.
    closed: bool,
    link: Link,
    /// Writes that wait for space in the buffer, and, with NVMe, flushes and TRIMs behind them.
    space_queue: VecDeque<usize>,
    /// Commands whose record waits for a free die.
    record_queue: VecDeque<usize>,
    /// Commands with a known completion time: the time and the command, in order of time.
    completing: VecDeque<(u64, usize)>,
    completions: VecDeque<(u64, u64)>,
    /// Pages that garbage collection still has to program.
    gc_debt_pages: u64,
    moved_pages_charged: u64,
    superblocks_erased: u64,
    /// Time from which the wait of the buffered pages is counted.
    waiting_since: u64,
    /// Number of commands that wait until pages are on flash.
    settling: usize,
    /// True if the mapping changed since the last record.
    unrecorded: bool,
    persisted: VecDeque<(u64, u64)>,
    counters: Device,
}

/// Returns the numbers of host pages, superblocks, and pages per superblock.
pub fn geometry(ssd: &Ssd, capacity: Bytes) -> (u64, u64, u64) {
    let pages = capacity.0 / PAGE_BYTES;
    let size = ssd.block.0 / PAGE_BYTES * u64::from(ssd.dies);
    let flash = pages + pages * ssd.spare_permille / 1000;
    (pages, flash / size.max(1), size)
}

impl SolidStateDisk {
    /// Creates an idle drive. Draws from `seed` determine which superblocks lose pages that the map does not
    /// track.
    pub fn new(spec: &DiskSpec, ssd: &Ssd, seed: u64) -> SolidStateDisk {
        let (pages, superblocks, size) = geometry(ssd, spec.capacity);
        let draws = seed::stream(seed, "flash");
        let ftl = Ftl::new(pages, superblocks as usize, size as u32, ssd.prefilled_percent, draws);
        let slots = ((ssd.write_buffer.0 / PAGE_BYTES) as usize).min(MAX_SLOTS);
        let depth = spec.queue.depth.max(1) as usize;
        let largest = u64::from(spec.queue.max_sectors_kb) * 1024 / ssd.flash_page.0 + 2;
        let reads = depth * (largest / u64::from(ssd.dies) + 1) as usize;
        SolidStateDisk {
            superblocks_erased: ftl.opened_superblocks(),
            ftl,
            buffer: Buffer::new(slots),
            dies: Dies::new(ssd, reads),
            times: Times::new(ssd),
            flash_page: ssd.flash_page.0 / SECTOR,
            program_pages: (ssd.program_size.0 / PAGE_BYTES) as usize,
            write_back: spec.queue.write_cache == spec::WriteCache::WriteBack,
            protected: ssd.power_loss_protection,
            slc: SlcCache::new(ssd),
            depth,
            clock: 0,
            last_event: 0,
            waiting: VecDeque::with_capacity(QUEUE_CAPACITY),
            commands: vec![None; depth],
            used: 0,
            admitted: 0,
            closed: false,
            link: Link::new(depth),
            space_queue: VecDeque::with_capacity(depth),
            record_queue: VecDeque::with_capacity(depth),
            completing: VecDeque::with_capacity(depth),
            completions: VecDeque::with_capacity(QUEUE_CAPACITY),
            gc_debt_pages: 0,
            moved_pages_charged: 0,
            waiting_since: 0,
            settling: 0,
            unrecorded: false,
            // At worst, every second sector of a page is a separate range.
            persisted: VecDeque::with_capacity(4 * slots),
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
        loop {
            self.dispatch();
            let known = self.completing.front().map(|(due, _)| *due);
            let events = [self.link.next_end(), known, self.dies.next_end(), self.destage_at()];
            let next = events.into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= now) else { break };
            self.advance_clock(next);
            self.last_event = next;
            while let Some(at) = self.link.take_finished(next) {
                self.finish_on_link(at);
            }
            while let Some((due, at)) =
                self.completing.front().copied().filter(|(due, _)| *due <= next)
            {
                self.completing.pop_front();
                self.complete(due, at);
            }
            while self.dies.next_end().is_some_and(|due| due <= next) {
                match self.dies.advance(next) {
                    Some(Finished::Read(at)) => self.finish_page_read(at),
                    Some(Finished::Program(die)) => self.finish_program(die),
                    None => {}
                }
            }
        }
        self.advance_clock(now);
    }

    fn advance_clock(&mut self, to: u64) {
        if self.admitted > 0 || self.dies.is_busy() {
            let busy = self.counters.busy_ns.unwrap_or_default();
            self.counters.busy_ns = Some(busy + Nanos(to - self.clock));
        }
        self.clock = to;
    }

    /// Gives work to the idle link and dies.
    fn dispatch(&mut self) {
        while let Some(request) = self.waiting.front().copied() {
            // FLUSH CACHE and DATA SET MANAGEMENT of ATA are not queued commands.
            let alone =
                !self.times.full_duplex && matches!(request.action, Action::Flush | Action::Trim);
            if self.closed || self.admitted >= self.depth || (alone && self.admitted > 0) {
                break;
            }
            self.waiting.pop_front();
            self.closed = alone;
            self.admit(request);
        }
        while let Some(at) = self.space_queue.front().copied() {
            let command = self.commands[at].filter(|one| one.request.action == Action::Write);
            if !self.buffer.reserve(command.map_or(0, |command| command.pages())) {
                break;
            }
            self.space_queue.pop_front();
            self.queue_for_link(at, Stage::Arriving);
        }
        self.settle();
        self.start_programs();
        loop {
            let (commands, times) = (&self.commands, &self.times);
            let time = |at: usize| commands[at].map_or(0, |command| times.on_link(&command));
            let Some((at, until)) = self.link.start(self.clock, time) else { break };
            self.start_on_link(at, until);
        }
    }

    fn admit(&mut self, request: Request) {
        let empty = self.commands[..self.used].iter().position(Option::is_none);
        let at = empty.unwrap_or(self.used);
        self.used = self.used.max(at + 1);
        if self.admitted == 0 && !self.dies.is_busy() && self.buffer.is_empty() {
            self.slc.fold(self.clock - self.last_event);
        }
        self.last_event = self.clock;
        self.admitted += 1;
        let mut command = Command { request, stage: Stage::Arriving, hit: false };
        let (first, end) = command.range();
        command.hit = request.action == Action::Read && self.buffer.hit(first, end);
        self.commands[at] = Some(command);
        let write = request.action == Action::Write;
        let behind = request.action != Action::Read && !self.space_queue.is_empty();
        if write || behind {
            self.set_stage(at, Stage::NeedsSpace);
            self.space_queue.push_back(at);
        } else {
            self.queue_for_link(at, Stage::Arriving);
        }
    }

    fn set_stage(&mut self, at: usize, stage: Stage) {
        if let Some(command) = &mut self.commands[at] {
            command.stage = stage;
        }
    }

    fn queue_for_link(&mut self, at: usize, stage: Stage) {
        self.set_stage(at, stage);
        if let Some(command) = &self.commands[at] {
            self.link.push(at, command, &self.times);
        }
    }

    fn start_on_link(&mut self, at: usize, until: u64) {
        let Some(command) = self.commands[at] else { return };
        // Commands that complete after their transfer have a known completion time from now on.
        match (command.request.action, command.stage) {
            (action, Stage::Arriving) if self.times.full_duplex && action != Action::Read => {}
            (Action::Read, Stage::Leaving) => self.complete_at(at, until + self.times.read_latency),
            (Action::Write, _) if self.completes_from_buffer(&command) => {
                self.complete_at(at, until + self.times.write_latency);
            }
            (Action::Trim, _) => self.complete_at(at, until + self.times.trim),
            _ => {}
        }
    }

    /// Returns true if a write completes from the buffer.
    fn completes_from_buffer(&self, command: &Command) -> bool {
        self.protected || (self.write_back && !command.request.fua)
    }

    fn finish_on_link(&mut self, at: usize) {
        let Some(command) = self.commands[at] else { return };
        let (first, end) = command.range();
        match command.request.action {
            Action::Read if command.stage == Stage::Arriving => self.read(at, &command),
            Action::Read => {}
            _ if self.times.full_duplex && command.stage == Stage::Arriving => {
                self.queue_for_link(at, Stage::Incoming);
            }
            Action::Write => {
                if self.buffer.waiting_pages() == 0 {
                    self.waiting_since = self.clock;
                }
                let completes = self.completes_from_buffer(&command);
                self.buffer.insert(first, end, completes && !self.protected);
                if self.protected {
                    self.persisted.push_back((first, end - first));
                } else if !completes {
                    self.start_settling(at);
                }
            }
            Action::Flush if self.protected => {
                self.complete_at(at, self.clock + self.times.write_latency);
            }
            Action::Flush => self.start_settling(at),
            Action::Trim => {
                let (first, end) = (first.div_ceil(PAGE), end / PAGE);
                self.buffer.drop_pages(first, end);
                self.ftl.trim(first, end);
                self.unrecorded = true;
            }
        }
    }

    fn start_settling(&mut self, at: usize) {
        self.set_stage(at, Stage::Settling { arrival: self.buffer.arrivals() });
        self.settling += 1;
    }

    fn read(&mut self, at: usize, command: &Command) {
        let (first, end) = command.range();
        if command.hit || first == end {
            self.queue_for_link(at, Stage::Leaving);
            return;
        }
        let (mut pages, mut ready) = (0, 0);
        for read in page_reads(at, first, end, self.flash_page) {
            ready = self.dies.read(self.clock, read).max(ready);
            pages += 1;
        }
        self.set_stage(at, Stage::Reading { pages, ready });
    }

    fn finish_page_read(&mut self, at: usize) {
        let Some(Stage::Reading { pages, ready }) = self.commands[at].map(|command| command.stage)
        else {
            return;
        };
        if pages > 1 {
            self.set_stage(at, Stage::Reading { pages: pages - 1, ready });
        } else {
            self.queue_for_link(at, Stage::Leaving);
        }
    }

    /// Schedules the completion of a command at `due`.
    fn complete_at(&mut self, at: usize, due: u64) {
        self.set_stage(at, Stage::Completing);
        let index = self.completing.partition_point(|(other, _)| *other <= due);
        self.completing.insert(index, (due, at));
    }

    fn complete(&mut self, due: u64, at: usize) {
        if let Some(command) = self.commands[at].take() {
            self.admitted -= 1;
            self.closed = false;
            while self.used > 0 && self.commands[self.used - 1].is_none() {
                self.used -= 1;
            }
            self.completions.push_back((due, command.request.id));
        }
    }
}

impl Disk for SolidStateDisk {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now.0);
        count(&mut self.counters, &request);
        self.waiting.push_back(request);
        let in_flight = (self.admitted + self.waiting.len()) as u64;
        self.counters.peak_in_flight = self.counters.peak_in_flight.max(Some(in_flight));
        self.dispatch();
    }

    fn next_due(&self) -> Option<Nanos> {
        self.due().map(Nanos)
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
        Bytes(self.buffer.volatile_sectors() * SECTOR)
    }

    fn note_untimed(&mut self, request: Request) {
        let (first, end) = (request.sector, request.sector + u64::from(request.sectors));
        match request.action {
            Action::Write => {
                let moved = self.ftl.moved_pages();
                (first / PAGE..end.div_ceil(PAGE)).for_each(|page| self.ftl.write(page));
                // Moves and erasures outside the trial's time are not charged.
                self.moved_pages_charged += self.ftl.moved_pages() - moved;
                self.superblocks_erased = self.ftl.opened_superblocks();
            }
            Action::Trim => self.ftl.trim(first.div_ceil(PAGE), end / PAGE),
            Action::Read | Action::Flush => {}
        }
    }

    fn counters(&self) -> Device {
        self.counters
    }
}
