//! Determines how much each value of an option changes the time.

use fsdyno_record::seed::SplitMix64;

use crate::design::Candidates;
use crate::evaluations::Evaluations;
use crate::model::Model;
use crate::space::Point;

/// The number of points over which an effect is averaged in a large space.
const SAMPLED: usize = 400;

/// The number of standard deviations of noise within which an effect counts as zero.
const DEVIATIONS: f64 = 3.0;

/// A measured effect: the logarithm of a ratio of times, and its standard deviation due to noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// The logarithm of the ratio; negative is faster.
    pub log: f64,
    /// Its standard deviation due to noise.
    pub deviation: f64,
}

impl Worth {
    /// Returns the relative change of the time: -0.1 is 10 % less.
    pub fn change(self) -> f64 {
        self.log.exp_m1()
    }

    /// Returns true if the effect is smaller than `least`, with allowance for noise.
    pub fn is_negligible(self, least: f64) -> bool {
        self.log.abs() + DEVIATIONS * self.deviation < least.ln_1p()
    }
}

/// The effect of a value of an option.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The option.
    pub option: usize,
    /// The value.
    pub value: u8,
    /// The effect with the defaults of all other options.
    pub alone: Option<Worth>,
    /// The effect with the winner's values of all other options.
    pub with_winner: Option<Worth>,
    /// The effect averaged over the space, according to the model: the logarithm of a ratio of times.
    pub average: Option<f64>,
}

impl Effect {
    /// Returns true if the value changes the time by less than `least`: alone, with the winner, and on average.
    pub fn is_negligible(&self, least: f64) -> bool {
        let measured = [self.alone, self.with_winner];
        let average = self.average.is_none_or(|log| log.abs() < least.ln_1p());
        measured.iter().any(Option::is_some)
            && measured.iter().flatten().all(|worth| worth.is_negligible(least))
            && average
    }

    /// Returns the largest absolute effect, for ranking.
    pub fn size(&self) -> f64 {
        let measured =
            [self.alone, self.with_winner].into_iter().flatten().map(|worth| worth.log.abs());
        measured.fold(self.average.unwrap_or(0.0).abs(), f64::max)
    }
}

/// The interaction of two values: how much more or less they change the time together than separately.
#[derive(Clone, Debug, PartialEq)]
pub struct Interaction {
    /// An option and its value.
    pub one: (usize, u8),
    /// A second option and its value.
    pub other: (usize, u8),
    /// The logarithm of the ratio, averaged over the space, according to the model.
    pub log: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

/// Returns the effects of all values, largest first.
pub fn effects(
    candidates: &Candidates<'_>,
    known: &Evaluations,
    model: Option<&Model>,
    winner: &Point,
    draws: &mut SplitMix64,
) -> Vec<Effect> {
    let default = candidates.space.default_point();
    let sample = candidates.sample(SAMPLED, draws);
    let mut all = Vec::new();
    for (option, definition) in candidates.space.options.iter().enumerate() {
        for value in 1..definition.values.len() as u8 {
            if candidates.refused().contains(&(option, value)) {
                continue;
            }
            let measured_effect = |context: &Point| {
                let (base, new) = (context.with(option, 0), context.with(option, value));
                let log = known.value(&new)? - known.value(&base)?;
                let deviation = known.deviation(&new).hypot(known.deviation(&base));
                Some(Worth { log, deviation })
            };
            let average =
                model.and_then(|model| average(candidates, model, &sample, (option, value)));
            let (alone, with_winner) = (measured_effect(&default), measured_effect(winner));
            all.push(Effect { option, value, alone, with_winner, average });
        }
    }
    all.sort_by(|a, b| b.size().total_cmp(&a.size()));
    all
}

/// Returns the mean difference, according to the model, between a value and the default of its option.
fn average(
    candidates: &Candidates<'_>,
    model: &Model,
    sample: &[Point],
    (option, value): (usize, u8),
) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for point in sample {
        let (default, changed) = (point.with(option, 0), point.with(option, value));
        // If all points are in the sample, each pair occurs once for each value of the option.
        let is_repeated = candidates.is_whole() && point.0[option] != 0;
        if is_repeated || !candidates.allows(&default) || !candidates.allows(&changed) {
            continue;
        }
        sum += model.mean(&changed) - model.mean(&default);
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

/// Returns at most `max_count` interactions that are larger than `least` and larger than twice their deviation, largest
/// first.
pub fn interactions(
    candidates: &Candidates<'_>,
    model: &Model,
    least: f64,
    max_count: usize,
) -> Vec<Interaction> {
    let values: Vec<(usize, u8)> = candidates.values().collect();
    let mut all = Vec::new();
    for (index, first) in values.iter().enumerate() {
        for second in values[index + 1..].iter().filter(|second| second.0 != first.0) {
            let (log, deviation) = model.interaction(*first, *second);
            if log.abs() > least && log.abs() > 2.0 * deviation {
                all.push(Interaction { one: *first, other: *second, log, deviation });
            }
        }
    }
    all.sort_by(|a, b| b.log.abs().total_cmp(&a.log.abs()));
    all.truncate(max_count);
    all
}
