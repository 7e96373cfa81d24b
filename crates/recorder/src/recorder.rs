//! The state of a recording, and what all parts of the recorder do with it.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::time::Instant;

use fsdyno_trace::{Call, Event, ThreadId};
use libc::pid_t;

use crate::bpf::names::{Names, Walked};
use crate::hash::Map;
use crate::inject::Injector;
use crate::process::{Descriptor, Descriptors, Mappings, Table, Thread};
use crate::seen::{Seen, Step};
use crate::shared::Shared;
use crate::sys;
use crate::tree::Tree;

/// A writer writes what it holds at least after this number of nanoseconds, so that a killed recorder loses little.
const FLUSH: u64 = 1_000_000_000;

/// The state of a recording.
pub struct Recorder {
    /// The nodes and the trace.
    pub tree: Tree,
    /// The threads that are traced.
    pub threads: Map<pid_t, Thread>,
    /// By device, whether it has files of the kernel.
    pub devices: Map<u64, bool>,
    /// The number of open files so far.
    pub files: u32,
    /// The number of writes so far.
    pub writes: u64,
    /// Things that the trace does not have.
    pub notes: BTreeMap<String, u64>,
    /// Ids of threads in the trace, by process: for wait.
    pub ids: Map<pid_t, ThreadId>,
    /// The call inside a program that is being recorded.
    pub seen: Option<Box<Seen>>,
    /// Those that were recorded, to be filled again.
    #[allow(clippy::vec_box, reason = "they move between this and other places")]
    pub spare: Vec<Box<Seen>>,
    /// The memory shared with programs, if there is code inside them.
    pub shared: Option<Rc<Shared>>,
    /// The injector of the code inside programs.
    pub injector: Option<Injector>,
    /// The calls that were recorded inside programs.
    pub inside: u64,
    /// The programs with the code inside, to which no C library is led (yet).
    pub unled: u64,
    /// Events that wait for others on which they may depend.
    pub deferred: Vec<(u64, pid_t, Step)>,
    /// The progress of the shared memory at the last look.
    pub drained: (u64, u64),
    /// CLOCK_MONOTONIC of the start of the command.
    pub began_monotonic: u64,
    /// CPU time that a stop costs a thread itself, in nanoseconds.
    pub overhead: u64,
    /// The start of the command.
    pub began: Instant,
    /// The names that are known, if the kernel records the calls.
    pub names: Option<Names>,
    /// The paths of the call that is being recorded.
    pub walked: Vec<Walked>,
    /// The time of the event that is being recorded, if it is not the present.
    pub clocked: Option<u64>,
    /// The status with which the last thread ended that did.
    pub status: Option<u32>,
    flushed: u64,
    next_thread: u32,
    /// The command runs: what stood before its exec is not recorded.
    pub running: bool,
    /// New threads that stopped before their parent said so.
    pub early: HashSet<pid_t>,
}

impl Recorder {
    /// A recorder of a command that has not begun.
    pub fn new(tree: Tree, overhead: u64, shared: Option<Rc<Shared>>) -> Recorder {
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
            unled: 0,
            deferred: Vec::new(),
            drained: (0, 0),
            began_monotonic: 0,
            overhead,
            began: Instant::now(),
            names: None,
            walked: Vec::new(),
            clocked: None,
            status: None,
            flushed: 0,
            next_thread: 0,
            running: false,
            early: HashSet::new(),
        }
    }

    /// Nanoseconds since the start of the command.
    pub fn now(&self) -> u64 {
        let elapsed = || u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.clocked.unwrap_or_else(elapsed)
    }

    /// Counts something that the trace does not have.
    pub fn note(&mut self, what: &str, count: u64) {
        *self.notes.entry(what.into()).or_default() += count;
    }

    /// Writes an event that is no call.
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

    /// A thread begins.
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
        let stops = self.names.is_none();
        self.threads.insert(tid, Thread::new(tid, id, process, descriptors, mappings, stops));
        self.give_ring(tid);
        id
    }

    /// A table with these descriptors.
    pub fn table(&self, all: BTreeMap<i32, Descriptor>) -> Descriptors {
        Rc::new(Table::new(all, self.shared.as_ref().and_then(Shared::table)))
    }

    /// Memory of the thread: of a call that was seen inside, nothing.
    pub fn memory(&self, tid: pid_t, address: u64, length: usize) -> Vec<u8> {
        match &self.seen {
            Some(seen) => match &seen.captured {
                Some(captured) => captured.bytes(address, length).to_vec(),
                None => Vec::new(),
            },
            None => sys::memory(tid, address, length),
        }
    }

    /// A text of the thread, of a call that was not seen inside.
    pub fn text(&self, tid: pid_t, address: u64) -> Option<Vec<u8>> {
        match self.seen.as_ref().and_then(|it| it.captured.as_ref()) {
            Some(captured) => captured.text(address).map(<[u8]>::to_vec),
            None => sys::text(tid, address),
        }
    }

    /// Numbers in the memory of the thread.
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
