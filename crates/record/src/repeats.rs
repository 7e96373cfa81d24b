//! The rule by which the number of a command's repeats was set, where it was not typed.

use serde::{Deserialize, Serialize};

/// Two stages: a pilot, and then as many repeats in all as the wanted width takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeats {
    /// The wanted half width of the 95 % interval, in millionths of the mean: 20,000 is 2 %.
    pub width_ppm: u32,
    /// Repeats of the pilot.
    pub pilot: u32,
    /// The most repeats in all.
    pub at_most: u32,
    /// The seed of the first repeat; the pilot's others follow.
    pub first_seed: u64,
    /// What the pilot asked for in all, which `at_most` may have cut; none in a trial of the pilot,
    /// when nobody knew it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u32>,
}

impl Repeats {
    /// The wanted half width as a part of the mean: 0.02 is 2 %.
    pub fn width(&self) -> f64 {
        f64::from(self.width_ppm) / 1e6
    }

    /// Whether a trial of this seed is of the pilot.
    pub fn is_pilot(&self, seed: u64) -> bool {
        seed.wrapping_sub(self.first_seed) < u64::from(self.pilot)
    }

    /// Whether two rules are one, whatever came of their pilots.
    pub fn same_rule(&self, other: &Repeats) -> bool {
        Repeats { wanted: None, ..*self } == Repeats { wanted: None, ..*other }
    }

    /// As it is typed: `--width 2% --at-most 100`.
    pub fn typed(&self) -> String {
        format!("--width {}% --at-most {}", self.width_ppm as f64 / 1e4, self.at_most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_as_it_is_typed_and_knows_its_pilot() {
        let rule = Repeats { width_ppm: 5000, pilot: 5, at_most: 40, first_seed: 7, wanted: None };
        assert_eq!(rule.typed(), "--width 0.5% --at-most 40");
        assert_eq!([6, 7, 11, 12].map(|seed| rule.is_pilot(seed)), [false, true, true, false]);
        assert!(rule.same_rule(&Repeats { wanted: Some(9), ..rule }));
        assert!(!rule.same_rule(&Repeats { at_most: 41, ..rule }));
    }
}
