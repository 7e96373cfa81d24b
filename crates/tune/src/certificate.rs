//! The certificate: which part of a space is excluded, on what evidence, and which part is not.

use fsdyno_record::seed::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::design::Candidates;
use crate::evaluations::Evaluations;
use crate::model::Model;
use crate::space::Point;

/// The number of standard deviations of the model by which a point must be slower to be excluded.
pub const DEVIATIONS: f64 = 6.0;

/// The number of points sampled in a large space.
const SAMPLED: usize = 4_000;

/// The evidence about a space.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence<V> {
    /// The number of combinations of values, including conflicting and refused ones.
    pub combinations: u64,
    /// The number of points examined: all allowed ones, or a random sample of them.
    pub points: u64,
    /// True if all points were examined.
    pub is_whole: bool,
    /// The number of examined points that were measured or refused.
    pub measured: u64,
    /// The number of examined points that were neither measured nor refused, but are excluded by the model.
    pub excluded: u64,
    /// The number of remaining points: neither measured nor excluded.
    pub rest: u64,
    /// The largest gain over the winner that the model's bound allows for a remaining point (0.02 is 2 %).
    pub largest_gain: f64,
    /// The largest gain over the winner that the model expects for a remaining point.
    pub expected_gain: f64,
    /// The factor by which the model's errors at left-out points exceed the errors that it states; its bounds are
    /// widened by this factor.
    pub calibration: f64,
    /// The values of options whose points are all excluded.
    pub values: Vec<V>,
}

/// The evidence that a search found.
pub type Certificate = Evidence<Excluded>;

impl Certificate {
    /// Returns the same evidence with its values in a different form.
    pub fn map<V>(&self, convert: impl Fn(&Excluded) -> V) -> Evidence<V> {
        let Evidence { combinations, points, is_whole, measured, excluded, rest, .. } = *self;
        let Evidence { largest_gain, expected_gain, calibration, .. } = *self;
        let values = self.values.iter().map(convert).collect();
        Evidence {
            combinations,
            points,
            is_whole,
            measured,
            excluded,
            rest,
            largest_gain,
            expected_gain,
            calibration,
            values,
        }
    }
}

/// A value of an option whose points are all excluded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Excluded {
    /// The option.
    pub option: usize,
    /// The value.
    pub value: u8,
    /// The minimum amount by which points with this value are slower, as a fraction of the winner's time.
    pub least: f64,
    /// The number of points examined.
    pub points: u64,
}

#[cfg(test)]
/// Returns true if a point is excluded: it is slower than `best` as measured, or according to the bound of the model.
pub fn excludes(known: &Evaluations, model: &Model, best: f64, point: &Point) -> bool {
    lower_bound(known, model, point) > best
}

/// Returns the lower bound of the logarithm of a point's time.
fn lower_bound(known: &Evaluations, model: &Model, point: &Point) -> f64 {
    match known.value(point) {
        Some(value) => value - DEVIATIONS * known.deviation(point),
        None => {
            let (mean, deviation) = model.predict(point);
            mean - DEVIATIONS * deviation
        }
    }
}

/// Computes the certificate of a winner.
pub fn certificate(
    candidates: &Candidates<'_>,
    known: &Evaluations,
    model: &Model,
    winner: &Point,
    draws: &mut SplitMix64,
) -> Certificate {
    let best = known.value(winner).unwrap_or(0.0);
    let sample = candidates.sample(SAMPLED, draws);
    let mut certificate = Certificate {
        combinations: candidates.space.combinations(),
        points: sample.len() as u64,
        is_whole: candidates.is_whole(),
        calibration: model.calibration(),
        ..Certificate::default()
    };
    // The lowest bound and the number of points for each value.
    let levels = candidates.space.levels();
    let mut bounds: Vec<Vec<(f64, u64)>> =
        levels.iter().map(|levels| vec![(f64::INFINITY, 0); usize::from(*levels)]).collect();
    for point in &sample {
        let bound = lower_bound(known, model, point);
        match () {
            () if known.is_known(point) => certificate.measured += 1,
            () if bound > best => certificate.excluded += 1,
            () => {
                certificate.rest += 1;
                certificate.largest_gain = certificate.largest_gain.max(-(bound - best).exp_m1());
                certificate.expected_gain =
                    certificate.expected_gain.max(-(model.mean(point) - best).exp_m1());
            }
        }
        if known.refusal(point).is_some() {
            continue;
        }
        for (option, value) in point.0.iter().enumerate() {
            let value_bound = &mut bounds[option][usize::from(*value)];
            *value_bound = (value_bound.0.min(bound), value_bound.1 + 1);
        }
    }
    for (option, bounds) in bounds.iter().enumerate() {
        for (value, (bound, points)) in (0u8..).zip(bounds) {
            if *points > 0 && *bound > best && winner.0[option] != value {
                let slowdown = (bound - best).exp_m1();
                certificate.values.push(Excluded {
                    option,
                    value,
                    least: slowdown,
                    points: *points,
                });
            }
        }
    }
    certificate.values.sort_by(|a, b| b.least.total_cmp(&a.least));
    certificate
}
