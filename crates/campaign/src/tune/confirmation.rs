//! Confirms a winner under conditions that the search did not use.

use fsdyno_record::trial::{Outcome, Trial};
use fsdyno_report::tune::{Confirmation, Ratio};
use fsdyno_stats::compare::{Comparison, paired, welch};
use fsdyno_tune::{RelatedWorkloads, related_workloads};

use super::bench::total_seconds;
use super::request::TuneRequest;
use crate::notes::say;
use crate::{Failure, PointSettings, Points};

/// The first seed of the confirmations on other workloads, higher than every seed of the search and of its confirmation
/// on the tuned workload.
const FIRST_SEED: u64 = 5_001;

/// Number of trials per side.
const TRIALS: u64 = 3;

/// The significance level of a confirmation.
const LEVEL: f64 = 0.05;

/// A workload to confirm a winner with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The workload.
    pub workload: String,
    /// Its parameters.
    pub parameters: Vec<String>,
}

impl Work {
    /// Parses `WORKLOAD [KEY=VALUE ...]`.
    ///
    /// # Errors
    /// An unknown workload; an argument that is not `KEY=VALUE`.
    pub fn parse(text: &str) -> Result<Work, Failure> {
        let mut args = text.split_whitespace();
        let workload = args.next().unwrap_or_default().to_string();
        let invalid = |what: String| Failure::invalid_use(format!("--also '{text}': {what}"));
        fsdyno_workload::workloads::find(&workload).map_err(|error| invalid(error.to_string()))?;
        let parameters: Vec<String> = args.map(String::from).collect();
        match parameters.iter().find(|set| !set.contains('=')) {
            Some(set) => Err(invalid(format!("'{set}' is not KEY=VALUE"))),
            None => Ok(Work { workload, parameters }),
        }
    }

    fn description(&self) -> String {
        std::iter::once(&self.workload)
            .chain(&self.parameters)
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Returns the workloads to confirm with: those of --also, otherwise the same one at twice the size and a related one.
///
/// # Errors
/// An invalid --also.
pub fn works(tune: &TuneRequest, trial: &Trial) -> Result<Vec<Work>, Failure> {
    if !tune.also.is_empty() {
        return tune.also.iter().map(|text| Work::parse(text)).collect();
    }
    let Some(workload) = tune.spec.workloads.first() else { return Ok(Vec::new()) };
    let Some(RelatedWorkloads { size, second }) = related_workloads(workload) else {
        return Ok(Vec::new());
    };
    let mut works = Vec::new();
    let value = trial.plan.workload.params.get(size).and_then(|value| value.parse::<u64>().ok());
    if let Some(value) = value {
        let is_other = |set: &&String| {
            let key = set.split('=').next().unwrap_or_default();
            key.rsplit('.').next() != Some(size)
        };
        let mut parameters: Vec<String> =
            tune.spec.parameters.iter().filter(is_other).cloned().collect();
        parameters.push(format!("{size}={}", value.saturating_mul(2)));
        works.push(Work { workload: workload.clone(), parameters });
    }
    if let Some((workload, parameters)) = second.split_first() {
        let parameters = parameters.iter().map(ToString::to_string).collect();
        works.push(Work { workload: workload.to_string(), parameters });
    }
    Ok(works)
}

/// Compares the winner with the default under each workload.
///
/// # Errors
/// The reason that a run ended early.
pub fn confirm(
    points: &mut Points<'_>,
    works: &[Work],
    default: &PointSettings,
    winner: &PointSettings,
    least: f64,
) -> Result<Vec<Confirmation>, Failure> {
    let mut confirmations = Vec::new();
    for work in works {
        let what = format!("{} (separate seeds)", work.description());
        say(&format!("fsdyno: confirming with {}", work.description()));
        let with_work = |settings: &PointSettings| PointSettings {
            work: Some((work.workload.clone(), work.parameters.clone())),
            ..settings.clone()
        };
        let sides = [with_work(default), with_work(winner)];
        if let Err(failure) = points.cell(&sides[0]) {
            confirmations.push(Confirmation { what, ratio: None, failed: Some(failure.message) });
            continue;
        }
        let seeds = FIRST_SEED..FIRST_SEED + TRIALS;
        let requested: Vec<(PointSettings, u64)> =
            seeds.flat_map(|seed| sides.clone().map(|side| (side, seed))).collect();
        let trials = points.run(&requested)?;
        let failed = trials.iter().find(|trial| trial.outcome != Outcome::Ok);
        let failed = failed.map(|trial| trial.reason.clone().unwrap_or_default());
        let ratio = match failed {
            None => compare_sides(&trials, points.is_lab())
                .map(|comparison| ratio(&comparison, least, LEVEL)),
            Some(_) => None,
        };
        confirmations.push(Confirmation { what, ratio, failed });
    }
    Ok(confirmations)
}

/// Compares trials of the default and of the winner, which alternate.
fn compare_sides(trials: &[Trial], are_pairs: bool) -> Option<Comparison> {
    let pairs: Vec<(f64, f64)> = trials
        .chunks_exact(2)
        .map(|pair| (total_seconds(&pair[0]), total_seconds(&pair[1])))
        .collect();
    match are_pairs {
        true => paired(&pairs),
        false => {
            let (base, new): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            welch(&base, &new)
        }
    }
}

/// Converts a comparison to the form that a result stores.
pub fn ratio(comparison: &Comparison, least: f64, level: f64) -> Ratio {
    let is_faster = comparison.ratio < 1.0 / (1.0 + least);
    let holds = is_faster && (comparison.exact || comparison.p.is_some_and(|p| p < level));
    Ratio { ratio: comparison.ratio, interval: comparison.interval, n: comparison.n, holds }
}
