//! Builds the disk image that a power cut leaves.
//!
//! The builder replays the data log from cut to cut. It holds the persisted contents of the medium, and a list
//! of the writes whose sectors are (or were, on a faulty disk) in the volatile cache. For a cut it writes the
//! surviving ones over a copy of the medium. Only blocks that changed since the last cut are copied, so a thousand
//! cuts cost little more than the writes themselves.

use std::collections::BTreeSet;

use fsdyno_disk::SECTOR;
use fsdyno_disk::log::data::{DataLog, Event, EventKind};
use fsdyno_disk::store::{Destination, Memory, Store, StoreError};
use fsdyno_record::seed::{SplitMix64, stream};

use crate::atomic_unit::AtomicUnit;
use crate::cut::{Cut, DiskFault, SurvivingWrites};

const BLOCK: u64 = 4096;
const PER_BLOCK: u64 = BLOCK / SECTOR;

/// Maximum number of sectors that a faulty disk holds back: 8 MiB, a small cache.
const HELD_BACK: u64 = (8 << 20) / SECTOR;

/// The error of a store that is full.
pub type Full = StoreError<std::convert::Infallible>;

/// A range of sectors: first, and one past the last.
type SectorRange = (u64, u64);

/// A write with sectors that are not yet persisted.
#[derive(Clone, Debug)]
struct CachedWrite {
    event: usize,
    parts: Vec<SectorRange>,
}

impl CachedWrite {
    /// Removes and returns the parts that overlap a range.
    fn take(&mut self, first: u64, end: u64) -> Vec<SectorRange> {
        let (mut taken, mut remaining) = (Vec::new(), Vec::new());
        for (from, to) in self.parts.drain(..) {
            let (start, stop) = (from.max(first), to.min(end));
            if start >= stop {
                remaining.push((from, to));
                continue;
            }
            taken.push((start, stop));
            remaining
                .extend([(from, start), (stop, to)].into_iter().filter(|(from, to)| from < to));
        }
        self.parts = remaining;
        taken
    }

    fn sectors(&self) -> u64 {
        self.parts.iter().map(|(from, to)| to - from).sum()
    }
}

/// Builds the images of one trial's cuts, whose times must not go backwards.
pub struct Builder<M, N> {
    log: DataLog<M>,
    medium: Store<N>,
    disk: DiskFault,
    /// Atomic write unit in sectors.
    unit: u64,
    /// Number of events replayed.
    at: usize,
    cached: Vec<CachedWrite>,
    /// Number of sectors in `cached`.
    held: u64,
    /// Blocks of the medium changed since the last image.
    changed: BTreeSet<u64>,
}

impl<M: Memory, N: Memory> Builder<M, N> {
    /// Creates a builder before the first event; `medium` is an empty store of the disk's size.
    pub fn new(
        log: DataLog<M>,
        medium: Store<N>,
        disk: DiskFault,
        tear: AtomicUnit,
    ) -> Builder<M, N> {
        let (cached, changed) = Default::default();
        Builder { log, medium, disk, unit: tear.sectors(), at: 0, cached, held: 0, changed }
    }

    /// Returns the data log.
    pub fn log(&self) -> &DataLog<M> {
        &self.log
    }

    /// Turns `work` into the image that a cut leaves. Rewrites the blocks that changed since the last image and
    /// those in `touched`: byte ranges (first, length) that were written to `work` since. `work` is an empty
    /// store before the first image.
    ///
    /// # Errors
    /// The store is too small.
    pub fn image<W: Memory>(
        &mut self,
        cut: &Cut,
        touched: &[(u64, u64)],
        work: &mut Store<W>,
    ) -> Result<(), Full> {
        self.replay_until(cut.after as usize)?;
        for (first, length) in touched {
            self.changed.extend(first / BLOCK..(first + length).div_ceil(BLOCK));
        }
        for block in std::mem::take(&mut self.changed) {
            let mut bytes = [0; BLOCK as usize];
            read(&mut self.medium, block * BLOCK, &mut bytes);
            work.write_bytes(Destination::Medium, block * BLOCK, &bytes)?;
        }
        self.write_survivors(cut, work)
    }

    /// Replays the log up to a number of events.
    fn replay_until(&mut self, until: usize) -> Result<(), Full> {
        while self.at < until.min(self.log.events().len()) {
            let event = self.log.events()[self.at];
            match event.kind {
                EventKind::Write if event.untimed => {
                    self.discard(event.sector, event.end());
                    self.write(self.at, &[(event.sector, event.end())])?;
                }
                EventKind::Write => {
                    let parts = vec![(event.sector, event.end())];
                    self.held += event.end() - event.sector;
                    self.cached.push(CachedWrite { event: self.at, parts });
                    if self.disk != DiskFault::Honest {
                        self.evict_excess()?;
                    }
                }
                EventKind::Persist if self.disk == DiskFault::Honest => {
                    self.persist(event.sector, event.end())?
                }
                EventKind::PersistAll => self.persist(0, u64::MAX)?,
                EventKind::Trim => self.trim(&event),
                EventKind::Persist | EventKind::Flush | EventKind::Reply => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Persists the oldest writes while a faulty disk holds back more than its cache can hold.
    fn evict_excess(&mut self) -> Result<(), Full> {
        while self.held > HELD_BACK && self.cached.len() > 1 {
            let oldest = self.cached.remove(0);
            self.held -= oldest.sectors();
            self.write(oldest.event, &oldest.parts)?;
        }
        Ok(())
    }

    /// Persists the newest cached bytes of a range. If the model has persisted a part of a physical sector, all
    /// cached parts of that sector are persisted.
    fn persist(&mut self, first: u64, end: u64) -> Result<(), Full> {
        let first = first / self.unit * self.unit;
        let end = end.checked_next_multiple_of(self.unit).unwrap_or(end);
        let mut persisted = Vec::new();
        for cached in &mut self.cached {
            let parts = cached.take(first, end);
            if !parts.is_empty() {
                persisted.push((cached.event, parts));
            }
        }
        self.drop_empty();
        persisted.into_iter().try_for_each(|(event, parts)| self.write(event, &parts))
    }

    fn trim(&mut self, event: &Event) {
        let (first, end) = (event.sector.next_multiple_of(PER_BLOCK), event.end() / PER_BLOCK);
        let end = end * PER_BLOCK;
        if first < end {
            self.discard(first, end);
            self.medium.trim(first * SECTOR, (end - first) * SECTOR);
            self.changed.extend(first / PER_BLOCK..end / PER_BLOCK);
        }
    }

    /// Discards the cached parts of a range.
    fn discard(&mut self, first: u64, end: u64) {
        self.cached.iter_mut().for_each(|cached| drop(cached.take(first, end)));
        self.drop_empty();
    }

    fn drop_empty(&mut self) {
        self.cached.retain(|cached| !cached.parts.is_empty());
        self.held = self.cached.iter().map(CachedWrite::sectors).sum();
    }

    /// Writes parts of a write to the medium.
    fn write(&mut self, event: usize, parts: &[SectorRange]) -> Result<(), Full> {
        for (from, to) in parts {
            self.changed.extend(from / PER_BLOCK..to.div_ceil(PER_BLOCK));
        }
        copy_parts(&mut self.log, event, parts, &mut self.medium)
    }

    /// Writes the surviving parts of the cache to the image.
    fn write_survivors<W: Memory>(&mut self, cut: &Cut, work: &mut Store<W>) -> Result<(), Full> {
        for (event, parts) in self.surviving_writes(cut) {
            for (from, to) in &parts {
                self.changed.extend(from / PER_BLOCK..to.div_ceil(PER_BLOCK));
            }
            copy_parts(&mut self.log, event, &parts, work)?;
        }
        match self.disk {
            DiskFault::Tears => self.tear_sector(cut, work),
            _ => Ok(()),
        }
    }

    /// Returns the surviving sectors of each cached write, in the order of the writes.
    fn surviving_writes(&self, cut: &Cut) -> Vec<(usize, Vec<SectorRange>)> {
        let all = || self.cached.iter().map(|cached| (cached.event, cached.parts.clone()));
        match self.disk {
            // `tear_sector` damages one of them afterwards.
            DiskFault::Tears => return all().collect(),
            DiskFault::Reorders => return self.reordered_writes(cut),
            DiskFault::Honest | DiskFault::DropsFlushes => {}
        }
        let draws = |seed| stream(seed, "what survives");
        match cut.choice {
            SurvivingWrites::Nothing => Vec::new(),
            SurvivingWrites::All => all().collect(),
            SurvivingWrites::Writes(seed) => {
                let mut draws = draws(seed);
                let quarters = 1 + draws.below(3);
                all().filter(|_| draws.below(4) < quarters).collect()
            }
            SurvivingWrites::Sectors(seed) => {
                let mut draws = draws(seed);
                let quarters = 1 + draws.below(3);
                let mut keep = || draws.below(4) < quarters;
                all()
                    .map(|(event, parts)| (event, filter_sectors(&parts, self.unit, &mut keep)))
                    .collect()
            }
            SurvivingWrites::Torn(seed) => {
                let mut draws = draws(seed);
                let torn = draws.below(self.cached.len().max(1) as u64) as usize;
                let until = all().take(torn);
                let last = self
                    .cached
                    .get(torn)
                    .map(|it| (it.event, tear_write(it, self.unit, &mut draws)));
                until.chain(last).collect()
            }
        }
    }

    /// Returns all writes since the last answered flush, and a random half of the older ones.
    fn reordered_writes(&self, cut: &Cut) -> Vec<(usize, Vec<SectorRange>)> {
        let events = self.log.events();
        let answered = events[..self.at].iter().rev().find_map(|event| match event.kind {
            EventKind::Reply => {
                event.request.filter(|request| events[*request as usize].kind == EventKind::Flush)
            }
            _ => None,
        });
        let before = answered.map_or(0, |flush| flush as usize);
        let mut draws = stream(cut.draw, "reordered");
        let cached =
            self.cached.iter().filter(|cached| cached.event >= before || draws.below(2) == 0);
        cached.map(|cached| (cached.event, cached.parts.clone())).collect()
    }

    /// Restores the old second half of one physical sector in one of the last writes.
    fn tear_sector<W: Memory>(&mut self, cut: &Cut, work: &mut Store<W>) -> Result<(), Full> {
        const LAST: usize = 16;
        let mut draws = stream(cut.draw, "torn within a sector");
        let last = &self.cached[self.cached.len().saturating_sub(LAST)..];
        if last.is_empty() {
            return Ok(());
        }
        let parts = &last[draws.below(last.len() as u64) as usize].parts;
        let part = parts[draws.below(parts.len() as u64) as usize];
        let pieces = pieces(&[part], self.unit);
        let (from, to) = pieces[draws.below(pieces.len() as u64) as usize];
        let half = (to - from) * SECTOR / 2;
        let mut old = vec![0; half as usize];
        read(&mut self.medium, from * SECTOR + half, &mut old);
        // Only whole sectors are written, so the first half is already correct.
        let mut whole = vec![0; 2 * half as usize];
        read(work, from * SECTOR, &mut whole);
        whole[half as usize..].copy_from_slice(&old);
        work.write_bytes(Destination::Medium, from * SECTOR, &whole)
    }
}

/// Splits parts of a write at the boundaries of physical sectors.
fn pieces(parts: &[SectorRange], unit: u64) -> Vec<SectorRange> {
    let mut pieces = Vec::new();
    for (from, to) in parts {
        let mut at = *from;
        while at < *to {
            let end = ((at / unit + 1) * unit).min(*to);
            pieces.push((at, end));
            at = end;
        }
    }
    pieces
}

/// Returns whether two pieces are in the same physical sector.
fn same_unit(unit: u64) -> impl Fn(&SectorRange, &SectorRange) -> bool {
    move |one, other| one.0 / unit == other.0 / unit
}

/// Returns the parts in those physical sectors that `keep` accepts.
fn filter_sectors(
    parts: &[SectorRange],
    unit: u64,
    mut keep: impl FnMut() -> bool,
) -> Vec<SectorRange> {
    let mut kept: Vec<SectorRange> = Vec::new();
    let pieces = pieces(parts, unit);
    for (from, to) in pieces.chunk_by(same_unit(unit)).filter(|_| keep()).flatten() {
        match kept.last_mut() {
            Some((_, end)) if end == from => *end = *to,
            _ => kept.push((*from, *to)),
        }
    }
    kept
}

/// Returns the first, the last or arbitrary physical sectors of a write.
fn tear_write(cached: &CachedWrite, unit: u64, draws: &mut SplitMix64) -> Vec<SectorRange> {
    let all = pieces(&cached.parts, unit).chunk_by(same_unit(unit)).count() as u64;
    let place = draws.below(all + 1);
    let mut at = 0;
    let which = draws.below(3);
    filter_sectors(&cached.parts, unit, || {
        at += 1;
        match which {
            0 => at <= place,
            1 => at > place,
            _ => draws.below(2) == 0,
        }
    })
}

/// Copies parts of a write from the log to a store.
fn copy_parts<M: Memory, N: Memory>(
    log: &mut DataLog<M>,
    event: usize,
    parts: &[SectorRange],
    store: &mut Store<N>,
) -> Result<(), Full> {
    let mut result = Ok(());
    log.bytes_of(event, &mut |at, bytes| {
        for (from, to) in parts {
            let (first, end) =
                ((from * SECTOR).max(at), (to * SECTOR).min(at + bytes.len() as u64));
            if first < end && result.is_ok() {
                let part = &bytes[(first - at) as usize..(end - at) as usize];
                result = store.write_bytes(Destination::Medium, first, part);
            }
        }
    });
    result
}

fn read<M: Memory>(store: &mut Store<M>, offset: u64, into: &mut [u8]) {
    let mut done = 0;
    let length = into.len() as u64;
    let _ = store.read_with(offset, length, &mut |bytes| {
        into[done..done + bytes.len()].copy_from_slice(bytes);
        done += bytes.len();
        Ok::<_, std::convert::Infallible>(())
    });
}

#[cfg(test)]
mod tests;
