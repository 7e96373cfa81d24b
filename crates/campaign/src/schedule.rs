//! The order of trials: rounds over all cells, each round shuffled by the stored seed.
//!
//! Each repeat has one seed. Every cell gets the same seeds, so that two cells are compared pair by pair; the rounds
//! interleave the cells, so that drift on a host affects all of them.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use fsdyno_record::Repeats;
use fsdyno_stats::plan;
use serde::{Deserialize, Serialize};

/// One scheduled trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Index of the cell.
    pub cell: usize,
    /// The seed of the trial.
    pub seed: u64,
    /// The round, from zero.
    pub round: u32,
    /// The rule that sets the number of rounds, if it is not fixed; the trial's record keeps it.
    pub repeats: Option<Repeats>,
}

/// One of several equal shares of a schedule, `I/N`, for example one for each node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// Number of the share, from 1.
    pub index: u32,
    /// Number of shares.
    pub of: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/');
        let shard = parts.and_then(|(index, of)| {
            Some(Shard { index: index.parse().ok()?, of: of.parse().ok()? })
        });
        shard.filter(|shard| (1..=shard.of).contains(&shard.index)).ok_or_else(|| {
            format!("'{text}' is not a shard; write I/N with I from 1 to N, such as 2/8")
        })
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Shard, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl Shard {
    /// Returns the slots of this share: every N-th slot, starting with the I-th.
    pub fn of<T: Clone>(self, slots: &[T]) -> Vec<T> {
        slots.iter().skip(self.index as usize - 1).step_by(self.of as usize).cloned().collect()
    }

    /// Returns the share, out of `of` shares, that contains the slot with index `slot` of the schedule.
    pub fn with(slot: usize, of: u32) -> Shard {
        Shard { index: (slot % of as usize) as u32 + 1, of }
    }
}

/// Returns every cell once in each of `repeat` rounds; round r runs under seed `first_seed + r`.
pub fn schedule(cells: usize, repeat: u32, first_seed: u64) -> Vec<Slot> {
    stage(cells, 0..repeat, first_seed, None)
}

/// Returns the slots of the given rounds, under a rule that sets their number; the rounds of a second stage continue
/// those of the first.
pub fn stage(
    cells: usize,
    rounds: Range<u32>,
    first_seed: u64,
    repeats: Option<Repeats>,
) -> Vec<Slot> {
    let orders = plan::order(cells, rounds.clone(), first_seed);
    let slots = rounds.zip(orders).flat_map(|(round, order)| {
        let seed = first_seed.wrapping_add(u64::from(round));
        order.into_iter().map(move |cell| Slot { cell, seed, round, repeats })
    });
    slots.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_cell_runs_once_in_each_round_with_the_seed_of_the_round(
            cells in 1usize..20, repeat in 1u32..6, first in 0u64..1000,
        ) {
            let slots = schedule(cells, repeat, first);
            assert_eq!(slots.len(), cells * repeat as usize);
            for (round, chunk) in slots.chunks(cells).enumerate() {
                let mut seen: Vec<usize> = chunk.iter().map(|slot| slot.cell).collect();
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..cells));
                assert!(chunk.iter().all(|slot| slot.seed == first + round as u64));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn every_slot_is_in_exactly_one_share(slots in 0usize..40, of in 1u32..12) {
            let indices: Vec<usize> = (0..slots).collect();
            let mut seen = Vec::new();
            for index in 1..=of {
                let shard = Shard { index, of };
                assert_eq!(shard.to_string().parse(), Ok(shard));
                let mine = shard.of(&indices);
                assert!(mine.iter().all(|slot| Shard::with(*slot, of) == shard));
                seen.extend(mine);
            }
            seen.sort_unstable();
            assert_eq!(seen, indices);
        }
    }

    #[test]
    fn a_second_stage_continues_where_the_first_ended() {
        let first = stage(3, 0..5, 9, None);
        let all = [first, stage(3, 5..8, 9, None)].concat();
        assert_eq!(all, schedule(3, 8, 9));
    }

    #[test]
    fn an_impossible_share_is_refused() {
        for text in ["0/2", "3/2", "1", "1/0", "1/", "a/b", "-1/2", "1/2/3"] {
            let error = text.parse::<Shard>().unwrap_err();
            assert!(error.contains("such as 2/8"), "{text}: {error}");
        }
    }

    #[test]
    fn the_order_depends_on_the_seed_and_the_round() {
        let order = |seed| schedule(12, 2, seed).iter().map(|slot| slot.cell).collect::<Vec<_>>();
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_ne!(order(1)[..12], order(1)[12..]);
    }
}
