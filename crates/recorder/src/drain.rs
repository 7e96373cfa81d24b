//! Takes the calls recorded by the injected code from the rings of all threads, and puts them into one order.

use fsdyno_trace::{Call, Event, ThreadId};
use libc::pid_t;

use crate::hash::Map;
use crate::inode::Info;
use crate::process::{Descriptor, Pending, Thread};
use crate::recorder::Recorder;
use crate::resolve::Place;
use crate::seen::{Seen, SeenPlace, Step};
use crate::shared::Ring;
use crate::sys::{self, CallEntry};

/// Maximum number of [`Seen`] values that are kept for reuse.
const SPARE: usize = 4096;

impl Recorder {
    /// Returns a new number in the order of begins and ends.
    pub fn tick(&mut self) -> u64 {
        match &self.shared {
            Some(shared) => shared.next(),
            None => self.tree.clock + 1,
        }
    }

    /// Records all completed calls of the rings. Returns true if there were any.
    pub fn drain(&mut self) -> bool {
        let Some(shared) = &self.shared else { return false };
        let progress = shared.progress();
        if progress == self.drained && self.deferred.is_empty() {
            return false;
        }
        self.drained = progress;
        // Every event on which an event of the first scan depends was put into a ring earlier, so the second scan
        // finds it. Events that only the second scan finds may depend on events that it missed; they are deferred to
        // the next drain.
        let scan = |it: &Recorder| -> Map<pid_t, u64> {
            let ring_tail = |(tid, it): (&pid_t, &Thread)| Some((*tid, it.ring.as_ref()?.tail()));
            it.threads.iter().filter_map(ring_tail).collect()
        };
        let first = scan(self);
        let second = scan(self);
        let mut steps = std::mem::take(&mut self.deferred);
        let mut last = steps.iter().map(|it| it.0).max().unwrap_or(0);
        let mut damaged = 0;
        let mut spare = std::mem::take(&mut self.spare);
        for (tid, tail) in second {
            let complete = first.get(&tid).copied().unwrap_or(0);
            let Some(ring) = self.threads.get(&tid).and_then(|it| it.ring.as_ref()) else {
                continue;
            };
            ring.take(tail, |at, bytes| {
                let mut seen: Box<Seen> = spare.pop().unwrap_or_default();
                if seen.read(bytes).is_none() {
                    damaged += 1;
                    return;
                }
                let (begin, end) = seen.sequence;
                let (sequence, step) = match seen.begins {
                    true => (begin, Step::Closing(seen.args[0] as i32, seen.found)),
                    false => (end, Step::Call(seen)),
                };
                if at < complete {
                    last = last.max(sequence);
                }
                steps.push((sequence, tid, step));
            });
        }
        self.spare = spare;
        if damaged > 0 {
            self.note("calls whose records a program damaged", damaged);
        }
        steps.sort_by_key(|(sequence, ..)| *sequence);
        let due = steps.partition_point(|it| it.0 <= last);
        self.deferred = steps.split_off(due);
        let any = !steps.is_empty();
        for (sequence, tid, step) in steps {
            self.step(sequence, tid, step);
        }
        any
    }

    fn step(&mut self, sequence: u64, tid: pid_t, step: Step) {
        match step {
            Step::Closing(number, found) => {
                self.add_found(tid, number, found);
                self.begin_close(tid, sequence, number);
            }
            Step::Call(seen) => self.record_from_ring(tid, seen),
        }
    }

    /// Adds a pipe or socket that the injected code found behind a descriptor unknown to it.
    fn add_found(&mut self, tid: pid_t, number: i32, found: Option<Info>) {
        let (Some(info), Some(thread)) = (found, self.threads.get(&tid)) else { return };
        let table = thread.descriptors.clone();
        if table.get(number).is_none() {
            if let Some(outside) = self.outside("".as_ref(), &info.stat()) {
                table.insert(number, outside, true);
            }
        }
    }

    fn begin_close(&mut self, tid: pid_t, sequence: u64, number: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.closing = Some((sequence, thread.descriptors.remove(number, true)));
        }
    }

    fn record_from_ring(&mut self, tid: pid_t, seen: Box<Seen>) {
        let seen = self.record_complete_call(tid, seen);
        self.spare.extend(seen.filter(|_| self.spare.len() < SPARE));
    }

    /// Records a complete call, from the code injected into a program or from a BPF record. Returns it, with the
    /// objects found; None if it was ignored.
    pub fn record_complete_call(&mut self, tid: pid_t, seen: Box<Seen>) -> Option<Box<Seen>> {
        if !self.running || !self.tree.is_recording() {
            return None;
        }
        let thread = self.threads.get_mut(&tid)?;
        let (entry_sequence, end) = seen.sequence;
        let think = seen.cpu.0.saturating_sub(thread.used);
        thread.used = seen.cpu.1;
        let closing = thread.closing.take_if(|it| it.0 == entry_sequence);
        let closed: Option<Descriptor> = closing.and_then(|it| it.1);
        let start = seen.wall.0.saturating_sub(self.began_monotonic);
        let duration = seen.wall.1.saturating_sub(seen.wall.0).saturating_sub(seen.delay);
        let (result, entry) =
            (seen.result, CallEntry { native: true, number: seen.number, args: seen.args });
        if entry.number == libc::SYS_munmap && !self.is_mapped(tid, entry.args[0], entry.args[1]) {
            return None;
        }
        self.add_found(tid, seen.args[0] as i32, seen.found);
        self.seen = Some(seen);
        self.tree.clock = entry_sequence;
        if let Some((call, removed)) = self.decode(tid, &entry) {
            self.tree.clock = end;
            let mut it = Pending { call, entry, start, think, removed, entry_sequence, closed };
            if self.complete(tid, &mut it, result) {
                let call = it.call;
                let returns_handle =
                    matches!(call, Call::Open { .. } | Call::Dup { .. } | Call::Map { .. });
                let result = if returns_handle && result >= 0 { 0 } else { result };
                let thread = ThreadId(0);
                self.inside += 1;
                self.write(tid, Event { thread, think, start, duration, result, call });
            }
        }
        self.seen.take()
    }

    /// Returns the place that the injected code found for the path at an address.
    pub fn seen_place(&mut self, path: u64) -> Option<Place> {
        let seen = self.seen.take()?;
        let place = seen.places.iter().flatten().find(|it| it.path == path && path != 0);
        let found = place.and_then(|it| self.place_seen(seen.sequence.0, it));
        self.seen = Some(seen);
        found
    }

    fn place_seen(&mut self, at_begin: u64, it: &SeenPlace) -> Option<Place> {
        let SeenPlace { dir, ref name, node, base, walked, beyond, links, .. } = *it;
        let Some(parent) = self.tree.known(dir, at_begin) else {
            self.note("calls inside a program in unknown directories", 1);
            return None;
        };
        let mut at = if name.is_empty() {
            fsdyno_trace::At::of_node(parent)
        } else {
            let known = node.map(|it| self.tree.node_seen(parent, name, &it, at_begin));
            fsdyno_trace::At::new(parent, self.tree.name(name)?, known)
        };
        at.base = match base {
            0 => fsdyno_trace::Base::Root,
            1 => fsdyno_trace::Base::Cwd,
            _ => fsdyno_trace::Base::Directory,
        };
        (at.walked, at.beyond, at.links) = (walked, beyond, links);
        Some(Place { at, stat: node.map(|it| it.stat()) })
    }

    /// Injects the code into the program of a thread that returns from exec.
    pub fn inject(&mut self, tid: pid_t) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if !std::mem::take(&mut thread.in_exec) {
            return;
        }
        let (mut redirected, mut stub_memory) = (None, None);
        let recording = self.tree.is_recording();
        match self.injector.as_mut().filter(|_| recording).map(|it| it.begin(tid)) {
            None => {}
            Some(Ok((is_redirected, memory))) => {
                (redirected, stub_memory) = (Some(is_redirected), memory);
            }
            Some(Err(error)) => {
                let why = match error.kind() {
                    std::io::ErrorKind::Unsupported => "32-bit program".to_string(),
                    _ => error.to_string(),
                };
                self.note(&format!("programs whose calls all stopped: {why}"), 1);
            }
        }
        self.not_redirected += u64::from(redirected == Some(false));
        if let Some(thread) = self.threads.get_mut(&tid) {
            (thread.injected, thread.redirected) = (redirected.is_some(), redirected == Some(true));
            thread.stub_memory = stub_memory;
        }
        self.set_ring(tid);
    }

    /// Sets the ring of a stopped thread whose program has the injected code; 0 if the thread has no ring.
    pub fn set_ring(&self, tid: pid_t) {
        let Some(thread) = self.threads.get(&tid).filter(|it| it.injected) else { return };
        if self.shared.as_ref().is_some_and(|it| it.by_register) {
            sys::set_base(tid, thread.ring.as_ref().map_or(0, Ring::address));
        }
    }

    /// Redirects the calls of a library that a program maps to the injected code, if the program has that code.
    pub fn redirect(&mut self, tid: pid_t, number: i32, start: u64, length: u64, offset: u64) {
        let Some(thread) = self.threads.get_mut(&tid).filter(|it| it.injected) else { return };
        if let (true, Some(injector)) = (self.seen.is_none(), &mut self.injector) {
            let stub_memory = &mut thread.stub_memory;
            let redirected = injector
                .redirect(tid, number, (start, length, offset), stub_memory)
                .is_ok_and(|redirected| redirected);
            self.not_redirected -= u64::from(redirected && !thread.redirected);
            thread.redirected |= redirected;
        }
    }

    /// Gives a thread a ring, if one is free and its table of descriptors is shared.
    pub fn give_ring(&mut self, tid: pid_t) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        // The ring of a former thread with this ID must be released first.
        thread.ring = None;
        let (Some(shared), Some(table)) = (&self.shared, thread.descriptors.shared()) else {
            return;
        };
        thread.ring = shared.ring(tid, thread.process, table);
    }

    /// Handles unshare(2), setns(2) or a clone that invalidates assumptions of the injected code: that thread IDs are
    /// the same in the recorder, and that a process has one table of descriptors.
    pub fn separate(&mut self, tid: pid_t, number: libc::c_long, flags: u64) {
        let has = |flag: i32| flags & flag as u64 != 0;
        if has(libc::CLONE_NEWPID) || number == libc::SYS_setns && flags == 0 {
            if let Some(shared) = &self.shared {
                shared.turn_off();
            }
        }
        if number == libc::SYS_setns || has(libc::CLONE_NEWNS) {
            self.shared.iter().for_each(|it| it.disable_path_cache());
        }
        if number == libc::SYS_unshare && has(libc::CLONE_FILES) {
            let Some(all) = self.threads.get(&tid).map(|it| it.descriptors.all()) else { return };
            let table = self.table(all);
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.descriptors = table;
            }
            self.give_ring(tid);
            self.set_ring(tid);
        }
    }
}
