//! The state of each page of a drive, in bounded memory: exact for the pages that a trial touches, a count for
//! the others.
//!
//! The whole map of a 1 TB drive would take 500 MB of the guest's memory. A trial touches a small
//! part of the drive, with locality, so it is divided into chunks of 2 MiB: a chunk that was never
//! touched, or was trimmed completely, takes one word; a touched chunk has a word for each of its
//! pages. When the arena is full, a newly touched chunk has only a count of its pages that hold data, and
//! a draw decides whether a write hits one of them.

use fsdyno_record::seed::SplitMix64;

/// Pages of a chunk.
pub const CHUNK: u64 = 512;

/// Number of chunks tracked page by page: 28 GiB of the drive, 14 MiB of memory.
const ARENA: usize = 14 << 10;

/// The state of a page: one of these, or the generation in which it was written.
pub type State = u16;
/// A page without data.
pub const EMPTY: State = 0;
/// A page with data from before the trial.
pub const PREFILLED: State = 1;
/// A page with data of the trial that collection moved.
pub const MOVED: State = 2;
/// A page with data that the map does not track.
pub const UNTRACKED: State = 3;
/// The first generation.
pub const FIRST_GENERATION: State = 4;

/// First value of a chunk entry that is a count of pages. Below it, EMPTY and PREFILLED apply to a whole
/// chunk; the values from `FIRST_PLACE` on are indices into the arena.
const COUNTED: u16 = u16::MAX - CHUNK as u16;
const FIRST_PLACE: u16 = 2;

/// The map.
#[derive(Debug, Default)]
pub struct Map {
    chunks: Vec<u16>,
    arena: Vec<[State; CHUNK as usize]>,
    /// Free entries of the arena.
    free: Vec<u16>,
}

impl Map {
    /// Creates a map of `pages` pages of which `filled` percent hold data, in whole chunks, evenly distributed.
    pub fn new(pages: u64, filled: u64) -> Map {
        let count = pages.div_ceil(CHUNK);
        let is_filled = |chunk: u64| chunk * filled / 100 != (chunk + 1) * filled / 100;
        let chunk = |at| if is_filled(at) { PREFILLED } else { EMPTY };
        let places = ARENA.min(count as usize);
        Map {
            chunks: (0..count).map(chunk).collect(),
            arena: vec![[EMPTY; CHUNK as usize]; places],
            free: (0..places as u16).rev().collect(),
        }
    }

    /// Returns the number of pages that hold data from before the trial; valid before the first write.
    pub fn prefilled_pages(&self) -> u64 {
        self.chunks.iter().filter(|chunk| **chunk == PREFILLED).count() as u64 * CHUNK
    }

    /// Replaces the state of `page`. Returns the old state, and true if the map tracks the new one.
    pub fn replace(&mut self, page: u64, state: State, draws: &mut SplitMix64) -> (State, bool) {
        let (at, within) = ((page / CHUNK) as usize, (page % CHUNK) as usize);
        let Some(entry) = self.chunks.get_mut(at) else { return (EMPTY, false) };
        if *entry < FIRST_PLACE {
            match self.free.pop() {
                Some(place) => {
                    self.arena[usize::from(place)] = [*entry; CHUNK as usize];
                    *entry = FIRST_PLACE + place;
                }
                None => {
                    *entry = COUNTED + if *entry == PREFILLED { CHUNK as u16 } else { 0 };
                }
            }
        }
        if *entry < COUNTED {
            let known = &mut self.arena[usize::from(*entry - FIRST_PLACE)][within];
            return (std::mem::replace(known, state), true);
        }
        let full = u64::from(*entry - COUNTED);
        let hit = draws.below(CHUNK) < full;
        match (hit, state) {
            (true, EMPTY) => *entry -= 1,
            (false, EMPTY) | (true, _) => {}
            (false, _) => *entry += 1,
        }
        (if hit { UNTRACKED } else { EMPTY }, false)
    }

    /// Empties a whole chunk, and reports the number of pages in each state.
    pub fn clear(&mut self, chunk: u64, mut report: impl FnMut(State, u64)) {
        let Some(entry) = self.chunks.get_mut(chunk as usize) else { return };
        match *entry {
            EMPTY => {}
            PREFILLED => report(PREFILLED, CHUNK),
            counted if counted >= COUNTED => report(UNTRACKED, u64::from(counted - COUNTED)),
            place => {
                let place = place - FIRST_PLACE;
                // Adjacent pages were mostly written together: one call for each run of pages in the same state.
                self.arena[usize::from(place)]
                    .chunk_by(|a, b| a == b)
                    .filter(|run| run[0] != EMPTY)
                    .for_each(|run| report(run[0], run.len() as u64));
                self.free.push(place);
            }
        }
        *entry = EMPTY;
    }

    /// Marks every page whose generation `is_over` as moved.
    pub fn forget(&mut self, is_over: impl Fn(State) -> bool) {
        for state in self.arena.iter_mut().flatten() {
            if *state >= FIRST_GENERATION && is_over(*state) {
                *state = MOVED;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_found_until_its_chunk_is_cleared() {
        let (mut map, mut draws) = (Map::new(4 * CHUNK, 50), SplitMix64::new(1));
        assert_eq!(map.prefilled_pages(), 2 * CHUNK);
        assert_eq!(map.replace(CHUNK + 3, 9, &mut draws), (PREFILLED, true));
        assert_eq!(map.replace(CHUNK + 3, 10, &mut draws), (9, true));
        assert_eq!(map.replace(3, 7, &mut draws), (EMPTY, true));
        let mut cleared = Vec::new();
        map.clear(1, |state, pages| cleared.push((state, pages)));
        assert_eq!(cleared, [(PREFILLED, 3), (10, 1), (PREFILLED, CHUNK - 4)]);
        assert_eq!(map.replace(CHUNK + 3, 9, &mut draws), (EMPTY, true));
    }

    #[test]
    fn beyond_the_arena_a_chunk_stores_its_number_of_pages() {
        let chunks = ARENA as u64 + 1;
        let (mut map, mut draws) = (Map::new(chunks * CHUNK, 0), SplitMix64::new(1));
        (0..chunks - 1).for_each(|chunk| assert!(map.replace(chunk * CHUNK, 9, &mut draws).1));
        let mut write = |map: &mut Map| map.replace((chunks - 1) * CHUNK, 9, &mut draws);
        assert_eq!(write(&mut map), (EMPTY, false));
        let mut full = 1;
        for _ in 0..20_000 {
            full += u64::from(write(&mut map).0 == EMPTY);
        }
        assert_eq!(full, CHUNK);
        let mut cleared = 0;
        map.clear(chunks - 1, |_, pages| cleared += pages);
        assert_eq!(cleared, CHUNK);
    }
}
