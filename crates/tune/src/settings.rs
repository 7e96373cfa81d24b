//! The settings of a search.

/// The settings of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The seed of all that the search draws.
    pub seed: u64,
    /// The first seed of trials.
    pub first: u64,
    /// The largest number of trials.
    pub trials: usize,
    /// The trials of the default, and of two others, from which the noise is estimated; 1 if there is none.
    pub pilot: u32,
    /// The largest number of trials of a point in a race.
    pub race: u32,
    /// The trials of the winner and of the default on seeds that took no part in the search; 0 for none.
    pub confirm: u32,
    /// The largest number of further points after the search, which tell the average effects of options more exactly.
    pub averages: usize,
    /// True if trials of one seed are pairs.
    pub paired: bool,
    /// The least relative difference that matters.
    pub least: f64,
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
            least: 0.005,
        }
    }
}

impl Settings {
    /// Settings for times without noise of one seed.
    pub fn exact(seed: u64, trials: usize) -> Settings {
        Settings { seed, trials, pilot: 1, race: 0, confirm: 0, averages: 0, ..Settings::default() }
    }
}
