//! Fits a processor profile: finds the costs of instructions and events that explain measured CPU times.
//!
//! The fit minimizes the squares of the relative errors with nonnegative costs (Lawson and Hanson, "Solving Least
//! Squares Problems", 1974, chapter 23), by coordinate descent; points far from the model count less, by
//! the inverse of their error (iteratively reweighted least squares, Holland and Welsch 1977, with the L1 weight).

use std::collections::BTreeMap;

use fsdyno_record::processor::EVENTS;

/// The number of costs: one for an instruction, and one per event.
pub const COSTS: usize = 1 + EVENTS.len();

/// The CPU time of an operation on a real machine, and the counts of the same operation in the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The file system.
    pub filesystem: String,
    /// The operation: the workload's phase.
    pub operation: String,
    /// An additional condition, such as the length of names.
    pub setting: String,
    /// Measured CPU time per operation, in nanoseconds.
    pub measured_ns: f64,
    /// Instructions per operation, then events ([`EVENTS`]).
    pub counts: [f64; COSTS],
}

/// Costs in nanoseconds: that of an instruction, then that of each event.
pub type Costs = [f64; COSTS];

/// The accuracy with which costs predict points that were not part of their fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validation {
    /// Median of the relative error of a CPU time.
    pub median: f64,
    /// The largest relative error.
    pub worst: f64,
    /// Root mean square of the log errors of the ratios between two file systems (lab over host), as a factor.
    pub ratio: f64,
    /// Pairs of file systems that differ by more than 10 % on the host.
    pub differing_pairs: usize,
    /// The number of these pairs that are predicted in the wrong order.
    pub wrong_order: usize,
    /// Pairs of file systems that differ by at most 10 % on the host.
    pub alike_pairs: usize,
    /// The number of these pairs that are predicted to differ by more than 10 %.
    pub false_differences: usize,
    /// Each point with its predicted time in nanoseconds.
    pub predicted: Vec<(Point, f64)>,
}

/// The number of times that the weights are recomputed.
const ROUNDS: usize = 25;
/// The number of passes over all costs in each least-squares solution.
const SWEEPS: usize = 2000;
/// The relative error below which points have equal weight.
const MIN_ERROR: f64 = 0.04;
/// The maximum relative difference between file systems that count as alike.
const ALIKE_DIFFERENCE: f64 = 0.1;

/// Returns the time that costs predict for counts, in nanoseconds.
pub fn predict(costs: &Costs, counts: &[f64; COSTS]) -> f64 {
    costs.iter().zip(counts).map(|(cost, count)| cost * count).sum()
}

/// Returns the costs that best explain the points.
pub fn fit(points: &[Point]) -> Costs {
    let rows: Vec<[f64; COSTS]> =
        points.iter().map(|point| point.counts.map(|count| count / point.measured_ns)).collect();
    let mut weights = vec![1.0; rows.len()];
    let mut costs = [0.0; COSTS];
    for _ in 0..ROUNDS {
        costs = least_squares(&rows, &weights, costs);
        for (weight, row) in weights.iter_mut().zip(&rows) {
            let error = (predict(&costs, row) - 1.0).abs();
            *weight = 1.0 / error.max(MIN_ERROR);
        }
    }
    costs
}

/// Minimizes the weighted squares of `row * costs - 1` over nonnegative costs.
fn least_squares(rows: &[[f64; COSTS]], weights: &[f64], start: Costs) -> Costs {
    let mut gram = [[0.0; COSTS]; COSTS];
    let mut rhs = [0.0; COSTS];
    for (row, weight) in rows.iter().zip(weights) {
        for i in 0..COSTS {
            rhs[i] += weight * row[i];
            for j in 0..COSTS {
                gram[i][j] += weight * row[i] * row[j];
            }
        }
    }
    let mut costs = start;
    for _ in 0..SWEEPS {
        for i in 0..COSTS {
            if gram[i][i] > 0.0 {
                let others: f64 =
                    (0..COSTS).filter(|j| *j != i).map(|j| gram[i][j] * costs[j]).sum();
                costs[i] = ((rhs[i] - others) / gram[i][i]).max(0.0);
            }
        }
    }
    costs
}

/// Predicts each point from a fit that excludes all points with the same `key`.
pub fn validate<K: Ord>(points: &[Point], key: impl Fn(&Point) -> K) -> Validation {
    let mut groups: BTreeMap<K, Vec<Point>> = BTreeMap::new();
    for point in points {
        groups.entry(key(point)).or_default().push(point.clone());
    }
    let mut predicted = Vec::new();
    for (excluded, group) in &groups {
        let remaining: Vec<Point> =
            points.iter().filter(|point| key(point) != *excluded).cloned().collect();
        let costs = fit(&remaining);
        predicted.extend(group.iter().map(|point| (point.clone(), predict(&costs, &point.counts))));
    }
    judge(predicted)
}

/// Compares predictions with measurements.
pub fn judge(predicted: Vec<(Point, f64)>) -> Validation {
    let mut errors: Vec<f64> =
        predicted.iter().map(|(point, ns)| (ns / point.measured_ns - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let (mut squares, mut pairs, mut differing_pairs, mut wrong_order) = (0.0, 0, 0, 0);
    let mut false_differences = 0;
    for (index, (a, a_ns)) in predicted.iter().enumerate() {
        for (b, b_ns) in &predicted[index + 1..] {
            if (&a.operation, &a.setting) != (&b.operation, &b.setting) {
                continue;
            }
            let (host, lab) = ((a.measured_ns / b.measured_ns).ln(), (a_ns / b_ns).ln());
            squares += (lab - host).powi(2);
            pairs += 1;
            if host.abs() > ALIKE_DIFFERENCE.ln_1p() {
                differing_pairs += 1;
                wrong_order += usize::from(host.signum() != lab.signum());
            } else {
                false_differences += usize::from(lab.abs() > ALIKE_DIFFERENCE.ln_1p());
            }
        }
    }
    Validation {
        median: errors.get(errors.len() / 2).copied().unwrap_or_default(),
        worst: errors.last().copied().unwrap_or_default(),
        ratio: (squares / pairs.max(1) as f64).sqrt().exp(),
        alike_pairs: pairs - differing_pairs,
        false_differences,
        differing_pairs,
        wrong_order,
        predicted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTH: Costs = [0.0625, 107.0, 17.0, 85.0, 8.0, 2.0];

    /// Returns points that the costs explain exactly, with counts similar to those of real operations.
    fn points() -> Vec<Point> {
        let mut draws = fsdyno_record::seed::stream(1, "points");
        let mut draw = |max: f64| (draws.draw() % 10_000) as f64 / 10_000.0 * max;
        let mut points = Vec::new();
        for filesystem in ["ext4", "xfs", "btrfs"] {
            for operation in ["create", "stat", "unlink", "rename", "chmod"] {
                let counts =
                    [draw(40_000.0), 1.0, draw(100.0), draw(40.0), draw(90.0), draw(1000.0)];
                points.push(Point {
                    filesystem: filesystem.into(),
                    operation: operation.into(),
                    setting: String::new(),
                    measured_ns: predict(&TRUTH, &counts),
                    counts,
                });
            }
        }
        points
    }

    #[test]
    fn exact_costs_are_recovered_and_predict_the_excluded_points() {
        let points = points();
        for (cost, truth) in fit(&points).iter().zip(TRUTH) {
            assert!((cost / truth - 1.0).abs() < 0.01, "{cost} is not {truth}");
        }
        let validation = validate(&points, |point| point.filesystem.clone());
        assert!(
            validation.worst < 0.02 && validation.ratio < 1.01,
            "{} {}",
            validation.worst,
            validation.ratio
        );
        assert_eq!((validation.wrong_order, validation.predicted.len()), (0, 15));
    }

    #[test]
    fn an_outlier_changes_other_predictions_little_and_raises_the_error() {
        let mut points = points();
        points[3].measured_ns *= 2.0;
        let costs = fit(&points);
        for (index, point) in points.iter().enumerate().filter(|(index, _)| *index != 3) {
            let error = (predict(&costs, &point.counts) / point.measured_ns - 1.0).abs();
            assert!(error < 0.1, "{index}: {error}");
        }
        let validation = validate(&points, |point| point.operation.clone());
        assert!(
            validation.worst > 0.4 && validation.ratio > 1.1,
            "{} {}",
            validation.worst,
            validation.ratio
        );
    }

    #[test]
    fn a_cost_is_never_negative() {
        let mut points = points();
        for point in &mut points {
            point.measured_ns = predict(&TRUTH, &point.counts) - 1.0 * point.counts[5];
        }
        assert!(fit(&points).iter().all(|cost| *cost >= 0.0));
    }
}
