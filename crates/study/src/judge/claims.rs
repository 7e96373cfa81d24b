//! Judges the claims of a variant: measures each, corrects for their number, and explains the verdicts.

use fsdyno_report::study::{self, Number, Verdict, digits};

use super::check::{self, Measured};
use super::period;
use super::trials::Trials;
use super::verdict::{Correction, Outcome, Part, Position, correct};
use crate::file::{Check, Claim, Test};

/// Returns every claim with its verdict, in the order of the file.
pub fn claims(trials: &Trials<'_>) -> Vec<study::Claim> {
    let claims = &trials.file.claims;
    let measured: Vec<Result<Measured, Untested>> = claims
        .iter()
        .map(|claim| match &claim.test {
            Test::Check(check) => match trials.missing(&check.cells()) {
                Some(why) => Err(Untested { verdict: Verdict::NotRun, why }),
                None => check::measure(check, claim.margin, trials).map_err(Untested::not_testable),
            },
            Test::Untestable(why) => Err(Untested::not_testable(why.clone())),
        })
        .collect();
    let parts: Vec<(Vec<Part>, f64)> = claims
        .iter()
        .zip(&measured)
        .map(|(claim, measured)| {
            let parts = measured.as_ref().map(|m| m.parts.clone()).unwrap_or_default();
            (parts, claim.margin)
        })
        .collect();
    let outcomes = correct(&parts);
    let tested = outcomes.iter().flatten().filter(|outcome| outcome.p.is_some()).count();
    let judged =
        claims.iter().zip(measured).zip(outcomes).map(|((claim, measured), outcome)| {
            match (measured, outcome) {
                (Ok(measured), Some(outcome)) => {
                    let context = Context { claim, measured, outcome, tested, trials };
                    context.into_claim()
                }
                (measured, _) => {
                    let unmeasured =
                        || Untested::not_testable("nothing is measured for it".to_string());
                    measured.err().unwrap_or_else(unmeasured).into_claim(claim)
                }
            }
        });
    judged.collect()
}

/// The verdict of a claim without measurements.
struct Untested {
    verdict: Verdict,
    why: String,
}

impl Untested {
    /// Creates the verdict of a claim that cannot be tested here.
    fn not_testable(why: String) -> Untested {
        Untested { verdict: Verdict::NotTestable, why }
    }

    fn into_claim(self, claim: &Claim) -> study::Claim {
        let check = match &claim.test {
            Test::Check(check) => Some(check::format_check(check)),
            Test::Untestable(_) => None,
        };
        study::Claim {
            id: claim.id.clone(),
            text: claim.text.clone(),
            verdict: self.verdict,
            why: sentence(self.why),
            unit: unit(claim),
            check,
            published: claim.published,
            measured: None,
            p: None,
            notes: Vec::new(),
            scale: 1,
            one_seed: false,
            full_scale: None,
        }
    }
}

/// Returns the unit of a claim's numbers: empty for a ratio or an exponent.
fn unit(claim: &Claim) -> String {
    match &claim.test {
        Test::Check(Check::Value { cell, .. }) => cell.unit.name.to_string(),
        _ => String::new(),
    }
}

/// Adds a full stop if the text has no final punctuation.
fn sentence(text: String) -> String {
    let ends = text.ends_with(['.', '!', '?']);
    if ends { text } else { text + "." }
}

struct Context<'a> {
    claim: &'a Claim,
    measured: Measured,
    outcome: Outcome,
    tested: usize,
    trials: &'a Trials<'a>,
}

impl Context<'_> {
    fn into_claim(self) -> study::Claim {
        let part = &self.measured.parts[self.outcome.part];
        let verdict = match self.outcome.position {
            Position::Within if self.has_no_newer_kernel() => Verdict::Reproduced,
            Position::Within => Verdict::StillHolds,
            Position::Outside if self.outcome.reversed => Verdict::Reversed,
            Position::Outside => Verdict::NoLongerHolds,
            Position::Undecided => Verdict::Undecided,
        };
        let (n, value, interval) = (part.estimate.n, part.estimate.value, part.estimate.interval);
        study::Claim {
            id: self.claim.id.clone(),
            text: self.claim.text.clone(),
            verdict,
            why: self.why(part),
            check: match &self.claim.test {
                Test::Check(check) => Some(check::format_check(check)),
                Test::Untestable(_) => None,
            },
            unit: unit(self.claim),
            published: self.claim.published,
            measured: Some(Number { value, n, interval }),
            p: self.outcome.p,
            notes: self.notes(part),
            scale: self.trials.scale,
            one_seed: n == 1 && !self.is_exponent(),
            full_scale: None,
        }
    }

    /// Returns whether every trial ran on a kernel released in the year of the study or before.
    fn has_no_newer_kernel(&self) -> bool {
        let kernels = &self.measured.kernels;
        let year = self.trials.file.year.filter(|_| !kernels.is_empty());
        year.is_some_and(|year| kernels.iter().all(|kernel| period::is_not_newer(kernel, year)))
    }

    /// Returns the explanation of the verdict.
    fn why(&self, part: &Part) -> String {
        let explanation = self.explain_parts(part) + &self.uncertain_reversal(part);
        let order: Vec<String> = self
            .measured
            .means
            .iter()
            .map(|(label, mean)| format!("{label} {}", digits(*mean)))
            .collect();
        if order.is_empty() {
            return sentence(explanation);
        }
        let unit = match &self.claim.test {
            Test::Check(check) => check.cells().first().map_or("", |cell| cell.unit.name),
            Test::Untestable(_) => "",
        };
        let unit = if unit == "count" { String::new() } else { format!(" {unit}") };
        format!("{}{unit}. {}", order.join(", "), sentence(explanation))
    }

    /// Explains the decision. If a claim has several parts, the deciding ones are explained, each with its name.
    fn explain_parts(&self, deciding: &Part) -> String {
        let parts = &self.measured.parts;
        let explain = |part: &Part, position: Position| match part.what.is_empty() {
            true => self.explain_part(part, position),
            false => format!("{}: {}", part.what, self.explain_part(part, position)),
        };
        let total = parts.len();
        let explanations = |position: Position| -> Vec<String> {
            let positions = parts.iter().zip(&self.outcome.positions);
            positions
                .filter(|(_, part_position)| **part_position == position)
                .map(|(part, _)| explain(part, position))
                .collect()
        };
        match self.outcome.position {
            position if total < 2 => explain(deciding, position),
            Position::Within => {
                format!(
                    "all {total} parts hold; nearest to its bound is {}",
                    explain(deciding, Position::Within)
                )
            }
            Position::Outside => {
                let fail = explanations(Position::Outside);
                let verb = if fail.len() == 1 { "fails" } else { "fail" };
                format!("{} of {total} parts {verb}: {}", fail.len(), fail.join("; "))
            }
            // A part may be decided alone, but not as one of several.
            Position::Undecided if self.outcome.withheld_by.is_some() => {
                explain(deciding, Position::Undecided)
            }
            Position::Undecided => {
                let undecided = explanations(Position::Undecided);
                let verb = if undecided.len() == 1 { "is" } else { "are" };
                format!(
                    "{} of {total} parts {verb} undecided: {}",
                    undecided.len(),
                    undecided.join("; ")
                )
            }
        }
    }

    fn explain_part(&self, part: &Part, position: Position) -> String {
        let (value, margin) = (part.estimate.value, self.claim.margin);
        let shown = digits(value);
        match position {
            Position::Within => format!("{shown} is {}", self.bounds(part)),
            Position::Outside
                if part.is_reversed(margin) && self.outcome.uncertain_reversal.is_none() =>
            {
                let (share, comparative) =
                    if value < 1.0 { (1.0 - value, "less") } else { (value - 1.0, "more") };
                format!("{shown} is {comparative} than 1, by {}", percent(share))
            }
            Position::Outside if part.no_difference(margin) => {
                let (low, high) = part.estimate.interval.unwrap_or((value, value));
                let (low, high) = (digits(low), digits(high));
                let comparative = if part.above.is_some() { "more" } else { "less" };
                format!(
                    "{shown} ({low} to {high}) is not {comparative} than 1 by the margin of {}",
                    percent(margin)
                )
            }
            Position::Outside => format!("{shown} {}", self.missed(part)),
            Position::Undecided if part.is_one_seed() => {
                let bound = part.nearest().unwrap_or(1.0);
                let remedy = match part.falls_short(margin) {
                    true => "--repeat 5 can settle it",
                    false => "more seeds (--repeat 5) settle it only if they move the number",
                };
                let margin = percent(margin);
                format!(
                    "{shown} is within {margin} of {bound}, and there is only one seed; {remedy}"
                )
            }
            Position::Undecided => {
                format!("{shown} is undecided: {}", self.what_would_decide(part))
            }
        }
    }

    /// Formats the distance by which a number misses its bound.
    fn missed(&self, part: &Part) -> String {
        let (value, bound) = (part.estimate.value, part.nearest().unwrap_or(1.0));
        let ratio = value / bound;
        match (bound > 0.0, value == bound) {
            (_, true) => format!("is the limit itself, and not {}", self.bounds(part)),
            (true, _) if ratio >= 2.0 => format!("is {} times the limit of {bound}", digits(ratio)),
            (true, _) if ratio > 1.0 => {
                format!("is {} above the limit of {bound}", percent(ratio - 1.0))
            }
            (true, _) => format!("is {} below the limit of {bound}", percent(1.0 - ratio)),
            (false, _) => format!("is {} from the limit of {bound}", digits((value - bound).abs())),
        }
    }

    /// Formats the bounds.
    fn bounds(&self, part: &Part) -> String {
        match (part.above, part.below) {
            (Some(above), Some(below)) => format!("between {} and {}", above.value, below.value),
            (Some(above), None) => format!("more than {}", above.value),
            (None, Some(below)) if below.included => format!("at most {}", below.value),
            (None, Some(below)) => format!("less than {}", below.value),
            (None, None) => String::new(),
        }
    }

    /// Explains a reversal that the interval shows but the corrected p-value does not, or returns an empty text.
    fn uncertain_reversal(&self, part: &Part) -> String {
        let Some(p) = self.outcome.uncertain_reversal else { return String::new() };
        let comparative = if part.estimate.value < 1.0 { "less" } else { "more" };
        format!("; that it is {comparative} than 1 is not sure (p = {p:.2}{})", self.among_claims())
    }

    /// Returns ` as one of 40 claims`, or empty for a single claim.
    fn among_claims(&self) -> String {
        let tested = self.tested;
        if tested > 1 { format!(" as one of {tested} claims") } else { String::new() }
    }

    fn what_would_decide(&self, part: &Part) -> String {
        let estimate = &part.estimate;
        let bound = part.nearest().unwrap_or(1.0);
        let margin = percent(self.claim.margin);
        if part.inside_model() {
            return format!(
                "it lies within {} of {bound}, the processor model's error for the CPU's share of the time; no number of seeds \
                 would decide",
                percent(part.model)
            );
        }
        let Some((low, high)) = estimate.interval else {
            return "two sizes fit every power; three or more would decide".into();
        };
        let span = format!("{} to {}", digits(low), digits(high));
        let tested_at = part.tested_at(self.claim.margin).unwrap_or(1.0);
        let seeds = match self.is_exponent() {
            true => "more sizes, or larger ones, would decide".into(),
            false => seeds(estimate.n_to_separate_from(tested_at), estimate.n),
        };
        if let Some(correction) = self.outcome.withheld_by {
            let (p, total) = (self.outcome.p.unwrap_or(1.0), self.measured.parts.len());
            let reason = match correction {
                Correction::Relabelled => {
                    format!("{span} would decide it, but relabelling the trials does not")
                }
                Correction::Parts => {
                    format!("alone it would be decided, but not as one of {total} parts")
                }
                Correction::Claims => {
                    return format!(
                        "alone it would be decided, but not{} (p = {p:.2}); {seeds}",
                        self.among_claims()
                    );
                }
            };
            let among = self.among_claims();
            let among = if among.is_empty() { among } else { format!(", raised{among}") };
            return format!("{reason} (p = {p:.2}{among}); {seeds}");
        }
        if part.falls_short(self.claim.margin) {
            let comparative = if part.above.is_some() { "more" } else { "less" };
            return format!(
                "{span} does not exclude that it is {comparative} than 1 by the margin of {margin}; {seeds}"
            );
        }
        if part.too_near(self.claim.margin) {
            return format!(
                "it is within the margin of {margin} around {bound}, so more seeds cannot decide it ({span})"
            );
        }
        format!("{span} holds {bound}; {seeds}")
    }

    fn is_exponent(&self) -> bool {
        matches!(self.claim.test, Test::Check(Check::Exponent { .. }))
    }

    fn notes(&self, part: &Part) -> Vec<String> {
        let mut notes = Vec::new();
        let estimate = &part.estimate;
        if estimate.n == 1 && !self.is_exponent() {
            notes.push(format!("One seed, margin {}.", percent(self.claim.margin)));
        }
        if estimate.exact && !self.is_exponent() {
            notes.push(format!(
                "Exact: no two seeds differed, so it is judged by the difference alone, with the margin of {}.",
                percent(self.claim.margin)
            ));
        }
        if self.measured.in_model == Some(true) {
            notes.push("By the directory model, no kernel.".into());
        }
        notes.extend(self.measured.notes.iter().cloned());
        notes
    }
}

/// Formats the number of seeds that would decide by the interval alone; the correction for other claims needs more.
fn seeds(needed: Option<u32>, available: usize) -> String {
    match needed {
        Some(n) if n as usize <= available => {
            format!(
                "more than the {available} seeds stored are needed; how many cannot be estimated"
            )
        }
        Some(n) => {
            format!("about {n} seeds would decide (--repeat {n}; an estimate from this spread)")
        }
        None => "no number of seeds in reach would decide".into(),
    }
}

fn percent(share: f64) -> String {
    format!("{} %", digits((share * 1000.0).round() / 10.0))
}
