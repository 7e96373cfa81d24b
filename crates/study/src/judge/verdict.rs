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
    /// Its p-value, raised for all claims of the variant.
    pub p: Option<f64>,
    /// Whether it is outside whatever its p-value: it stands alone, never varied, or shows no difference.
    pub plain: bool,
    /// Whether it would be decided if it were the only claim.
    pub alone: bool,
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
        let band = 1.0 + least;
        let Some((low, high)) = self.estimate.interval.filter(|_| self.ratio) else { return false };
        match (self.above, self.below) {
            (Some(edge), None) => edge == Edge::beyond(1.0) && high <= band,
            (None, Some(edge)) => edge == Edge::beyond(1.0) && low >= 1.0 / band,
            _ => false,
        }
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

    /// The p-value of what it seems to be: within, which both bounds must allow, or outside.
    fn p(&self) -> Option<f64> {
        let edges = || [self.above, self.below].into_iter().flatten();
        if self.seems_within() {
            let all: Option<Vec<f64>> = edges().map(|edge| self.estimate.p(edge.at)).collect();
            return all?.into_iter().reduce(f64::max);
        }
        self.estimate.p(self.nearest()?)
    }
}

/// The outcome of each claim of one variant: its parts, and the margin that they have to keep.
pub fn correct(claims: &[(Vec<Part>, f64)]) -> Vec<Option<Outcome>> {
    let alone: Vec<Option<Outcome>> =
        claims.iter().map(|(parts, least)| alone(parts, *least)).collect();
    // What has no p was not tested and is not counted: a lone number, what never varied, and what shows no
    // difference, for that is not told by a small p.
    let tested: Vec<f64> = alone.iter().flatten().filter_map(|outcome| outcome.p).collect();
    let mut raised = holm(&tested).into_iter();
    alone
        .into_iter()
        .map(|outcome| {
            let mut outcome = outcome?;
            if outcome.p.is_some() {
                outcome.p = raised.next();
                if outcome.p.is_some_and(|p| p >= 1.0 - LEVEL) {
                    outcome.turned = false;
                    match outcome.plain {
                        true => outcome.p = None,
                        false => outcome.stand = Stand::Open,
                    }
                }
            }
            Some(outcome)
        })
        .collect()
}

/// The outcome of a claim by itself; none of one without parts.
fn alone(parts: &[Part], least: f64) -> Option<Outcome> {
    let stands: Vec<Stand> = parts.iter().map(|part| part.stand(least)).collect();
    let of = |wanted: Stand| {
        let all = parts.iter().zip(&stands).enumerate();
        all.filter(move |(_, (_, stand))| **stand == wanted).map(|(at, (part, _))| (at, part))
    };
    let outside: Vec<(usize, &Part)> = of(Stand::Outside).collect();
    let turned = !parts.is_empty() && parts.iter().all(|part| part.turned(least));
    let plainly = |part: &Part| part.no_difference(least) || part.p().is_none();
    let plain = outside.iter().find(|(_, part)| plainly(part));
    let smallest = |of: &[&Part]| {
        let p = of.iter().filter_map(|part| part.p()).reduce(f64::min);
        // One of so many looked at (Bonferroni).
        p.map(|p| (p * parts.len() as f64).min(1.0))
    };
    let largest = || parts.iter().filter_map(Part::p).reduce(f64::max);
    let distance = |part: &Part| {
        let bound = part.nearest().unwrap_or(f64::INFINITY);
        (part.estimate.value / bound).ln().abs()
    };
    let (stand, part, p) = match (outside.first(), of(Stand::Open).next()) {
        (Some((at, _)), _) if turned => (Stand::Outside, *at, largest()),
        (Some(first), _) => {
            let surest = outside
                .iter()
                .min_by(|(_, a), (_, b)| a.p().unwrap_or(0.0).total_cmp(&b.p().unwrap_or(0.0)));
            let (at, decider) = *plain.or(surest).unwrap_or(first);
            (Stand::Outside, at, if plain.is_some() { None } else { smallest(&[decider]) })
        }
        (None, Some((at, _))) => {
            let missed: Vec<&Part> = parts.iter().filter(|part| !part.seems_within()).collect();
            (Stand::Open, at, if missed.is_empty() { largest() } else { smallest(&missed) })
        }
        // All must be within: the largest p stands.
        (None, None) => {
            let by = |(_, a): &(usize, &Part), (_, b): &(usize, &Part)| {
                distance(a).total_cmp(&distance(b))
            };
            (Stand::Within, parts.iter().enumerate().min_by(by)?.0, largest())
        }
    };
    let (plain, alone) = (plain.is_some(), stand != Stand::Open);
    let turned = turned && stand == Stand::Outside;
    Some(Outcome { stand, turned, part, stands, p, plain, alone })
}
