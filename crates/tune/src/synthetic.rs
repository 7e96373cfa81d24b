//! Synthetic spaces and times, for tests.

use fsdyno_record::seed::{SplitMix64, mix};

use crate::evaluations::{Evaluator, Sample};
use crate::space::{Point, Space, TuneOption, Value};

/// Creates a space with this number of values for each option.
pub fn space(levels: &[u8]) -> Space {
    let option = |(index, levels): (usize, &u8)| TuneOption {
        name: format!("o{index}"),
        about: String::new(),
        values: (0..*levels)
            .map(|value| Value { name: format!("v{value}"), ..Value::default() })
            .collect(),
    };
    Space {
        filesystem: "ext4".into(),
        about: String::new(),
        options: levels.iter().enumerate().map(option).collect(),
        conflicts: Vec::new(),
    }
}

/// Returns all points of such a space.
pub fn points(levels: &[u8]) -> Vec<Point> {
    space(levels).points(u64::MAX).unwrap()
}

/// Draws a number uniformly from 0 to 1.
pub fn uniform(draws: &mut SplitMix64) -> f64 {
    draws.draw() as f64 / 2f64.powi(64)
}

/// Draws an approximately normal number: the sum of twelve uniform draws.
pub fn normal(draws: &mut SplitMix64) -> f64 {
    (0..12).map(|_| uniform(draws)).sum::<f64>() - 6.0
}

/// Times composed of main effects, interactions of two options, and a residual that no option explains.
pub struct Times {
    /// The logarithm of the effect of each value.
    pub effects: Vec<Vec<f64>>,
    /// Pairs of options, each with the logarithm of their interaction if neither has its default.
    pub pairs: Vec<(usize, usize, f64)>,
    /// The standard deviation of the residual, which is fixed for each point.
    pub rest: f64,
    /// The standard deviation of the noise of each trial.
    pub noise: f64,
    /// The seed of the residual and of the noise.
    pub seed: u64,
    /// Values that are refused together, or a single value that is refused on its own.
    pub refused: Vec<(usize, u8)>,
}

impl Times {
    /// Creates random times: on average one option in three has no effect, and the others up to `max_effect`; there are
    /// as many interactions as options, up to half of `max_effect`.
    pub fn random(levels: &[u8], max_effect: f64, seed: u64) -> Times {
        let mut draws = SplitMix64::new(mix(seed));
        let mut effects_of_option = |levels: &u8| {
            let has_no_effect = draws.below(3) == 0;
            let mut effect = |value: u8| match has_no_effect || value == 0 {
                true => 0.0,
                false => max_effect * (2.0 * uniform(&mut draws) - 1.0),
            };
            (0..*levels).map(&mut effect).collect::<Vec<f64>>()
        };
        let effects: Vec<Vec<f64>> = levels.iter().map(&mut effects_of_option).collect();
        let count = levels.len();
        let mut pair = || {
            let first = draws.below(count as u64) as usize;
            let second = (first + 1 + draws.below(count as u64 - 1) as usize) % count;
            (first, second, 0.5 * max_effect * (2.0 * uniform(&mut draws) - 1.0))
        };
        let pairs = (0..count).map(|_| pair()).collect();
        Times { effects, pairs, rest: 0.0, noise: 0.0, seed, refused: Vec::new() }
    }

    /// Creates times that do not depend on the options.
    pub fn constant(levels: &[u8], noise: f64, seed: u64) -> Times {
        let effects = levels.iter().map(|levels| vec![0.0; usize::from(*levels)]).collect();
        Times { effects, pairs: Vec::new(), rest: 0.0, noise, seed, refused: Vec::new() }
    }

    /// Returns the logarithm of the time of a point.
    pub fn log(&self, point: &Point) -> f64 {
        let main_effects: f64 = self
            .effects
            .iter()
            .zip(&point.0)
            .map(|(effects, value)| effects[usize::from(*value)])
            .sum();
        let pairs = self.pairs.iter().filter(|(a, b, _)| point.0[*a] > 0 && point.0[*b] > 0);
        let pairs: f64 = pairs.map(|(.., log)| log).sum();
        main_effects + pairs + self.rest * normal(&mut SplitMix64::new(self.key(point)))
    }

    fn key(&self, point: &Point) -> u64 {
        point.0.iter().fold(mix(self.seed), |key, value| mix(key ^ u64::from(*value)))
    }
}

impl Evaluator for Times {
    type Error = std::convert::Infallible;

    fn measure(&mut self, requested: &[(Point, u64)]) -> Result<Vec<Sample>, Self::Error> {
        let sample = |(point, seed): &(Point, u64)| {
            let contains = |(option, value): &(usize, u8)| point.0[*option] == *value;
            if !self.refused.is_empty() && self.refused.iter().all(contains) {
                return Sample::Refused("bad option".into());
            }
            let mut draws = SplitMix64::new(mix(self.key(point) ^ mix(*seed)));
            Sample::Time((self.log(point) + self.noise * normal(&mut draws)).exp())
        };
        Ok(requested.iter().map(sample).collect())
    }
}
