//! The shared memory through which the disk's server and the trial communicate.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos};

use crate::memory::shared_with_children;

/// One process's view of the memory; both processes access the same words.
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
    /// Arm movements plus one; 0 if the disk has no arm.
    Seeks,
    Busy,
    Peak,
    Stored,
    /// The first error number that the server had to reply with, or zero if there was none.
    Failed,
    /// Bytes in the drive's volatile cache when the last flush was answered.
    VolatileAfterFlush,
    /// The lateness of replies, summed over all timed requests.
    Late,
    Count,
}

impl Shared {
    /// Creates words that are all zero.
    ///
    /// # Errors
    /// Errors from mmap(2).
    pub fn new() -> io::Result<Shared> {
        Ok(Shared(shared_with_children(Word::Count as usize)?))
    }

    fn get(&self, word: Word) -> u64 {
        self.0[word as usize].load(Ordering::Acquire)
    }

    fn set(&self, word: Word, value: u64) {
        self.0[word as usize].store(value, Ordering::Release);
    }

    /// Sets whether requests take the model's time from now on. Called by the trial.
    pub fn set_timed(&self, timed: bool) {
        self.set(Word::Untimed, u64::from(!timed));
    }

    pub(super) fn is_timed(&self) -> bool {
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

    pub(super) fn note_in_flight(&self, now: usize) {
        self.set(Word::Peak, self.get(Word::Peak).max(now as u64));
    }

    /// Restarts counting the maximum number of requests in flight. Called by the trial.
    pub fn reset_peak(&self) {
        self.set(Word::Peak, 0);
    }

    pub(super) fn count_answer(&self, late: Nanos) {
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

    /// Returns true if the drive's volatile cache was empty when it answered the last flush. Called by the trial.
    pub fn is_flushed(&self) -> bool {
        self.get(Word::VolatileAfterFlush) == 0
    }

    /// Returns the disk's counters so far. Called by the trial.
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

    /// Returns the error that the server had to reply with, if any. Called by the trial.
    pub fn error(&self) -> Option<io::Error> {
        let errno = self.get(Word::Failed);
        (errno != 0).then(|| io::Error::from_raw_os_error(errno as i32))
    }

    /// Returns the lateness of replies, summed over all timed requests. Called by the trial.
    pub fn lateness(&self) -> Nanos {
        Nanos(self.get(Word::Late))
    }
}
