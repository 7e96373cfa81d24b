//! The disk-model interface: submit requests, advance virtual time, pop completions.

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read sectors.
    Read,
    /// Write sectors.
    Write,
    /// Persist all cached writes.
    Flush,
    /// Discard sectors.
    Trim,
}

/// A request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's identifier, returned on completion.
    pub id: u64,
    /// The kind of request.
    pub action: Action,
    /// The first sector, in units of 512 bytes.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// True if a write completes only once it is persisted (force unit access).
    pub fua: bool,
}

/// A model of service times, in virtual time. Time never goes backwards: a `now` earlier than that of a
/// previous call is treated as the latest one.
pub trait Disk: Send {
    /// Submits a request. Requests beyond the device's own queue depth wait in order of arrival.
    fn submit(&mut self, now: Nanos, request: Request);
    /// Returns the time at which the model must be called next, when a completion is due, or an event that may
    /// change the prediction. None if the device holds no request.
    fn next_due(&self) -> Option<Nanos>;
    /// Pops one completion that is due at `now` or earlier.
    fn pop_completed(&mut self, now: Nanos) -> Option<u64>;
    /// Pops a range of sectors (first and count) that was persisted by the time of the last call, so that
    /// a power cut can no longer lose it. Every written sector is reported here once it is persisted, whether
    /// it was cached or not, and before the flush that waits for it completes.
    fn pop_persisted(&mut self) -> Option<(u64, u64)>;
    /// Advances the time, so that [`Disk::pop_persisted`] and [`Disk::counters`] hold for `now`.
    fn advance_to(&mut self, now: Nanos);
    /// Returns the number of volatile bytes: those of completed writes that a power cut at `now` would lose.
    fn volatile_bytes(&mut self, now: Nanos) -> Bytes;
    /// Records a request that was served outside the trial's time (mkfs, verification): it takes
    /// no time and completes nothing, but changes the disk's state.
    fn note_untimed(&mut self, _request: Request) {}
    /// Returns the counters up to the time of the last call. Requests are counted when submitted.
    fn counters(&self) -> Device;
}

/// Counts a submitted request.
pub(crate) fn count(device: &mut Device, request: &Request) {
    let bytes = Bytes(u64::from(request.sectors) * crate::SECTOR);
    match request.action {
        Action::Read => {
            device.reads += 1;
            device.bytes_read = device.bytes_read + bytes;
        }
        Action::Write => {
            device.writes += 1;
            device.bytes_written = device.bytes_written + bytes;
        }
        Action::Flush => device.flushes += 1,
        Action::Trim => device.discards += 1,
    }
}
