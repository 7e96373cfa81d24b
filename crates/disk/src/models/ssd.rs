//! A solid-state disk on a serial interface: one link, a write buffer in DRAM, a translation layer
//! that writes to a log and collects garbage, dies that work side by side.
//!
//! A command takes its turn on the link, which carries one thing at a time. A write is answered when
//! it is in the buffer; dies program what the buffer holds as soon as a full program has come
//! together, or somebody waits, or it has lain there long enough. A read takes what the buffer has, or
//! asks the dies, and its data take another turn on the link. A flush waits for all that came before
//! it, and for a record of where it lies.
//!
//! Nothing runs by itself. Every call first plays all events up to its own instant
//! ([`SolidStateDisk::advance`]).
//!
//! What is left out: the part of the flash that works with one bit a cell (the drive that this law
//! was written for writes as fast without it), collection in idle time, where a page written at
//! random lies when it is read (the die of a read follows from its address), wear, errors and heat.

mod buffer;
mod command;
mod dies;
mod ftl;
mod map;

use std::collections::VecDeque;

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos, seed};

pub use self::buffer::MOST_SLOTS;
use self::buffer::{Buffer, PAGE, Slot};
use self::command::{Command, Stage, Times, page_reads};
pub use self::dies::MOST_PER_PROGRAM;
use self::dies::{Dies, Finished, Purpose};
use self::ftl::Ftl;
pub use self::ftl::RESERVE;
use crate::SECTOR;
use crate::disk::{Action, Disk, Request, count};
use crate::model::Ssd;
use crate::spec::{self, DiskSpec};

/// Bytes of a page of the translation layer.
const PAGE_BYTES: u64 = PAGE * SECTOR;
/// Room for requests that wait outside, more than the tags of any block driver.
const ROOM_OUTSIDE: usize = 1024;
/// Most superblocks, so that each writing can have a number of 16 bits.
pub const MOST_SUPERBLOCKS: u64 = 50_000;

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
    depth: usize,

    /// The instant up to which everything has happened.
    clock: u64,
    outside: VecDeque<Request>,
    /// Commands in the drive, and places for more.
    commands: Vec<Option<Command>>,
    inside: usize,
    /// A command is in that shares the drive with no other.
    closed: bool,
    /// What waits for the link, and what it carries.
    for_link: VecDeque<usize>,
    link: Option<(usize, u64)>,
    /// Writes that wait for room in the buffer.
    for_room: VecDeque<usize>,
    /// Records that wait for a free die, by command.
    for_record: VecDeque<usize>,
    /// Commands that are through, in order of when they are answered: time and command.
    ripening: VecDeque<(u64, usize)>,
    done: VecDeque<(u64, u64)>,
    /// Programs that collection still has to make, in pages.
    owed: u64,
    moved_seen: u64,
    opened_seen: u64,
    /// When the page came that has waited longest.
    waiting_since: u64,
    /// Commands that wait until pages are on flash.
    settling: usize,
    /// Whether pages lie elsewhere than the last record says.
    unrecorded: bool,
    landed: VecDeque<(u64, u64)>,
    counters: Device,
}

/// Pages of the host's, superblocks and pages in one of them.
pub fn geometry(ssd: &Ssd, capacity: Bytes) -> (u64, u64, u64) {
    let pages = capacity.0 / PAGE_BYTES;
    let size = ssd.block.0 / PAGE_BYTES * u64::from(ssd.dies);
    let flash = pages + pages * ssd.spare_permille / 1000;
    (pages, flash / size.max(1), size)
}

impl SolidStateDisk {
    /// A drive at rest. Which superblocks lose the pages that the map does not follow is drawn from
    /// `seed`.
    pub fn new(spec: &DiskSpec, ssd: &Ssd, seed: u64) -> SolidStateDisk {
        let (pages, superblocks, size) = geometry(ssd, spec.capacity);
        let lots = seed::stream(seed, "flash");
        let ftl = Ftl::new(pages, superblocks as usize, size as u32, ssd.prefilled_percent, lots);
        let slots = ((ssd.write_buffer.0 / PAGE_BYTES) as usize).min(MOST_SLOTS);
        let depth = spec.queue.depth.max(1) as usize;
        let largest = u64::from(spec.queue.max_sectors_kb) * 1024 / ssd.flash_page.0 + 2;
        let reads = depth * (largest / u64::from(ssd.dies) + 1) as usize;
        SolidStateDisk {
            opened_seen: ftl.opened(),
            ftl,
            buffer: Buffer::new(slots),
            dies: Dies::new(ssd, reads),
            times: Times::new(ssd),
            flash_page: ssd.flash_page.0 / SECTOR,
            program_pages: (ssd.program_size.0 / PAGE_BYTES) as usize,
            write_back: spec.queue.write_cache == spec::WriteCache::WriteBack,
            depth,
            clock: 0,
            outside: VecDeque::with_capacity(ROOM_OUTSIDE),
            commands: vec![None; depth],
            inside: 0,
            closed: false,
            for_link: VecDeque::with_capacity(depth),
            link: None,
            for_room: VecDeque::with_capacity(depth),
            for_record: VecDeque::with_capacity(depth),
            ripening: VecDeque::with_capacity(depth),
            done: VecDeque::with_capacity(ROOM_OUTSIDE),
            owed: 0,
            moved_seen: 0,
            waiting_since: 0,
            settling: 0,
            unrecorded: false,
            // Half of a page's sectors at worst lie apart.
            landed: VecDeque::with_capacity(4 * slots),
            counters: Device {
                busy_ns: Some(Nanos(0)),
                peak_in_flight: Some(0),
                ..Device::default()
            },
        }
    }

    /// Plays all events up to `now`.
    fn advance(&mut self, now: u64) {
        let now = now.max(self.clock);
        loop {
            self.dispatch();
            let link = self.link.map(|(_, until)| until);
            let ripe = self.ripening.front().map(|(due, _)| *due);
            let next =
                [link, ripe, self.dies.next(), self.destage_at()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= now) else { break };
            self.pass_time(next);
            if let Some((at, _)) = self.link.take_if(|(_, until)| *until <= next) {
                self.finish_on_link(at);
            }
            while let Some((due, at)) =
                self.ripening.front().copied().filter(|(due, _)| *due <= next)
            {
                self.ripening.pop_front();
                self.answer(due, at);
            }
            while self.dies.next().is_some_and(|due| due <= next) {
                match self.dies.advance(next) {
                    Some(Finished::Read(at)) => self.page_is_here(at),
                    Some(Finished::Program(die)) => self.finish_program(die),
                    None => {}
                }
            }
        }
        self.pass_time(now);
    }

    fn pass_time(&mut self, to: u64) {
        if self.inside > 0 || self.dies.is_busy() {
            let busy = self.counters.busy_ns.unwrap_or_default();
            self.counters.busy_ns = Some(busy + Nanos(to - self.clock));
        }
        self.clock = to;
    }

    /// Gives work to whoever is free.
    fn dispatch(&mut self) {
        while let Some(request) = self.outside.front().copied() {
            // FLUSH CACHE and DATA SET MANAGEMENT are no queued commands.
            let alone = matches!(request.action, Action::Flush | Action::Trim);
            if self.closed || self.inside >= self.depth || (alone && self.inside > 0) {
                break;
            }
            self.outside.pop_front();
            self.closed = alone;
            self.admit(request);
        }
        while let Some(at) = self.for_room.front().copied() {
            let pages = self.commands[at].map_or(0, |command| command.pages());
            if !self.buffer.reserve(pages) {
                break;
            }
            self.for_room.pop_front();
            self.queue_for_link(at, Stage::Arriving);
        }
        self.settle();
        self.start_programs();
        if self.link.is_none() {
            if let Some(at) = self.for_link.pop_front() {
                self.begin_on_link(at);
            }
        }
    }

    fn admit(&mut self, request: Request) {
        let Some(at) = self.commands.iter().position(Option::is_none) else { return };
        self.inside += 1;
        let mut command = Command { request, stage: Stage::Arriving, hit: false };
        let (first, end) = command.range();
        command.hit = request.action == Action::Read && self.buffer.hit(first, end);
        self.commands[at] = Some(command);
        if request.action == Action::Write {
            self.set_stage(at, Stage::Room);
            self.for_room.push_back(at);
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
        self.for_link.push_back(at);
    }

    fn begin_on_link(&mut self, at: usize) {
        let Some(command) = self.commands[at] else { return };
        let until = self.clock + self.times.on_link(&command);
        self.link = Some((at, until));
        // What is through when the link is: known from now on, so that nobody has to ask in between.
        match (command.request.action, command.stage) {
            (Action::Read, Stage::Leaving) => self.ripen(at, until + self.times.read_latency),
            (Action::Write, _) if self.is_told(&command) => {
                self.ripen(at, until + self.times.write_latency);
            }
            (Action::Trim, _) => self.ripen(at, until + self.times.trim),
            _ => {}
        }
    }

    /// Whether a write is answered out of the buffer.
    fn is_told(&self, command: &Command) -> bool {
        self.write_back && !command.request.fua
    }

    fn finish_on_link(&mut self, at: usize) {
        let Some(command) = self.commands[at] else { return };
        let (first, end) = command.range();
        match command.request.action {
            Action::Read if command.stage == Stage::Arriving => self.read(at, &command),
            Action::Read => {}
            Action::Write => {
                if self.buffer.waiting() == 0 {
                    self.waiting_since = self.clock;
                }
                let told = self.is_told(&command);
                self.buffer.insert(first, end, told);
                if !told {
                    self.begin_to_settle(at);
                }
            }
            Action::Flush => self.begin_to_settle(at),
            Action::Trim => {
                let (first, end) = (first.div_ceil(PAGE), end / PAGE);
                self.buffer.drop_pages(first, end);
                self.ftl.trim(first, end);
                self.unrecorded = true;
            }
        }
    }

    fn begin_to_settle(&mut self, at: usize) {
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

    fn page_is_here(&mut self, at: usize) {
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

    /// The command will be answered at `due`.
    fn ripen(&mut self, at: usize, due: u64) {
        self.set_stage(at, Stage::Ripening);
        let behind = self.ripening.partition_point(|(other, _)| *other <= due);
        self.ripening.insert(behind, (due, at));
    }

    fn answer(&mut self, due: u64, at: usize) {
        if let Some(command) = self.commands[at].take() {
            self.inside -= 1;
            self.closed = false;
            self.done.push_back((due, command.request.id));
        }
    }

    // From the buffer to flash.

    /// When what waits in the buffer has waited long enough.
    fn destage_at(&self) -> Option<u64> {
        let due = self.waiting_since + self.times.destage;
        (self.buffer.waiting() > 0 && due > self.clock).then_some(due)
    }

    /// Whether a program begins though it is not full.
    fn is_pressed(&self) -> bool {
        !self.for_room.is_empty()
            || self.clock >= self.waiting_since + self.times.destage
            || self.settling > 0
    }

    fn start_programs(&mut self) {
        while let Some(die) = self.dies.free() {
            if let Some(at) = self.for_record.pop_front() {
                let record = Purpose::Record { command: at };
                let ready = self.dies.program(self.clock, die, record, &[]);
                self.set_stage(at, Stage::Recording { ready });
            } else if self.owed >= self.program_pages as u64 {
                self.owed -= self.program_pages as u64;
                self.dies.program(self.clock, die, Purpose::Collection, &[]);
            } else {
                let waiting = self.buffer.waiting();
                if waiting == 0 || (waiting < self.program_pages && !self.is_pressed()) {
                    return;
                }
                self.program_host_pages(die);
            }
        }
    }

    fn program_host_pages(&mut self, die: usize) {
        let mut slots: [Slot; MOST_PER_PROGRAM] = [0; MOST_PER_PROGRAM];
        let mut count = 0;
        while count < self.program_pages {
            let Some((slot, page)) = self.buffer.take() else { break };
            self.ftl.write(page);
            slots[count] = slot;
            count += 1;
        }
        self.waiting_since = self.clock;
        while self.opened_seen < self.ftl.opened() {
            self.dies.erase_all();
            self.opened_seen += 1;
        }
        self.pay(count as u64);
        self.dies.program(self.clock, die, Purpose::Host, &slots[..count]);
    }

    /// What collection moved is paid for evenly over the pages that are written before it collects
    /// again, not at once.
    fn pay(&mut self, pages: u64) {
        let unpaid = self.ftl.moved_pages() - self.moved_seen;
        let before_next = u64::from(self.ftl.room()) + pages;
        let now = (unpaid * pages).div_ceil(before_next);
        self.moved_seen += now;
        self.owed += now;
    }

    fn finish_program(&mut self, die: usize) {
        let (purpose, slots) = self.dies.programmed(die);
        if let Purpose::Record { command } = purpose {
            let due = self.clock + self.times.write_latency;
            self.ripen(command, due);
            return;
        }
        self.unrecorded |= purpose == Purpose::Host;
        let mut run = (0, 0);
        for slot in slots {
            let (page, here) = self.buffer.finish(*slot);
            for bit in (0..PAGE).filter(|bit| here & (1 << bit) != 0) {
                let sector = page * PAGE + bit;
                if run.0 + run.1 == sector {
                    run.1 += 1;
                } else {
                    if run.1 > 0 {
                        self.landed.push_back(run);
                    }
                    run = (sector, 1);
                }
            }
        }
        if run.1 > 0 {
            self.landed.push_back(run);
        }
    }

    /// Commands whose pages are all on flash go on to the record.
    fn settle(&mut self) {
        if self.settling == 0 {
            return;
        }
        let leaving = self.dies.slots().map(|slot| self.buffer.order(slot));
        let oldest = leaving.chain(self.buffer.oldest_waiting()).min();
        for at in 0..self.commands.len() {
            let Some(Stage::Settling { arrival }) = self.commands[at].map(|command| command.stage)
            else {
                continue;
            };
            if oldest.is_some_and(|oldest| oldest <= arrival) {
                continue;
            }
            self.settling -= 1;
            if self.unrecorded {
                self.set_stage(at, Stage::Recording { ready: 0 });
                self.for_record.push_back(at);
            } else {
                self.ripen(at, self.clock + self.times.write_latency);
            }
        }
        if !self.for_record.is_empty() {
            self.unrecorded = false;
        }
    }

    /// Whether a flush has nothing to do.
    fn is_clean(&self) -> bool {
        !self.unrecorded && self.buffer.is_empty()
    }

    /// When this command can be answered at the earliest, if that is not yet known. What the link
    /// carries ends at `link`, the first of what dies do at `die`.
    fn earliest(&self, command: &Command, link: u64, die: u64) -> Option<u64> {
        let times = &self.times;
        let leave = || command.bytes() * 1_000_000 / times.read_rate + times.read_latency;
        Some(match (command.stage, command.request.action) {
            (Stage::Ripening, _) => return None,
            (Stage::Room, _) => die + self.times.on_link(command) + times.write_latency,
            (Stage::Arriving, Action::Read) => {
                let (first, end) = command.range();
                let read = page_reads(0, first, end, self.flash_page).next();
                let least = read.filter(|_| !command.hit).map_or(0, |read| self.dies.least(&read));
                link + least + leave()
            }
            (Stage::Arriving, Action::Trim) => link + times.trim,
            (Stage::Arriving, Action::Write) if !self.is_told(command) => {
                link + 2 * times.program + times.write_latency
            }
            (Stage::Arriving, Action::Write) => link + times.write_latency,
            (Stage::Arriving, Action::Flush) if self.is_clean() => link + times.write_latency,
            (Stage::Arriving, Action::Flush) => link + times.program + times.write_latency,
            (Stage::Reading { ready, .. }, _) => ready.max(die) + leave(),
            (Stage::Leaving, _) => link + leave(),
            (Stage::Settling { .. }, _) => die + times.program + times.write_latency,
            (Stage::Recording { ready }, _) => ready.max(die) + times.write_latency,
        })
    }
}

impl Disk for SolidStateDisk {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now.0);
        count(&mut self.counters, &request);
        self.outside.push_back(request);
        let in_flight = (self.inside + self.outside.len()) as u64;
        self.counters.peak_in_flight = self.counters.peak_in_flight.max(Some(in_flight));
        self.dispatch();
    }

    fn next_due(&self) -> Option<Nanos> {
        if let Some((due, _)) = self.done.front() {
            return Some(Nanos(*due));
        }
        let known = self.ripening.front().map(|(due, _)| *due);
        let link = self.link.map_or(self.clock, |(_, until)| until);
        let die = self.dies.next().unwrap_or(self.clock);
        // What is not known yet has to wait for one of these and the drive's latency at least; a TRIM
        // is alone, and known when it is on the link.
        let least = link.min(die) + self.times.read_latency.min(self.times.write_latency);
        if known.is_some_and(|known| known <= least) {
            return known.map(Nanos);
        }
        let waiting = self.commands.iter().flatten();
        let others = waiting.filter_map(|command| self.earliest(command, link, die));
        known.into_iter().chain(others).min().map(Nanos)
    }

    fn completed(&mut self, now: Nanos) -> Option<u64> {
        self.advance(now.0);
        self.done.pop_front().map(|(_, id)| id)
    }

    fn landed(&mut self) -> Option<(u64, u64)> {
        self.landed.pop_front()
    }

    fn volatile_bytes(&mut self, now: Nanos) -> Bytes {
        self.advance(now.0);
        Bytes(self.buffer.volatile() * SECTOR)
    }

    fn outside_time(&mut self, request: Request) {
        let (first, end) = (request.sector, request.sector + u64::from(request.sectors));
        match request.action {
            Action::Write => {
                let moved = self.ftl.moved_pages();
                (first / PAGE..end.div_ceil(PAGE)).for_each(|page| self.ftl.write(page));
                // Nobody waited for what that moved and erased.
                self.moved_seen += self.ftl.moved_pages() - moved;
                self.opened_seen = self.ftl.opened();
            }
            Action::Trim => self.ftl.trim(first.div_ceil(PAGE), end / PAGE),
            Action::Read | Action::Flush => {}
        }
    }

    fn counters(&self) -> Device {
        self.counters
    }
}
