//! The earliest of a fixed number of times: a tournament tree (complete binary tree), so that the cost of a
//! change is the logarithm of their number.

/// Marker of a position without a time.
const NEVER: u64 = u64::MAX;

/// Times by position, and the earliest of them.
#[derive(Debug)]
pub struct Earliest {
    /// The number of leaves, a power of two; leaf `at` has index `leaves + at`.
    leaves: usize,
    /// From index 1, the earlier of the times of the two children; then the leaves.
    times: Vec<u64>,
}

impl Earliest {
    /// Creates `count` positions without a time.
    pub fn new(count: usize) -> Earliest {
        let leaves = count.next_power_of_two();
        Earliest { leaves, times: vec![NEVER; 2 * leaves] }
    }

    /// Sets or clears the time of a position.
    pub fn set(&mut self, at: usize, time: Option<u64>) {
        let mut index = self.leaves + at;
        self.times[index] = time.unwrap_or(NEVER);
        while index > 1 {
            index /= 2;
            let earlier = self.times[2 * index].min(self.times[2 * index + 1]);
            if self.times[index] == earlier {
                return;
            }
            self.times[index] = earlier;
        }
    }

    /// Returns the earliest time.
    pub fn time(&self) -> Option<u64> {
        Some(self.times[1]).filter(|time| *time != NEVER)
    }

    /// Returns the first position with the earliest time.
    pub fn position(&self) -> Option<usize> {
        let time = self.time()?;
        let mut index = 1;
        while index < self.leaves {
            index *= 2;
            index += usize::from(self.times[index] != time);
        }
        Some(index - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_record::seed::SplitMix64;

    #[test]
    fn the_tree_finds_the_first_position_of_the_earliest_time_like_a_linear_search() {
        for count in [1, 2, 5, 16, 100] {
            let (mut tree, mut list) = (Earliest::new(count), vec![None; count]);
            let mut draws = SplitMix64::new(count as u64);
            for _ in 0..1000 {
                let at = draws.below(count as u64) as usize;
                let time = Some(draws.below(20)).filter(|time| *time < 15);
                tree.set(at, time);
                list[at] = time;
                let earliest = list.iter().flatten().min().copied();
                assert_eq!(tree.time(), earliest);
                let position = list.iter().position(|time| time.is_some() && *time == earliest);
                assert_eq!(tree.position(), position);
            }
        }
    }
}
