//! The flash: dies that read, program and erase each by itself, and the channels that they share.
//!
//! A read senses its page in the die and brings it over the channel. A program takes its bytes over
//! the channel first. A read that finds its die programming has the program stopped, as flash of
//! this time allows, and resumed behind it, so many times; an erasure counts as part of the first
//! program after it.

use std::collections::VecDeque;

use super::buffer::Slot;
use crate::model::Ssd;

/// Most pages of 4 KiB that a die programs at once.
pub const MOST_PER_PROGRAM: usize = 64;

/// How often one program is stopped for reads before it is left to end. An estimate: makers allow
/// a few suspensions and do not say how many.
const MOST_STOPS: u32 = 4;

/// What is asked of a die by a read command.
#[derive(Clone, Copy, Debug)]
pub struct PageRead {
    /// The command.
    pub command: usize,
    /// The flash page, counted over the whole drive.
    pub page: u64,
    /// Bytes of it that are wanted.
    pub bytes: u64,
}

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Pages of the host.
    Host,
    /// Pages that collection moves.
    Collection,
    /// The record of where pages lie, which a flush or a forced write waits for.
    Record {
        /// The command.
        command: usize,
    },
}

/// A die has come to an end with something.
#[derive(Clone, Copy, Debug)]
pub enum Finished {
    /// A page has come over the channel for this command.
    Read(usize),
    /// This die has programmed what it was given.
    Program(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Sensing,
    Delivering,
    Programming,
    /// Bringing a program to a stop.
    Stopping,
}

#[derive(Debug)]
struct Die {
    doing: Doing,
    /// When it is done with that.
    until: u64,
    /// Reads in order of arrival; the first is the one under way.
    reads: VecDeque<PageRead>,
    /// The page in its register.
    register: u64,
    /// What is left of a program that was stopped.
    stopped: Option<u64>,
    stops: u32,
    purpose: Purpose,
    /// Places in the buffer of the pages that it programs.
    slots: [Slot; MOST_PER_PROGRAM],
    count: usize,
    /// Blocks to erase before the next program.
    to_erase: u64,
}

/// All dies and channels. Times are in ns.
#[derive(Debug)]
pub struct Dies {
    dies: Vec<Die>,
    /// When each channel is free.
    channels: Vec<u64>,
    sense: u64,
    program: u64,
    erase: u64,
    stop: u64,
    channel_rate: u64,
    program_bytes: u64,
    /// Where the search for a free die begins.
    turn: usize,
    busy: usize,
    /// When the first of those at work is due.
    due: Option<u64>,
}

impl Dies {
    /// Dies at rest; `reads` page reads may wait for one of them.
    pub fn new(ssd: &Ssd, reads: usize) -> Dies {
        let die = || Die {
            doing: Doing::Nothing,
            until: 0,
            reads: VecDeque::with_capacity(reads),
            register: u64::MAX,
            stopped: None,
            stops: 0,
            purpose: Purpose::Host,
            slots: [0; MOST_PER_PROGRAM],
            count: 0,
            to_erase: 0,
        };
        Dies {
            dies: (0..ssd.dies).map(|_| die()).collect(),
            channels: vec![0; ssd.channels as usize],
            sense: ssd.read_us * 1000,
            program: ssd.program_us * 1000,
            erase: ssd.erase_us * 1000,
            stop: ssd.suspend_us * 1000,
            channel_rate: ssd.channel_rate_kb.max(1),
            program_bytes: ssd.program_size.0,
            turn: 0,
            busy: 0,
            due: None,
        }
    }

    /// Whether any die is at work.
    pub fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// When the next of them is done with something.
    pub fn next(&self) -> Option<u64> {
        self.due
    }

    fn is_due_by(&mut self, until: u64) {
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
    }

    /// The least that bringing a page takes from now on, with nothing in the way.
    pub fn least(&self, read: &PageRead) -> u64 {
        let die = &self.dies[read.page as usize % self.dies.len()];
        let sense = if die.register == read.page { 0 } else { self.sense };
        sense + self.over_channel(read.bytes)
    }

    /// Asks for a page. Gives when it will be here, or a time before that.
    pub fn read(&mut self, now: u64, read: PageRead) -> u64 {
        let at = read.page as usize % self.dies.len();
        let least = now + self.least(&read);
        let die = &mut self.dies[at];
        die.reads.push_back(read);
        match die.doing {
            Doing::Nothing => self.begin(now, at),
            Doing::Programming if die.until > now + self.stop && die.stops < MOST_STOPS => {
                die.stopped = Some(die.until - (now + self.stop));
                (die.doing, die.until) = (Doing::Stopping, now + self.stop);
                die.stops += 1;
                self.is_due_by(now + self.stop);
            }
            _ => {}
        }
        least
    }

    /// A die that could take a program, the next in turn.
    pub fn free(&self) -> Option<usize> {
        let count = self.dies.len();
        if self.busy == count {
            return None;
        }
        (0..count)
            .map(|step| (self.turn + step) % count)
            .find(|at| self.dies[*at].doing == Doing::Nothing)
    }

    /// Has a free die program the pages of these places. Gives when it will be done, unless reads
    /// stop it.
    pub fn program(&mut self, now: u64, at: usize, purpose: Purpose, slots: &[Slot]) -> u64 {
        self.turn = (at + 1) % self.dies.len();
        // What is moved has to be read first, and comes over the channel once more.
        let start = match purpose {
            Purpose::Collection => self.transfer(now, at, 2 * self.program_bytes) + self.sense,
            Purpose::Host | Purpose::Record { .. } => self.transfer(now, at, self.program_bytes),
        };
        let die = &mut self.dies[at];
        die.slots[..slots.len()].copy_from_slice(slots);
        (die.count, die.purpose, die.stops) = (slots.len(), purpose, 0);
        die.until = start + self.program + die.to_erase * self.erase;
        die.to_erase = 0;
        // What it writes goes through its register.
        die.register = u64::MAX;
        die.doing = Doing::Programming;
        self.busy += 1;
        let until = die.until;
        self.is_due_by(until);
        until
    }

    /// Each die has a block to erase before its next program.
    pub fn erase_all(&mut self) {
        self.dies.iter_mut().for_each(|die| die.to_erase += 1);
    }

    /// What the die that just ended a program was given, and for what.
    pub fn programmed(&self, at: usize) -> (Purpose, &[Slot]) {
        (self.dies[at].purpose, &self.dies[at].slots[..self.dies[at].count])
    }

    /// Places of all pages that dies are programming.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        let programs = self
            .dies
            .iter()
            .filter(|die| matches!(die.doing, Doing::Programming) || die.stopped.is_some());
        programs.flat_map(|die| die.slots[..die.count].iter().copied())
    }

    /// Has the die that is due first at `now` go on. None if it is not done with its work by that.
    pub fn advance(&mut self, now: u64) -> Option<Finished> {
        if self.due? > now {
            return None;
        }
        let due = |die: &Die| die.doing != Doing::Nothing && Some(die.until) == self.due;
        let at = self.dies.iter().position(due)?;
        let finished = self.go_on(now, at);
        let busy = self.dies.iter().filter(|die| die.doing != Doing::Nothing);
        self.due = busy.map(|die| die.until).min();
        finished
    }

    fn go_on(&mut self, now: u64, at: usize) -> Option<Finished> {
        match self.dies[at].doing {
            Doing::Nothing => None,
            Doing::Sensing => {
                self.deliver(now, at);
                None
            }
            Doing::Stopping => {
                self.rest(now, at);
                None
            }
            Doing::Delivering => {
                let read = self.dies[at].reads.pop_front();
                self.rest(now, at);
                read.map(|read| Finished::Read(read.command))
            }
            Doing::Programming => {
                self.rest(now, at);
                Some(Finished::Program(at))
            }
        }
    }

    /// The die is free; it takes up what waits.
    fn rest(&mut self, now: u64, at: usize) {
        self.dies[at].doing = Doing::Nothing;
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
                (die.doing, die.until) = (Doing::Sensing, now + self.sense);
                die.register = read.page;
                self.is_due_by(now + self.sense);
            }
        } else if let Some(left) = die.stopped.take() {
            self.busy += 1;
            (die.doing, die.until) = (Doing::Programming, now + left);
            self.is_due_by(now + left);
        }
    }

    fn deliver(&mut self, now: u64, at: usize) {
        let bytes = self.dies[at].reads.front().map_or(0, |read| read.bytes);
        let until = self.transfer(now, at, bytes);
        (self.dies[at].doing, self.dies[at].until) = (Doing::Delivering, until);
        self.is_due_by(until);
    }

    /// Takes the die's channel for so many bytes, as soon as it is free; gives the end.
    fn transfer(&mut self, from: u64, at: usize, bytes: u64) -> u64 {
        let time = self.over_channel(bytes);
        let channels = self.channels.len();
        let channel = &mut self.channels[at % channels];
        *channel = (*channel).max(from) + time;
        *channel
    }

    fn over_channel(&self, bytes: u64) -> u64 {
        bytes * 1_000_000 / self.channel_rate
    }
}
