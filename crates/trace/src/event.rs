//! The items of a trace: entries of the initial tree, events, the end.

use std::collections::BTreeMap;

use crate::call::{Call, CallKind};
use crate::error::Problem;
use crate::header::{put_text, text};
use crate::ids::ThreadId;
use crate::tree::{Entry, Root, bounded};
use crate::wire::{Sink, Source, Wire};

/// The maximum number of counts, and of notes, in an end item.
const COUNTS: u64 = 1000;

/// A part of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A root of the initial tree.
    Root(Root),
    /// An entry of the initial tree. It precedes the first event that touches it, but not necessarily all events.
    Entry(Entry),
    /// A call that has returned, or an event of a process. Events are in the order in which they returned.
    Event(Event),
    /// The end of a complete trace.
    End(End),
}

/// A call of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The thread that made it.
    pub thread: ThreadId,
    /// The CPU time of the thread since its previous event, in nanoseconds, excluding that of the recorder.
    pub think: u64,
    /// The wall time from the start of the command to the start of the call, in nanoseconds, including the recorder's
    /// overhead.
    pub start: u64,
    /// The time that the call took, in nanoseconds. If the thread stopped for the recorder, the median time of a stop
    /// is subtracted.
    pub duration: u64,
    /// The result: zero or more, or a negative errno.
    pub result: i64,
    /// The call with its arguments.
    pub call: Call,
}

impl Event {
    /// Returns the start plus the duration, in nanoseconds: the wall time at which the call returned, without the time
    /// of its stop.
    pub fn returned(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// Returns the errno of a call that failed.
    pub fn errno(&self) -> Option<i64> {
        (self.result < 0).then(|| self.result.saturating_neg())
    }
}

impl Wire for Event {
    fn put(&self, out: &mut Sink) {
        self.thread.put(out);
        self.think.put(out);
        let returned = self.returned();
        (returned.wrapping_sub(out.time) as i64).put(out);
        out.time = returned;
        (returned - self.start).put(out);
        self.result.put(out);
        self.call.put(out);
    }

    fn get(from: &mut Source<'_>) -> Result<Event, Problem> {
        let thread = Wire::get(from)?;
        let think = Wire::get(from)?;
        let returned = from.state.time.wrapping_add(i64::get(from)? as u64);
        from.state.time = returned;
        let duration = u64::get(from)?;
        let start = returned.checked_sub(duration).ok_or(Problem::Number)?;
        let result = Wire::get(from)?;
        Ok(Event { thread, think, start, duration, result, call: Wire::get(from)? })
    }
}

/// The end of a trace: the status of the command, the counts of events, and notes on missing data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The wall time from the start of the command to its end, in nanoseconds.
    pub wall: u64,
    /// The status of the command as wait(2) returns it, or `None` if the command was still running.
    pub status: Option<u32>,
    /// The number of events by kind of call, for the reader to check.
    pub events: BTreeMap<CallKind, u64>,
    /// Things that the trace lacks or cannot replay, with counts: see `docs/trace-format.md`.
    pub notes: BTreeMap<String, u64>,
}

impl Wire for End {
    fn put(&self, out: &mut Sink) {
        self.wall.put(out);
        self.status.put(out);
        (self.events.len() as u64).put(out);
        for (kind, count) in &self.events {
            kind.put(out);
            count.put(out);
        }
        let notes = self.notes.len().min(COUNTS as usize);
        (notes as u64).put(out);
        for (note, count) in self.notes.iter().take(notes) {
            put_text(note, out);
            count.put(out);
        }
    }

    fn get(from: &mut Source<'_>) -> Result<End, Problem> {
        let mut end = End { wall: Wire::get(from)?, status: Wire::get(from)?, ..End::default() };
        for _ in 0..bounded(from, "the number of counts", COUNTS)? {
            end.events.insert(Wire::get(from)?, Wire::get(from)?);
        }
        for _ in 0..bounded(from, "the number of notes", COUNTS)? {
            end.notes.insert(text(from)?, Wire::get(from)?);
        }
        Ok(end)
    }
}
