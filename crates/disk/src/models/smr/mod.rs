//! A drive-managed shingled disk: a hard disk whose tracks overlap in bands, with a media cache and cleaning.
//!
//! The underlying hard disk ([`HardDisk`]) has the arm, the platter, the command queue and the volatile cache. From
//! the outer edge inwards it holds the media cache, one scratch band, and the bands. A write is appended to the media
//! cache and mapped ([`map`]), unless it writes a band from its start on: such a stream goes directly to its band. When
//! the host is idle, or the media cache is full, the drive cleans the band that has been dirty longest: it reads the
//! band and its newer sectors, and writes both first to the scratch band and then to the band itself, so that a power
//! cut never leaves a band half written.
//!
//! Nothing runs by itself. Every call first processes all events up to its own time.
//!
//! Not modelled: the log's own records, fragmentation of the log's free space, a choice of bands by anything but
//! age, and bands of different sizes.

mod map;
pub(crate) mod params;
mod streams;

use std::collections::VecDeque;

use fsdyno_record::trial::Device;
use fsdyno_record::{Bytes, Nanos, seed};

use self::map::{CHUNK, Entry, Map};
use self::params::Smr;
use self::streams::Streams;
use super::hdd::HardDisk;
use crate::SECTOR;
use crate::disk::{Action, Disk, Request, count};
use crate::spec::DiskSpec;

/// The bit that marks the identifiers of the drive's own requests.
const OWN: u64 = 1 << 63;
/// Maximum number of parts of a read that are read from the media cache; the time of further parts is not
/// modelled.
const MAX_PARTS: usize = 24;
/// Maximum number of pieces in the media cache that are read to clean a band.
const MAX_PIECES: usize = 8192;
/// Capacity for waiting requests: more than the tags of any block driver.
const WAITING_CAPACITY: usize = 1024;
/// Capacity for ranges of persisted sectors.
const PERSISTED_CAPACITY: usize = 65_536;

/// A shingled disk in virtual time.
pub struct ShingledDisk {
    inner: HardDisk,
    map: Map,
    streams: Streams,
    /// Sectors of the media cache.
    cache: u64,
    /// Sectors of a band.
    band: u64,
    /// Sectors of the disk.
    sectors: u64,
    idle: Nanos,
    depth: usize,

    clock: Nanos,
    /// Position at which the log continues; it never wraps.
    log: u64,
    /// Appended writes that are not yet persisted, in the log's order.
    pending: VecDeque<Pending>,
    waiting: VecDeque<Request>,
    /// The host's requests in the drive, each with the number of its unfinished parts.
    slots: Vec<Option<(Request, u32)>>,
    admitted: usize,
    /// Writes that wait for space in the media cache.
    space_queue: VecDeque<usize>,
    cleaning: Option<Cleaning>,
    /// Pieces in the media cache that are read for cleaning.
    pieces: Vec<Entry>,
    /// True while one of the drive's own requests is in progress.
    is_own_request: bool,
    /// Time of the host's last request or completion.
    idle_since: Nanos,
    completions: VecDeque<(Nanos, u64)>,
    persisted: VecDeque<(u64, u64)>,
    counters: Device,
}

/// A write in the log.
#[derive(Clone, Copy)]
struct Pending {
    at: u64,
    first: u64,
    sectors: u64,
    /// Number of its sectors that are not yet persisted.
    unpersisted: u64,
}

/// A band that is being cleaned.
#[derive(Clone, Copy)]
struct Cleaning {
    band: u64,
    /// Position of the log when cleaning began; sectors appended later stay in the media cache.
    mark: u64,
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Reading the band; next, the sector at this offset from its start.
    Read(u64),
    /// Reading the pieces in the media cache; next, the piece with this index.
    Piece(usize),
    /// Writing the scratch band; next, the sector at this offset from its start.
    Scratch(u64),
    /// Writing the band; next, the sector at this offset from its start.
    Write(u64),
}

impl ShingledDisk {
    /// Creates an idle drive. `seed` determines the rotational position and the initial content of the media cache.
    pub fn new(spec: &DiskSpec, smr: &Smr, seed: u64) -> ShingledDisk {
        let (cache, band) = (smr.media_cache.0 / SECTOR, smr.band.0 / SECTOR);
        let sectors = spec.capacity.0 / SECTOR;
        let mut below = spec.clone();
        below.capacity = Bytes(spec.capacity.0 + (cache + 2 * band) * SECTOR);
        let depth = spec.queue.depth.max(1) as usize;
        let memory = (smr.drive.write_cache.0 / SECTOR) as usize;
        let mut disk = ShingledDisk {
            inner: HardDisk::with_own_requests(&below, &smr.drive, seed, OWN),
            map: Map::new(smr.cache_entries as usize, sectors, band),
            streams: Streams::new(smr.streams as usize, smr.stream_least.0 / SECTOR, band),
            cache,
            band,
            sectors,
            idle: Nanos(smr.idle_us * 1000),
            depth,
            clock: Nanos(0),
            log: 0,
            pending: VecDeque::with_capacity(memory + WAITING_CAPACITY),
            waiting: VecDeque::with_capacity(WAITING_CAPACITY),
            slots: vec![None; depth],
            admitted: 0,
            space_queue: VecDeque::with_capacity(depth),
            cleaning: None,
            pieces: Vec::with_capacity(MAX_PIECES),
            is_own_request: false,
            idle_since: Nanos(0),
            completions: VecDeque::with_capacity(WAITING_CAPACITY),
            persisted: VecDeque::with_capacity(PERSISTED_CAPACITY),
            counters: Device { peak_in_flight: Some(0), ..Device::default() },
        };
        disk.fill(u64::from(smr.cache_entries) * u64::from(smr.cached_percent) / 100, seed);
        disk
    }

    /// Maps `entries` blocks of 4 KiB at random offsets of the disk to the media cache.
    fn fill(&mut self, entries: u64, seed: u64) {
        let mut draws = seed::stream(seed, "media cache");
        for _ in 0..entries.min(self.cache / 8) {
            if self.map.room() < 3 {
                break;
            }
            let first = draws.below(self.sectors / 8) * 8;
            self.map.insert(first, first + 8, self.log);
            self.log += 8;
        }
    }

    /// Processes all events up to `now`.
    fn advance(&mut self, now: Nanos) {
        let now = now.max(self.clock);
        loop {
            self.dispatch();
            let next = self.inner.next_due().into_iter().chain(self.own_work_due()).min();
            let Some(next) = next.filter(|next| *next <= now) else { break };
            self.clock = self.clock.max(next);
            while let Some(id) = self.inner.pop_completed(self.clock) {
                self.note_persisted();
                self.finish(id);
            }
            self.note_persisted();
        }
        self.clock = now;
        self.inner.advance_to(now);
        self.note_persisted();
    }

    /// Returns the time at which the drive's own work continues, if it waits only for the host to be idle long enough.
    fn own_work_due(&self) -> Option<Nanos> {
        let has_work = self.cleaning.is_some() || self.map.oldest_band().is_some();
        let at = self.idle_since + self.idle;
        (has_work && !self.is_own_request && self.admitted == 0).then(|| at.max(self.clock))
    }

    /// Submits requests to the underlying hard disk.
    fn dispatch(&mut self) {
        loop {
            self.dispatch_host();
            let is_due = self.own_work_due().is_some_and(|at| at <= self.clock);
            let must_clean = is_due || !self.space_queue.is_empty();
            if self.is_own_request || !must_clean || !self.clean() {
                return;
            }
        }
    }

    fn dispatch_host(&mut self) {
        while let Some(at) = self.space_queue.front().copied() {
            let Some((request, _)) = self.slots[at] else { break };
            if !self.has_room(&request) {
                break;
            }
            self.space_queue.pop_front();
            self.write(at, &request);
        }
        while self.admitted < self.depth {
            let Some(request) = self.waiting.pop_front() else { break };
            let Some(at) = self.slots.iter().position(Option::is_none) else { break };
            self.slots[at] = Some((request, 0));
            self.admitted += 1;
            match request.action {
                Action::Read => self.read(at, &request),
                Action::Write if self.space_queue.is_empty() && self.has_room(&request) => {
                    self.write(at, &request);
                }
                Action::Write => self.space_queue.push_back(at),
                Action::Flush | Action::Trim => {
                    self.submit_part(at, request.action, request.sector, &request);
                }
            }
        }
    }

    /// Submits a part of a request to the underlying hard disk.
    fn submit_part(&mut self, at: usize, action: Action, sector: u64, request: &Request) {
        if let Some((_, parts)) = &mut self.slots[at] {
            *parts += 1;
        }
        let part = Request { id: at as u64, action, sector, ..*request };
        self.inner.submit(self.clock, part);
    }

    /// Returns the first sector of the bands on the underlying hard disk.
    fn home(&self) -> u64 {
        self.cache + self.band
    }

    fn read(&mut self, at: usize, request: &Request) {
        let (first, end) = (request.sector, request.sector + u64::from(request.sectors));
        let mut parts = [Entry::default(); MAX_PARTS];
        let (mut found, mut cached) = (0, 0);
        self.map.visit_range(first, end, |part| {
            cached += part.sectors;
            if found < MAX_PARTS {
                parts[found] = part;
                found += 1;
            }
        });
        for part in &parts[..found] {
            let cached = Request { sectors: part.sectors as u32, ..*request };
            self.submit_part(at, Action::Read, part.at % self.cache, &cached);
        }
        if cached < end - first || found == 0 {
            self.submit_part(at, Action::Read, self.home() + first, request);
        }
    }

    /// Returns true if the media cache and its map have room for a write.
    fn has_room(&self, request: &Request) -> bool {
        let sectors = u64::from(request.sectors);
        let chunks = sectors / CHUNK + 2;
        self.map.room() as u64 > 2 * chunks && self.map.live_sectors() + sectors <= self.cache
    }

    /// Writes to a band directly if the write begins or continues a stream, and to the media cache otherwise. A write
    /// across the start of a band may be split there.
    fn write(&mut self, at: usize, request: &Request) {
        let (first, end) = (request.sector, request.sector + u64::from(request.sectors));
        let start = (first / self.band + 1) * self.band;
        if self.write_directly(at, request, first, end) {
            return;
        }
        if start < end && self.write_directly(at, request, start, end) {
            self.append(at, request, first, start);
        } else {
            self.append(at, request, first, end);
        }
    }

    fn write_directly(&mut self, at: usize, request: &Request, first: u64, end: u64) -> bool {
        let cleaning_band = self.cleaning.map(|cleaning| cleaning.band);
        let (direct, broken) =
            self.streams.write(first, end, request.sectors.into(), cleaning_band);
        if let Some(band) = broken {
            self.map.push_band(band);
        }
        if direct {
            self.map.remove(first, end);
            let part = Request { sectors: (end - first) as u32, ..*request };
            self.submit_part(at, Action::Write, self.home() + first, &part);
        }
        direct
    }

    fn append(&mut self, at: usize, request: &Request, first: u64, end: u64) {
        let sectors = end - first;
        // An append is contiguous: it does not wrap around the end of the media cache.
        if self.log % self.cache + sectors > self.cache {
            self.log += self.cache - self.log % self.cache;
        }
        self.map.insert(first, end, self.log);
        self.pending.push_back(Pending { at: self.log, first, sectors, unpersisted: sectors });
        let part = Request { sectors: sectors as u32, ..*request };
        self.submit_part(at, Action::Write, self.log % self.cache, &part);
        self.log += sectors;
    }

    fn finish(&mut self, id: u64) {
        if id & OWN != 0 {
            self.is_own_request = false;
            return;
        }
        let Some((request, parts)) = &mut self.slots[id as usize] else { return };
        *parts -= 1;
        if *parts == 0 {
            let host_id = request.id;
            self.slots[id as usize] = None;
            self.admitted -= 1;
            self.idle_since = self.clock;
            self.completions.push_back((self.clock, host_id));
        }
    }

    // Cleaning.

    /// Submits the next of the drive's own requests; returns true if a band needed no further request and is now clean.
    fn clean(&mut self) -> bool {
        let Some(mut cleaning) = self.cleaning.or_else(|| self.start_cleaning()) else {
            return false;
        };
        // The last band may be shorter, because it ends with the disk.
        let first = cleaning.band * self.band;
        let length = self.band.min(self.sectors - first);
        let piece = |done: u64| CHUNK.min(length - done);
        if cleaning.step == Step::Read(length) {
            cleaning.step = Step::Piece(0);
        }
        if cleaning.step == Step::Piece(self.pieces.len()) {
            cleaning.step = Step::Scratch(0);
        }
        if cleaning.step == Step::Scratch(length) {
            cleaning.step = Step::Write(0);
        }
        if cleaning.step == Step::Write(length) {
            self.end_cleaning(&cleaning);
            return true;
        }
        let (action, sector, sectors) = match &mut cleaning.step {
            Step::Read(done) => {
                let part = (Action::Read, self.cache + self.band + first + *done, piece(*done));
                *done += part.2;
                part
            }
            Step::Piece(at) => {
                let piece = self.pieces[*at];
                *at += 1;
                (Action::Read, piece.at % self.cache, piece.sectors)
            }
            Step::Scratch(done) => {
                let part = (Action::Write, self.cache + *done, piece(*done));
                *done += part.2;
                part
            }
            Step::Write(done) => {
                let part = (Action::Write, self.cache + self.band + first + *done, piece(*done));
                *done += part.2;
                part
            }
        };
        self.cleaning = Some(cleaning);
        self.is_own_request = true;
        let own = Request { id: OWN, action, sector, sectors: sectors as u32, fua: true };
        self.inner.submit(self.clock, own);
        false
    }

    fn start_cleaning(&mut self) -> Option<Cleaning> {
        let band = self.map.oldest_band()?;
        self.map.pop_band();
        self.streams.forget(band);
        self.pieces.clear();
        let (map, pieces) = (&self.map, &mut self.pieces);
        map.visit_range(band * self.band, (band + 1) * self.band, |entry| {
            if pieces.len() < MAX_PIECES {
                pieces.push(entry);
            }
        });
        pieces.sort_unstable_by_key(|entry| entry.at);
        Some(Cleaning { band, mark: self.log, step: Step::Read(0) })
    }

    /// Unmaps the cleaned sectors: their newest content is now in the band.
    fn end_cleaning(&mut self, cleaning: &Cleaning) {
        self.cleaning = None;
        let first = cleaning.band * self.band;
        for chunk in (first..first + self.band).step_by(CHUNK as usize) {
            self.pieces.clear();
            let pieces = &mut self.pieces;
            self.map.visit_range(chunk, chunk + CHUNK, |entry| {
                if entry.at < cleaning.mark && pieces.len() < MAX_PIECES {
                    pieces.push(entry);
                }
            });
            for entry in &self.pieces {
                self.map.remove(entry.first, entry.end());
            }
        }
        self.pieces.clear();
    }

    // Persistence.

    fn note_persisted(&mut self) {
        while let Some((first, sectors)) = self.inner.pop_persisted() {
            let end = first + sectors;
            if first < self.cache {
                self.note_appended(first, end.min(self.cache) - first);
            }
            let home = self.home();
            if end > home {
                let first = first.max(home);
                self.persisted.push_back((first - home, end - first));
            }
        }
    }

    /// Reports sectors of the log that have reached the medium. Those that were overwritten in the meantime are
    /// reported too, as on a disk that writes in place.
    fn note_appended(&mut self, first: u64, sectors: u64) {
        let Some(oldest) = self.pending.front().map(|pending| pending.at) else { return };
        let from = oldest + (first + self.cache - oldest % self.cache) % self.cache;
        let end = from + sectors;
        let start = self.pending.partition_point(|pending| pending.at + pending.sectors <= from);
        for pending in self.pending.range_mut(start..).take_while(|pending| pending.at < end) {
            let (at, to) = (pending.at.max(from), (pending.at + pending.sectors).min(end));
            pending.unpersisted = pending.unpersisted.saturating_sub(to - at);
            self.persisted.push_back((pending.first + (at - pending.at), to - at));
        }
        while self.pending.front().is_some_and(|pending| pending.unpersisted == 0) {
            self.pending.pop_front();
        }
    }
}

impl Disk for ShingledDisk {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now);
        count(&mut self.counters, &request);
        self.waiting.push_back(request);
        self.idle_since = self.clock;
        let in_flight = (self.admitted + self.waiting.len()) as u64;
        self.counters.peak_in_flight = self.counters.peak_in_flight.max(Some(in_flight));
        self.dispatch();
    }

    fn next_due(&self) -> Option<Nanos> {
        if let Some((due, _)) = self.completions.front() {
            return Some(*due);
        }
        if self.admitted == 0 { None } else { self.inner.next_due() }
    }

    fn pop_completed(&mut self, now: Nanos) -> Option<u64> {
        self.advance(now);
        self.completions.pop_front().map(|(_, id)| id)
    }

    fn pop_persisted(&mut self) -> Option<(u64, u64)> {
        self.persisted.pop_front()
    }

    fn advance_to(&mut self, now: Nanos) {
        self.advance(now);
    }

    fn volatile_bytes(&mut self, now: Nanos) -> Bytes {
        self.advance(now);
        self.inner.volatile_bytes(now)
    }

    fn note_untimed(&mut self, request: Request) {
        // As if the drive had cleaned: the data of a new file system are in its bands.
        if request.action == Action::Write && self.map.room() > 2 {
            self.map.remove(request.sector, request.sector + u64::from(request.sectors));
        }
    }

    fn counters(&self) -> Device {
        let below = self.inner.counters();
        Device { seeks: below.seeks, busy_ns: below.busy_ns, ..self.counters }
    }
}
