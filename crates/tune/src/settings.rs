//! The settings of a search.

/// The settings of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The seed of everything that the search draws at random.
    pub seed: u64,
    /// The seed of a point's first trial; further trials have the next seeds.
    pub first: u64,
    /// The maximum number of trials.
    pub trials: usize,
    /// The number of trials of each of three points, the default and two others, from which the noise is estimated; 1
    /// if there is no noise.
    pub pilot: u32,
    /// The maximum number of trials of a point in a race.
    pub race: u32,
    /// The number of confirming trials of the winner, and also of the default, on seeds that the search did not use; 0
    /// for no confirmation.
    pub confirm: u32,
    /// The maximum number of additional points after the search, which determine the average effects of options more
    /// exactly.
    pub averages: usize,
    /// True if trials with the same seed are compared as pairs.
    pub paired: bool,
    /// The smallest relative difference that matters.
    pub min_difference: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 1,
            first: 1,
            trials: 200,
            pilot: 3,
            race: 5,
            confirm: 5,
            averages: 80,
            paired: true,
            min_difference: 0.005,
        }
    }
}

impl Settings {
    /// Returns settings for times without noise, with one seed.
    pub fn exact(seed: u64, trials: usize) -> Settings {
        Settings { seed, trials, pilot: 1, race: 0, confirm: 0, averages: 0, ..Settings::default() }
    }
}
