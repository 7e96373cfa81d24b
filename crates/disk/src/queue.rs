//! The drive's command queue seen from outside: who is let in, and when.

use std::collections::VecDeque;

use fsdyno_record::Nanos;

use crate::disk::{Action, Request};
use crate::geometry::Place;

/// Room for requests that wait outside, more than the tags of any block driver; beyond it the
/// queue would allocate, and still lose nothing.
const ROOM_OUTSIDE: usize = 1024;

/// A request that the drive holds.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// As it was submitted.
    pub request: Request,
    /// When it was submitted.
    pub arrived: Nanos,
    /// The first sector that still has to pass under the head.
    pub from: u64,
    /// Where that is.
    pub place: Place,
}

impl Command {
    /// One past the last sector.
    pub fn end(&self) -> u64 {
        self.request.sector + u64::from(self.request.sectors)
    }
}

/// Lets at most `depth` requests in, the others wait in order of arrival.
#[derive(Debug)]
pub struct Queue {
    depth: usize,
    flush_alone: bool,
    outside: VecDeque<(Nanos, Request)>,
    inside: usize,
    /// A flush is in the drive that shares it with no other command.
    closed: bool,
}

impl Queue {
    /// An empty queue.
    pub fn new(depth: u32, flush_alone: bool) -> Queue {
        let outside = VecDeque::with_capacity(ROOM_OUTSIDE);
        Queue { depth: depth.max(1) as usize, flush_alone, outside, inside: 0, closed: false }
    }

    /// Puts a request at the end of those that wait outside.
    pub fn push(&mut self, now: Nanos, request: Request) {
        self.outside.push_back((now, request));
    }

    /// Lets the next request in, if it may come in now.
    pub fn admit(&mut self) -> Option<(Nanos, Request)> {
        let (_, next) = self.outside.front()?;
        let alone = self.flush_alone && next.action == Action::Flush;
        if self.closed || self.inside >= self.depth || (alone && self.inside > 0) {
            return None;
        }
        self.closed = alone;
        self.inside += 1;
        self.outside.pop_front()
    }

    /// A request that had been let in is done.
    pub fn leave(&mut self) {
        self.inside = self.inside.saturating_sub(1);
        // A closed queue holds only the flush that closed it.
        self.closed = false;
    }

    /// Requests in the drive.
    pub fn inside(&self) -> usize {
        self.inside
    }

    /// Requests in the drive and before it.
    pub fn in_flight(&self) -> usize {
        self.inside + self.outside.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u64, action: Action) -> Request {
        Request { id, action, sector: 0, sectors: 8, fua: false }
    }

    #[test]
    fn no_more_than_its_depth_come_in_and_the_others_in_order() {
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
    fn a_flush_that_is_no_queued_command_has_the_drive_to_itself() {
        let mut queue = Queue::new(8, true);
        queue.push(Nanos(0), request(0, Action::Write));
        queue.push(Nanos(0), request(1, Action::Flush));
        queue.push(Nanos(0), request(2, Action::Write));
        assert_eq!(queue.admit().map(|(_, r)| r.id), Some(0));
        assert!(queue.admit().is_none(), "the flush came in beside a write");
        queue.leave();
        assert_eq!(queue.admit().map(|(_, r)| r.id), Some(1));
        assert!(queue.admit().is_none(), "a write came in beside the flush");
        queue.leave();
        assert_eq!(queue.admit().map(|(_, r)| r.id), Some(2));
    }
}
