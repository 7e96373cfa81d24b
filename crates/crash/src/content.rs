//! The contents of a file: now, and when last synced.

use std::collections::BTreeMap;

use fsdyno_record::Nanos;
use fsdyno_workload::Payload;

use crate::tree::Timing;

/// A content: its pieces by offset, and its size. Bytes that no piece covers are a hole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Pieces by offset, without overlap.
    pub pieces: BTreeMap<u64, Payload>,
    /// Size in bytes.
    pub size: u64,
}

impl Content {
    pub(crate) fn write(&mut self, at: u64, payload: Payload) {
        let end = at + u64::from(payload.length);
        let before = self.pieces.range(..at).next_back().map(|(from, piece)| (*from, *piece));
        if let Some((from, piece)) = before {
            let stop = from + u64::from(piece.length);
            if stop > at {
                self.pieces.insert(from, Payload { length: (at - from) as u32, ..piece });
                if stop > end {
                    self.pieces.insert(end, rest(piece, end - from));
                }
            }
        }
        let within: Vec<u64> = self.pieces.range(at..end).map(|(from, _)| *from).collect();
        for from in within {
            let Some(piece) = self.pieces.remove(&from) else { continue };
            if from + u64::from(piece.length) > end {
                self.pieces.insert(end, rest(piece, end - from));
            }
        }
        self.pieces.insert(at, payload);
        self.size = self.size.max(end);
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        self.pieces.split_off(&size);
        if let Some((from, piece)) = self.pieces.range_mut(..size).next_back() {
            piece.length = piece.length.min((size - from).min(u32::MAX.into()) as u32);
        }
        self.size = size;
    }
}

fn rest(piece: Payload, skip: u64) -> Payload {
    let length = piece.length - skip as u32;
    Payload { offset: piece.offset + skip, length, ..piece }
}

/// A file's content, and the part of it that is durable.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Content after all ops that returned.
    pub now: Content,
    /// Content when last synced, if it was.
    pub synced: Option<Content>,
    /// Content if the ops in flight took effect, if there are any.
    pub in_flight: Option<Content>,
    /// Byte ranges changed since the last sync: first, and one past the last.
    pub changed: Vec<(u64, u64)>,
    /// Smallest size since the last sync.
    pub shortest: u64,
    /// Time at which the first change since the last sync returned.
    pub since: Option<Nanos>,
    /// Time at which the last change returned.
    pub last: Nanos,
}

impl File {
    /// Marks the present content as durable.
    pub(crate) fn sync(&mut self) {
        self.synced = Some(self.now.clone());
        self.changed.clear();
        self.shortest = self.now.size;
        self.since = None;
    }

    /// Applies a change of a byte range: first, and one past the last.
    pub(crate) fn change(&mut self, when: Timing, range: (u64, u64), with: impl Fn(&mut Content)) {
        self.changed.push(range);
        if when.in_flight {
            with(self.in_flight.get_or_insert_with(|| self.now.clone()));
        } else {
            with(&mut self.now);
            self.last = when.at;
            self.since = self.since.or(Some(when.at));
        }
    }
}
