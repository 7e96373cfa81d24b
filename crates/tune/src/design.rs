//! Chooses points to measure: designs that reveal the most about a space, and points that may be the best.

use fsdyno_record::seed::SplitMix64;
use fsdyno_stats::normal;

use crate::model::Model;
use crate::space::{Point, Space};

/// The maximum number of combinations that an enumerated space may have.
pub const MAX_ENUMERATED: u64 = 5_000;

/// The number of sweeps over all options in one ascent.
const SWEEPS: usize = 5;

/// The number of random starts of an ascent.
const STARTS: usize = 5;

/// The part of a space that may be measured: points that are allowed, and not refused by mkfs or mount.
pub struct Candidates<'s> {
    /// The space.
    pub space: &'s Space,
    /// All points of a small space, or `None` for a large one.
    all: Option<Vec<Point>>,
    /// Values that were refused.
    refused: Vec<(usize, u8)>,
    /// Values that were refused together.
    refused_together: Vec<Vec<(usize, u8)>>,
}

impl<'s> Candidates<'s> {
    /// Creates the candidates from all points of a space.
    pub fn new(space: &'s Space) -> Candidates<'s> {
        let all = space.points(MAX_ENUMERATED);
        Candidates { space, all, refused: Vec::new(), refused_together: Vec::new() }
    }

    /// Excludes all points that have this value.
    pub fn refuse(&mut self, value: (usize, u8)) {
        self.refused.push(value);
        if let Some(all) = &mut self.all {
            all.retain(|point| point.0[value.0] != value.1);
        }
    }

    /// Excludes all points that share every non-default value of a point.
    pub fn refuse_together(&mut self, point: &Point) {
        let values = point.0.iter().copied().enumerate().filter(|(_, value)| *value > 0);
        let values: Vec<(usize, u8)> = values.collect();
        if let Some(all) = &mut self.all {
            all.retain(|point| !values.iter().all(|(index, value)| point.0[*index] == *value));
        }
        self.refused_together.push(values);
    }

    /// Returns every value that is not a default and was not refused, with its option.
    pub fn values(&self) -> impl Iterator<Item = (usize, u8)> {
        let non_default_values =
            |(option, levels): (usize, u8)| (1..levels).map(move |value| (option, value));
        let all = self.space.levels().into_iter().enumerate().flat_map(non_default_values);
        all.filter(|value| !self.refused.contains(value))
    }

    /// Returns the values that were refused.
    pub fn refused(&self) -> &[(usize, u8)] {
        &self.refused
    }

    /// Returns true if a point may be measured.
    pub fn allows(&self, point: &Point) -> bool {
        let contains = |(option, value): &(usize, u8)| point.0[*option] == *value;
        self.space.allows(point)
            && !self.refused.iter().any(contains)
            && !self.refused_together.iter().any(|values| values.iter().all(contains))
    }

    /// Returns the points that differ from a point in exactly one option.
    pub fn neighbours(&self, point: &Point) -> Vec<Point> {
        let mut all = self.space.neighbours(point);
        all.retain(|point| self.allows(point));
        all
    }

    /// Returns a random point.
    pub fn random(&self, draws: &mut SplitMix64) -> Point {
        if let Some(all) = &self.all {
            return all[draws.below(all.len() as u64) as usize].clone();
        }
        let mut point = self.space.default_point();
        // Options are drawn one at a time, so that the result has no conflict; a second pass makes their order matter
        // less.
        for _ in 0..2 {
            for option in shuffled_indices(point.0.len(), draws) {
                let levels = self.space.options[option].values.len() as u64;
                let changed = point.with(option, draws.below(levels) as u8);
                if self.allows(&changed) {
                    point = changed;
                }
            }
        }
        point
    }

    /// Returns all points of a small space, or `count` random points of a large one.
    pub fn sample(&self, count: usize, draws: &mut SplitMix64) -> Vec<Point> {
        match &self.all {
            Some(all) => all.clone(),
            None => (0..count).map(|_| self.random(draws)).collect(),
        }
    }

    /// Returns true if [`Candidates::sample`] returns every point.
    pub fn is_whole(&self) -> bool {
        self.all.is_some()
    }

    /// Returns the point with the highest score; `None` if `skip` excludes every point.
    pub fn highest(
        &self,
        starts: &[Point],
        draws: &mut SplitMix64,
        skip: &dyn Fn(&Point) -> bool,
        score: &dyn Fn(&Point) -> f64,
    ) -> Option<(Point, f64)> {
        let is_better = |best: &Option<(Point, f64)>, score: f64| {
            best.as_ref().is_none_or(|(_, best_score)| score > *best_score)
        };
        let mut best: Option<(Point, f64)> = None;
        if let Some(all) = &self.all {
            // Among points with equal scores, a random one is chosen.
            let first = draws.below(all.len().max(1) as u64) as usize;
            for point in all[first..].iter().chain(&all[..first]).filter(|point| !skip(point)) {
                let score = score(point);
                if is_better(&best, score) {
                    best = Some((point.clone(), score));
                }
            }
            return best;
        }
        let random: Vec<Point> = (0..STARTS).map(|_| self.random(draws)).collect();
        for start in starts.iter().chain(&random) {
            let mut point = start.clone();
            let mut best_score = if skip(&point) { f64::NEG_INFINITY } else { score(&point) };
            for _ in 0..SWEEPS {
                let previous_score = best_score;
                for option in shuffled_indices(point.0.len(), draws) {
                    for value in 0..self.space.options[option].values.len() as u8 {
                        let neighbour = point.with(option, value);
                        if point.0[option] == value || !self.allows(&neighbour) || skip(&neighbour)
                        {
                            continue;
                        }
                        let score = score(&neighbour);
                        if score > best_score {
                            (point, best_score) = (neighbour, score);
                        }
                    }
                }
                if best_score <= previous_score {
                    break;
                }
            }
            if best_score > f64::NEG_INFINITY && is_better(&best, best_score) {
                best = Some((point, best_score));
            }
        }
        best
    }
}

fn shuffled_indices(count: usize, draws: &mut SplitMix64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for index in (1..count).rev() {
        order.swap(index, draws.below(index as u64 + 1) as usize);
    }
    order
}

/// Returns the expected improvement of a point over `best`, in logarithms (Mockus 1975; Jones, Schonlau and Welch
/// 1998).
pub fn improvement(model: &Model, point: &Point, best: f64) -> f64 {
    let (mean, deviation) = model.predict(point);
    if deviation <= 0.0 {
        return (best - mean).max(0.0);
    }
    let z = (best - mean) / deviation;
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    deviation * (z * normal::cdf(z) + density)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Datum, Variances};
    use crate::synthetic;

    #[test]
    fn a_design_by_variance_spreads_over_the_space() {
        let space = synthetic::space(&[2; 6]);
        let candidates = Candidates::new(&space);
        let mut draws = SplitMix64::new(5);
        let mut data = vec![Datum { point: space.default_point(), value: 0.0, noise: 0.0 }];
        for _ in 0..7 {
            let model = Model::with_variances(&space.levels(), &data, Variances::prior(6)).unwrap();
            let known: Vec<Point> = data.iter().map(|datum| datum.point.clone()).collect();
            let score = |point: &Point| model.predict(point).1;
            let skip = |point: &Point| known.contains(point);
            let (point, _) = candidates.highest(&[], &mut draws, &skip, &score).unwrap();
            data.push(Datum { point, value: 0.0, noise: 0.0 });
        }
        // Eight points of a design of six options with two values: each value of each option occurs about equally
        // often, and any two points differ in at least two options.
        for option in 0..6 {
            let ones = data.iter().filter(|datum| datum.point.0[option] == 1).count();
            assert!((3..=5).contains(&ones), "option {option}: {ones}");
        }
        for (index, first) in data.iter().enumerate() {
            for second in &data[..index] {
                let differences = first
                    .point
                    .0
                    .iter()
                    .zip(&second.point.0)
                    .filter(|(first, second)| first != second)
                    .count();
                assert!(differences >= 2, "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn the_expected_improvement_matches_the_formula() {
        let data = [Datum { point: Point(vec![0]), value: 0.0, noise: 0.0 }];
        let model = Model::with_variances(&[2], &data, Variances::prior(1)).unwrap();
        let point = Point(vec![1]);
        let (mean, deviation) = model.predict(&point);
        // At the mean: deviation / sqrt(2 pi).
        let expected = deviation / std::f64::consts::TAU.sqrt();
        assert!((improvement(&model, &point, mean) - expected).abs() < 1e-12);
        assert!(improvement(&model, &point, mean - 10.0 * deviation) < 1e-9);
    }
}
