//! The drive's command queue: admission up to the queue depth.

use std::collections::VecDeque;

use fsdyno_record::Nanos;

use super::geometry::Position;
use crate::disk::{Action, Request};

/// Initial capacity for requests that wait for admission: more than the tags of any block driver. Beyond it,
/// the queue would allocate memory, but lose nothing.
const WAITING_CAPACITY: usize = 1024;

/// A request in the drive.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The submitted request.
    pub request: Request,
    /// Time of submission.
    pub arrived: Nanos,
    /// The first sector not yet transferred.
    pub from: u64,
    /// Position of that sector.
    pub position: Position,
}

impl Command {
    /// Returns one past the last sector.
    pub fn end(&self) -> u64 {
        self.request.sector + u64::from(self.request.sectors)
    }
}

/// A queue that admits at most `depth` requests; the others wait in order of arrival.
#[derive(Debug)]
pub struct Queue {
    depth: usize,
    flush_alone: bool,
    waiting: VecDeque<(Nanos, Request)>,
    admitted: usize,
    /// True while a flush runs alone in the drive.
    closed: bool,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(depth: u32, flush_alone: bool) -> Queue {
        let waiting = VecDeque::with_capacity(WAITING_CAPACITY);
        Queue { depth: depth.max(1) as usize, flush_alone, waiting, admitted: 0, closed: false }
    }

    /// Adds a request that waits for admission.
    pub fn push(&mut self, now: Nanos, request: Request) {
        self.waiting.push_back((now, request));
    }

    /// Admits the next request, if that is possible now.
    pub fn admit(&mut self) -> Option<(Nanos, Request)> {
        let (_, next) = self.waiting.front()?;
        let alone = self.flush_alone && next.action == Action::Flush;
        if self.closed || self.admitted >= self.depth || (alone && self.admitted > 0) {
            return None;
        }
        self.closed = alone;
        self.admitted += 1;
        self.waiting.pop_front()
    }

    /// Removes a completed request.
    pub fn leave(&mut self) {
        self.admitted = self.admitted.saturating_sub(1);
        // A closed queue holds only its flush.
        self.closed = false;
    }

    /// Returns the number of admitted requests.
    pub fn admitted_count(&self) -> usize {
        self.admitted
    }

    /// Returns the number of admitted and waiting requests.
    pub fn in_flight(&self) -> usize {
        self.admitted + self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u64, action: Action) -> Request {
        Request { id, action, sector: 0, sectors: 8, fua: false }
    }

    #[test]
    fn at_most_depth_requests_are_admitted_and_the_others_in_order() {
        let mut queue = Queue::new(2, false);
        for id in 0..4 {
            queue.push(Nanos(id), request(id, Action::Read));
        }
        let ids: Vec<u64> = std::iter::from_fn(|| queue.admit()).map(|(_, r)| r.id).collect();
        assert_eq!((ids, queue.in_flight()), (vec![0, 1], 4));
        queue.leave();
        assert_eq!(queue.admit().map(|(at, r)| (at, r.id)), Some((Nanos(2), 2)));
        assert!(queue.admit().is_none());
    }

    #[test]
    fn a_flush_that_is_not_a_queued_command_runs_alone() {
        let mut queue = Queue::new(8, true);
        queue.push(Nanos(0), request(0, Action::Write));
        queue.push(Nanos(0), request(1, Action::Flush));
        queue.push(Nanos(0), request(2, Action::Write));
        assert_eq!(queue.admit().map(|(_, r)| r.id), Some(0));
        assert!(queue.admit().is_none(), "the flush was admitted during a write");
        queue.leave();
        assert_eq!(queue.admit().map(|(_, r)| r.id), Some(1));
        assert!(queue.admit().is_none(), "a write was admitted during the flush");
        queue.leave();
        assert_eq!(queue.admit().map(|(_, r)| r.id), Some(2));
    }
}
