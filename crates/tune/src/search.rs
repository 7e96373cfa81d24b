//! The search. Its steps measure each option alone, a screening design, the points that may be the best, and the
//! neighbourhood of the best one; a race on paired seeds and a comparison on fresh seeds follow.

mod last;

use fsdyno_record::seed::{SplitMix64, stream};
use fsdyno_stats::compare::Comparison;

use crate::certificate::Certificate;
use crate::design::{Candidates, improvement};
use crate::effects::{Effect, Interaction};
use crate::evaluations::{Evaluations, Evaluator};
use crate::model::{Model, Variances};
use crate::settings::Settings;
use crate::space::{Point, Space};

/// The maximum number of rounds, each of which measures the neighbourhood, runs the race and simplifies the winner.
const ROUNDS: usize = 4;

/// The smallest difference that matters, divided by the predicted gain below which no further point is tried. [OWN]
const MIN_GAIN_DIVISOR: f64 = 20.0;

/// The result of a search.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// The recommended point; the default if no other point is worth a change.
    pub winner: Point,
    /// The point that was fastest in the search, before options that gain nothing were reset to their defaults.
    pub fastest: Point,
    /// The comparison, on seeds not used in the search, of the default with the point that won the search, or `None`
    /// without confirmation.
    pub confirmed: Option<Comparison>,
    /// The point that won the search but was not confirmed, which is why the default is recommended.
    pub unconfirmed: Option<Point>,
    /// The measured points, in the order of their first trials.
    pub measured: Vec<Measured>,
    /// The effect of each value, largest first.
    pub effects: Vec<Effect>,
    /// The interactions that matter according to the model.
    pub interactions: Vec<Interaction>,
    /// The points that mkfs or mount refused, each with the message.
    pub refused: Vec<(Point, String)>,
    /// The values that were refused on their own and therefore dropped, each with its option.
    pub refused_values: Vec<(usize, u8)>,
    /// The evidence about the space.
    pub certificate: Certificate,
    /// The number of trials.
    pub trials: usize,
    /// The standard deviation of the logarithm of a trial's time relative to the default's.
    pub noise: f64,
    /// True if the budget was exhausted before the neighbourhood of the winner was measured.
    pub cut_short: bool,
}

/// A measured point.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The point.
    pub point: Point,
    /// The geometric mean of its times.
    pub time: f64,
    /// The logarithm of its time relative to the default.
    pub value: f64,
    /// The standard deviation of `value` that is due to noise.
    pub deviation: f64,
    /// The number of trials.
    pub trials: usize,
}

/// The reason why a search has no result.
#[derive(Debug, thiserror::Error)]
pub enum SearchError<E> {
    /// The default itself cannot be measured.
    #[error("the default cannot be measured: {0}")]
    DefaultRefused(String),
    /// The budget is too small for one decision.
    #[error(
        "a budget of {given} trials is too small for one decision, which takes at least {least}: 1 for the default, \
         {values} for the values, each measured alone, and {confirm} to estimate the noise and to confirm the winner; \
         give at least --budget {least}trials, or fewer options with --only"
    )]
    Budget {
        /// The budget.
        given: usize,
        /// Number of values that are not defaults.
        values: usize,
        /// Trials that estimate the noise and confirm the winner.
        confirm: usize,
        /// The minimum number of trials that suffices.
        least: usize,
    },
    /// A model could not be computed.
    #[error("the model of the space is numerically impossible")]
    Model,
    /// The evaluator failed.
    #[error("{0}")]
    Evaluator(E),
}

/// Returns the minimum number of trials of a search.
pub fn least_trials(space: &Space, settings: &Settings) -> usize {
    1 + value_count(space) + extra_trials(settings)
}

fn value_count(space: &Space) -> usize {
    space.options.iter().map(|option| option.values.len() - 1).sum()
}

/// Returns the number of trials that estimate the noise and confirm the winner.
fn extra_trials(settings: &Settings) -> usize {
    3 * (settings.pilot as usize).saturating_sub(1) + 2 * settings.confirm as usize
}

struct Search<'a, E: Evaluator> {
    settings: &'a Settings,
    evaluator: &'a mut E,
    candidates: Candidates<'a>,
    known: Evaluations,
    draws: SplitMix64,
    /// The number of trials of each new point.
    repeats: u32,
    model: Option<Model>,
    variances: Variances,
    /// The number of points when the variances were last fitted.
    fitted_points: usize,
    /// The number of trials reserved for average effects: the effect of each value over all other options.
    reserved: usize,
}

/// Searches a space for its best point.
///
/// # Errors
/// A default that cannot be measured, a budget that is too small, or the evaluator's own error.
pub fn search<E: Evaluator>(
    space: &Space,
    settings: &Settings,
    evaluator: &mut E,
) -> Result<SearchResult, SearchError<E::Error>> {
    let min_trials = least_trials(space, settings);
    if settings.trials < min_trials {
        let (given, confirm) = (settings.trials, extra_trials(settings));
        return Err(SearchError::Budget {
            given,
            values: value_count(space),
            confirm,
            least: min_trials,
        });
    }
    let known = Evaluations::new(space.default_point(), settings);
    let mut search = Search {
        settings,
        evaluator,
        candidates: Candidates::new(space),
        known,
        draws: stream(settings.seed, "tune"),
        repeats: 1,
        model: None,
        variances: Variances::prior(space.options.len()),
        fitted_points: 0,
        reserved: settings.averages.min((settings.trials - min_trials) / 2),
    };
    search.measure_each_alone().map_err(SearchError::Evaluator)?;
    let default = space.default_point();
    if let Some(message) = search.known.refusal(&default) {
        return Err(SearchError::DefaultRefused(message.into()));
    }
    search.screen()?;
    search.improve()?;
    let winner = search.finish_neighbourhood()?;
    search.learn_averages()?;
    search.result(winner)
}

impl<E: Evaluator> Search<'_, E> {
    /// Returns the number of trials left, excluding those reserved for average effects and the confirmation.
    fn trials_left(&self) -> usize {
        let all = self.evaluator.budget(self.settings.trials).min(self.settings.trials);
        let reserved = self.reserved + 2 * self.settings.confirm as usize;
        all.saturating_sub(self.known.trials() + reserved)
    }

    /// Returns the number of points that can still be measured.
    fn points_left(&self) -> usize {
        self.trials_left() / self.repeats as usize
    }

    fn measure(&mut self, points: &[Point]) -> Result<(), E::Error> {
        let seeds = self.settings.first..self.settings.first + u64::from(self.repeats);
        let requested =
            points.iter().flat_map(|point| seeds.clone().map(move |seed| (point.clone(), seed)));
        self.known.measure(self.evaluator, requested.collect::<Vec<_>>())
    }

    /// Measures a point. If it is refused, finds a minimal set of its values that is refused, so that no other point
    /// with these values is tried: resets each option in turn, and leaves it reset if the rest is still refused.
    fn measure_one(&mut self, point: Point) -> Result<(), E::Error> {
        self.measure(std::slice::from_ref(&point))?;
        if self.known.refusal(&point).is_none() {
            return Ok(());
        }
        let mut minimal = point;
        for option in 0..minimal.0.len() {
            let reduced = minimal.with(option, 0);
            if minimal.0[option] == 0 || !self.candidates.allows(&reduced) {
                continue;
            }
            if !self.known.is_known(&reduced) {
                if self.points_left() == 0 {
                    return Ok(());
                }
                self.measure(std::slice::from_ref(&reduced))?;
            }
            if self.known.refusal(&reduced).is_some() {
                minimal = reduced;
            }
        }
        self.candidates.refuse_together(&minimal);
        Ok(())
    }

    /// Measures the default and each value alone, drops values that are refused, and estimates the noise.
    fn measure_each_alone(&mut self) -> Result<(), E::Error> {
        let default = self.candidates.space.default_point();
        let alone = self.candidates.neighbours(&default);
        self.measure(std::slice::from_ref(&default))?;
        if !self.known.has(&default) {
            return Ok(());
        }
        self.measure(&alone)?;
        let measured = alone.iter().filter(|point| self.known.has(point)).take(2);
        let pilot: Vec<Point> = std::iter::once(&default).chain(measured).cloned().collect();
        let seeds = self.settings.first..self.settings.first + u64::from(self.settings.pilot);
        let requested = seeds.flat_map(|seed| pilot.iter().map(move |point| (point.clone(), seed)));
        self.known.measure(self.evaluator, requested.collect::<Vec<_>>())?;
        // Each point is repeated until its noise is below the smallest difference that matters, as far as the budget
        // covers that for every value and for as many further points.
        let requested =
            (self.known.noise() / self.settings.min_difference).powi(2).ceil().clamp(1.0, 16.0)
                as u32;
        let affordable = self.trials_left() / (2 * alone.len()).max(1);
        self.repeats = requested.min(affordable as u32).max(1);
        let mut points = vec![default.clone()];
        points.extend(alone.iter().cloned());
        self.measure(&points)?;
        for point in &alone {
            if self.known.refusal(point).is_some()
                && let Some(option) = point.0.iter().position(|value| *value > 0)
            {
                self.candidates.refuse((option, point.0[option]));
            }
        }
        Ok(())
    }

    /// Measures a design: at each step, the point about which the model knows least. This is a sequential D-optimal
    /// design for main effects and interactions under the model's prior (DuMouchel and Jones 1994).
    fn screen(&mut self) -> Result<(), SearchError<E::Error>> {
        let space = self.candidates.space;
        let requested = (2 * value_count(space) + 2).max(8).min(self.points_left() / 2);
        for _ in 0..requested {
            let data = self.known.data();
            let model = Model::with_variances(
                &space.levels(),
                &data,
                Variances::prior(space.options.len()),
            );
            let model = model.ok_or(SearchError::Model)?;
            let known = &self.known;
            let skip = |point: &Point| known.is_known(point);
            let score = |point: &Point| model.predict(point).1;
            let starts = [space.default_point()];
            let next = self.candidates.highest(&starts, &mut self.draws, &skip, &score);
            let Some((point, _)) = next else { return Ok(()) };
            self.measure_one(point).map_err(SearchError::Evaluator)?;
        }
        Ok(())
    }

    /// Fits the model to all data; its variances are fitted again only if there are enough new points.
    fn fit(&mut self) -> Result<(), SearchError<E::Error>> {
        let (levels, data) = (self.candidates.space.levels(), self.known.data());
        let refits_variances = self.model.is_none() || data.len() >= self.fitted_points + 4;
        let model = match refits_variances {
            true => Model::fit(&levels, &data, self.variances.clone()),
            false => Model::with_variances(&levels, &data, self.variances.clone()),
        };
        let model = model.ok_or(SearchError::Model)?;
        if refits_variances {
            (self.variances, self.fitted_points) = (model.variances().clone(), data.len());
        }
        self.model = Some(model);
        Ok(())
    }

    /// Returns the best measured point.
    fn best(&self) -> Point {
        self.known.best().cloned().unwrap_or_else(|| self.candidates.space.default_point())
    }

    /// Repeatedly measures the most promising point, until the model expects no improvement or the rest of the budget
    /// is needed for the neighbourhood.
    fn improve(&mut self) -> Result<(), SearchError<E::Error>> {
        loop {
            self.fit()?;
            let best = self.best();
            let unmeasured = self.unmeasured_neighbours(&best).len();
            if self.points_left() <= unmeasured {
                return Ok(());
            }
            let Some(next) = self.most_promising(&best) else { return Ok(()) };
            self.measure_one(next).map_err(SearchError::Evaluator)?;
        }
    }

    /// Returns the point with the largest expected improvement, if that is worth a trial.
    fn most_promising(&mut self, best: &Point) -> Option<Point> {
        let (model, known) = (self.model.as_ref()?, &self.known);
        let value = known.value(best)?;
        let skip = |point: &Point| known.is_known(point);
        let score = |point: &Point| improvement(model, point, value);
        let starts = [best.clone(), self.candidates.space.default_point()];
        let (next, gain) = self.candidates.highest(&starts, &mut self.draws, &skip, &score)?;
        (gain > self.settings.min_difference / MIN_GAIN_DIVISOR).then_some(next)
    }

    fn unmeasured_neighbours(&self, point: &Point) -> Vec<Point> {
        let mut unmeasured = self.candidates.neighbours(point);
        unmeasured.retain(|point| !self.known.is_known(point));
        unmeasured
    }

    /// Measures the neighbourhood of the best point, races the best points, simplifies the winner, and measures the
    /// winner's neighbours; repeats this until no neighbour is better. Returns the winner.
    fn finish_neighbourhood(&mut self) -> Result<Point, SearchError<E::Error>> {
        self.measure_simpler().map_err(SearchError::Evaluator)?;
        let mut winner = self.best();
        for _ in 0..ROUNDS {
            winner = self.search_neighbourhood(self.best())?;
            winner = self.race(winner).map_err(SearchError::Evaluator)?;
            winner = self.simplify(winner).map_err(SearchError::Evaluator)?;
            let unmeasured = self.unmeasured_neighbours(&winner);
            if unmeasured.is_empty() || self.points_left() == 0 {
                break;
            }
            self.measure_affordable(unmeasured).map_err(SearchError::Evaluator)?;
            self.fit()?;
            let best = self.best();
            let gain =
                self.known.value(&winner).zip(self.known.value(&best)).map_or(0.0, |(a, b)| a - b);
            if gain <= self.settings.min_difference {
                break;
            }
        }
        Ok(winner)
    }

    /// Measures these points, or as many as the budget allows, the most promising first.
    fn measure_affordable(&mut self, mut points: Vec<Point>) -> Result<(), E::Error> {
        if let Some(model) = &self.model {
            points.sort_by(|a, b| model.mean(a).total_cmp(&model.mean(b)));
        }
        points.truncate(self.points_left());
        self.measure(&points)
    }

    /// Measures the neighbours of a point, and moves to a better point as soon as one is found.
    fn search_neighbourhood(&mut self, from: Point) -> Result<Point, SearchError<E::Error>> {
        let mut center = from;
        loop {
            let mut unmeasured = self.unmeasured_neighbours(&center);
            if unmeasured.is_empty() || self.points_left() == 0 {
                return Ok(center);
            }
            if let Some(model) = &self.model {
                unmeasured.sort_by(|a, b| model.mean(a).total_cmp(&model.mean(b)));
            }
            for point in unmeasured.into_iter().take(self.points_left()) {
                self.measure_one(point).map_err(SearchError::Evaluator)?;
                let best = self.best();
                if best != center {
                    center = best;
                    break;
                }
            }
            self.fit()?;
        }
    }
}

#[cfg(test)]
mod tests;
