//! Reads the data log, and rebuilds the disk's content.

use fsdyno_record::{Bytes, Nanos};

use super::{
    BLOCK, EVENT, Event, EventKind, FUA, HEADER, MAGIC, RAW, SECTOR, UNTIMED, VERSION, blocks,
};
use crate::store::{Destination, Memory, Store, StoreError};

/// A complete data log.
///
/// ```
/// # use fsdyno_disk::log::data::{DataLog, Writer, EventKind};
/// # use fsdyno_disk::{Action, Request, Store, store::View};
/// # use fsdyno_record::{Bytes, Nanos};
/// # let mut memory = vec![0u8; 1 << 20];
/// # let request = Request { id: 1, action: Action::Write, sector: 8, sectors: 8, fua: false };
/// # let mut writer = Writer::create(&mut memory, 1 << 20, Bytes(1 << 20));
/// # writer.begin_write(4096, 4096);
/// # writer.add_bytes(&[7; 4096]);
/// # let of = writer.end_write(Nanos(5), &request, false);
/// # writer.add_reply(Nanos(6), &request, false, of);
/// let mut log = DataLog::open(memory).unwrap();
/// let written = log.request(0).unwrap(); // number 0 of the request log, too
/// assert_eq!(log.events()[written].kind, EventKind::Write);
/// let mut before = Store::create(vec![0; 1 << 20], log.capacity()).unwrap();
/// log.replay(0..written, &mut before).unwrap();
/// log.bytes_of(written, &mut |offset, bytes| assert_eq!((offset, bytes[0]), (4096, 7)));
/// ```
#[derive(Debug)]
pub struct DataLog<M> {
    memory: M,
    capacity: Bytes,
    events: Vec<Event>,
    /// Index of each request's reply among the events.
    replies: Vec<u32>,
    lost: u64,
}

impl<M: Memory> DataLog<M> {
    /// Opens the log in a region; reads all events, but their bytes only on request.
    ///
    /// # Errors
    /// A description of the problem.
    pub fn open(mut memory: M) -> Result<DataLog<M>, &'static str> {
        if memory.size() < HEADER {
            return Err("no data log found");
        }
        let [magic, version, end, count, reply_count, lost, capacity] =
            parse_words(memory.slice(0, 56));
        if magic != MAGIC {
            return Err("no data log found");
        }
        if version != VERSION {
            return Err("the data log has an unsupported version");
        }
        if end > memory.size() || count > end / EVENT {
            return Err("the data log has more events than fit");
        }
        let mut events = Vec::with_capacity(count as usize);
        let mut replies = Vec::with_capacity(reply_count.min(count) as usize);
        let mut at = HEADER;
        while (events.len() as u64) < count {
            if at + EVENT > end {
                return Err("an event of the data log is truncated");
            }
            let (event, payload) = parse_event(at, parse_words(memory.slice(at, EVENT as usize)))
                .ok_or("an event of the data log is damaged")?;
            if event.request.is_some_and(|request| request as usize >= events.len()) {
                return Err("the data log has a reply before its request");
            }
            if event.kind == EventKind::Reply {
                replies.push(events.len() as u32);
            }
            events.push(event);
            at += EVENT + payload;
        }
        if at != end {
            return Err("the data log does not end at the offset stated in its header");
        }
        Ok(DataLog { memory, capacity: Bytes(capacity), events, replies, lost })
    }

    /// Returns the disk's size.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Returns all events, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the number of events lost because the log was full; all of them came after the events stored here.
    pub fn lost_events(&self) -> u64 {
        self.lost
    }

    /// Returns the number of completed requests. This disk's entries in the request log have the same number and
    /// the same order.
    pub fn requests(&self) -> usize {
        self.replies.len()
    }

    /// Returns the index of a request's event (its write, flush or trim), or the index of its reply for a read, which
    /// has no event. Requests are numbered in order of completion, from 0. Returns none if the request does not exist.
    pub fn request(&self, number: usize) -> Option<usize> {
        let reply = *self.replies.get(number)? as usize;
        Some(self.events[reply].request.map_or(reply, |request| request as usize))
    }

    /// Returns the number of events up to and including `time`.
    pub fn events_until(&self, time: Nanos) -> usize {
        self.events.partition_point(|event| event.at <= time)
    }

    /// Passes the bytes of a write to `out`, with their offset on the disk, block by block;
    /// other events have none.
    pub fn bytes_of(&mut self, event: usize, out: &mut dyn FnMut(u64, &[u8])) {
        let Some(event) = self.events.get(event).copied() else { return };
        if event.kind == EventKind::Write {
            pass_bytes(&mut self.memory, &event, out);
        }
    }

    /// Applies `events` to a store. Applying all events from the first on to an empty store reproduces the disk's
    /// store as of the last of them, in both views.
    ///
    /// # Errors
    /// A store that is too small.
    pub fn replay<N: Memory>(
        &mut self,
        events: std::ops::Range<usize>,
        store: &mut Store<N>,
    ) -> Result<(), StoreError<std::convert::Infallible>> {
        for index in events {
            let Some(event) = self.events.get(index).copied() else { break };
            match event.kind {
                EventKind::Write => {
                    let to = if event.untimed { Destination::Medium } else { Destination::Cache };
                    let mut result = Ok(());
                    pass_bytes(&mut self.memory, &event, &mut |at, bytes| {
                        if result.is_ok() {
                            result = store.write_bytes(to, at, bytes);
                        }
                    });
                    result?;
                }
                EventKind::Persist => store.persist(event.sector, event.sectors.into()),
                EventKind::PersistAll => store.persist_all(),
                EventKind::Trim => {
                    store.trim(event.sector * SECTOR, u64::from(event.sectors) * SECTOR);
                }
                EventKind::Flush | EventKind::Reply => {}
            }
        }
        Ok(())
    }
}

/// Passes the bytes of a write to `out`, block by block.
fn pass_bytes(memory: &mut impl Memory, event: &Event, out: &mut dyn FnMut(u64, &[u8])) {
    let (offset, length) = (event.sector * SECTOR, u64::from(event.sectors) * SECTOR);
    let table = (blocks(offset, length) * 2).next_multiple_of(8);
    let mut codes = memory.slice(event.offset, table as usize).to_vec();
    codes.truncate(blocks(offset, length) as usize * 2);
    let (mut at, mut from) = (offset, event.offset + table);
    for code in codes.chunks_exact(2) {
        let end = ((at / BLOCK + 1) * BLOCK).min(offset + length);
        let take = (end - at) as usize;
        match u16::from_le_bytes([code[0], code[1]]) {
            RAW => {
                out(at, memory.slice(from, take));
                from += take as u64;
            }
            byte => out(at, &[byte as u8; BLOCK as usize][..take]),
        }
        at = end;
    }
}

/// Parses an event; returns it with the number of bytes that follow.
fn parse_event(offset: u64, [time, second, sector, last]: [u64; 4]) -> Option<(Event, u64)> {
    let kind = *EventKind::ALL.get((second >> 32) as u8 as usize)?;
    let flags = (second >> 40) as u8;
    let payload = if kind == EventKind::Write { last } else { 0 };
    let request = (kind == EventKind::Reply).then(|| (last as u32).checked_sub(1)).flatten();
    let event = Event {
        at: Nanos(time),
        kind,
        fua: flags & FUA != 0,
        untimed: flags & UNTIMED != 0,
        sector,
        sectors: second as u32,
        request,
        offset: offset + EVENT,
    };
    Some((event, payload))
}

fn parse_words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
    }
    words
}
