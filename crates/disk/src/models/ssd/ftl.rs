//! The translation layer: a log over superblocks (one erase block of every die), page mapping,
//! greedy garbage collection.
//!
//! A superblock is represented by its number of pages that hold data. A page written by the trial is tracked
//! exactly until collection moves it. Of moved pages and those from before the trial, the map
//! knows only that they exist; when such a page is overwritten, the superblock that loses it
//! is drawn at random, in proportion to the number of such pages in each. For random writes that
//! is exact in distribution (all such pages are equivalent); if moved pages differ, hot and
//! cold ones mix, and the write amplification is slightly too high.
//!
//! Greedy: the superblock with the fewest pages of data is collected. Source of the model and its
//! limitation: Bux and Iliadis, "Performance of greedy garbage collection in flash-based solid-state
//! drives" (Performance Evaluation 67, 2010); Xiang and Kurkoski, "An improved analytical expression
//! for write amplification in NAND flash" (arXiv:1110.4245), whose value of 2.36 at a flash-to-data
//! ratio of 1.3 is used by the tests.

use std::collections::VecDeque;

use fsdyno_record::seed::SplitMix64;

use super::map::{CHUNK, EMPTY, FIRST_GENERATION, MOVED, Map, PREFILLED, State, UNTRACKED};

/// Number of erased superblocks in reserve; collection starts when there are fewer.
pub const RESERVE: usize = 2;

/// Marker for no superblock.
const NONE: u16 = u16::MAX;

/// Maximum number of random draws of a superblock before a sequential search.
const TRIES: u32 = 32;

/// One erase block of every die. Its counts include only pages that hold data.
#[derive(Clone, Copy, Debug, Default)]
struct Superblock {
    /// Pages written here by the trial.
    young: u32,
    /// Pages written by the trial and moved here.
    moved: u32,
    /// Pages from before the trial.
    prefilled: u32,
    /// True if it is full and can be collected.
    closed: bool,
    /// The generation of its last use.
    generation: State,
}

impl Superblock {
    fn valid(&self) -> u32 {
        self.young + self.moved + self.prefilled
    }

    fn count_of(&mut self, kind: State) -> &mut u32 {
        if kind == PREFILLED { &mut self.prefilled } else { &mut self.moved }
    }
}

/// The translation layer.
#[derive(Debug)]
pub struct Ftl {
    /// Pages of a superblock.
    size: u32,
    superblocks: Vec<Superblock>,
    /// Erased superblocks, the one erased longest ago first.
    free: VecDeque<u16>,
    open: u16,
    /// Written pages of the open superblock.
    used: u32,
    map: Map,
    /// The superblock of each generation; a superblock gets a new generation each time it is opened.
    holder: Vec<u16>,
    last_generation: State,
    /// Sum of `moved` over all superblocks.
    moved: u64,
    /// Sum of `prefilled` over all superblocks.
    prefilled: u64,
    draws: SplitMix64,
    /// Pages written for the host, and pages moved by collection.
    host_pages: u64,
    moved_pages: u64,
    /// Number of superblocks opened, each after an erasure.
    opened: u64,
}

impl Ftl {
    /// Creates the layer of a drive of `pages` host pages of 4 KiB on `superblocks` superblocks of `size` pages,
    /// `filled` percent full, in the state after random overwriting. An empty drive is completely erased.
    pub fn new(pages: u64, superblocks: usize, size: u32, filled: u64, draws: SplitMix64) -> Ftl {
        let map = Map::new(pages, filled);
        let prefilled = map.prefilled_pages();
        let mut ftl = Ftl {
            size,
            superblocks: vec![Superblock::default(); superblocks],
            free: VecDeque::with_capacity(superblocks),
            open: 0,
            used: 0,
            map,
            holder: vec![NONE; usize::from(State::MAX) + 1],
            last_generation: FIRST_GENERATION - 1,
            moved: 0,
            prefilled,
            draws,
            host_pages: 0,
            moved_pages: 0,
            opened: 0,
        };
        let full = if prefilled == 0 { 0 } else { superblocks - RESERVE };
        for (at, valid) in ages(prefilled, full, size).enumerate() {
            let superblock = &mut ftl.superblocks[at];
            (superblock.prefilled, superblock.closed) = (valid, true);
        }
        ftl.prefilled = ftl.superblocks.iter().map(|one| u64::from(one.prefilled)).sum();
        ftl.free.extend((full..superblocks).map(|at| at as u16));
        ftl.open_next();
        // The opening of a superblock is followed by a collection, so a full drive starts just after one.
        while ftl.free.len() < RESERVE && ftl.collect() {}
        ftl
    }

    /// Writes a page for the host.
    pub fn write(&mut self, page: u64) {
        while self.used == self.size {
            self.superblocks[usize::from(self.open)].closed = true;
            self.open_next();
            while self.free.len() < RESERVE && self.collect() {}
        }
        let generation = self.superblocks[usize::from(self.open)].generation;
        let (old, remembered) = self.map.replace(page, generation, &mut self.draws);
        self.drop_pages(old, 1);
        let open = &mut self.superblocks[usize::from(self.open)];
        if remembered {
            open.young += 1;
        } else {
            open.moved += 1;
            self.moved += 1;
        }
        self.used += 1;
        self.host_pages += 1;
    }

    /// Discards pages from `first` to before `end`.
    pub fn trim(&mut self, first: u64, end: u64) {
        let mut page = first;
        while page < end {
            if page % CHUNK == 0 && end - page >= CHUNK {
                let mut map = std::mem::take(&mut self.map);
                map.clear(page / CHUNK, |state, pages| self.drop_pages(state, pages));
                self.map = map;
                page += CHUNK;
            } else {
                let (old, _) = self.map.replace(page, EMPTY, &mut self.draws);
                self.drop_pages(old, 1);
                page += 1;
            }
        }
    }

    /// Returns the number of pages that the host can write before the next superblock is opened.
    pub fn writable_pages(&self) -> u32 {
        self.size - self.used
    }

    /// Returns the number of pages written for the host.
    #[cfg(test)]
    pub fn host_pages(&self) -> u64 {
        self.host_pages
    }

    /// Returns the number of pages moved by collection.
    pub fn moved_pages(&self) -> u64 {
        self.moved_pages
    }

    /// Returns the number of superblocks opened.
    pub fn opened_superblocks(&self) -> u64 {
        self.opened
    }

    /// Returns the number of pages that hold data.
    #[cfg(test)]
    pub fn valid(&self) -> u64 {
        self.superblocks.iter().map(|superblock| u64::from(superblock.valid())).sum()
    }

    fn open_next(&mut self) {
        // Never empty: there are more spare superblocks than the reserve, and collection releases one before it
        // takes one.
        let Some(next) = self.free.pop_front() else { return };
        let generation = self.new_generation();
        let superblock = &mut self.superblocks[usize::from(next)];
        *superblock = Superblock { generation, ..Superblock::default() };
        self.holder[usize::from(generation)] = next;
        (self.open, self.used) = (next, 0);
        self.opened += 1;
    }

    fn new_generation(&mut self) -> State {
        loop {
            if self.last_generation == State::MAX {
                // All numbers have been used: pages of ended generations become moved pages.
                let holder = &self.holder;
                self.map.forget(|generation| holder[usize::from(generation)] == NONE);
                self.last_generation = FIRST_GENERATION - 1;
            }
            self.last_generation += 1;
            if self.holder[usize::from(self.last_generation)] == NONE {
                return self.last_generation;
            }
        }
    }

    /// Collects the superblock with the fewest pages of data; returns false if that would free no space.
    fn collect(&mut self) -> bool {
        let closed = self.superblocks.iter().enumerate().filter(|(_, one)| one.closed);
        let Some((at, victim)) = closed.min_by_key(|(_, one)| one.valid()) else { return false };
        let victim = *victim;
        if victim.valid() == self.size {
            return false;
        }
        if victim.generation >= FIRST_GENERATION {
            self.holder[usize::from(victim.generation)] = NONE;
        }
        self.superblocks[at] = Superblock::default();
        self.free.push_back(at as u16);
        self.moved += u64::from(victim.young);
        self.moved_pages += u64::from(victim.valid());
        for (kind, mut remaining) in
            [(MOVED, victim.young + victim.moved), (PREFILLED, victim.prefilled)]
        {
            while remaining > 0 {
                if self.used == self.size {
                    self.superblocks[usize::from(self.open)].closed = true;
                    self.open_next();
                }
                let now = remaining.min(self.writable_pages());
                *self.superblocks[usize::from(self.open)].count_of(kind) += now;
                self.used += now;
                remaining -= now;
            }
        }
        true
    }

    fn drop_pages(&mut self, state: State, pages: u64) {
        if state >= FIRST_GENERATION {
            let holder = self.holder[usize::from(state)];
            if let Some(superblock) = self.superblocks.get_mut(usize::from(holder)) {
                superblock.young = superblock.young.saturating_sub(pages as u32);
                return;
            }
        }
        let kind = match state {
            EMPTY => return,
            PREFILLED => PREFILLED,
            UNTRACKED if self.draws.below(self.moved + self.prefilled) < self.prefilled => {
                PREFILLED
            }
            // This includes pages of ended generations.
            _ => MOVED,
        };
        // The kind of an untracked page is drawn, so the pages of a kind can run out; the rest are taken from the other
        // kind.
        let remaining = self.drop_drawn(kind, pages);
        self.drop_drawn(if kind == PREFILLED { MOVED } else { PREFILLED }, remaining);
    }

    /// Removes `pages` pages of one kind from superblocks drawn in proportion to their number of such pages, up to
    /// 16 from each. Returns the number that could not be removed.
    fn drop_drawn(&mut self, kind: State, pages: u64) -> u64 {
        let all = if kind == PREFILLED { &mut self.prefilled } else { &mut self.moved };
        let mut remaining = pages.min(*all);
        let missing = pages - remaining;
        *all -= remaining;
        if remaining == 0 {
            return missing;
        }
        let count = self.superblocks.len();
        let mut tries = 0;
        let mut at = self.draws.below(count as u64) as usize;
        while remaining > 0 {
            let draw = self.draws.below(u64::from(self.size)) as u32;
            let held = self.superblocks[at].count_of(kind);
            if draw < *held || (tries >= TRIES && *held > 0) {
                let taken = (*held).min(16).min(remaining as u32);
                *held -= taken;
                remaining -= u64::from(taken);
                tries = 0;
            }
            tries += 1;
            at = if tries < TRIES {
                self.draws.below(count as u64) as usize
            } else {
                (at + 1) % count
            };
        }
        missing
    }
}

/// Returns the number of data pages of each of `superblocks` superblocks, newest first, with a total of `pages`.
///
/// Under random writes, a page survives the writing of each further superblock with the same probability, so
/// the numbers fall by a constant ratio from one superblock to the next older one, starting at `size`: the steady
/// state of the sources above. The ratio, in units of 2^-32, is found by bisection.
fn ages(pages: u64, superblocks: usize, size: u32) -> impl Iterator<Item = u32> {
    let falling = move |ratio: u64| {
        let next = move |valid: &u64| Some(((u128::from(*valid) * u128::from(ratio)) >> 32) as u64);
        // 20 more bits of precision for a ratio near one.
        std::iter::successors(Some(u64::from(size) << 20), next)
            .take(superblocks)
            .map(|valid| (valid >> 20) as u32)
    };
    let sum = |ratio| falling(ratio).map(u64::from).sum::<u64>();
    let (mut low, mut high) = (0, 1 << 32);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if sum(middle) <= pages {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut remaining = pages.saturating_sub(sum(low));
    let each = remaining.div_ceil(superblocks.max(1) as u64);
    falling(low).map(move |valid| {
        let extra = u64::from(size - valid).min(each).min(remaining);
        remaining -= extra;
        valid + extra as u32
    })
}

#[cfg(test)]
mod tests;
