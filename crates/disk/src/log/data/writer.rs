//! Writes the data log of one disk.

use std::sync::atomic::{Ordering, compiler_fence};

use fsdyno_record::{Bytes, Nanos};

use super::{BLOCK, EVENT, EventKind, FUA, HEADER, MAGIC, RAW, UNTIMED, VERSION, blocks};
use crate::disk::Request;
use crate::store::Memory;

/// The writer of a data log.
pub struct Writer<M> {
    memory: M,
    /// End of the writable bytes.
    limit: u64,
    end: u64,
    events: u64,
    completed: u64,
    lost: u64,
    write: Write,
}

/// A write in progress.
#[derive(Clone, Copy, Default)]
struct Write {
    /// The next byte's offset on the disk.
    next: u64,
    /// Offset of that byte's block in the event's table of blocks (a repeated byte, or raw bytes).
    entry: u64,
    /// Offset of that byte in the region.
    destination: u64,
    /// True if the write fits.
    fits: bool,
}

impl<M: Memory> Writer<M> {
    /// Creates an empty log of a disk of `capacity` in the first `size` bytes of a region.
    pub fn create(memory: M, size: u64, capacity: Bytes) -> Writer<M> {
        let limit = size.min(memory.size());
        let write = Write::default();
        let mut writer =
            Writer { memory, limit, end: HEADER, events: 0, completed: 0, lost: 0, write };
        if limit >= HEADER {
            write_words(writer.memory.slice(0, 16), [MAGIC, VERSION]);
            write_words(writer.memory.slice(48, 8), [capacity.0]);
            writer.commit();
        }
        writer
    }

    /// Begins a write of `length` bytes at `offset` on the disk.
    pub fn begin_write(&mut self, offset: u64, length: u64) {
        let entry = self.end + EVENT;
        let table = (blocks(offset, length) * 2).next_multiple_of(8);
        let destination = entry + table;
        let fits = self.lost == 0 && destination + length.next_multiple_of(8) <= self.limit;
        self.write = Write { next: offset, entry, destination, fits };
    }

    /// Adds the next bytes of the write.
    pub fn add_bytes(&mut self, mut bytes: &[u8]) {
        if !self.write.fits {
            return;
        }
        while !bytes.is_empty() {
            let remaining_in_block = (BLOCK - self.write.next % BLOCK) as usize;
            let (part, remaining) = bytes.split_at(remaining_in_block.min(bytes.len()));
            self.add_part(part);
            bytes = remaining;
        }
    }

    /// Adds bytes of one block. Only a whole block in one part can be stored as a repeated byte; others are raw.
    fn add_part(&mut self, part: &[u8]) {
        let Write { next, entry, destination, .. } = self.write;
        let end = next + part.len() as u64;
        let is_whole = part.len() as u64 == BLOCK;
        let code = match repeated_byte(part) {
            Some(byte) if is_whole => u16::from(byte),
            _ => RAW,
        };
        self.memory.slice(entry, 2).copy_from_slice(&code.to_le_bytes());
        if code == RAW {
            self.memory.slice(destination, part.len()).copy_from_slice(part);
            self.write.destination = destination + part.len() as u64;
        }
        self.write.next = end;
        if end % BLOCK == 0 {
            self.write.entry += 2;
        }
    }

    /// Ends a write and adds its event; returns the event's number, from 1.
    pub fn end_write(&mut self, at: Nanos, request: &Request, untimed: bool) -> u32 {
        if !self.write.fits {
            self.count_lost();
            return 0;
        }
        let payload = self.write.destination.next_multiple_of(8) - self.end - EVENT;
        self.add_event(at, EventKind::Write, request, untimed, payload)
    }

    /// Adds a request without bytes (a flush or a trim); returns its event's number, from 1.
    pub fn add_request(
        &mut self,
        at: Nanos,
        kind: EventKind,
        request: &Request,
        untimed: bool,
    ) -> u32 {
        self.add_event(at, kind, request, untimed, 0)
    }

    /// Adds an event stating that these sectors have been persisted.
    pub fn add_persisted(&mut self, at: Nanos, first: u64, count: u64) {
        let mut from = first;
        while from < first + count {
            let take = (first + count - from).min(u32::MAX.into());
            self.add_event(at, EventKind::Persist, &range_request(from, take as u32), false, 0);
            from += take;
        }
    }

    /// Adds an event stating that all sectors have been persisted.
    pub fn add_all_persisted(&mut self, at: Nanos) {
        self.add_event(at, EventKind::PersistAll, &range_request(0, 0), true, 0);
    }

    /// Adds the reply to the request with event number `event`, from 1, or 0 for a request without an event.
    pub fn add_reply(&mut self, at: Nanos, request: &Request, untimed: bool, event: u32) {
        self.completed += 1;
        self.add_event(at, EventKind::Reply, request, untimed, event.into());
    }

    fn add_event(
        &mut self,
        at: Nanos,
        kind: EventKind,
        request: &Request,
        untimed: bool,
        payload_or_event: u64,
    ) -> u32 {
        if self.lost > 0 || self.end + EVENT > self.limit {
            self.count_lost();
            return 0;
        }
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = bit(request.fua, FUA) | bit(untimed, UNTIMED);
        let second = u64::from(request.sectors) | ((kind as u64) << 32) | (u64::from(flags) << 40);
        write_words(
            self.memory.slice(self.end, EVENT as usize),
            [at.0, second, request.sector, payload_or_event],
        );
        self.end += EVENT + if kind == EventKind::Write { payload_or_event } else { 0 };
        self.events += 1;
        self.commit();
        self.events as u32
    }

    /// Counts a lost event; nothing is added after it, since a log with a hole is useless.
    fn count_lost(&mut self) {
        self.lost += 1;
        if self.limit >= HEADER {
            self.commit();
        }
    }

    /// Writes the end and the counts after an event, so that a guest that is killed leaves only complete events.
    fn commit(&mut self) {
        compiler_fence(Ordering::SeqCst);
        let words = [self.end, self.events, self.completed, self.lost];
        write_words(self.memory.slice(16, 32), words);
        compiler_fence(Ordering::SeqCst);
    }
}

fn range_request(sector: u64, sectors: u32) -> Request {
    Request { id: 0, action: crate::Action::Write, sector, sectors, fua: false }
}

/// Returns the byte that fills a whole part, if any.
fn repeated_byte(part: &[u8]) -> Option<u8> {
    let (byte, rest) = part.split_first()?;
    (*rest == part[..rest.len()]).then_some(*byte)
}

fn write_words<const N: usize>(bytes: &mut [u8], words: [u64; N]) {
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}
