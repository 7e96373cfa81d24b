//! The flash: dies that read, program and erase independently, and the channels that they share.
//!
//! A read senses its page in the die and transfers it over the channel. A program transfers its bytes over
//! the channel first. A read on a die that is programming suspends the program, as current flash
//! allows, up to a maximum number of times per program; an erasure counts as part of the first
//! program after it.

use std::collections::VecDeque;

use super::buffer::Slot;
use super::earliest::Earliest;
use crate::models::Ssd;

/// Maximum number of 4 KiB pages that a die programs at once.
pub const MAX_PAGES_PER_PROGRAM: usize = 64;

/// Maximum number of suspensions of one program. An estimate: manufacturers allow a few suspensions without
/// stating a number.
const MAX_SUSPENSIONS: u32 = 4;

/// A page read by a die for a command.
#[derive(Clone, Copy, Debug)]
pub struct PageRead {
    /// The command.
    pub command: usize,
    /// The flash page, counted over the whole drive.
    pub page: u64,
    /// Requested bytes of the page.
    pub bytes: u64,
}

/// The purpose of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Pages of the host.
    Host,
    /// Pages that garbage collection moves.
    Collection,
    /// The record of the mapping, for which a flush or a write with FUA waits.
    Record {
        /// The command.
        command: usize,
    },
}

/// Work that a die has finished.
#[derive(Clone, Copy, Debug)]
pub enum Finished {
    /// A page for this command was transferred over the channel.
    Read(usize),
    /// This die has finished its program.
    Program(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DieState {
    Idle,
    Sensing,
    Delivering,
    Programming,
    /// Suspending a program.
    Suspending,
}

#[derive(Debug)]
struct Die {
    state: DieState,
    /// End of its current work.
    until: u64,
    /// Reads in order of arrival; the first is in progress while the die senses or delivers.
    reads: VecDeque<PageRead>,
    /// The page in its register.
    register: u64,
    /// Remaining time of a suspended program.
    suspended: Option<u64>,
    suspensions: u32,
    purpose: Purpose,
    /// Buffer slots of the pages that it programs.
    slots: [Slot; MAX_PAGES_PER_PROGRAM],
    count: usize,
    /// Blocks to erase before the next program.
    to_erase: u64,
}

/// All dies and channels. Times are in ns.
#[derive(Debug)]
pub struct Dies {
    dies: Vec<Die>,
    /// Time at which each channel is free.
    channels: Vec<u64>,
    sense: u64,
    erase: u64,
    suspend_time: u64,
    channel_rate: u64,
    program_bytes: u64,
    /// The die at which the search for a free die starts.
    turn: usize,
    busy: usize,
    /// The end of each busy die's work.
    ends: Earliest,
}

impl Dies {
    /// Creates idle dies, each with room for `reads` waiting page reads.
    pub fn new(ssd: &Ssd, reads: usize) -> Dies {
        let die = || Die {
            state: DieState::Idle,
            until: 0,
            reads: VecDeque::with_capacity(reads),
            register: u64::MAX,
            suspended: None,
            suspensions: 0,
            purpose: Purpose::Host,
            slots: [0; MAX_PAGES_PER_PROGRAM],
            count: 0,
            to_erase: 0,
        };
        Dies {
            dies: (0..ssd.dies).map(|_| die()).collect(),
            channels: vec![0; ssd.channels as usize],
            sense: ssd.read_us * 1000,
            erase: ssd.erase_us * 1000,
            suspend_time: ssd.suspend_us * 1000,
            channel_rate: ssd.channel_rate_kb.max(1),
            program_bytes: ssd.program_size.0,
            turn: 0,
            busy: 0,
            ends: Earliest::new(ssd.dies as usize),
        }
    }

    /// Returns true if any die is busy.
    pub fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// Returns the time at which the next die finishes its work.
    pub fn next_end(&self) -> Option<u64> {
        self.ends.time()
    }

    /// Starts work on a die; the work ends at `until`.
    fn start_work(&mut self, at: usize, state: DieState, until: u64) {
        (self.dies[at].state, self.dies[at].until) = (state, until);
        self.ends.set(at, Some(until));
    }

    /// Returns the minimum time of a page read, on an idle die and channel.
    pub fn min_read_time(&self, read: &PageRead) -> u64 {
        let die = &self.dies[read.page as usize % self.dies.len()];
        let sense = if die.register == read.page { 0 } else { self.sense };
        sense + self.channel_time(read.bytes)
    }

    /// Submits a page read. Returns a lower bound on the time at which it ends.
    pub fn read(&mut self, now: u64, read: PageRead) -> u64 {
        let at = read.page as usize % self.dies.len();
        let earliest = now + self.min_read_time(&read);
        let die = &mut self.dies[at];
        die.reads.push_back(read);
        match die.state {
            DieState::Idle => self.begin(now, at),
            DieState::Programming
                if die.until > now + self.suspend_time && die.suspensions < MAX_SUSPENSIONS =>
            {
                die.suspended = Some(die.until - (now + self.suspend_time));
                die.suspensions += 1;
                self.start_work(at, DieState::Suspending, now + self.suspend_time);
            }
            _ => {}
        }
        earliest
    }

    /// Returns the next die, in turn, that can take a program.
    pub fn next_free(&self) -> Option<usize> {
        let count = self.dies.len();
        if self.busy == count {
            return None;
        }
        (0..count)
            .map(|step| (self.turn + step) % count)
            .find(|at| self.dies[*at].state == DieState::Idle)
    }

    /// Starts a program of these slots on a free die; it takes `time` after its transfers. Returns the time at which
    /// it ends if no read suspends it.
    pub fn program(
        &mut self,
        now: u64,
        at: usize,
        purpose: Purpose,
        slots: &[Slot],
        time: u64,
    ) -> u64 {
        self.turn = (at + 1) % self.dies.len();
        // Moved pages are read first, which takes one more transfer over the channel.
        let start = match purpose {
            Purpose::Collection => self.transfer(now, at, 2 * self.program_bytes) + self.sense,
            Purpose::Host | Purpose::Record { .. } => self.transfer(now, at, self.program_bytes),
        };
        let die = &mut self.dies[at];
        die.slots[..slots.len()].copy_from_slice(slots);
        (die.count, die.purpose, die.suspensions) = (slots.len(), purpose, 0);
        let until = start + time + die.to_erase * self.erase;
        die.to_erase = 0;
        // A program overwrites the die's register.
        die.register = u64::MAX;
        self.busy += 1;
        self.start_work(at, DieState::Programming, until);
        until
    }

    /// Makes each die erase a block before its next program.
    pub fn erase_before_next_programs(&mut self) {
        self.dies.iter_mut().for_each(|die| die.to_erase += 1);
    }

    /// Returns the purpose and slots of the program that a die has just finished.
    pub fn finished_program(&self, at: usize) -> (Purpose, &[Slot]) {
        (self.dies[at].purpose, &self.dies[at].slots[..self.dies[at].count])
    }

    /// Returns the slots of all pages that dies are programming.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        let programs = self
            .dies
            .iter()
            .filter(|die| matches!(die.state, DieState::Programming) || die.suspended.is_some());
        programs.flat_map(|die| die.slots[..die.count].iter().copied())
    }

    /// Advances the die whose work ends first, if it ends by `now`. Returns `None` if this finishes no read or program.
    pub fn advance(&mut self, now: u64) -> Option<Finished> {
        if self.ends.time()? > now {
            return None;
        }
        let at = self.ends.position()?;
        let finished = self.advance_die(now, at);
        if self.dies[at].state == DieState::Idle {
            self.ends.set(at, None);
        }
        finished
    }

    fn advance_die(&mut self, now: u64, at: usize) -> Option<Finished> {
        match self.dies[at].state {
            DieState::Idle => None,
            DieState::Sensing => {
                self.deliver(now, at);
                None
            }
            DieState::Suspending => {
                self.start_next(now, at);
                None
            }
            DieState::Delivering => {
                let read = self.dies[at].reads.pop_front();
                self.start_next(now, at);
                read.map(|read| Finished::Read(read.command))
            }
            DieState::Programming => {
                self.start_next(now, at);
                Some(Finished::Program(at))
            }
        }
    }

    /// Starts the waiting work of a die that has become idle.
    fn start_next(&mut self, now: u64, at: usize) {
        self.dies[at].state = DieState::Idle;
        self.busy -= 1;
        self.begin(now, at);
    }

    fn begin(&mut self, now: u64, at: usize) {
        let die = &mut self.dies[at];
        if let Some(read) = die.reads.front() {
            self.busy += 1;
            if die.register == read.page {
                self.deliver(now, at);
            } else {
                die.register = read.page;
                self.start_work(at, DieState::Sensing, now + self.sense);
            }
        } else if let Some(remaining) = die.suspended.take() {
            self.busy += 1;
            self.start_work(at, DieState::Programming, now + remaining);
        }
    }

    fn deliver(&mut self, now: u64, at: usize) {
        let bytes = self.dies[at].reads.front().map_or(0, |read| read.bytes);
        let until = self.transfer(now, at, bytes);
        self.start_work(at, DieState::Delivering, until);
    }

    /// Transfers bytes over the die's channel as soon as it is free; returns the time at which the transfer ends.
    fn transfer(&mut self, from: u64, at: usize, bytes: u64) -> u64 {
        let time = self.channel_time(bytes);
        let channels = self.channels.len();
        let channel = &mut self.channels[at % channels];
        *channel = (*channel).max(from) + time;
        *channel
    }

    fn channel_time(&self, bytes: u64) -> u64 {
        bytes * 1_000_000 / self.channel_rate
    }
}
