//! Writes the log of bytes; one for each disk.

use std::sync::atomic::{Ordering, compiler_fence};

use fsdyno_record::{Bytes, Nanos};

use super::{BLOCK, EVENT, FUA, HEADER, MAGIC, RAW, UNTIMED, VERSION, What, blocks};
use crate::disk::Request;
use crate::store::Memory;

/// The writing end.
pub struct Writer<M> {
    memory: M,
    /// One past the last byte that may be written.
    limit: u64,
    end: u64,
    events: u64,
    answered: u64,
    lost: u64,
    write: Write,
}

/// A write of which bytes are coming.
#[derive(Clone, Copy, Default)]
struct Write {
    /// The disk's byte that comes next.
    next: u64,
    /// Where the table's entry of its block lies.
    entry: u64,
    /// Where its bytes go.
    to: u64,
    /// Whether there was room for it.
    fits: bool,
}

impl<M: Memory> Writer<M> {
    /// An empty log of a disk of `capacity` in the first `size` bytes of a region.
    pub fn create(memory: M, size: u64, capacity: Bytes) -> Writer<M> {
        let limit = size.min(memory.size());
        let write = Write::default();
        let mut writer =
            Writer { memory, limit, end: HEADER, events: 0, answered: 0, lost: 0, write };
        if limit >= HEADER {
            put(writer.memory.slice(0, 16), [MAGIC, VERSION]);
            put(writer.memory.slice(48, 8), [capacity.0]);
            writer.commit();
        }
        writer
    }

    /// The bytes of a write begin to come: `length` of them, for the disk's byte `offset` on.
    pub fn begin(&mut self, offset: u64, length: u64) {
        let entry = self.end + EVENT;
        let table = (blocks(offset, length) * 2).next_multiple_of(8);
        let to = entry + table;
        let fits = self.lost == 0 && to + length.next_multiple_of(8) <= self.limit;
        self.write = Write { next: offset, entry, to, fits };
    }

    /// The next bytes of it.
    pub fn bytes(&mut self, mut bytes: &[u8]) {
        if !self.write.fits {
            return;
        }
        while !bytes.is_empty() {
            let left = (BLOCK - self.write.next % BLOCK) as usize;
            let (part, rest) = bytes.split_at(left.min(bytes.len()));
            self.part(part);
            bytes = rest;
        }
    }

    /// Bytes of one block. A block that comes in several parts is raw from its first that is.
    fn part(&mut self, part: &[u8]) {
        let Write { next, entry, to, .. } = self.write;
        let ends = next + part.len() as u64;
        let whole = part.len() as u64 == BLOCK;
        let code = match repeated(part) {
            Some(byte) if whole => u16::from(byte),
            _ => RAW,
        };
        self.memory.slice(entry, 2).copy_from_slice(&code.to_le_bytes());
        if code == RAW {
            self.memory.slice(to, part.len()).copy_from_slice(part);
            self.write.to = to + part.len() as u64;
        }
        self.write.next = ends;
        if ends % BLOCK == 0 {
            self.write.entry += 2;
        }
    }

    /// All of it came; it counts from now on.
    pub fn whole(&mut self, at: Nanos, request: &Request, untimed: bool) -> u32 {
        if !self.write.fits {
            self.lose();
            return 0;
        }
        let follows = self.write.to.next_multiple_of(8) - self.end - EVENT;
        self.event(at, What::Write, request, untimed, follows)
    }

    /// Something came that has no bytes: a flush, a trim; its number, from 1.
    pub fn came(&mut self, at: Nanos, what: What, request: &Request, untimed: bool) -> u32 {
        self.event(at, what, request, untimed, 0)
    }

    /// Sectors are on the medium.
    pub fn landed(&mut self, at: Nanos, first: u64, count: u64) {
        let mut from = first;
        while from < first + count {
            let take = (first + count - from).min(u32::MAX.into());
            self.event(at, What::Land, &range(from, take as u32), false, 0);
            from += take;
        }
    }

    /// All sectors are.
    pub fn landed_all(&mut self, at: Nanos) {
        self.event(at, What::LandAll, &range(0, 0), true, 0);
    }

    /// A request was answered: that of event number `of`, from 1; 0 for one that changes nothing.
    pub fn answered(&mut self, at: Nanos, request: &Request, untimed: bool, of: u32) {
        self.answered += 1;
        self.event(at, What::Answer, request, untimed, of.into());
    }

    fn event(&mut self, at: Nanos, what: What, of: &Request, untimed: bool, last: u64) -> u32 {
        if self.lost > 0 || self.end + EVENT > self.limit {
            self.lose();
            return 0;
        }
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = bit(of.fua, FUA) | bit(untimed, UNTIMED);
        let second = u64::from(of.sectors) | ((what as u64) << 32) | (u64::from(flags) << 40);
        put(self.memory.slice(self.end, EVENT as usize), [at.0, second, of.sector, last]);
        self.end += EVENT + if what == What::Write { last } else { 0 };
        self.events += 1;
        self.commit();
        self.events as u32
    }

    /// What finds no room is counted, and nothing comes after it: a log with a hole is none.
    fn lose(&mut self) {
        self.lost += 1;
        if self.limit >= HEADER {
            self.commit();
        }
    }

    /// The count is written after the event, so a guest that is cut leaves whole events only.
    fn commit(&mut self) {
        compiler_fence(Ordering::SeqCst);
        let words = [self.end, self.events, self.answered, self.lost];
        put(self.memory.slice(16, 32), words);
        compiler_fence(Ordering::SeqCst);
    }
}

fn range(sector: u64, sectors: u32) -> Request {
    Request { id: 0, action: crate::Action::Write, sector, sectors, fua: false }
}

/// The byte that fills all of a part; none at the first that differs.
fn repeated(part: &[u8]) -> Option<u8> {
    let (byte, rest) = part.split_first()?;
    (*rest == part[..rest.len()]).then_some(*byte)
}

fn put<const N: usize>(bytes: &mut [u8], words: [u64; N]) {
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}
