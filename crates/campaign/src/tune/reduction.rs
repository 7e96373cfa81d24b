//! Reduces the work of each trial so that a search fits its budget of time.

use std::time::Duration;

use fsdyno_record::trial::Trial;
use fsdyno_report::tune::Reduction;
use fsdyno_workload::workloads;

use super::request::Budget;
use super::{Tuning, is_lab, request_for_space, restrict_space, restriction, settings};
use crate::first_look::MIN_REDUCED;
use crate::matrix_request::Cell;
use crate::notes::say;
use crate::speed::Speeds;
use crate::{Experiment, Failure};

/// The part of the budget that the smallest search may take; the rest is for the candidates that it finds. [OWN]
const SHARE_OF_SMALLEST: f64 = 0.4;

/// The maximum number of reductions: part of a trial's time does not depend on its work, so the first one may be too
/// small.
const ROUNDS: usize = 4;

/// The time of a trial where none has run on this machine: a constant part, and a part for each op. [OWN]
const UNKNOWN_TIME: Duration = Duration::from_secs(10);
const UNKNOWN_TIME_PER_OP: Duration = Duration::from_millis(2);

impl Tuning {
    /// Reduces the work if the smallest search would take too much of a budget of time. Parameters that the user set
    /// are kept. If trials of an earlier search are stored, their work is used.
    ///
    /// # Errors
    /// A request that the search refuses.
    pub fn fit_to_budget(mut self, stored: &[Trial]) -> Result<Tuning, Failure> {
        if !matches!(self.request.budget, Budget::Time(_)) {
            return Ok(self);
        }
        let Some(workload) = self.request.spec.workloads.first().cloned() else { return Ok(self) };
        let Ok(kind) = workloads::find(&workload) else { return Ok(self) };
        let parameters: Vec<&str> =
            kind.more_work.iter().copied().filter(|name| !self.is_set(name)).collect();
        let of_workload = |trial: &&Trial| trial.plan.workload.name == workload;
        if let Some(trial) = stored.iter().find(of_workload) {
            let value = |name: &str| trial.plan.workload.params.get(name)?.parse().ok();
            return self.reduce(&parameters, |name, full| value(name).unwrap_or(full).min(full));
        }
        for _ in 0..ROUNDS {
            let excess = self.excess(&Speeds::load())?;
            if excess <= 1.0 {
                break;
            }
            let before = self.reductions.clone();
            self = self.reduce(&parameters, |_, full| {
                round((full as f64 / excess) as u64).max(MIN_REDUCED).min(full)
            })?;
            if self.reductions == before {
                break;
            }
        }
        self.say_reductions();
        Ok(self)
    }

    /// Returns true if the user set this parameter.
    fn is_set(&self, name: &str) -> bool {
        self.request.spec.parameters.iter().any(|set| key(set) == name)
    }

    /// Returns the time of the smallest search over the part of the budget that it may take: the largest such ratio
    /// of all file systems.
    fn excess(&self, speeds: &Speeds) -> Result<f64, Failure> {
        let Tuning { request, spec, spaces, .. } = self;
        let Budget::Time(budget) = request.budget.part(spaces.len()) else { return Ok(0.0) };
        let mut largest = 0.0_f64;
        for space in spaces {
            let experiment = Experiment::resolve(request_for_space(spec, space))?;
            let Some(cell) = experiment.cells.iter().find(|cell| cell.skip.is_none()) else {
                continue;
            };
            let (space, _) =
                restrict_space(space, &restriction(request, spec, None), spaces.len())?;
            let settings = settings(request, is_lab(spec), request.budget.trials());
            let least = fsdyno_tune::least_trials(&space, &settings);
            let jobs = usize::from(spec.jobs).max(1);
            let each = speeds.expected(cell, jobs).unwrap_or_else(|| unknown_time(cell));
            let smallest = each.as_secs_f64() * least as f64 / jobs as f64;
            largest = largest.max(smallest / (SHARE_OF_SMALLEST * budget.as_secs_f64()));
        }
        Ok(largest)
    }

    /// Replaces the values of these parameters that are whole numbers by those that `value` returns for them.
    fn reduce(
        mut self,
        parameters: &[&str],
        value: impl Fn(&str, u64) -> u64,
    ) -> Result<Tuning, Failure> {
        let Some(space) = self.spaces.first() else { return Ok(self) };
        let experiment = Experiment::resolve(request_for_space(&self.spec, space))?;
        let Some(cell) = experiment.cells.first() else { return Ok(self) };
        for name in parameters {
            let current = cell.plan.workload.params.get(*name);
            let Some(current) = current.and_then(|text| text.parse::<u64>().ok()) else { continue };
            let reduced = value(name, current);
            if reduced >= current {
                continue;
            }
            let sets = &mut self.request.spec.parameters;
            sets.retain(|set| key(set) != *name);
            sets.push(format!("{name}={reduced}"));
            match self.reductions.iter_mut().find(|known| known.parameter == *name) {
                Some(known) => known.reduced = reduced,
                None => self.reductions.push(Reduction {
                    parameter: name.to_string(),
                    full: current,
                    reduced,
                }),
            }
        }
        self.spec = super::spec(&self.request);
        Ok(self)
    }

    fn say_reductions(&self) {
        for sentence in self.reductions.iter().map(Reduction::sentence) {
            say(&format!("fsdyno: {sentence}"));
        }
    }
}

/// Returns the name of the parameter in `KEY=VALUE` or `WORKLOAD.KEY=VALUE`.
fn key(set: &str) -> &str {
    let key = set.split('=').next().unwrap_or_default();
    key.rsplit('.').next().unwrap_or_default()
}

fn unknown_time(cell: &Cell) -> Duration {
    let ops = u32::try_from(cell.ops()).unwrap_or(u32::MAX);
    UNKNOWN_TIME.saturating_add(UNKNOWN_TIME_PER_OP.saturating_mul(ops))
}

/// Rounds down to two significant digits.
fn round(value: u64) -> u64 {
    let mut unit = 1;
    while value / unit >= 100 {
        unit *= 10;
    }
    value / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduced_value_has_two_digits() {
        assert_eq!([7, 99, 100, 645, 12_999, 0].map(round), [7, 99, 100, 640, 12_000, 0]);
    }

    #[test]
    fn a_parameter_is_recognised_with_and_without_its_workload() {
        assert_eq!(["ops=3", "maildir.ops=3", "ops"].map(key), ["ops"; 3]);
    }
}
