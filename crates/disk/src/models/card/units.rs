//! Allocation units: the open ones, and the cost of a write in copies and erasures.
//!
//! A card writes to an allocation unit by opening a fresh one alongside it. If the unit is written sequentially
//! from its start, the fresh one replaces it once full. Otherwise valid data have to be copied before the old
//! unit can be erased: when all open units are in use, or when the fresh unit is full.

/// An open unit.
#[derive(Clone, Copy, Debug, Default)]
struct OpenUnit {
    unit: u64,
    /// Bytes used in the fresh unit.
    used: u64,
    /// True if all writes to it were sequential from its start, without gaps.
    in_order: bool,
    /// Number of the last write to it.
    last: u64,
}

/// The cost of the units that a write closes and opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Bytes copied within the card.
    pub copied: u64,
    /// Units erased.
    pub erased: u64,
}

/// The units of a card.
#[derive(Debug)]
pub struct Units {
    /// Bytes of a unit.
    size: u64,
    open: Vec<OpenUnit>,
    max_open: usize,
    writes: u64,
    /// Bitmap of the units without data, from which nothing needs to be copied.
    empty: Vec<u64>,
}

impl Units {
    /// Creates `count` empty units of `size` bytes, of which at most `max_open` can be open.
    pub fn new(size: u64, count: u64, max_open: usize) -> Units {
        let empty = vec![u64::MAX; count.div_ceil(64) as usize];
        Units { size, open: Vec::with_capacity(max_open), max_open, writes: 0, empty }
    }

    /// Returns the number of open units.
    #[cfg(test)]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Writes `bytes` bytes at `offset` within a unit; out of order, they use `programmed` bytes of the fresh unit.
    pub fn write(&mut self, unit: u64, offset: u64, bytes: u64, programmed: u64) -> Upkeep {
        let mut upkeep = Upkeep::default();
        self.writes += 1;
        let mut at = match self.open.iter().position(|open| open.unit == unit) {
            Some(at) => at,
            None => self.open_unit(unit, offset, &mut upkeep),
        };
        let continues = |open: &OpenUnit| open.in_order && open.used == offset;
        let needed = if continues(&self.open[at]) { bytes } else { programmed };
        if self.open[at].used + needed > self.size {
            // The fresh unit is full: its valid data and those of the old unit are copied to a third one.
            upkeep.copied += self.size;
            upkeep.erased += 1;
            self.set_empty(unit, false);
            self.open.swap_remove(at);
            at = self.open_unit(unit, offset, &mut upkeep);
        }
        let open = &mut self.open[at];
        open.in_order = continues(open);
        open.used += if open.in_order { bytes } else { programmed };
        open.last = self.writes;
        if open.in_order && open.used == self.size {
            // Written from start to end: the old unit is erased and nothing is copied.
            self.open.swap_remove(at);
            upkeep.erased += u64::from(!self.is_empty(unit));
            self.set_empty(unit, false);
        }
        upkeep
    }

    /// Marks units as empty, for a discard that covers them entirely.
    pub fn trim(&mut self, first: u64, end: u64) {
        self.open.retain(|open| !(first..end).contains(&open.unit));
        for unit in first..end.min(self.empty.len() as u64 * 64) {
            self.set_empty(unit, true);
        }
    }

    /// Marks a unit as holding data, for a write outside the trial's time.
    pub fn fill(&mut self, unit: u64) {
        self.set_empty(unit, false);
    }

    fn open_unit(&mut self, unit: u64, offset: u64, upkeep: &mut Upkeep) -> usize {
        if self.open.len() == self.max_open {
            let oldest = (0..self.open.len()).min_by_key(|at| self.open[*at].last).unwrap_or(0);
            let open = self.open.swap_remove(oldest);
            if !self.is_empty(open.unit) {
                // In order: the rest of the old unit. Otherwise a whole unit: valid data are scattered over both.
                upkeep.copied += if open.in_order { self.size - open.used } else { self.size };
                upkeep.erased += 1;
            }
            self.set_empty(open.unit, false);
        }
        self.open.push(OpenUnit { unit, used: 0, in_order: offset == 0, last: self.writes });
        self.open.len() - 1
    }

    fn is_empty(&self, unit: u64) -> bool {
        self.empty.get((unit / 64) as usize).is_some_and(|word| word & (1 << (unit % 64)) != 0)
    }

    fn set_empty(&mut self, unit: u64, empty: bool) {
        if let Some(word) = self.empty.get_mut((unit / 64) as usize) {
            let bit = 1 << (unit % 64);
            *word = if empty { *word | bit } else { *word & !bit };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 1 << 20;

    fn filled(max_open: usize) -> Units {
        let mut units = Units::new(UNIT, 64, max_open);
        (0..64).for_each(|unit| units.fill(unit));
        units
    }

    #[test]
    fn a_unit_written_from_end_to_end_is_erased_once_and_never_copied() {
        let mut units = filled(2);
        let all: Vec<Upkeep> =
            (0..16).map(|at| units.write(3, at * UNIT / 16, UNIT / 16, UNIT / 16)).collect();
        assert_eq!(all[15], Upkeep { copied: 0, erased: 1 });
        assert!(all[..15].iter().all(|upkeep| *upkeep == Upkeep::default()));
        assert_eq!(units.open(), 0);
    }

    #[test]
    fn opening_a_unit_beyond_the_maximum_closes_the_least_recently_used_one_and_copies_its_rest() {
        let mut units = filled(2);
        assert_eq!(units.write(0, 0, 65536, 65536), Upkeep::default());
        assert_eq!(units.write(1, 0, 4096, 16384), Upkeep::default());
        assert_eq!(units.write(0, 65536, 65536, 65536), Upkeep::default());
        let upkeep = units.write(2, 0, 4096, 4096);
        assert_eq!(upkeep, Upkeep { copied: UNIT - 4096, erased: 1 }, "unit 1 was the oldest");
        let upkeep = units.write(1, 0, 4096, 4096);
        assert_eq!(upkeep, Upkeep { copied: UNIT - 131_072, erased: 1 });
    }

    #[test]
    fn an_empty_unit_is_closed_at_no_cost_and_one_rewritten_in_place_fills_its_fresh_unit() {
        let mut units = Units::new(UNIT, 64, 1);
        assert_eq!(units.write(0, 8192, 4096, 16384), Upkeep::default());
        assert_eq!(units.write(1, 8192, 4096, 16384), Upkeep::default());
        let mut upkeep = Upkeep::default();
        for _ in 0..UNIT / 16384 {
            upkeep = units.write(1, 8192, 4096, 16384);
        }
        assert_eq!(upkeep, Upkeep { copied: UNIT, erased: 1 });
        units.trim(0, 64);
        assert_eq!(units.open(), 0);
    }
}
