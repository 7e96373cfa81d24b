//! The two-stage rule that sets the number of repeats (`--width`).

use serde::{Deserialize, Serialize};

/// The rule: a pilot, then as many repeats in total as the requested width requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Repeats {
    /// Requested half-width of the 95 % interval, in millionths of the mean: 20,000 is 2 %.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub width_ppm: u32,
    /// Number of repeats of the pilot.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub pilot: u32,
    /// Maximum number of repeats in total.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub at_most: u32,
    /// Seed of the first repeat; the other seeds of the pilot follow it.
    pub first_seed: u64,
    /// Total number of repeats that the pilot requires, before the limit of `at_most`, or null in a trial of the
    /// pilot, when it was unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub wanted: Option<u32>,
}

impl Repeats {
    /// Returns the requested half-width as a fraction of the mean: 0.02 is 2 %.
    pub fn half_width(&self) -> f64 {
        f64::from(self.width_ppm) / 1e6
    }

    /// Returns true if the trial of this seed belongs to the pilot.
    pub fn is_pilot(&self, seed: u64) -> bool {
        seed.wrapping_sub(self.first_seed) < u64::from(self.pilot)
    }

    /// Returns true if two rules are equal, apart from the results of their pilots.
    pub fn is_same_rule(&self, other: &Repeats) -> bool {
        Repeats { wanted: None, ..*self } == Repeats { wanted: None, ..*other }
    }

    /// Returns the rule as command-line arguments: `--width 2% --at-most 100`.
    pub fn command_line_arguments(&self) -> String {
        format!("--width {}% --at-most {}", self.width_ppm as f64 / 1e4, self.at_most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_its_arguments_and_its_pilot() {
        let rule = Repeats { width_ppm: 5000, pilot: 5, at_most: 40, first_seed: 7, wanted: None };
        assert_eq!(rule.command_line_arguments(), "--width 0.5% --at-most 40");
        assert_eq!([6, 7, 11, 12].map(|seed| rule.is_pilot(seed)), [false, true, true, false]);
        assert!(rule.is_same_rule(&Repeats { wanted: Some(9), ..rule }));
        assert!(!rule.is_same_rule(&Repeats { at_most: 41, ..rule }));
    }
}
