//! Computes the verdict of a claim from its parts alone: estimates compared with bounds.
//!
//! A claim holds if all of its parts lie within their bounds, and does not hold if one lies outside; it is reversed
//! only if all parts are reversed. A number must keep a margin from its bounds, 5 % of the bound by default,
//! independent of the number of seeds: smaller differences do not count. With two seeds or more, the whole 95 %
//! interval must be on the same side, too, and the claims of a variant are corrected for their number
//! ([`correct`], Holm 1979). An exponent is judged by the interval of its fit, without a margin.

use fsdyno_stats::Estimate;
use fsdyno_stats::holm::holm;
use fsdyno_stats::interval::LEVEL;

/// An estimate and its bounds.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name, if a claim has several parts: `xfs over ext2`.
    pub what: String,
    /// The number, in the unit of the bounds.
    pub estimate: Estimate,
    /// Lower bound.
    pub above: Option<Edge>,
    /// Upper bound.
    pub below: Option<Edge>,
    /// True for a comparison of two sides that can be reversed: 1 means no difference; beyond 1 the claim is reversed.
    pub ratio: bool,
    /// The measured rows: run and label.
    pub rows: Vec<(String, String)>,
    /// Typical error of the processor profile in a ratio of two file systems (0.2 is 20 %), for the CPU's share of the
    /// time, or zero if no profile matters.
    pub model: f64,
    /// True if it is fitted to points: only its interval decides, and two points, which an exponent
    /// always fits exactly, have none.
    pub fitted: bool,
}

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// Value of the bound.
    pub value: f64,
    /// True if the bound itself is within.
    pub included: bool,
}

impl Edge {
    /// Creates an exclusive bound.
    pub fn exclusive(value: f64) -> Edge {
        Edge { value, included: false }
    }

    /// Creates an inclusive bound.
    pub fn inclusive(value: f64) -> Edge {
        Edge { value, included: true }
    }

    fn is_below(self, value: f64) -> bool {
        value > self.value || (self.included && value == self.value)
    }

    fn is_above(self, value: f64) -> bool {
        value < self.value || (self.included && value == self.value)
    }
}

/// The position of an estimate relative to its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Certainly within the bounds.
    Within,
    /// Certainly outside them.
    Outside,
    /// Undecided.
    Undecided,
}

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Position of the claim.
    pub position: Position,
    /// True if it is outside and all of its parts are reversed: for example, a claimed increase is a decrease.
    pub reversed: bool,
    /// The deciding part: the most certain one outside, or else the first undecided one, or else the one nearest to its
    /// bound.
    pub part: usize,
    /// Position of each part by itself.
    pub positions: Vec<Position>,
    /// P-value of the position, or of the reversal if `reversed`, corrected for all claims of the variant; `None` if no
    /// variation was seen.
    pub p: Option<f64>,
    /// The correction that withheld a verdict for which the intervals alone would have sufficed.
    pub withheld_by: Option<Correction>,
    /// Corrected p-value of the reversal, if the intervals show a reversal and this p-value does not.
    pub uncertain_reversal: Option<f64>,
}

/// The correction that made a p-value too large although the intervals would have decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// In the permutation test, too many relabellings separate the trials as far as the true labels do.
    Relabelled,
    /// The deciding part is the most certain of several.
    Parts,
    /// The claim is one of several.
    Claims,
}

/// Returns the value from which a claimed difference of any size counts: `margin` beyond 1 on the claimed side.
/// `None` for a claim with a bound other than 1.
pub fn counts_from(above: Option<Edge>, below: Option<Edge>, margin: f64) -> Option<f64> {
    let one = Edge::exclusive(1.0);
    match (above, below) {
        (Some(edge), None) if edge == one => Some(1.0 + margin),
        (None, Some(edge)) if edge == one => Some(1.0 / (1.0 + margin)),
        _ => None,
    }
}

impl Part {
    /// Returns the position according to the interval, if any, and to `margin`.
    pub fn position(&self, margin: f64) -> Position {
        let value = self.estimate.value;
        match self.estimate.interval {
            _ if self.inside_model() => Position::Undecided,
            None if self.fitted => Position::Undecided,
            None => self.position_of_range(value, value, margin),
            Some((low, high)) if self.fitted => self.position_of_range(low, high, 0.0),
            Some(_) if self.no_difference(margin) => Position::Outside,
            Some((low, high)) => {
                let by_interval = self.position_of_range(low, high, 0.0);
                let by_margin = self.position_of_range(value, value, margin);
                if by_interval == by_margin { by_interval } else { Position::Undecided }
            }
        }
    }

    /// Returns the position of the range from `low` to `high`; the margin narrows the bounds for a position
    /// within and widens them for one outside.
    fn position_of_range(&self, low: f64, high: f64, margin: f64) -> Position {
        let raised_edge =
            |edge: Edge| Edge { value: edge.value + edge.value.abs() * margin, ..edge };
        let lowered_edge =
            |edge: Edge| Edge { value: edge.value - edge.value.abs() * margin, ..edge };
        let within = self.above.is_none_or(|edge| raised_edge(edge).is_below(low))
            && self.below.is_none_or(|edge| lowered_edge(edge).is_above(high));
        let outside = self.above.is_some_and(|edge| !lowered_edge(edge).is_below(high))
            || self.below.is_some_and(|edge| !raised_edge(edge).is_above(low));
        match (within, outside) {
            (true, _) => Position::Within,
            (_, true) => Position::Outside,
            _ => Position::Undecided,
        }
    }

    /// Returns whether a difference of any size is claimed and none that counts exists: on the claimed side, the
    /// interval does not exceed the value of [`counts_from`] (like `Comparison::regressed` of `fsdyno_stats`).
    pub fn no_difference(&self, margin: f64) -> bool {
        let limit = self.counted_limit(margin);
        let (Some(limit), Some((low, high))) = (limit, self.estimate.interval) else {
            return false;
        };
        if self.above.is_some() { high <= limit } else { low >= limit }
    }

    /// Returns the value from which the claimed difference counts ([`counts_from`]); `None` if it is not a ratio.
    fn counted_limit(&self, margin: f64) -> Option<f64> {
        counts_from(self.above, self.below, margin).filter(|_| self.ratio)
    }

    /// Returns whether a difference is claimed and the estimate itself falls short of the value that counts: more
    /// repeats can only show its absence.
    pub fn falls_short(&self, margin: f64) -> bool {
        let value = self.estimate.value;
        let falls_short = |limit: f64| match self.above {
            Some(_) => value < limit,
            None => value > limit,
        };
        self.counted_limit(margin).is_some_and(falls_short)
    }

    /// Returns whether it is reversed: the estimate and its whole interval lie on the side of 1 opposite to the claim,
    /// and the estimate is more than `margin` away from 1.
    pub fn is_reversed(&self, margin: f64) -> bool {
        let value = self.estimate.value;
        let (low, high) = self.estimate.interval.unwrap_or((value, value));
        let claims_more = self.above.is_some_and(|edge| edge.value >= 1.0);
        let claims_less = self.below.is_some_and(|edge| edge.value <= 1.0);
        self.ratio
            && ((claims_more && high < 1.0 && value < 1.0 / (1.0 + margin))
                || (claims_less && low > 1.0 && value > 1.0 + margin))
    }

    /// Returns whether it is nearer to a bound than the margin, on either side.
    pub fn too_near(&self, margin: f64) -> bool {
        let value = self.estimate.value;
        !self.fitted && self.position_of_range(value, value, margin) == Position::Undecided
    }

    /// Returns whether the estimate lies within this factor of one of its bounds.
    pub fn is_near(&self, factor: f64) -> bool {
        let value = self.estimate.value;
        let mut edges = [self.above, self.below].into_iter().flatten().map(|edge| edge.value);
        edges.any(|edge| value > 0.0 && edge > 0.0 && (value / edge).ln().abs() <= factor.ln())
    }

    /// Returns whether there is only a single seed, and more could decide.
    pub fn is_one_seed(&self) -> bool {
        self.estimate.interval.is_none() && !self.fitted && !self.inside_model()
    }

    /// Returns whether the processor profile's error leaves open on which side of a bound the ratio lies.
    pub fn inside_model(&self) -> bool {
        self.model > 0.0 && self.is_near(1.0 + self.model)
    }

    /// Returns whether the estimate itself lies within the bounds, certain or not.
    fn seems_within(&self) -> bool {
        let value = self.estimate.value;
        self.above.is_none_or(|edge| edge.is_below(value))
            && self.below.is_none_or(|edge| edge.is_above(value))
    }

    /// Returns the bound nearest to the estimate, by ratio, or by difference if one of the two is not positive.
    pub fn nearest(&self) -> Option<f64> {
        let value = self.estimate.value;
        let distance = |edge: f64| {
            let factor = if value > 0.0 && edge > 0.0 { (value / edge).ln() } else { value - edge };
            factor.abs()
        };
        let edges = [self.above, self.below].into_iter().flatten().map(|edge| edge.value);
        edges.min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
    }

    /// Returns the bound that the p-value tests. It is the nearest one; for a claimed difference it is 1, or the value
    /// from which the difference counts if the estimate falls short of that value.
    pub fn tested_at(&self, margin: f64) -> Option<f64> {
        self.counted_limit(margin).filter(|_| self.falls_short(margin)).or_else(|| self.nearest())
    }

    /// Returns the p-value of its apparent position: within, by both bounds, or outside. It is two-sided, so
    /// it is below 5 % if and only if the interval excludes the bound.
    fn p(&self, margin: f64) -> Option<f64> {
        let edges = || [self.above, self.below].into_iter().flatten();
        if self.seems_within() && !self.falls_short(margin) {
            let all: Option<Vec<f64>> = edges().map(|edge| self.estimate.p(edge.value)).collect();
            return all?.into_iter().reduce(f64::max);
        }
        self.estimate.p(self.tested_at(margin)?)
    }
}

/// The outcome of a claim by itself, with uncorrected p-values.
struct Uncorrected {
    outcome: Outcome,
    /// P-value of the reversal, tested at 1 regardless of the bound; `None` if not reversed or no variation was seen.
    reversal_p: Option<f64>,
    /// The correction that makes the p-value too large, if any.
    withheld_by: Option<Correction>,
    /// The part that the p-value is for: if all are within, the least certain one instead of the nearest.
    tested: usize,
}

/// Returns the outcome of each claim of one variant, given its parts and their margin.
pub fn correct(claims: &[(Vec<Part>, f64)]) -> Vec<Option<Outcome>> {
    let uncorrected: Vec<Option<Uncorrected>> =
        claims.iter().map(|(parts, margin)| uncorrected(parts, *margin)).collect();
    let p = |claim: &Option<Uncorrected>| claim.as_ref().and_then(|claim| claim.outcome.p);
    let reversal_p =
        |claim: &Option<Uncorrected>| claim.as_ref().and_then(|claim| claim.reversal_p);
    let positions = corrected_p_values(uncorrected.iter().map(p).collect());
    // A reversed claim is also outside, and is certain to be outside before it is certain to be reversed: each claim
    // is one test in this family, too, of the stronger assertion.
    let reversals = uncorrected.iter().map(|claim| reversal_p(claim).or(p(claim)));
    let reversals = corrected_p_values(reversals.collect());
    let claims = uncorrected.into_iter().zip(positions.into_iter().zip(reversals));
    claims
        .map(|(claim, (position_p, reversal_p))| Some(claim?.corrected(position_p, reversal_p)))
        .collect()
}

/// Applies Holm's correction. Entries without a p-value were not tested and are not counted: numbers from a single
/// seed, and numbers that never varied.
fn corrected_p_values(p: Vec<Option<f64>>) -> Vec<Option<f64>> {
    let tested: Vec<f64> = p.iter().flatten().copied().collect();
    let mut corrected = holm(&tested).into_iter();
    p.into_iter().map(|p| p.and_then(|_| corrected.next())).collect()
}

fn is_too_large(p: f64) -> bool {
    p >= 1.0 - LEVEL
}

impl Uncorrected {
    /// Returns the outcome with corrected p-values of the position and of the reversal.
    fn corrected(self, position_p: Option<f64>, reversal_p: Option<f64>) -> Outcome {
        let mut outcome = self.outcome;
        let reversal_p = reversal_p.filter(|_| self.reversal_p.is_some());
        if outcome.reversed && !reversal_p.is_some_and(is_too_large) {
            return Outcome { p: reversal_p, ..outcome };
        }
        outcome.reversed = false;
        outcome.p = position_p;
        if position_p.is_some_and(is_too_large) && outcome.position != Position::Undecided {
            (outcome.position, outcome.part) = (Position::Undecided, self.tested);
            outcome.withheld_by = self.withheld_by.or(Some(Correction::Claims));
        } else {
            outcome.uncertain_reversal = reversal_p;
        }
        outcome
    }
}

/// Returns the index of the part with the largest p-value; `None` if there are no parts.
fn least_certain(parts: &[Part], margin: f64) -> Option<usize> {
    let p = |part: &Part| part.p(margin).unwrap_or(0.0);
    let all = parts.iter().enumerate();
    all.max_by(|(_, a), (_, b)| p(a).total_cmp(&p(b))).map(|(index, _)| index)
}

/// Returns the outcome of a claim by itself; `None` if it has no parts.
fn uncorrected(parts: &[Part], margin: f64) -> Option<Uncorrected> {
    let positions: Vec<Position> = parts.iter().map(|part| part.position(margin)).collect();
    let matching = |position: Position| {
        let all = parts.iter().zip(&positions).enumerate();
        all.filter(move |(_, (_, found))| **found == position)
            .map(|(index, (part, _))| (index, part))
    };
    // Of the parts outside, one without a p-value is the most certain.
    let most_certain = matching(Position::Outside)
        .min_by(|(_, a), (_, b)| a.p(margin).unwrap_or(0.0).total_cmp(&b.p(margin).unwrap_or(0.0)));
    let smallest = |list: &[&Part]| list.iter().filter_map(|part| part.p(margin)).reduce(f64::min);
    let largest = || parts.iter().filter_map(|part| part.p(margin)).reduce(f64::max);
    let distance = |part: &Part| {
        let bound = part.nearest().unwrap_or(f64::INFINITY);
        (part.estimate.value / bound).ln().abs()
    };
    // `selected_from` is the number of parts from which the part was selected.
    let (position, part, p, selected_from) =
        match (most_certain, matching(Position::Undecided).next()) {
            (Some((index, part)), _) => (Position::Outside, index, part.p(margin), parts.len()),
            (None, Some((index, _))) => {
                let missed: Vec<&Part> = parts.iter().filter(|part| !part.seems_within()).collect();
                match missed.is_empty() {
                    true => (Position::Undecided, index, largest(), 1),
                    false => (Position::Undecided, index, smallest(&missed), parts.len()),
                }
            }
            // All must be within: the largest p-value counts.
            (None, None) => {
                let all = parts.iter().enumerate();
                let nearest = all.min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
                (Position::Within, nearest?.0, largest(), 1)
            }
        };
    // Bonferroni's correction for the selection from several parts.
    let corrected_p = p.map(|p| (p * selected_from as f64).min(1.0));
    let withheld_by = match (p, corrected_p) {
        (Some(p), _) if is_too_large(p) => Some(Correction::Relabelled),
        (_, Some(p)) if is_too_large(p) => Some(Correction::Parts),
        _ => None,
    };
    let tested = match position {
        Position::Within => least_certain(parts, margin).unwrap_or(part),
        _ => part,
    };
    let reversed =
        position == Position::Outside && parts.iter().all(|part| part.is_reversed(margin));
    let p_at_one = || parts.iter().filter_map(|part| part.estimate.p(1.0)).reduce(f64::max);
    let reversal_p = if reversed { p_at_one() } else { None };
    let outcome = Outcome {
        position,
        reversed,
        part,
        positions,
        p: corrected_p,
        withheld_by: None,
        uncertain_reversal: None,
    };
    Some(Uncorrected { outcome, reversal_p, withheld_by, tested })
}
