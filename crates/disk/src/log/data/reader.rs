//! Reads the log of bytes, and rebuilds what the disk held.

use fsdyno_record::{Bytes, Nanos};

use super::{BLOCK, EVENT, Event, FUA, HEADER, MAGIC, RAW, SECTOR, UNTIMED, VERSION, What, blocks};
use crate::store::{Memory, Store, StoreError, To};

/// A log that is there as a whole.
///
/// ```
/// # use fsdyno_disk::log::data::{DataLog, Writer, What};
/// # use fsdyno_disk::{Action, Request, Store, store::View};
/// # use fsdyno_record::{Bytes, Nanos};
/// # let mut memory = vec![0u8; 1 << 20];
/// # let request = Request { id: 1, action: Action::Write, sector: 8, sectors: 8, fua: false };
/// # let mut writer = Writer::create(&mut memory, 1 << 20, Bytes(1 << 20));
/// # writer.begin(4096, 4096);
/// # writer.bytes(&[7; 4096]);
/// # let of = writer.whole(Nanos(5), &request, false);
/// # writer.answered(Nanos(6), &request, false, of);
/// let mut log = DataLog::open(memory).unwrap();
/// let written = log.request(0).unwrap(); // of the log of requests, too
/// assert_eq!(log.events()[written].what, What::Write);
/// let mut before = Store::create(vec![0; 1 << 20], log.capacity()).unwrap();
/// log.replay(0..written, &mut before).unwrap();
/// log.bytes_of(written, &mut |offset, bytes| assert_eq!((offset, bytes[0]), (4096, 7)));
/// ```
#[derive(Debug)]
pub struct DataLog<M> {
    memory: M,
    capacity: Bytes,
    events: Vec<Event>,
    /// By request: the event of its answer.
    answers: Vec<u32>,
    lost: u64,
}

impl<M: Memory> DataLog<M> {
    /// Opens the log that lies in a region; its events are read, their bytes only when asked for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(mut memory: M) -> Result<DataLog<M>, &'static str> {
        if memory.size() < HEADER {
            return Err("there is no log of bytes");
        }
        let [magic, version, end, count, answered, lost, capacity] = words(memory.slice(0, 56));
        if magic != MAGIC {
            return Err("there is no log of bytes");
        }
        if version != VERSION {
            return Err("the log of bytes is of another version");
        }
        if end > memory.size() || count > end / EVENT {
            return Err("the log of bytes counts more than it has room for");
        }
        let mut events = Vec::with_capacity(count as usize);
        let mut answers = Vec::with_capacity(answered.min(count) as usize);
        let mut at = HEADER;
        while (events.len() as u64) < count {
            if at + EVENT > end {
                return Err("an event of the log of bytes is cut off");
            }
            let (event, follows) = event(at, words(memory.slice(at, EVENT as usize)))
                .ok_or("an event of the log of bytes is damaged")?;
            if event.of.is_some_and(|of| of as usize >= events.len()) {
                return Err("the log of bytes answers what had not come");
            }
            if event.what == What::Answer {
                answers.push(events.len() as u32);
            }
            events.push(event);
            at += EVENT + follows;
        }
        if at != end {
            return Err("the log of bytes does not end where it says");
        }
        Ok(DataLog { memory, capacity: Bytes(capacity), events, answers, lost })
    }

    /// The disk's size.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Everything that happened, in its order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many events found no room; all of them came after those that are here.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How many requests were answered: as many as this disk's entries in the log of requests, and
    /// in the same order.
    pub fn requests(&self) -> usize {
        self.answers.len()
    }

    /// The event that brought a request (its write, flush or trim); of a read, of which nothing is
    /// here, its answer. Requests are numbered as they were answered, from 0. None where there is no
    /// such request.
    pub fn request(&self, number: usize) -> Option<usize> {
        let answer = *self.answers.get(number)? as usize;
        Some(self.events[answer].of.map_or(answer, |of| of as usize))
    }

    /// How many events there were until `time`, its own moment included.
    pub fn until(&self, time: Nanos) -> usize {
        self.events.partition_point(|event| event.at <= time)
    }

    /// Hands the bytes of a write to `out`, with the disk's byte where they lie, block by block;
    /// those of another event are none.
    pub fn bytes_of(&mut self, event: usize, out: &mut dyn FnMut(u64, &[u8])) {
        let Some(event) = self.events.get(event).copied() else { return };
        if event.what == What::Write {
            bytes(&mut self.memory, &event, out);
        }
    }

    /// Does to a store what `events` did to the disk's: with all events from the first on, an empty
    /// store becomes that of the disk at that moment, with both its views.
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
            match event.what {
                What::Write => {
                    let to = if event.untimed { To::Medium } else { To::Cache };
                    let mut done = Ok(());
                    bytes(&mut self.memory, &event, &mut |at, bytes| {
                        if done.is_ok() {
                            done = store.write_bytes(to, at, bytes);
                        }
                    });
                    done?;
                }
                What::Land => store.land(event.sector, event.sectors.into()),
                What::LandAll => store.land_all(),
                What::Trim => {
                    store.trim(event.sector * SECTOR, u64::from(event.sectors) * SECTOR);
                }
                What::Flush | What::Answer => {}
            }
        }
        Ok(())
    }
}

/// The bytes of a write, block by block.
fn bytes(memory: &mut impl Memory, event: &Event, out: &mut dyn FnMut(u64, &[u8])) {
    let (offset, length) = (event.sector * SECTOR, u64::from(event.sectors) * SECTOR);
    let table = (blocks(offset, length) * 2).next_multiple_of(8);
    let mut codes = memory.slice(event.place, table as usize).to_vec();
    codes.truncate(blocks(offset, length) as usize * 2);
    let (mut at, mut from) = (offset, event.place + table);
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

/// An event, and how many bytes follow it.
fn event(at: u64, [time, second, sector, last]: [u64; 4]) -> Option<(Event, u64)> {
    let what = *What::ALL.get((second >> 32) as u8 as usize)?;
    let flags = (second >> 40) as u8;
    let follows = if what == What::Write { last } else { 0 };
    let of = (what == What::Answer).then(|| (last as u32).checked_sub(1)).flatten();
    let event = Event {
        at: Nanos(time),
        what,
        fua: flags & FUA != 0,
        untimed: flags & UNTIMED != 0,
        sector,
        sectors: second as u32,
        of,
        place: at + EVENT,
    };
    Some((event, follows))
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
    }
    words
}
