//! The bytes of a file: as they are, and as they were last synced.

use std::collections::BTreeMap;

use fsdyno_record::Nanos;
use fsdyno_workload::Payload;

use crate::tree::When;

/// A content: its pieces by offset, and its length. What no piece covers is a hole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// By offset; none overlaps the next.
    pub pieces: BTreeMap<u64, Payload>,
    /// In bytes.
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

/// What a file holds and what of that is durable.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// After all ops that came back.
    pub now: Content,
    /// When it was last synced, if it was.
    pub synced: Option<Content>,
    /// With the ops too that had not come back, if there are any.
    pub maybe: Option<Content>,
    /// Bytes, first and one past the last, that were changed since it was synced.
    pub changed: Vec<(u64, u64)>,
    /// How short it has been since.
    pub shortest: u64,
    /// When the first change since then came back.
    pub since: Option<Nanos>,
    /// When the last change came back.
    pub last: Nanos,
}

impl File {
    /// Its content is durable as it is.
    pub(crate) fn sync(&mut self) {
        self.synced = Some(self.now.clone());
        self.changed.clear();
        self.shortest = self.now.size;
        self.since = None;
    }

    /// Applies a change of these bytes, first and one past the last.
    pub(crate) fn change(&mut self, when: When, range: (u64, u64), with: impl Fn(&mut Content)) {
        self.changed.push(range);
        if when.maybe {
            with(self.maybe.get_or_insert_with(|| self.now.clone()));
        } else {
            with(&mut self.now);
            self.last = when.at;
            self.since = self.since.or(Some(when.at));
        }
    }
}
