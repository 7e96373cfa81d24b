//! The verdict of a claim, from its parts alone: estimates held against bounds.
//!
//! A claim holds if all of its parts lie within their bounds, and does not if one lies outside; it is reversed
//! only if all of them are turned round. A number has to keep a margin from its bounds, 5 % of them unless the
//! claim says otherwise, however many seeds there are: what differs by less does not count. With two seeds or more
//! its whole 95 % interval has to be on the same side too, and the claims of a variant are corrected for their
//! number ([`correct`], Holm 1979). An exponent has its points, and no margin.

use fsdyno_stats::Estimate;
use fsdyno_stats::holm::holm;
use fsdyno_stats::interval::LEVEL;

/// An estimate and what has to hold of it.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it is of, where a claim has several: `xfs over ext2`.
    pub what: String,
    /// The number, in the unit of the bounds.
    pub estimate: Estimate,
    /// The least that it may be.
    pub above: Option<Edge>,
    /// The most that it may be.
    pub below: Option<Edge>,
    /// Whether it compares two sides, so that 1 is no difference and beyond 1 the claim is turned round.
    pub ratio: bool,
    /// The rows that it is measured on: run and label.
    pub rows: Vec<(String, String)>,
    /// Whether it is fitted over points: then its interval is all that tells, and of two points, which every power
    /// fits, there is none.
    pub fitted: bool,
}

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// Where it is.
    pub at: f64,
    /// Whether the bound itself is within.
    pub included: bool,
}

impl Edge {
    /// A bound that is outside.
    pub fn beyond(at: f64) -> Edge {
        Edge { at, included: false }
    }

    /// A bound that is within.
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

/// Where an estimate lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Beyond doubt within the bounds.
    Within,
    /// Beyond doubt outside of them.
    Outside,
    /// It is not told.
    Open,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it stands.
    pub stand: Stand,
    /// Whether, being outside, all of it is turned round: what was claimed to be more is less.
    pub turned: bool,
    /// The part that decides it: of those outside the surest, else the first that is open, else the
    /// one nearest to its bound.
    pub part: usize,
    /// How each of its parts stands, by itself.
    pub stands: Vec<Stand>,
    /// The p-value of how it stands, raised for all claims of the variant; none where no spread was seen.
    pub p: Option<f64>,
    /// What took its verdict away, where its intervals alone would have decided it.
    pub lost: Option<Lost>,
    /// The raised p-value of its being turned round, where its intervals say that it is and this does not.
    pub unsure_turned: Option<f64>,
}

/// What made a p-value too large where the intervals would have decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Relabelling the trials sets them as far apart too often.
    Relabelled,
    /// It is the surest of several parts that were looked at.
    Parts,
    /// It is one of several claims.
    Claims,
}

/// Where a difference that is claimed to be there, of whatever size, begins to count: `least` beyond 1 on the side
/// that was claimed. None of a claim with another bound than just 1.
pub fn counts_from(above: Option<Edge>, below: Option<Edge>, least: f64) -> Option<f64> {
    let one = Edge::beyond(1.0);
    match (above, below) {
        (Some(edge), None) if edge == one => Some(1.0 + least),
        (None, Some(edge)) if edge == one => Some(1.0 / (1.0 + least)),
        _ => None,
    }
}

impl Part {
    /// Where it lies: told by its interval, where it has one, and by the margin of `least` alike.
    pub fn stand(&self, least: f64) -> Stand {
        let value = self.estimate.value;
        match self.estimate.interval {
            None if self.fitted => Stand::Open,
            None => self.place(value, value, least),
            Some((low, high)) if self.fitted => self.place(low, high, 0.0),
            Some(_) if self.no_difference(least) => Stand::Outside,
            Some((low, high)) => {
                let (sure, far) = (self.place(low, high, 0.0), self.place(value, value, least));
                if sure == far { sure } else { Stand::Open }
            }
        }
    }

    /// Where all from `low` to `high` lies, the bounds made so much narrower for what is to be within, and so much
    /// wider for what is to be outside.
    fn place(&self, low: f64, high: f64, least: f64) -> Stand {
        let up = |edge: Edge| Edge { at: edge.at + edge.at.abs() * least, ..edge };
        let down = |edge: Edge| Edge { at: edge.at - edge.at.abs() * least, ..edge };
        let within = self.above.is_none_or(|edge| up(edge).is_below(low))
            && self.below.is_none_or(|edge| down(edge).is_above(high));
        let outside = self.above.is_some_and(|edge| !down(edge).is_below(high))
            || self.below.is_some_and(|edge| !up(edge).is_above(low));
        match (within, outside) {
            (true, _) => Stand::Within,
            (_, true) => Stand::Outside,
            _ => Stand::Open,
        }
    }

    /// Whether a difference is claimed, of whatever size, and none that counts is there: the interval ends before
    /// `least` beyond 1, on the side that was claimed (as `Comparison::regressed` of `fsdyno_stats` has it).
    pub fn no_difference(&self, least: f64) -> bool {
        let (Some(band), Some((low, high))) = (self.band(least), self.estimate.interval) else {
            return false;
        };
        if self.above.is_some() { high <= band } else { low >= band }
    }

    /// Where the claimed difference begins to count ([`counts_from`]); none of what is no ratio.
    fn band(&self, least: f64) -> Option<f64> {
        counts_from(self.above, self.below, least).filter(|_| self.ratio)
    }

    /// Whether a difference is claimed, and the number itself is short of what counts: then all that more
    /// repeats can show is that it is not there.
    pub fn falls_short(&self, least: f64) -> bool {
        let value = self.estimate.value;
        let short = |band: f64| if self.above.is_some() { value < band } else { value > band };
        self.band(least).is_some_and(short)
    }

    /// Whether it is turned round: the claim has it on one side of 1, and it lies on the other, by more than
    /// `least` and with its whole interval.
    pub fn turned(&self, least: f64) -> bool {
        let value = self.estimate.value;
        let (low, high) = self.estimate.interval.unwrap_or((value, value));
        let more = self.above.is_some_and(|edge| edge.at >= 1.0);
        let less = self.below.is_some_and(|edge| edge.at <= 1.0);
        self.ratio
            && ((more && high < 1.0 && value < 1.0 / (1.0 + least))
                || (less && low > 1.0 && value > 1.0 + least))
    }

    /// Whether it is nearer to a bound than the margin, on whatever side.
    pub fn too_near(&self, least: f64) -> bool {
        let value = self.estimate.value;
        !self.fitted && self.place(value, value, least) == Stand::Open
    }

    /// Whether the number lies within this factor of one of its bounds.
    pub fn is_near(&self, factor: f64) -> bool {
        let value = self.estimate.value;
        let mut edges = [self.above, self.below].into_iter().flatten().map(|edge| edge.at);
        edges.any(|at| value > 0.0 && at > 0.0 && (value / at).ln().abs() <= factor.ln())
    }

    /// Whether the number itself lies within the bounds, sure or not.
    fn seems_within(&self) -> bool {
        let value = self.estimate.value;
        self.above.is_none_or(|edge| edge.is_below(value))
            && self.below.is_none_or(|edge| edge.is_above(value))
    }

    /// The bound that is nearest to the number, as a factor or a difference of it.
    pub fn nearest(&self) -> Option<f64> {
        let value = self.estimate.value;
        let apart = |at: f64| {
            let factor = if value > 0.0 && at > 0.0 { (value / at).ln() } else { value - at };
            factor.abs()
        };
        let edges = [self.above, self.below].into_iter().flatten().map(|edge| edge.at);
        edges.min_by(|a, b| apart(*a).total_cmp(&apart(*b)))
    }

    /// The bound that its p-value is of: the nearest; of a claimed difference 1, or where it begins to count if
    /// the number falls short of that.
    pub fn tested_at(&self, least: f64) -> Option<f64> {
        self.band(least).filter(|_| self.falls_short(least)).or_else(|| self.nearest())
    }

    /// The p-value of what it seems to be: within, which both bounds must allow, or outside. It is two-sided, so
    /// that it is below 5 % just where the interval excludes the bound.
    fn p(&self, least: f64) -> Option<f64> {
        let edges = || [self.above, self.below].into_iter().flatten();
        if self.seems_within() && !self.falls_short(least) {
            let all: Option<Vec<f64>> = edges().map(|edge| self.estimate.p(edge.at)).collect();
            return all?.into_iter().reduce(f64::max);
        }
        self.estimate.p(self.tested_at(least)?)
    }
}

/// The outcome of a claim by itself, its p-values not yet raised.
struct Alone {
    outcome: Outcome,
    /// The p-value of its being turned round: at 1, whatever its bound; none if it is not, or no spread was seen.
    turned: Option<f64>,
    /// What its p-value is too large for, if it is.
    lost: Option<Lost>,
    /// The part that the p-value is of: where all are within not the nearest, but the least sure.
    tested: usize,
}

/// The outcome of each claim of one variant: its parts, and the margin that they have to keep.
pub fn correct(claims: &[(Vec<Part>, f64)]) -> Vec<Option<Outcome>> {
    let alone: Vec<Option<Alone>> =
        claims.iter().map(|(parts, least)| alone(parts, *least)).collect();
    let p = |claim: &Option<Alone>| claim.as_ref().and_then(|claim| claim.outcome.p);
    let turned = |claim: &Option<Alone>| claim.as_ref().and_then(|claim| claim.turned);
    let stands = raised(alone.iter().map(p).collect());
    // What is turned round is outside too, and surely so before it is surely turned: each claim is one test in this
    // family as well, of the more that it asserts.
    let turns = raised(alone.iter().map(|claim| turned(claim).or(p(claim))).collect());
    let all = alone.into_iter().zip(stands.into_iter().zip(turns));
    all.map(|(alone, (stands, turns))| Some(alone?.raised(stands, turns))).collect()
}

/// Holm's p-values. What has none was not tested and is not counted: a lone number, and what never varied.
fn raised(p: Vec<Option<f64>>) -> Vec<Option<f64>> {
    let tested: Vec<f64> = p.iter().flatten().copied().collect();
    let mut raised = holm(&tested).into_iter();
    p.into_iter().map(|p| p.and_then(|_| raised.next())).collect()
}

fn too_large(p: f64) -> bool {
    p >= 1.0 - LEVEL
}

impl Alone {
    /// The outcome with its p-values raised: of how it stands, and of its being turned round.
    fn raised(self, stands: Option<f64>, turns: Option<f64>) -> Outcome {
        let mut outcome = self.outcome;
        let turns = turns.filter(|_| self.turned.is_some());
        if outcome.turned && !turns.is_some_and(too_large) {
            return Outcome { p: turns, ..outcome };
        }
        outcome.turned = false;
        outcome.p = stands;
        if stands.is_some_and(too_large) && outcome.stand != Stand::Open {
            (outcome.stand, outcome.part) = (Stand::Open, self.tested);
            outcome.lost = self.lost.or(Some(Lost::Claims));
        } else {
            outcome.unsure_turned = turns;
        }
        outcome
    }
}

/// The outcome of a claim by itself; none of one without parts.
fn alone(parts: &[Part], least: f64) -> Option<Alone> {
    let stands: Vec<Stand> = parts.iter().map(|part| part.stand(least)).collect();
    let of = |wanted: Stand| {
        let all = parts.iter().zip(&stands).enumerate();
        all.filter(move |(_, (_, stand))| **stand == wanted).map(|(at, (part, _))| (at, part))
    };
    // Of those outside: what has no p needs none, and is the surest.
    let surest = of(Stand::Outside)
        .min_by(|(_, a), (_, b)| a.p(least).unwrap_or(0.0).total_cmp(&b.p(least).unwrap_or(0.0)));
    let smallest = |of: &[&Part]| of.iter().filter_map(|part| part.p(least)).reduce(f64::min);
    let largest = || parts.iter().filter_map(|part| part.p(least)).reduce(f64::max);
    let distance = |part: &Part| {
        let bound = part.nearest().unwrap_or(f64::INFINITY);
        (part.estimate.value / bound).ln().abs()
    };
    // With how many were looked at to find it.
    let (stand, part, p, looked) = match (surest, of(Stand::Open).next()) {
        (Some((at, part)), _) => (Stand::Outside, at, part.p(least), parts.len()),
        (None, Some((at, _))) => {
            let missed: Vec<&Part> = parts.iter().filter(|part| !part.seems_within()).collect();
            match missed.is_empty() {
                true => (Stand::Open, at, largest(), 1),
                false => (Stand::Open, at, smallest(&missed), parts.len()),
            }
        }
        // All must be within: the largest p stands.
        (None, None) => {
            let by = |(_, a): &(usize, &Part), (_, b): &(usize, &Part)| {
                distance(a).total_cmp(&distance(b))
            };
            (Stand::Within, parts.iter().enumerate().min_by(by)?.0, largest(), 1)
        }
    };
    // One of so many looked at (Bonferroni).
    let of_parts = p.map(|p| (p * looked as f64).min(1.0));
    let lost = match (p, of_parts) {
        (Some(p), _) if too_large(p) => Some(Lost::Relabelled),
        (_, Some(p)) if too_large(p) => Some(Lost::Parts),
        _ => None,
    };
    let least_sure = || {
        let p = |part: &Part| part.p(least).unwrap_or(0.0);
        let all = parts.iter().enumerate();
        all.max_by(|(_, a), (_, b)| p(a).total_cmp(&p(b))).map_or(part, |(at, _)| at)
    };
    let tested = if stand == Stand::Within { least_sure() } else { part };
    let turned = stand == Stand::Outside && parts.iter().all(|part| part.turned(least));
    let at_one = || parts.iter().filter_map(|part| part.estimate.p(1.0)).reduce(f64::max);
    let outcome =
        Outcome { stand, turned, part, stands, p: of_parts, lost: None, unsure_turned: None };
    Some(Alone { outcome, turned: if turned { at_one() } else { None }, lost, tested })
}
