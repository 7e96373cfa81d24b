//! The results of points, and what can be derived from them without a model.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_stats::compare::{Comparison, paired, welch};

use crate::model::Datum;
use crate::settings::Settings;
use crate::space::Point;

/// The result of a trial of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample {
    /// The time, or another positive measure for which less is better.
    Time(f64),
    /// The point is impossible: mkfs or mount refused it, with this message.
    Refused(String),
}

/// A source of results.
pub trait Evaluator {
    /// The error that ends a search.
    type Error;

    /// Returns the results of these points under these seeds, in their order.
    ///
    /// # Errors
    /// The reason why there are no results.
    fn measure(&mut self, requested: &[(Point, u64)]) -> Result<Vec<Sample>, Self::Error>;

    /// Returns the maximum number of trials of the whole search, which may become known only during the search.
    fn budget(&self, trials: usize) -> usize {
        trials
    }
}

/// The results so far.
#[derive(Clone, Debug, Default)]
pub struct Evaluations {
    paired: bool,
    times: BTreeMap<Point, BTreeMap<u64, f64>>,
    refused: BTreeMap<Point, String>,
    /// The order in which points were first measured.
    order: Vec<Point>,
    base: Point,
    trials: usize,
}

impl Evaluations {
    /// Creates an empty set of results; `base` is the default point.
    pub fn new(base: Point, settings: &Settings) -> Evaluations {
        Evaluations { base, paired: settings.paired, ..Evaluations::default() }
    }

    /// Returns the number of trials.
    pub fn trials(&self) -> usize {
        self.trials
    }

    /// Returns the measured points, in the order of their first trials.
    pub fn order(&self) -> &[Point] {
        &self.order
    }

    /// Measures the points and seeds that are not yet known.
    pub fn measure<E: Evaluator>(
        &mut self,
        evaluator: &mut E,
        requested: impl IntoIterator<Item = (Point, u64)>,
    ) -> Result<(), E::Error> {
        let mut new: Vec<(Point, u64)> = Vec::new();
        for (point, seed) in requested {
            let is_known = self.times.get(&point).is_some_and(|times| times.contains_key(&seed));
            let is_new = !is_known && !self.refused.contains_key(&point);
            if is_new && !new.contains(&(point.clone(), seed)) {
                new.push((point, seed));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let samples = evaluator.measure(&new)?;
        self.trials += new.len();
        for ((point, seed), sample) in new.into_iter().zip(samples) {
            match sample {
                Sample::Time(time) if time > 0.0 && time.is_finite() => {
                    let times = self.times.entry(point.clone()).or_default();
                    if times.is_empty() {
                        self.order.push(point);
                    }
                    times.insert(seed, time);
                }
                Sample::Time(time) => drop(
                    self.refused
                        .insert(point, format!("its time, {time}, is not a positive number")),
                ),
                Sample::Refused(message) => drop(self.refused.insert(point, message)),
            }
        }
        Ok(())
    }

    /// Returns true if a point was measured.
    pub fn has(&self, point: &Point) -> bool {
        self.times.contains_key(point)
    }

    /// Returns true if a point was measured or refused.
    pub fn is_known(&self, point: &Point) -> bool {
        self.has(point) || self.refused.contains_key(point)
    }

    /// Returns the message with which a point was refused, if it was.
    pub fn refusal(&self, point: &Point) -> Option<&str> {
        self.refused.get(point).map(String::as_str)
    }

    /// Returns the refused points, each with its message.
    pub fn refused(&self) -> impl Iterator<Item = (&Point, &str)> {
        self.refused.iter().map(|(point, message)| (point, message.as_str()))
    }

    /// Returns the seeds with which a point was measured.
    pub fn seeds(&self, point: &Point) -> BTreeSet<u64> {
        self.times.get(point).map(|known| known.keys().copied().collect()).unwrap_or_default()
    }

    /// Returns the geometric mean of the times of a point.
    pub fn time(&self, point: &Point) -> Option<f64> {
        let times = self.times.get(point)?;
        Some((times.values().map(|time| time.ln()).sum::<f64>() / times.len() as f64).exp())
    }

    /// Returns the logarithms of the times of a point relative to the default: if trials are paired, one logarithm for
    /// each common seed; otherwise one for each trial, relative to the default's mean.
    fn relative(&self, point: &Point) -> Option<Vec<f64>> {
        let (times, base) = (self.times.get(point)?, self.times.get(&self.base)?);
        if self.paired {
            let logs = times.iter().filter_map(|(seed, time)| Some((time / base.get(seed)?).ln()));
            return Some(logs.collect()).filter(|logs: &Vec<f64>| !logs.is_empty());
        }
        let base_mean = base.values().map(|time| time.ln()).sum::<f64>() / base.len() as f64;
        Some(times.values().map(|time| time.ln() - base_mean).collect())
    }

    /// Returns the mean logarithm of the time of a point relative to the default.
    pub fn value(&self, point: &Point) -> Option<f64> {
        let logs = self.relative(point)?;
        Some(logs.iter().sum::<f64>() / logs.len() as f64)
    }

    /// Returns the standard deviation of the logarithm of one trial's relative time, pooled over all points with
    /// several trials.
    pub fn noise(&self) -> f64 {
        let (mut squares, mut degrees_of_freedom) = (0.0, 0.0);
        for point in &self.order {
            if self.paired && *point == self.base {
                continue;
            }
            let Some(logs) = self.relative(point).filter(|logs| logs.len() > 1) else { continue };
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            degrees_of_freedom += (logs.len() - 1) as f64;
        }
        if degrees_of_freedom > 0.0 { (squares / degrees_of_freedom).sqrt() } else { 0.0 }
    }

    /// Returns the standard deviation of the value of a point due to noise.
    pub fn deviation(&self, point: &Point) -> f64 {
        if self.paired && *point == self.base {
            return 0.0;
        }
        let count = |point: &Point| self.times.get(point).map_or(1, BTreeMap::len).max(1) as f64;
        let base_share = if self.paired { 0.0 } else { 1.0 / count(&self.base) };
        self.noise() * (1.0 / count(point) + base_share).sqrt()
    }

    /// Returns the data of all measured points, for a model.
    pub fn data(&self) -> Vec<Datum> {
        let noise = self.noise().powi(2);
        let datum = |point: &Point| {
            let count = self.times.get(point).map_or(1, BTreeMap::len).max(1) as f64;
            let is_base = self.paired && *point == self.base;
            let noise = if is_base { 0.0 } else { noise / count };
            Some(Datum { point: point.clone(), value: self.value(point)?, noise })
        };
        self.order.iter().filter_map(datum).collect()
    }

    /// Returns the point with the smallest value.
    pub fn best(&self) -> Option<&Point> {
        let values = self.order.iter().filter_map(|point| Some((point, self.value(point)?)));
        values.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(point, _)| point)
    }

    /// Compares two points, by seed if trials are paired; only seeds from `first_seed` on count.
    pub fn compare(&self, base: &Point, new: &Point, first_seed: u64) -> Option<Comparison> {
        let (base, new) = (self.times.get(base)?, self.times.get(new)?);
        if self.paired {
            let pairs =
                base.range(first_seed..).filter_map(|(seed, time)| Some((*time, *new.get(seed)?)));
            return paired(&pairs.collect::<Vec<_>>());
        }
        let values = |times: &BTreeMap<u64, f64>| {
            times.range(first_seed..).map(|(_, time)| *time).collect::<Vec<_>>()
        };
        welch(&values(base), &values(new))
    }
}
