//! The disk that a power cut leaves.
//!
//! The builder follows the log of bytes from moment to moment. It holds what is on the medium for
//! certain, and a list of the writes whose sectors are (or were, on a disk that lies) in the
//! volatile cache. For a cut it lays what survives of those over a copy of the medium. Only what has
//! changed since the last cut is copied, so a thousand cuts cost little more than what was written.

use std::collections::BTreeSet;

use fsdyno_disk::SECTOR;
use fsdyno_disk::log::data::{DataLog, Event, What};
use fsdyno_disk::store::{Memory, Store, StoreError, To};
use fsdyno_record::seed::{SplitMix64, stream};

use crate::cut::{Choice, Cut, Disk};
use crate::tear::Tear;

const BLOCK: u64 = 4096;
const PER_BLOCK: u64 = BLOCK / SECTOR;

/// Sectors that a disk which lies about flushes holds back at most: 8 MiB, a small cache.
const HELD_BACK: u64 = (8 << 20) / SECTOR;

/// A store that has no room.
pub type Full = StoreError<std::convert::Infallible>;

/// Sectors, first and one past the last.
type Part = (u64, u64);

/// A write of which sectors are not on the medium for certain.
#[derive(Clone, Debug)]
struct Cached {
    event: usize,
    parts: Vec<Part>,
}

impl Cached {
    /// Takes what overlaps a range out, and gives it.
    fn take(&mut self, first: u64, end: u64) -> Vec<Part> {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for (from, to) in self.parts.drain(..) {
            let (start, stop) = (from.max(first), to.min(end));
            if start >= stop {
                left.push((from, to));
                continue;
            }
            taken.push((start, stop));
            left.extend([(from, start), (stop, to)].into_iter().filter(|(from, to)| from < to));
        }
        self.parts = left;
        taken
    }

    fn sectors(&self) -> u64 {
        self.parts.iter().map(|(from, to)| to - from).sum()
    }
}

/// Builds the disks of one trial's cuts, whose moments must not go back.
pub struct Builder<M, N> {
    log: DataLog<M>,
    medium: Store<N>,
    disk: Disk,
    /// Sectors that the disk writes whole or not at all.
    unit: u64,
    /// How many events it has followed.
    at: usize,
    cached: Vec<Cached>,
    /// Sectors in `cached`.
    held: u64,
    /// Blocks of the medium that changed since the last image.
    changed: BTreeSet<u64>,
}

impl<M: Memory, N: Memory> Builder<M, N> {
    /// Begins before the first event; `medium` is an empty store of the disk's size.
    pub fn new(log: DataLog<M>, medium: Store<N>, disk: Disk, tear: Tear) -> Builder<M, N> {
        let (cached, changed) = Default::default();
        Builder { log, medium, disk, unit: tear.sectors(), at: 0, cached, held: 0, changed }
    }

    /// The log that it follows.
    pub fn log(&self) -> &DataLog<M> {
        &self.log
    }

    /// Makes `work` the disk that a cut leaves: everything that was not so before, or that lies in
    /// `touched` (bytes of the disk, first and length: what was written since the last image), is
    /// laid out anew. An empty store is the image before the first.
    ///
    /// # Errors
    /// A store that is too small.
    pub fn image<W: Memory>(
        &mut self,
        cut: &Cut,
        touched: &[(u64, u64)],
        work: &mut Store<W>,
    ) -> Result<(), Full> {
        self.follow(cut.after as usize)?;
        for (first, length) in touched {
            self.changed.extend(first / BLOCK..(first + length).div_ceil(BLOCK));
        }
        for block in std::mem::take(&mut self.changed) {
            let mut bytes = [0; BLOCK as usize];
            read(&mut self.medium, block * BLOCK, &mut bytes);
            work.write_bytes(To::Medium, block * BLOCK, &bytes)?;
        }
        self.survivors(cut, work)
    }

    /// Follows the log until so many events have happened.
    fn follow(&mut self, until: usize) -> Result<(), Full> {
        while self.at < until.min(self.log.events().len()) {
            let event = self.log.events()[self.at];
            match event.what {
                What::Write if event.untimed => {
                    self.forget(event.sector, event.end());
                    self.write(self.at, &[(event.sector, event.end())])?;
                }
                What::Write => {
                    let parts = vec![(event.sector, event.end())];
                    self.held += event.end() - event.sector;
                    self.cached.push(Cached { event: self.at, parts });
                    if self.disk != Disk::Honest {
                        self.make_room()?;
                    }
                }
                What::Land if self.disk == Disk::Honest => self.land(event.sector, event.end())?,
                What::LandAll => self.land(0, u64::MAX)?,
                What::Trim => self.trim(&event),
                What::Land | What::Flush | What::Answer => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    /// A disk that lies holds back what its cache has room for, and no more.
    fn make_room(&mut self) -> Result<(), Full> {
        while self.held > HELD_BACK && self.cached.len() > 1 {
            let oldest = self.cached.remove(0);
            self.held -= oldest.sectors();
            self.write(oldest.event, &oldest.parts)?;
        }
        Ok(())
    }

    /// Cached sectors reach the medium, the newest bytes of each. Where the model has put down a part of a physical
    /// sector, all of it that is cached is there.
    fn land(&mut self, first: u64, end: u64) -> Result<(), Full> {
        let first = first / self.unit * self.unit;
        let end = end.checked_next_multiple_of(self.unit).unwrap_or(end);
        let mut landed = Vec::new();
        for cached in &mut self.cached {
            let parts = cached.take(first, end);
            if !parts.is_empty() {
                landed.push((cached.event, parts));
            }
        }
        self.drop_empty();
        landed.into_iter().try_for_each(|(event, parts)| self.write(event, &parts))
    }

    fn trim(&mut self, event: &Event) {
        let (first, end) = (event.sector.next_multiple_of(PER_BLOCK), event.end() / PER_BLOCK);
        let end = end * PER_BLOCK;
        if first < end {
            self.forget(first, end);
            self.medium.trim(first * SECTOR, (end - first) * SECTOR);
            self.changed.extend(first / PER_BLOCK..end / PER_BLOCK);
        }
    }

    /// What is cached of a range is of no interest any more.
    fn forget(&mut self, first: u64, end: u64) {
        self.cached.iter_mut().for_each(|cached| drop(cached.take(first, end)));
        self.drop_empty();
    }

    fn drop_empty(&mut self) {
        self.cached.retain(|cached| !cached.parts.is_empty());
        self.held = self.cached.iter().map(Cached::sectors).sum();
    }

    /// Parts of a write reach the medium.
    fn write(&mut self, event: usize, parts: &[Part]) -> Result<(), Full> {
        for (from, to) in parts {
            self.changed.extend(from / PER_BLOCK..to.div_ceil(PER_BLOCK));
        }
        lay(&mut self.log, event, parts, &mut self.medium)
    }

    /// Lays what survives of the cache over the medium.
    fn survivors<W: Memory>(&mut self, cut: &Cut, work: &mut Store<W>) -> Result<(), Full> {
        for (event, parts) in self.choose(cut) {
            for (from, to) in &parts {
                self.changed.extend(from / PER_BLOCK..to.div_ceil(PER_BLOCK));
            }
            lay(&mut self.log, event, &parts, work)?;
        }
        match self.disk {
            Disk::Tears => self.tear(cut, work),
            _ => Ok(()),
        }
    }

    /// Which sectors of which writes survive, in the order in which they were written.
    fn choose(&self, cut: &Cut) -> Vec<(usize, Vec<Part>)> {
        let all = || self.cached.iter().map(|cached| (cached.event, cached.parts.clone()));
        match self.disk {
            // What is torn of it comes after.
            Disk::Tears => return all().collect(),
            Disk::Reorders => return self.reordered(cut),
            Disk::Honest | Disk::DropsFlushes => {}
        }
        let draws = |seed| stream(seed, "what survives");
        match cut.choice {
            Choice::Nothing => Vec::new(),
            Choice::All => all().collect(),
            Choice::Writes(seed) => {
                let mut draws = draws(seed);
                let of_four = 1 + draws.below(3);
                all().filter(|_| draws.below(4) < of_four).collect()
            }
            Choice::Sectors(seed) => {
                let mut draws = draws(seed);
                let of_four = 1 + draws.below(3);
                let mut keep = || draws.below(4) < of_four;
                all().map(|(event, parts)| (event, some(&parts, self.unit, &mut keep))).collect()
            }
            Choice::Torn(seed) => {
                let mut draws = draws(seed);
                let torn = draws.below(self.cached.len().max(1) as u64) as usize;
                let until = all().take(torn);
                let last =
                    self.cached.get(torn).map(|it| (it.event, tear(it, self.unit, &mut draws)));
                until.chain(last).collect()
            }
        }
    }

    /// What came after the last flush that was answered is there; of what came before, some.
    fn reordered(&self, cut: &Cut) -> Vec<(usize, Vec<Part>)> {
        let events = self.log.events();
        let answered = events[..self.at].iter().rev().find_map(|event| match event.what {
            What::Answer => event.of.filter(|of| events[*of as usize].what == What::Flush),
            _ => None,
        });
        let before = answered.map_or(0, |flush| flush as usize);
        let mut draws = stream(cut.draw, "reordered");
        let cached =
            self.cached.iter().filter(|cached| cached.event >= before || draws.below(2) == 0);
        cached.map(|cached| (cached.event, cached.parts.clone())).collect()
    }

    /// Of one of the last writes the second half of what it has of a physical sector is as it was on the medium
    /// before.
    fn tear<W: Memory>(&mut self, cut: &Cut, work: &mut Store<W>) -> Result<(), Full> {
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
        // Whole sectors are written, so the first half is what it is.
        let mut whole = vec![0; 2 * half as usize];
        read(work, from * SECTOR, &mut whole);
        whole[half as usize..].copy_from_slice(&old);
        work.write_bytes(To::Medium, from * SECTOR, &whole)
    }
}

/// Parts of a write, parted at the bounds of physical sectors: what is left on one side of such a bound is written
/// whole or not at all.
fn pieces(parts: &[Part], unit: u64) -> Vec<Part> {
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

/// Whether two pieces lie in one physical sector: two parts of a write may.
fn together(unit: u64) -> impl Fn(&Part, &Part) -> bool {
    move |one, other| one.0 / unit == other.0 / unit
}

/// Of some parts those physical sectors for which `keep` says so.
fn some(parts: &[Part], unit: u64, mut keep: impl FnMut() -> bool) -> Vec<Part> {
    let mut kept: Vec<Part> = Vec::new();
    let pieces = pieces(parts, unit);
    for (from, to) in pieces.chunk_by(together(unit)).filter(|_| keep()).flatten() {
        match kept.last_mut() {
            Some((_, end)) if end == from => *end = *to,
            _ => kept.push((*from, *to)),
        }
    }
    kept
}

/// The first physical sectors of a write, its last ones, or any.
fn tear(cached: &Cached, unit: u64, draws: &mut SplitMix64) -> Vec<Part> {
    let all = pieces(&cached.parts, unit).chunk_by(together(unit)).count() as u64;
    let place = draws.below(all + 1);
    let mut at = 0;
    let which = draws.below(3);
    some(&cached.parts, unit, || {
        at += 1;
        match which {
            0 => at <= place,
            1 => at > place,
            _ => draws.below(2) == 0,
        }
    })
}

/// Writes parts of a write into a store.
fn lay<M: Memory, N: Memory>(
    log: &mut DataLog<M>,
    event: usize,
    parts: &[Part],
    store: &mut Store<N>,
) -> Result<(), Full> {
    let mut done = Ok(());
    log.bytes_of(event, &mut |at, bytes| {
        for (from, to) in parts {
            let (first, end) =
                ((from * SECTOR).max(at), (to * SECTOR).min(at + bytes.len() as u64));
            if first < end && done.is_ok() {
                let part = &bytes[(first - at) as usize..(end - at) as usize];
                done = store.write_bytes(To::Medium, first, part);
            }
        }
    });
    done
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
