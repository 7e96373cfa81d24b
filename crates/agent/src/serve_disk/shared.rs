//! What the disk's server and the trial tell each other through shared memory.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos};

use crate::memory::shared_with_children;

/// One side's view; both processes hold the same words.
#[derive(Clone, Copy, Debug)]
pub struct Shared(&'static [AtomicU64]);

#[derive(Clone, Copy)]
#[repr(usize)]
enum Word {
    /// 1 while requests take no time: mkfs, verification, check.
    Untimed,
    Reads,
    Writes,
    Flushes,
    Discards,
    BytesRead,
    BytesWritten,
    /// Movements of the arm plus one; 0 where there is no arm.
    Seeks,
    Busy,
    Peak,
    Stored,
    /// The first error number that the server had to answer with; zero for none.
    Failed,
    /// Bytes in the drive's volatile cache when the last flush was answered.
    VolatileAfterFlush,
    /// Sum over timed requests of how much later than due they were answered.
    Late,
    Count,
}

impl Shared {
    /// Fresh words, all zero.
    ///
    /// # Errors
    /// What mmap(2) reports.
    pub fn new() -> io::Result<Shared> {
        Ok(Shared(shared_with_children(Word::Count as usize)?))
    }

    fn get(&self, word: Word) -> u64 {
        self.0[word as usize].load(Ordering::Acquire)
    }

    fn set(&self, word: Word, value: u64) {
        self.0[word as usize].store(value, Ordering::Release);
    }

    /// Trial: whether requests take the model's time from now on.
    pub fn set_timed(&self, timed: bool) {
        self.set(Word::Untimed, u64::from(!timed));
    }

    pub(super) fn timed(&self) -> bool {
        self.get(Word::Untimed) == 0
    }

    pub(super) fn publish(&self, device: &Device, stored: Bytes) {
        self.set(Word::Reads, device.reads);
        self.set(Word::Writes, device.writes);
        self.set(Word::Flushes, device.flushes);
        self.set(Word::Discards, device.discards);
        self.set(Word::BytesRead, device.bytes_read.0);
        self.set(Word::BytesWritten, device.bytes_written.0);
        self.set(Word::Seeks, device.seeks.map_or(0, |seeks| seeks + 1));
        self.set(Word::Busy, device.busy_ns.unwrap_or_default().0);
        self.set(Word::Stored, stored.0);
    }

    pub(super) fn in_flight(&self, now: usize) {
        self.set(Word::Peak, self.get(Word::Peak).max(now as u64));
    }

    /// Trial: the most requests in flight are counted from now on.
    pub fn reset_peak(&self) {
        self.set(Word::Peak, 0);
    }

    pub(super) fn answered(&self, late: Nanos) {
        self.set(Word::Late, self.get(Word::Late) + late.0);
    }

    pub(super) fn fail(&self, errno: u32) {
        if self.get(Word::Failed) == 0 {
            self.set(Word::Failed, u64::from(errno));
        }
    }

    pub(super) fn set_volatile(&self, bytes: Bytes) {
        self.set(Word::VolatileAfterFlush, bytes.0);
    }

    /// Trial: whether the drive's volatile cache was empty when it answered the last flush.
    pub fn flushed(&self) -> bool {
        self.get(Word::VolatileAfterFlush) == 0
    }

    /// Trial: the disk's counters so far.
    pub fn device(&self) -> Device {
        Device {
            reads: self.get(Word::Reads),
            writes: self.get(Word::Writes),
            flushes: self.get(Word::Flushes),
            discards: self.get(Word::Discards),
            bytes_read: Bytes(self.get(Word::BytesRead)),
            bytes_written: Bytes(self.get(Word::BytesWritten)),
            seeks: self.get(Word::Seeks).checked_sub(1),
            busy_ns: Some(Nanos(self.get(Word::Busy))),
            peak_in_flight: Some(self.get(Word::Peak)),
        }
    }

    /// Trial: the error that the server had to answer with, if any.
    pub fn failed(&self) -> Option<io::Error> {
        let errno = self.get(Word::Failed);
        (errno != 0).then(|| io::Error::from_raw_os_error(errno as i32))
    }

    /// Trial: how much later than due the answers went out, summed over all timed requests.
    pub fn late(&self) -> Nanos {
        Nanos(self.get(Word::Late))
    }
}
