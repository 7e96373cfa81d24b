//! The last steps of a search: the race, the simplification, the confirmation, and the result.

use fsdyno_stats::compare::Comparison;
use fsdyno_stats::holm::holm;

use super::{Measured, Search, SearchError, SearchResult};
use crate::certificate::certificate;
use crate::effects::{effects, interactions};
use crate::evaluations::{Evaluations, Evaluator};
use crate::model::Model;
use crate::space::Point;

/// The offset of fresh seeds from those of the search.
const FRESH_SEED_OFFSET: u64 = 1_000;

/// The level of the comparison on fresh seeds: for twenty searches in which nothing differs, the probability that any
/// of them recommends something is at most one in fifty.
const CONFIRMATION_LEVEL: f64 = 0.001;

/// The familywise level at which a point leaves the race (Holm 1979).
const RACE_LEVEL: f64 = 0.05;

/// The maximum number of points in a race.
const MAX_RACERS: usize = 8;

/// The minimum size of an average effect that matters.
const MIN_RELEVANT_EFFECT: f64 = 0.02;

/// The standard deviation below which an average effect counts as known: twice this is one percentage point.
const MAX_DEVIATION: f64 = 0.005;

/// The maximum number of interactions in a result.
const MAX_INTERACTIONS: usize = 12;

impl<E: Evaluator> Search<'_, E> {
    /// Measures the best points on additional seeds until only one point is left, or all have the maximum number. A
    /// point leaves the race if a comparison with the best one shows that it is slower, with Holm's correction.
    pub(super) fn race(&mut self, leader: Point) -> Result<Point, E::Error> {
        if self.settings.race <= self.repeats || self.known.noise() == 0.0 {
            return Ok(leader);
        }
        let tolerance =
            3.0 * self.known.noise() * std::f64::consts::SQRT_2 / f64::from(self.repeats).sqrt();
        let best = self.known.value(&leader).unwrap_or(0.0);
        let value =
            |known: &Evaluations, point: &Point| known.value(point).unwrap_or(f64::INFINITY);
        let mut racers: Vec<Point> = self.known.order().to_vec();
        racers.retain(|point| value(&self.known, point) - best <= tolerance);
        racers.sort_by(|a, b| value(&self.known, a).total_cmp(&value(&self.known, b)));
        racers.truncate(MAX_RACERS);
        let default = self.candidates.space.default_point();
        for round in self.repeats..self.settings.race {
            if racers.len() < 2 || self.trials_left() < racers.len() + 1 {
                break;
            }
            let seed = self.settings.first + u64::from(round);
            let requested: Vec<(Point, u64)> =
                racers.iter().chain([&default]).map(|point| (point.clone(), seed)).collect();
            self.known.measure(self.evaluator, requested)?;
            racers.sort_by(|a, b| value(&self.known, a).total_cmp(&value(&self.known, b)));
            let p: Vec<f64> = racers[1..]
                .iter()
                .map(|point| self.known.compare(&racers[0], point, 0))
                .map(|comparison| match comparison {
                    Some(comparison) if comparison.exact => {
                        f64::from(u8::from(comparison.ratio == 1.0))
                    }
                    comparison => comparison.and_then(|comparison| comparison.p).unwrap_or(1.0),
                })
                .collect();
            let remains: Vec<bool> = holm(&p).into_iter().map(|p| p >= RACE_LEVEL).collect();
            let mut index = 0;
            racers.retain(|_| {
                index += 1;
                index == 1 || remains.get(index - 2).copied().unwrap_or(true)
            });
        }
        Ok(racers.into_iter().next().unwrap_or(leader))
    }

    /// Resets worthless options to their defaults, first several at once, then one after the other. An option is
    /// worthless if its reset costs less than half the minimum difference that matters, and all resets together stay
    /// below [`Search::limit`], or if noise explains the cost.
    pub(super) fn simplify(&mut self, winner: Point) -> Result<Point, E::Error> {
        let Some(limit) = self.limit(&winner) else { return Ok(winner) };
        let simplest = self.simplest_measured(&winner, limit);
        let mut current = self.reset_together(simplest, limit)?;
        loop {
            let mut simpler: Vec<Point> = (0..current.0.len())
                .filter(|option| current.0[*option] != 0)
                .map(|option| current.with(option, 0))
                .filter(|point| self.candidates.allows(point))
                .collect();
            let unmeasured: Vec<Point> =
                simpler.iter().filter(|point| !self.known.is_known(point)).cloned().collect();
            self.measure_affordable(unmeasured)?;
            simpler.retain(|point| self.known.has(point));
            let value = |point: &Point| self.known.value(point).unwrap_or(f64::INFINITY);
            simpler.retain(|point| {
                let step = value(point) - value(&current);
                let is_worthless =
                    step < self.settings.min_difference / 2.0 && value(point) < limit;
                is_worthless || step < 2.0 * self.noise_between(point, &current)
            });
            match simpler.into_iter().min_by(|a, b| value(a).total_cmp(&value(b))) {
                Some(point) => current = point,
                None => return Ok(current),
            }
        }
    }

    /// Returns the measured point below the limit that differs from the defaults in the fewest options, each of which
    /// has the winner's value.
    fn simplest_measured(&self, winner: &Point, limit: f64) -> Point {
        let is_simpler = |point: &Point| {
            let pairs = point.0.iter().zip(&winner.0);
            let noise = self.noise_between(point, winner);
            let is_below = self.known.value(point).is_some_and(|value| value + noise < limit);
            is_below && pairs.into_iter().all(|(value, own)| *value == 0 || value == own)
        };
        let count = |point: &Point| point.0.iter().filter(|value| **value != 0).count();
        let simpler = self.known.order().iter().filter(|point| is_simpler(point));
        simpler.min_by_key(|point| count(point)).unwrap_or(winner).clone()
    }

    /// Measures a simpler form of the best point, before the neighbourhood takes the rest of the budget.
    pub(super) fn measure_simpler(&mut self) -> Result<(), E::Error> {
        let best = self.best();
        if let Some(limit) = self.limit(&best) {
            self.reset_together(best, limit)?;
        }
        Ok(())
    }

    /// Resets all options at once that the model expects to be worthless, which takes fewer trials than resetting them
    /// one after the other. As long as the measurement disagrees, only half of them remain reset: those with the
    /// smallest expected cost.
    fn reset_together(&mut self, winner: Point, limit: f64) -> Result<Point, E::Error> {
        let Some(model) = &self.model else { return Ok(winner) };
        let step =
            (self.settings.min_difference / 2.0).max(2.0 * self.noise_between(&winner, &winner));
        let mut simpler: Vec<Point> = Vec::new();
        let mut current = winner.clone();
        while let Some(next) = self.cheapest_reset(model, &current)
            && model.mean(&next) - model.mean(&current) < step
        {
            simpler.push(next.clone());
            current = next;
        }
        let mut count = simpler.len();
        while count > 1 {
            let point = &simpler[count - 1];
            if !self.known.is_known(point) {
                self.measure_affordable(vec![point.clone()])?;
            }
            if self.known.value(point).is_some_and(|value| value < limit) {
                return Ok(point.clone());
            }
            count /= 2;
        }
        Ok(winner)
    }

    /// Returns the value below which a simpler point replaces a winner: the winner's value plus the minimum difference
    /// that matters. The winner is the best of many points, so part of its lead may be a residual that no option
    /// explains; up to the minimum difference, this part is added to the limit.
    fn limit(&self, winner: &Point) -> Option<f64> {
        let (best, least) = (self.known.value(winner)?, self.settings.min_difference);
        let expected = self.model.as_ref().map_or(best, |model| model.mean(winner));
        Some(expected.clamp(best, best + least) + least)
    }

    /// Returns the standard deviation of the difference of two measured points that is due to noise.
    fn noise_between(&self, one: &Point, other: &Point) -> f64 {
        self.known.deviation(one).hypot(self.known.deviation(other))
    }

    /// Returns the point that the model expects to be the fastest after the reset of one option of `from`.
    fn cheapest_reset(&self, model: &Model, from: &Point) -> Option<Point> {
        (0..from.0.len())
            .filter(|option| from.0[*option] != 0)
            .map(|option| from.with(option, 0))
            .filter(|point| self.candidates.allows(point))
            .min_by(|a, b| model.mean(a).total_cmp(&model.mean(b)))
    }

    /// Measures points that determine the average effects more exactly, each time the point about which the model knows
    /// least, until every effect of at least [`MIN_RELEVANT_EFFECT`] is known to within [`MAX_DEVIATION`]. The earlier
    /// points of the search lie near the optimum, where the effects of options may differ from their averages.
    pub(super) fn learn_averages(&mut self) -> Result<(), SearchError<E::Error>> {
        self.reserved = 0;
        for _ in 0..self.settings.averages.min(self.points_left()) {
            self.fit()?;
            let Some(model) = &self.model else { break };
            if self.candidates.values().all(|value| is_exact(model, value)) {
                break;
            }
            let known = &self.known;
            let skip = |point: &Point| known.is_known(point);
            let score = |point: &Point| model.predict(point).1;
            let next = self.candidates.highest(&[], &mut self.draws, &skip, &score);
            let Some((point, _)) = next else { break };
            self.measure_one(point).map_err(SearchError::Evaluator)?;
        }
        Ok(())
    }

    /// Compares the winner with the default on fresh seeds.
    fn confirm(&mut self, winner: &Point) -> Result<Option<Comparison>, E::Error> {
        let default = self.candidates.space.default_point();
        if self.settings.confirm == 0 || *winner == default {
            return Ok(None);
        }
        let from = self.settings.first + FRESH_SEED_OFFSET;
        let seeds = from..from + u64::from(self.settings.confirm);
        let requested = seeds.flat_map(|seed| [(default.clone(), seed), (winner.clone(), seed)]);
        self.known.measure(self.evaluator, requested.collect::<Vec<_>>())?;
        Ok(self.known.compare(&default, winner, from))
    }

    pub(super) fn result(mut self, winner: Point) -> Result<SearchResult, SearchError<E::Error>> {
        let cut_short = !self.unmeasured_neighbours(&winner).is_empty();
        // The fresh seeds must not influence the effects and the certificate.
        let search_results = self.known.clone();
        let comparison = self.confirm(&winner).map_err(SearchError::Evaluator)?;
        let trials = self.known.trials();
        self.known = search_results;
        let gain = -self.known.value(&winner).unwrap_or(0.0);
        let is_confirmed = match (&comparison, self.settings.confirm) {
            (Some(comparison), _) => shows_improvement(comparison, self.settings.min_difference),
            (None, 0) => gain > self.settings.min_difference.ln_1p(),
            (None, _) => false,
        };
        let default = self.candidates.space.default_point();
        let unconfirmed = (!is_confirmed && winner != default).then(|| winner.clone());
        let fastest = self.best();
        // The worth of options is shown for the point that won the search, whether it was confirmed or not.
        let displayed = winner.clone();
        self.fitted_points = 0;
        self.model = None;
        self.fit()?;
        let model = self.model.take().ok_or(SearchError::Model)?;
        let (known, draws) = (&self.known, &mut self.draws);
        let measured = known.order().iter().filter_map(|point| {
            Some(Measured {
                point: point.clone(),
                time: known.time(point)?,
                value: known.value(point)?,
                deviation: known.deviation(point),
                trials: known.seeds(point).len(),
            })
        });
        Ok(SearchResult {
            measured: measured.collect(),
            effects: effects(&self.candidates, known, Some(&model), &displayed, draws),
            interactions: interactions(
                &self.candidates,
                &model,
                self.settings.min_difference,
                MAX_INTERACTIONS,
            ),
            refused: known
                .refused()
                .map(|(point, message)| (point.clone(), message.to_string()))
                .collect(),
            refused_values: self.candidates.refused().to_vec(),
            certificate: certificate(&self.candidates, known, &model, &displayed, draws),
            noise: known.noise(),
            winner: if is_confirmed { winner } else { default },
            fastest,
            confirmed: comparison,
            unconfirmed,
            trials,
            cut_short,
        })
    }
}

/// Returns true if the average effect of a value is known exactly enough, or too small to matter.
fn is_exact(model: &Model, (option, value): (usize, u8)) -> bool {
    let (log, deviation) = model.average(option, value);
    deviation < MAX_DEVIATION || log.abs() + 2.0 * deviation < MIN_RELEVANT_EFFECT
}

/// Returns true if a comparison shows that the new point is faster by more than `least`, and not by chance.
fn shows_improvement(comparison: &Comparison, least: f64) -> bool {
    let is_faster = comparison.ratio < 1.0 / (1.0 + least);
    is_faster && (comparison.exact || comparison.p.is_some_and(|p| p < CONFIRMATION_LEVEL))
}
