//! The possible contents of a file after a power cut.

use fsdyno_record::Nanos;
use fsdyno_workload::memory_fs::Content;

/// The timing of an op: its earliest start, its return, and whether it was in flight.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) start: Nanos,
    pub(crate) at: Nanos,
    pub(crate) in_flight: bool,
}

/// The durable content of a file, and the changes that later ops may have made to it. Its content after all ops that
/// returned is [`Tree::content`](crate::tree::Tree::content).
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Its last content, once it has no name and is not open.
    pub ended: Option<Content>,
    /// Content at the last sync, if it was ever synced.
    pub synced: Option<Content>,
    /// Content if the ops in flight took effect, if any.
    pub in_flight: Option<Content>,
    /// Byte ranges changed since the last sync: first, and one past the last.
    pub changed: Vec<(u64, u64)>,
    /// Minimum size since the last sync.
    pub shortest: u64,
    /// Time at which the first change since the last sync returned.
    pub since: Option<Nanos>,
    /// Time at which the last change returned.
    pub last: Nanos,
}

impl File {
    /// Marks the current content as durable.
    pub(crate) fn sync(&mut self, now: Content) {
        self.changed.clear();
        self.shortest = now.size();
        self.since = None;
        self.synced = Some(now);
    }

    /// Records a change of a byte range: first, and one past the last.
    pub(crate) fn change(&mut self, when: Timing, range: (u64, u64)) {
        self.changed.push(range);
        if !when.in_flight {
            self.last = when.at;
            self.since = self.since.or(Some(when.at));
        }
    }
}
