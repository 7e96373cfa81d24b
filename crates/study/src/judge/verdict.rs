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
    /// Typical error of the processor profile in a ratio of two file systems (0.2 is 20 %), for the CPU's share of
    /// the time; zero if no profile matters.
    pub model: f64,
    /// True if it is fitted to points: only its interval decides, and two points, which an exponent
    /// always fits exactly, have none.
    pub fitted: bool,
}

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// Value of the bound.
    pub at: f64,
    /// True if the bound itself is within.
    pub included: bool,
}

impl Edge {
    /// Creates an exclusive bound.
    pub fn beyond(at: f64) -> Edge {
        Edge { at, included: false }
    }

    /// Creates an inclusive bound.
    pub fn upto(at: f64) -> Edge {
        Edge { at, included: true }
    }

    fn is_below(self, value: f64) -> bool {
        value > self.at || (self.included && value == self.at)
    }

    fn is_above(self, value: f64) -> bool {
        value < self.at || (self.included && value == self.at)
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
    pub stand: Position,
    /// True if it is outside and all of its parts are reversed: for example, a claimed increase is a decrease.
    pub turned: bool,
    /// The deciding part: the most certain one outside, or else the first undecided one, or else the one nearest to its
    /// bound.
    pub part: usize,
    /// Position of each part by itself.
    pub stands: Vec<Position>,
    /// P-value of the position, or of the reversal if `turned`, corrected for all claims of the variant; `None` if no
    /// variation was seen.
    pub p: Option<f64>,
    /// The correction that withheld a verdict for which the intervals alone would have sufficed.
    pub lost: Option<Lost>,
    /// Corrected p-value of the reversal, if the intervals show a reversal and this p-value does not.
    pub unsure_turned: Option<f64>,
}

/// The correction that made a p-value too large although the intervals would have decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// In the permutation test, too many relabellings separate the trials as far.
    Relabelled,
    /// The deciding part is the most certain of several.
    Parts,
    /// The claim is one of several.
    Claims,
}

/// Returns the value from which a claimed difference of any size counts: `margin` beyond 1 on the claimed side.
/// `None` for a claim with a bound other than 1.
pub fn counts_from(above: Option<Edge>, below: Option<Edge>, margin: f64) -> Option<f64> {
    let one = Edge::beyond(1.0);
    match (above, below) {
        (Some(edge), None) if edge == one => Some(1.0 + margin),
        (None, Some(edge)) if edge == one => Some(1.0 / (1.0 + margin)),
        _ => None,
    }
}

impl Part {
    /// Returns the position according to the interval, if any, and to `margin`.
    pub fn stand(&self, margin: f64) -> Position {
        let value = self.estimate.value;
        match self.estimate.interval {
            _ if self.inside_model() => Position::Undecided,
            None if self.fitted => Position::Undecided,
            None => self.place(value, value, margin),
            Some((low, high)) if self.fitted => self.place(low, high, 0.0),
            Some(_) if self.no_difference(margin) => Position::Outside,
            Some((low, high)) => {
                let (sure, far) = (self.place(low, high, 0.0), self.place(value, value, margin));
                if sure == far { sure } else { Position::Undecided }
            }
        }
    }

    /// Returns the position of the range from `low` to `high`; the margin narrows the bounds for a position
    /// within and widens them for one outside.
    fn place(&self, low: f64, high: f64, margin: f64) -> Position {
        let up = |edge: Edge| Edge { at: edge.at + edge.at.abs() * margin, ..edge };
        let down = |edge: Edge| Edge { at: edge.at - edge.at.abs() * margin, ..edge };
        let within = self.above.is_none_or(|edge| up(edge).is_below(low))
            && self.below.is_none_or(|edge| down(edge).is_above(high));
        let outside = self.above.is_some_and(|edge| !down(edge).is_below(high))
            || self.below.is_some_and(|edge| !up(edge).is_above(low));
        match (within, outside) {
            (true, _) => Position::Within,
            (_, true) => Position::Outside,
            _ => Position::Undecided,
        }
    }

    /// Returns whether a difference of any size is claimed and none that counts exists: on the claimed side, the
    /// interval does not exceed the value of [`counts_from`] (like `Comparison::regressed` of `fsdyno_stats`).
    pub fn no_difference(&self, margin: f64) -> bool {
        let (Some(band), Some((low, high))) = (self.band(margin), self.estimate.interval) else {
            return false;
        };
        if self.above.is_some() { high <= band } else { low >= band }
    }

    /// Returns the value from which the claimed difference counts ([`counts_from`]); `None` if it is not a ratio.
    fn band(&self, margin: f64) -> Option<f64> {
        counts_from(self.above, self.below, margin).filter(|_| self.ratio)
    }

    /// Returns whether a difference is claimed and the estimate itself falls short of the value that counts: more
    /// repeats can only show its absence.
    pub fn falls_short(&self, margin: f64) -> bool {
        let value = self.estimate.value;
        let short = |band: f64| if self.above.is_some() { value < band } else { value > band };
        self.band(margin).is_some_and(short)
    }

    /// Returns whether it is reversed: the estimate and its whole interval lie on the side of 1 opposite to the claim,
    /// and the estimate is more than `margin` away from 1.
    pub fn turned(&self, margin: f64) -> bool {
        let value = self.estimate.value;
        let (low, high) = self.estimate.interval.unwrap_or((value, value));
        let more = self.above.is_some_and(|edge| edge.at >= 1.0);
        let less = self.below.is_some_and(|edge| edge.at <= 1.0);
        self.ratio
            && ((more && high < 1.0 && value < 1.0 / (1.0 + margin))
                || (less && low > 1.0 && value > 1.0 + margin))
    }

    /// Returns whether it is nearer to a bound than the margin, on either side.
    pub fn too_near(&self, margin: f64) -> bool {
        let value = self.estimate.value;
        !self.fitted && self.place(value, value, margin) == Position::Undecided
    }

    /// Returns whether the estimate lies within this factor of one of its bounds.
    pub fn is_near(&self, factor: f64) -> bool {
        let value = self.estimate.value;
        let mut edges = [self.above, self.below].into_iter().flatten().map(|edge| edge.at);
        edges.any(|at| value > 0.0 && at > 0.0 && (value / at).ln().abs() <= factor.ln())
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
        let apart = |at: f64| {
            let factor = if value > 0.0 && at > 0.0 { (value / at).ln() } else { value - at };
            factor.abs()
        };
        let edges = [self.above, self.below].into_iter().flatten().map(|edge| edge.at);
        edges.min_by(|a, b| apart(*a).total_cmp(&apart(*b)))
    }

    /// Returns the bound that the p-value tests: the nearest one; for a claimed difference, 1, or the value from which
    /// the difference counts if the estimate falls short of that value.
    pub fn tested_at(&self, margin: f64) -> Option<f64> {
        self.band(margin).filter(|_| self.falls_short(margin)).or_else(|| self.nearest())
    }

    /// Returns the p-value of its apparent position: within, by both bounds, or outside. It is two-sided, so that
    /// it is below 5 % if and only if the interval excludes the bound.
    fn p(&self, margin: f64) -> Option<f64> {
        let edges = || [self.above, self.below].into_iter().flatten();
        if self.seems_within() && !self.falls_short(margin) {
            let all: Option<Vec<f64>> = edges().map(|edge| self.estimate.p(edge.at)).collect();
            return all?.into_iter().reduce(f64::max);
        }
        self.estimate.p(self.tested_at(margin)?)
    }
}

/// The outcome of a claim by itself, with uncorrected p-values.
struct Alone {
    outcome: Outcome,
    /// P-value of the reversal, tested at 1 regardless of the bound; `None` if not reversed or no variation was seen.
    turned: Option<f64>,
    /// The correction that makes the p-value too large, if any.
    lost: Option<Lost>,
    /// The part that the p-value is for: if all are within, the least certain one instead of the nearest.
    tested: usize,
}

/// Returns the outcome of each claim of one variant, given its parts and their margin.
pub fn correct(claims: &[(Vec<Part>, f64)]) -> Vec<Option<Outcome>> {
    let alone: Vec<Option<Alone>> =
        claims.iter().map(|(parts, margin)| alone(parts, *margin)).collect();
    let p = |claim: &Option<Alone>| claim.as_ref().and_then(|claim| claim.outcome.p);
    let turned = |claim: &Option<Alone>| claim.as_ref().and_then(|claim| claim.turned);
    let stands = raised(alone.iter().map(p).collect());
    // A reversed claim is also outside, and is certain to be outside before it is certain to be reversed: each claim
    // is one test in this family, too, of the stronger assertion.
    let turns = raised(alone.iter().map(|claim| turned(claim).or(p(claim))).collect());
    let all = alone.into_iter().zip(stands.into_iter().zip(turns));
    all.map(|(alone, (stands, turns))| Some(alone?.raised(stands, turns))).collect()
}

/// Applies Holm's correction. Entries without a p-value were not tested and are not counted: numbers from a single
/// seed, and numbers that never varied.
fn raised(p: Vec<Option<f64>>) -> Vec<Option<f64>> {
    let tested: Vec<f64> = p.iter().flatten().copied().collect();
    let mut raised = holm(&tested).into_iter();
    p.into_iter().map(|p| p.and_then(|_| raised.next())).collect()
}

fn too_large(p: f64) -> bool {
    p >= 1.0 - LEVEL
}

impl Alone {
    /// Returns the outcome with corrected p-values of the position and of the reversal.
    fn raised(self, stands: Option<f64>, turns: Option<f64>) -> Outcome {
        let mut outcome = self.outcome;
        let turns = turns.filter(|_| self.turned.is_some());
        if outcome.turned && !turns.is_some_and(too_large) {
            return Outcome { p: turns, ..outcome };
        }
        outcome.turned = false;
        outcome.p = stands;
        if stands.is_some_and(too_large) && outcome.stand != Position::Undecided {
            (outcome.stand, outcome.part) = (Position::Undecided, self.tested);
            outcome.lost = self.lost.or(Some(Lost::Claims));
        } else {
            outcome.unsure_turned = turns;
        }
        outcome
    }
}

/// Returns the outcome of a claim by itself; `None` if it has no parts.
fn alone(parts: &[Part], margin: f64) -> Option<Alone> {
    let stands: Vec<Position> = parts.iter().map(|part| part.stand(margin)).collect();
    let of = |wanted: Position| {
        let all = parts.iter().zip(&stands).enumerate();
        all.filter(move |(_, (_, stand))| **stand == wanted).map(|(at, (part, _))| (at, part))
    };
    // Of the parts outside, one without a p-value is the most certain.
    let surest = of(Position::Outside)
        .min_by(|(_, a), (_, b)| a.p(margin).unwrap_or(0.0).total_cmp(&b.p(margin).unwrap_or(0.0)));
    let smallest = |of: &[&Part]| of.iter().filter_map(|part| part.p(margin)).reduce(f64::min);
    let largest = || parts.iter().filter_map(|part| part.p(margin)).reduce(f64::max);
    let distance = |part: &Part| {
        let bound = part.nearest().unwrap_or(f64::INFINITY);
        (part.estimate.value / bound).ln().abs()
    };
    // `looked` is the number of parts from which the part was selected.
    let (stand, part, p, looked) = match (surest, of(Position::Undecided).next()) {
        (Some((at, part)), _) => (Position::Outside, at, part.p(margin), parts.len()),
        (None, Some((at, _))) => {
            let missed: Vec<&Part> = parts.iter().filter(|part| !part.seems_within()).collect();
            match missed.is_empty() {
                true => (Position::Undecided, at, largest(), 1),
                false => (Position::Undecided, at, smallest(&missed), parts.len()),
            }
        }
        // All must be within: the largest p-value counts.
        (None, None) => {
            let by = |(_, a): &(usize, &Part), (_, b): &(usize, &Part)| {
                distance(a).total_cmp(&distance(b))
            };
            (Position::Within, parts.iter().enumerate().min_by(by)?.0, largest(), 1)
        }
    };
    // Bonferroni's correction for the selection from several parts.
    let of_parts = p.map(|p| (p * looked as f64).min(1.0));
    let lost = match (p, of_parts) {
        (Some(p), _) if too_large(p) => Some(Lost::Relabelled),
        (_, Some(p)) if too_large(p) => Some(Lost::Parts),
        _ => None,
    };
    let least_sure = || {
        let p = |part: &Part| part.p(margin).unwrap_or(0.0);
        let all = parts.iter().enumerate();
        all.max_by(|(_, a), (_, b)| p(a).total_cmp(&p(b))).map_or(part, |(at, _)| at)
    };
    let tested = if stand == Position::Within { least_sure() } else { part };
    let turned = stand == Position::Outside && parts.iter().all(|part| part.turned(margin));
    let at_one = || parts.iter().filter_map(|part| part.estimate.p(1.0)).reduce(f64::max);
    let outcome =
        Outcome { stand, turned, part, stands, p: of_parts, lost: None, unsure_turned: None };
    Some(Alone { outcome, turned: if turned { at_one() } else { None }, lost, tested })
}
