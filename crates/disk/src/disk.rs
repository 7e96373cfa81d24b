//! What a disk is to the one who serves it: requests go in, completions come out, time is told.

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos};

use crate::model::Model;
use crate::models::{hdd, instant, ssd};
use crate::spec::DiskSpec;

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read sectors.
    Read,
    /// Write sectors.
    Write,
    /// Bring everything cached to the platter.
    Flush,
    /// Forget sectors.
    Trim,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it, given back on completion.
    pub id: u64,
    /// What is asked.
    pub action: Action,
    /// The first sector, in units of 512 bytes.
    pub sector: u64,
    /// How many sectors.
    pub sectors: u32,
    /// For a write: it completes only when it is on the platter.
    pub fua: bool,
}

/// A law of service times, in virtual time. Time never goes back: a `now` earlier than one told
/// before counts as that one.
pub trait Disk: Send {
    /// Takes a request. Those beyond the device's own queue depth wait outside in order of arrival.
    fn submit(&mut self, now: Nanos, request: Request);
    /// When to ask again: the next completion is due then, or an event without which it cannot
    /// be foretold. None when no request is in the device.
    fn next_due(&self) -> Option<Nanos>;
    /// Pops one completion that is due at `now` or before.
    fn completed(&mut self, now: Nanos) -> Option<u64>;
    /// Pops a range of sectors, first and count, that has reached the medium by the last instant told:
    /// a power cut no longer loses it. Every written sector comes up here once it is there, whether
    /// it went through the cache or not, and before the flush that it was waited for by completes.
    fn landed(&mut self) -> Option<(u64, u64)>;
    /// Bytes of completed writes that a power cut at `now` would lose.
    fn volatile_bytes(&mut self, now: Nanos) -> Bytes;
    /// Learns of a request that was served outside the trial's time (mkfs, verification): it takes
    /// none and completes nothing, but what a disk remembers of its contents changes.
    fn outside_time(&mut self, _request: Request) {}
    /// What was done up to the last instant told. Requests count when they are submitted.
    fn counters(&self) -> Device;
}

/// A disk at rest, its platter at an angle drawn from `seed`.
///
/// The spec must be valid ([`DiskSpec::validate`]); one that is not gives a disk whose times mean
/// nothing.
pub fn build(spec: &DiskSpec, seed: u64) -> Box<dyn Disk> {
    match &spec.model {
        Model::Instant(_) => Box::new(instant::InstantDisk::new()),
        Model::Hdd(parameters) => Box::new(hdd::HardDisk::new(spec, parameters, seed)),
        Model::Ssd(parameters) => Box::new(ssd::SolidStateDisk::new(spec, parameters, seed)),
    }
}

/// Counts a request that was handed in.
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
