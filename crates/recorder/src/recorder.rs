//! The state of a recording, and the operations on it that all parts of the recorder share.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::time::Instant;

use fsdyno_trace::{Call, Event, ThreadId};
use libc::pid_t;

use crate::bpf::names::{Names, Walked};
use crate::calibrate::StopCost;
use crate::hash::Map;
use crate::inject::Injector;
use crate::process::{Descriptor, Descriptors, Mappings, Table, Thread};
use crate::seen::{Seen, Step};
use crate::shared::Shared;
use crate::sys;
use crate::tree::Tree;

/// Maximum interval between flushes in nanoseconds, so that a killed recorder loses little.
const FLUSH: u64 = 1_000_000_000;

/// The way in which the call being recorded was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By a stop of its thread, whose memory can be read now.
    Stop,
    /// By the code injected into its program.
    Inside,
    /// By BPF programs, some time ago.
    Kernel,
}

/// The state of a recording.
pub struct Recorder {
    /// The nodes and the trace.
    pub tree: Tree,
    /// The traced threads.
    pub threads: Map<pid_t, Thread>,
    /// By device: true if it is a file system of the kernel's own state, or /dev.
    pub devices: Map<u64, bool>,
    /// The number of open files so far.
    pub files: u32,
    /// The number of writes so far.
    pub writes: u64,
    /// Things that the trace lacks, with counts.
    pub notes: BTreeMap<String, u64>,
    /// Thread IDs in the trace by thread ID of the kernel, for waits.
    pub ids: Map<pid_t, ThreadId>,
    /// The call inside a program that is being recorded.
    pub seen: Option<Box<Seen>>,
    /// Recorded calls, kept for reuse.
    #[allow(clippy::vec_box, reason = "the boxes move between collections")]
    pub spare: Vec<Box<Seen>>,
    /// The memory shared with programs, if code is injected into them.
    pub shared: Option<Rc<Shared>>,
    /// Injects the code into programs.
    pub injector: Option<Injector>,
    /// The number of calls that were recorded inside programs or by the kernel.
    pub inside: u64,
    /// The number of programs that have injected code but whose C library does not (yet) call it.
    pub not_redirected: u64,
    /// Events that wait for events on which they may depend.
    pub deferred: Vec<(u64, pid_t, Step)>,
    /// The progress of the shared memory at the last drain.
    pub drained: (u64, u64),
    /// CLOCK_MONOTONIC of the start of the command.
    pub began_monotonic: u64,
    /// The cost of the two stops of a call.
    pub stop_cost: StopCost,
    /// The start of the command.
    pub began: Instant,
    /// The known names, if the kernel records the calls.
    pub names: Option<Names>,
    /// The resolved paths of the call that is being recorded.
    pub walked: Vec<Walked>,
    /// The time of the event that is being recorded, unless that is now.
    pub event_time: Option<u64>,
    /// The status of the thread that ended last.
    pub status: Option<u32>,
    /// The process that is recorded from an attachment, not from its start.
    pub watched: Option<pid_t>,
    flushed: u64,
    next_thread: u32,
    /// True from the command's exec on: earlier calls are not recorded.
    pub running: bool,
    /// New threads that stopped before the event of their parent arrived.
    pub early: HashSet<pid_t>,
}

impl Recorder {
    /// Creates the recorder of a command that has not begun.
    pub fn new(tree: Tree, stop_cost: StopCost, shared: Option<Rc<Shared>>) -> Recorder {
        Recorder {
            tree,
            threads: Map::default(),
            devices: Map::default(),
            files: 0,
            writes: 0,
            notes: BTreeMap::new(),
            ids: Map::default(),
            seen: None,
            spare: Vec::new(),
            injector: shared.clone().map(Injector::new),
            shared,
            inside: 0,
            not_redirected: 0,
            deferred: Vec::new(),
            drained: (0, 0),
            began_monotonic: 0,
            stop_cost,
            began: Instant::now(),
            names: None,
            walked: Vec::new(),
            event_time: None,
            status: None,
            watched: None,
            flushed: 0,
            next_thread: 0,
            running: false,
            early: HashSet::new(),
        }
    }

    /// Returns the time in nanoseconds since the start of the command.
    pub fn now(&self) -> u64 {
        let elapsed = || u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.event_time.unwrap_or_else(elapsed)
    }

    /// Counts something that the trace lacks.
    pub fn note(&mut self, what: &str, count: u64) {
        *self.notes.entry(what.into()).or_default() += count;
    }

    /// Writes an event that is not a system call.
    pub fn event(&mut self, tid: pid_t, call: Call, result: i64) {
        let start = self.now();
        self.write(tid, Event { thread: ThreadId(0), think: 0, start, duration: 0, result, call });
    }

    /// Writes an event of a thread.
    pub fn write(&mut self, tid: pid_t, mut event: Event) {
        let Some(thread) = self.threads.get(&tid) else { return };
        event.thread = thread.id;
        if self.running {
            let now = event.returned();
            self.tree.write(|writer| writer.event(&event));
            if now.saturating_sub(self.flushed) > FLUSH {
                self.flushed = now;
                self.tree.write(|writer| writer.flush());
            }
        }
    }

    /// Adds a thread.
    pub fn add(
        &mut self,
        tid: pid_t,
        process: pid_t,
        descriptors: Descriptors,
        mappings: Mappings,
    ) -> ThreadId {
        let id = ThreadId(self.next_thread);
        self.next_thread += 1;
        self.ids.insert(tid, id);
        let stops = self.source() != Source::Kernel;
        self.threads.insert(tid, Thread::new(tid, id, process, descriptors, mappings, stops));
        self.give_ring(tid);
        id
    }

    /// Returns how the call that is being recorded was observed.
    pub fn source(&self) -> Source {
        match (&self.names, &self.seen) {
            (Some(_), _) => Source::Kernel,
            (None, Some(_)) => Source::Inside,
            (None, None) => Source::Stop,
        }
    }

    /// Creates a table with these descriptors.
    pub fn table(&self, all: BTreeMap<i32, Descriptor>) -> Descriptors {
        Rc::new(Table::new(all, self.shared.as_ref().and_then(Shared::table)))
    }

    /// Reads memory of the thread; the result is empty for a call recorded inside a program.
    pub fn memory(&self, tid: pid_t, address: u64, length: usize) -> Vec<u8> {
        match &self.seen {
            Some(seen) => match &seen.captured {
                Some(captured) => captured.bytes(address, length).to_vec(),
                None => Vec::new(),
            },
            None => sys::memory(tid, address, length),
        }
    }

    /// Reads a string of the thread, for a call that was not recorded inside a program.
    pub fn text(&self, tid: pid_t, address: u64) -> Option<Vec<u8>> {
        match self.seen.as_ref().and_then(|it| it.captured.as_ref()) {
            Some(captured) => captured.text(address).map(<[u8]>::to_vec),
            None => sys::text(tid, address),
        }
    }

    /// Reads numbers in the memory of the thread.
    pub fn words<const N: usize>(&self, tid: pid_t, address: u64) -> Option<[u64; N]> {
        match &self.seen {
            Some(seen) => match &seen.captured {
                Some(captured) => sys::numbers(captured.bytes(address, 8 * N)),
                None => seen.more.get(..N)?.try_into().ok(),
            },
            None => sys::words(tid, address),
        }
    }
}
