//! The verdict of a claim, from its parts alone: estimates held against bounds.
//!
//! A claim holds if all of its parts lie within their bounds, and does not if one lies outside. With an
//! interval (two seeds or more, three points of a curve or more) that is read off the 95 % interval, and
//! the claims of a variant are corrected for their number ([`correct`], Holm 1979). With one seed there is no
//! interval: the number has to keep a margin from the bound, 5 % of it unless the claim says otherwise.

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
    /// Whether a lone number may be judged by a margin; not an exponent of two points, which every power fits.
    pub lone: bool,
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// How it stands.
    pub stand: Stand,
    /// Whether, being outside, it is turned round: what was claimed to be more is less.
    pub turned: bool,
    /// The part that decides it: the first that is outside, else the first that is open, else the
    /// one nearest to its bound.
    pub part: usize,
    /// Its p-value, raised for all claims of the variant.
    pub p: Option<f64>,
    /// Whether it would be decided if it were the only claim.
    pub alone: bool,
}

impl Part {
    /// Where it lies, with a margin of `least` where it has no interval.
    pub fn stand(&self, least: f64) -> Stand {
        let value = self.estimate.value;
        let Some((low, high)) = self.estimate.interval else {
            return if self.lone { self.by_margin(value, least) } else { Stand::Open };
        };
        let over = |edge: Edge, value: f64| value > edge.at || (edge.included && value == edge.at);
        let under = |edge: Edge, value: f64| value < edge.at || (edge.included && value == edge.at);
        let within = self.above.is_none_or(|edge| over(edge, low))
            && self.below.is_none_or(|edge| under(edge, high));
        let outside = self.above.is_some_and(|edge| !over(edge, high))
            || self.below.is_some_and(|edge| !under(edge, low));
        match (within, outside) {
            (true, _) => Stand::Within,
            (_, true) => Stand::Outside,
            _ => Stand::Open,
        }
    }

    fn by_margin(&self, value: f64, least: f64) -> Stand {
        let margin = |edge: Edge| edge.at.abs() * least;
        let within = self.above.is_none_or(|edge| value > edge.at + margin(edge))
            && self.below.is_none_or(|edge| value < edge.at - margin(edge));
        let outside = self.above.is_some_and(|edge| value < edge.at - margin(edge))
            || self.below.is_some_and(|edge| value > edge.at + margin(edge));
        match (within, outside) {
            (true, _) => Stand::Within,
            (_, true) => Stand::Outside,
            _ => Stand::Open,
        }
    }

    /// Whether it is turned round: the claim has it on one side of 1, and it lies on the other, by more than
    /// `least` and with its whole interval.
    fn turned(&self, least: f64) -> bool {
        let value = self.estimate.value;
        let (low, high) = self.estimate.interval.unwrap_or((value, value));
        let more = self.above.is_some_and(|edge| edge.at >= 1.0);
        let less = self.below.is_some_and(|edge| edge.at <= 1.0);
        self.ratio
            && ((more && high < 1.0 && value < 1.0 / (1.0 + least))
                || (less && low > 1.0 && value > 1.0 + least))
    }

    /// Whether the number itself lies within the bounds, sure or not.
    fn seems_within(&self) -> bool {
        let value = self.estimate.value;
        let over = |edge: Edge| value > edge.at || (edge.included && value == edge.at);
        let under = |edge: Edge| value < edge.at || (edge.included && value == edge.at);
        self.above.is_none_or(over) && self.below.is_none_or(under)
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

/// The outcome of each claim of one variant: its parts, and the margin of a lone number.
pub fn correct(claims: &[(Vec<Part>, f64)]) -> Vec<Option<Outcome>> {
    let alone: Vec<Option<Outcome>> =
        claims.iter().map(|(parts, least)| alone(parts, *least)).collect();
    // What has no p was not tested and is not counted: a lone number, and what never varied.
    let tested: Vec<f64> = alone.iter().flatten().filter_map(|outcome| outcome.p).collect();
    let mut raised = holm(&tested).into_iter();
    alone
        .into_iter()
        .map(|outcome| {
            let mut outcome = outcome?;
            if outcome.p.is_some() {
                outcome.p = raised.next();
                if outcome.p.is_some_and(|p| p >= 1.0 - LEVEL) {
                    (outcome.stand, outcome.turned) = (Stand::Open, false);
                }
            }
            Some(outcome)
        })
        .collect()
}

/// The outcome of a claim by itself; none of one without parts.
fn alone(parts: &[Part], least: f64) -> Option<Outcome> {
    let stands: Vec<Stand> = parts.iter().map(|part| part.stand(least)).collect();
    let first = |wanted: Stand| stands.iter().position(|stand| *stand == wanted);
    let distance = |part: &Part| {
        let bound = part.nearest().unwrap_or(f64::INFINITY);
        (part.estimate.value / bound).ln().abs()
    };
    let nearest = || {
        let by =
            |(_, a): &(usize, &Part), (_, b): &(usize, &Part)| distance(a).total_cmp(&distance(b));
        parts.iter().enumerate().min_by(by).map(|(at, _)| at)
    };
    let (stand, part) = match (first(Stand::Outside), first(Stand::Open)) {
        (Some(at), _) => (Stand::Outside, at),
        (None, Some(at)) => (Stand::Open, at),
        (None, None) => (Stand::Within, nearest()?),
    };
    // All must be within (the largest p stands), or one outside of so many looked at (Bonferroni).
    let p = if parts.iter().all(Part::seems_within) {
        parts.iter().filter_map(Part::p).reduce(f64::max)
    } else {
        let missed = parts.iter().filter(|part| !part.seems_within()).filter_map(Part::p);
        missed.reduce(f64::min).map(|p| (p * parts.len() as f64).min(1.0))
    };
    // A part outside that has no p, for it never varied or stands alone, decides by itself.
    let decider = parts.get(part).and_then(Part::p);
    let p = p.filter(|_| stand != Stand::Outside || decider.is_some());
    let turned = stand == Stand::Outside && parts.iter().all(|part| part.turned(least));
    Some(Outcome { stand, turned, part, p, alone: stand != Stand::Open })
}
