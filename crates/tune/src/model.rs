//! A model of the logarithm of the time over a space: a Gaussian process with a functional-ANOVA kernel.
//!
//! The kernel is `s (prod_d (1 + a_d / s c_d(x, y)) - 1)` plus a constant. The contrast `c_d` is 1 for equal values of
//! option `d`, otherwise `-1 / (levels - 1)`, so that its mean over the values is zero. Then `a_d` is the variance of
//! the main effect of `d`, `a_d a_e / s` that of the interaction of `d` and `e`, and so on for three or more options
//! (Durrande, Ginsbourger, Roustant and Carraro 2013, ANOVA kernels and RKHS of zero mean functions). The variances are
//! estimated from the data by maximum likelihood.

use crate::linear::{Factor, dot};
use crate::space::Point;

/// The prior variance of the constant.
const CONSTANT: f64 = 4.0;

/// The minimum and the maximum variance of a main effect: the squares of 0.01 % and of a factor of e.
const EFFECT_RANGE: (f64, f64) = (1e-8, 1.0);

/// The minimum and the maximum scale of the interactions.
const SCALE_RANGE: (f64, f64) = (1e-4, 30.0);

/// The minimum and the maximum variance of the residual, which no option explains: the squares of 0.01 % and of 10 %.
const RESIDUAL_RANGE: (f64, f64) = (1e-8, 1e-2);

/// The factors by which the search for variances changes them, first coarsely, then finely.
const STEPS: [f64; 3] = [16.0, 4.0, 1.6];

/// The variances of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Variances {
    /// The variance of the main effect of each option.
    pub effects: Vec<f64>,
    /// The scale of the interactions: a larger scale makes them smaller.
    pub scale: f64,
    /// The variance of the residual, which no option explains.
    pub rest: f64,
}

impl Variances {
    /// Returns the variances assumed before any measurement: for effects of 5 % and interactions of 2 %.
    pub fn prior(options: usize) -> Variances {
        Variances { effects: vec![2.5e-3; options], scale: 1.6e-2, rest: 1e-6 }
    }
}

/// A measured point: the mean of the logarithm, and the variance of that mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Datum {
    /// The point.
    pub point: Point,
    /// The logarithm of its time relative to that of the default.
    pub value: f64,
    /// The variance of the value due to noise.
    pub noise: f64,
}

/// A fitted model.
#[derive(Clone, Debug)]
pub struct Model {
    levels: Vec<u8>,
    data: Vec<Datum>,
    variances: Variances,
    factor: Factor,
    weights: Vec<f64>,
    centre: f64,
    /// The factor by which the errors at left-out points exceed the errors that the model states; at least 1.
    calibration: f64,
}

/// Returns 1 for equal values, otherwise the negative number that makes the mean over all values zero; 0 for an option
/// with only one value.
fn contrast(levels: u8, a: u8, b: u8) -> f64 {
    match (levels, a == b) {
        (0 | 1, _) => 0.0,
        (_, true) => 1.0,
        _ => -1.0 / f64::from(levels - 1),
    }
}

fn kernel(levels: &[u8], variances: &Variances, a: &Point, b: &Point) -> f64 {
    let mut product = 1.0;
    for (option, levels) in levels.iter().enumerate() {
        product *= 1.0
            + variances.effects[option] / variances.scale
                * contrast(*levels, a.0[option], b.0[option]);
    }
    CONSTANT + variances.scale * (product - 1.0)
}

impl Model {
    /// Creates the model of some data with given variances; returns `None` if that is numerically impossible.
    pub fn with_variances(levels: &[u8], data: &[Datum], variances: Variances) -> Option<Model> {
        let n = data.len();
        let centre = data.iter().map(|datum| datum.value).sum::<f64>() / n.max(1) as f64;
        let factor = Factor::new(n, |row, column| {
            let noise = if row == column { data[row].noise + variances.rest } else { 0.0 };
            kernel(levels, &variances, &data[row].point, &data[column].point) + noise
        })?;
        let values: Vec<f64> = data.iter().map(|datum| datum.value - centre).collect();
        let weights = factor.solve(&values);
        let levels = levels.to_vec();
        let data = data.to_vec();
        Some(Model { levels, data, variances, factor, weights, centre, calibration: 1.0 })
    }

    /// Creates the model whose variances fit the data best; the search for them begins at `start`.
    pub fn fit(levels: &[u8], data: &[Datum], start: Variances) -> Option<Model> {
        let mut best = start;
        let mut likelihood = log_likelihood(levels, data, &best);
        for step in STEPS {
            for _ in 0..4 {
                let previous = likelihood;
                for parameter in 0..best.effects.len() + 2 {
                    for factor in [step, 1.0 / step] {
                        let candidate = scaled(&best, parameter, factor);
                        let candidate_likelihood = log_likelihood(levels, data, &candidate);
                        if candidate_likelihood > likelihood + 1e-9 {
                            (best, likelihood) = (candidate, candidate_likelihood);
                            break;
                        }
                    }
                }
                if likelihood - previous < 0.05 {
                    break;
                }
            }
        }
        Model::with_variances(levels, data, best).map(Model::with_calibration)
    }

    /// Returns the variances.
    pub fn variances(&self) -> &Variances {
        &self.variances
    }

    /// Returns the factor by which the errors at left-out points exceed the errors that the model states.
    pub fn calibration(&self) -> f64 {
        self.calibration
    }

    /// Sets the calibration, by comparing the error at each left-out point with the stated one.
    fn with_calibration(mut self) -> Model {
        let inverse = self.factor.inverse_diagonal();
        let squares: f64 = self
            .weights
            .iter()
            .zip(&inverse)
            .map(|(weight, inverse)| weight * weight / inverse)
            .sum();
        self.calibration = (squares / self.data.len().max(1) as f64).sqrt().max(1.0);
        self
    }

    fn covariances(&self, point: &Point) -> Vec<f64> {
        self.data
            .iter()
            .map(|datum| kernel(&self.levels, &self.variances, point, &datum.point))
            .collect()
    }

    /// Returns the mean of the logarithm at a point.
    pub fn mean(&self, point: &Point) -> f64 {
        self.centre + dot(&self.covariances(point), &self.weights)
    }

    /// Returns the mean and the standard deviation of the logarithm at a point, including the residual.
    pub fn predict(&self, point: &Point) -> (f64, f64) {
        let covariances = self.covariances(point);
        let mean = self.centre + dot(&covariances, &self.weights);
        let known = self.factor.forward(&covariances);
        let prior = kernel(&self.levels, &self.variances, point, point) + self.variances.rest;
        (mean, (prior - dot(&known, &known)).max(0.0).sqrt() * self.calibration)
    }

    /// Returns the effect of a value relative to the default of its option, averaged over all combinations of the other
    /// options, with its standard deviation.
    pub fn average(&self, option: usize, value: u8) -> (f64, f64) {
        let levels = self.levels[option];
        let contrast_to_default =
            |known: u8| contrast(levels, value, known) - contrast(levels, 0, known);
        let strength = self.variances.effects[option];
        let covariance: Vec<f64> = self
            .data
            .iter()
            .map(|datum| strength * contrast_to_default(datum.point.0[option]))
            .collect();
        let prior = strength * (contrast_to_default(value) - contrast_to_default(0));
        let known = self.factor.forward(&covariance);
        let deviation = (prior - dot(&known, &known)).max(0.0).sqrt() * self.calibration;
        (dot(&covariance, &self.weights), deviation)
    }

    /// Returns the interaction of two values relative to the defaults of their options, averaged over all other
    /// options, with its standard deviation.
    pub fn interaction(&self, one: (usize, u8), other: (usize, u8)) -> (f64, f64) {
        let (a, b) = (one.0, other.0);
        let contrasts = |option: usize, value: u8, known: u8| {
            contrast(self.levels[option], value, known) - contrast(self.levels[option], 0, known)
        };
        let strength = self.variances.effects[a] * self.variances.effects[b] / self.variances.scale;
        let covariance: Vec<f64> = self
            .data
            .iter()
            .map(|datum| {
                strength
                    * contrasts(a, one.1, datum.point.0[a])
                    * contrasts(b, other.1, datum.point.0[b])
            })
            .collect();
        let own_contrast = |option: usize, value: u8| {
            contrasts(option, value, value) - contrasts(option, value, 0)
        };
        let prior = strength * own_contrast(a, one.1) * own_contrast(b, other.1);
        let known = self.factor.forward(&covariance);
        let deviation = (prior - dot(&known, &known)).max(0.0).sqrt() * self.calibration;
        (dot(&covariance, &self.weights), deviation)
    }
}

/// Returns the variances with one parameter multiplied by a factor, within its range.
fn scaled(original: &Variances, parameter: usize, factor: f64) -> Variances {
    let mut variances = original.clone();
    let options = variances.effects.len();
    match parameter {
        index if index < options => {
            variances.effects[index] =
                (variances.effects[index] * factor).clamp(EFFECT_RANGE.0, EFFECT_RANGE.1);
        }
        index if index == options => {
            variances.scale = (variances.scale * factor).clamp(SCALE_RANGE.0, SCALE_RANGE.1)
        }
        _ => variances.rest = (variances.rest * factor).clamp(RESIDUAL_RANGE.0, RESIDUAL_RANGE.1),
    }
    variances
}

/// Returns the logarithm of the likelihood, with a weak prior that favours variances of effects near 1e-4 (1 %).
fn log_likelihood(levels: &[u8], data: &[Datum], variances: &Variances) -> f64 {
    let Some(model) = Model::with_variances(levels, data, variances.clone()) else {
        return f64::NEG_INFINITY;
    };
    let values: Vec<f64> = data.iter().map(|datum| datum.value - model.centre).collect();
    let fit = dot(&values, &model.weights);
    let prior: f64 =
        variances.effects.iter().map(|variance| 0.05 * (variance / 1e-4).ln().abs()).sum();
    -0.5 * (fit + model.factor.log_determinant()) - prior
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn a_model_finds_the_effects_and_the_interaction_of_its_data() {
        // 2^4 points: the third and fourth options do nothing.
        let time = |p: &Point| {
            0.3 * f64::from(p.0[0]) - 0.1 * f64::from(p.0[1]) + 0.05 * f64::from(p.0[0] * p.0[1])
        };
        let all = synthetic::points(&[2, 2, 2, 2]);
        let data: Vec<Datum> = all
            .iter()
            .step_by(2)
            .chain(all.iter().skip(1).step_by(6))
            .map(|point| Datum { point: point.clone(), value: time(point), noise: 0.0 })
            .collect();
        let model = Model::fit(&[2, 2, 2, 2], &data, Variances::prior(4)).unwrap();
        for point in &all {
            let (mean, deviation) = model.predict(point);
            assert!((mean - time(point)).abs() < 0.01, "{point:?}: {mean}");
            assert!((mean - time(point)).abs() < 5.0 * deviation + 1e-3);
        }
        let effects = &model.variances().effects;
        assert!(effects[0] > 100.0 * effects[2], "{effects:?}");
        let (interaction, deviation) = model.interaction((0, 1), (1, 1));
        assert!((interaction - 0.05).abs() < 0.01, "{interaction} {deviation}");
        assert!(model.interaction((0, 1), (3, 1)).0.abs() < 0.005);
    }

    #[test]
    fn measured_points_are_certain_and_distant_ones_are_not() {
        let data = [Datum { point: Point(vec![0, 0]), value: 0.0, noise: 0.0 }];
        let model = Model::with_variances(&[2, 3], &data, Variances::prior(2)).unwrap();
        let (_, near) = model.predict(&Point(vec![0, 0]));
        let (_, far) = model.predict(&Point(vec![1, 2]));
        assert!(near < 0.01 && far > 0.03, "{near} {far}");
    }
}
