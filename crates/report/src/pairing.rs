//! Pairing of two sets of trials: the only mechanism for the ratios of a report and the rows of a comparison.
//!
//! In the lab all random choices depend on the seed, so trials of one seed are a pair. On a host only the
//! time of day is shared, so the trials are two samples: Welch's interval, and a permutation test, which
//! assumes no distribution.

use std::collections::BTreeSet;

use fsdyno_stats::compare::{Comparison, paired, welch};
use fsdyno_stats::permutation::two_samples;

use crate::device;
use crate::run::Run;

/// The maximum number of trials on a side for a permutation test. Exact tests end at ten on each side; above about
/// twenty the t test of logarithms depends little on the distribution.
const MAX_RELABELLED: usize = 20;

/// The seed for relabellings that are drawn at random instead of enumerated.
const SEED: u64 = 1;

/// Trials of two sides, matched for a comparison.
pub struct Pairing<'a> {
    /// The base's trials; sorted by seed if they are pairs.
    pub base: Vec<Run<'a>>,
    /// The new trials, in the same order.
    pub new: Vec<Run<'a>>,
    /// The kind of matching.
    pub matching: Matching,
}

/// The kind of matching of two sets of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// By seed, with the number of trials whose seed the other side does not have.
    Pairs(usize),
    /// Trials of the lab without two seeds in common, as two samples.
    Unpaired,
    /// Trials of a host, as two samples.
    Samples,
}

impl Matching {
    /// The matching of two sides with this number of common seeds; `unique` is true if neither side has a seed twice. A
    /// single common seed is a pair only if a side has no other trials, because two samples would show more.
    fn of(in_lab: bool, unique: bool, common: usize, (base, new): (usize, usize)) -> Matching {
        let enough = common > 1 || (common == 1 && base.min(new) == 1);
        match (in_lab, unique && enough) {
            (true, true) => Matching::Pairs(base + new - 2 * common),
            (true, false) => Matching::Unpaired,
            (false, _) => Matching::Samples,
        }
    }

    /// The number of trials of both sides without a match.
    pub fn excluded(self) -> usize {
        match self {
            Matching::Pairs(excluded) => excluded,
            Matching::Unpaired | Matching::Samples => 0,
        }
    }
}

impl<'a> Pairing<'a> {
    /// Matches the trials of two sides.
    pub fn of(base: &[Run<'a>], new: &[Run<'a>]) -> Pairing<'a> {
        let (mut base, mut new) = (base.to_vec(), new.to_vec());
        let in_lab = base.iter().chain(&new).all(|(trial, _)| trial.lab_id.is_some());
        let seeds = |runs: &[Run<'_>]| runs.iter().map(|run| run.0.seed).collect::<BTreeSet<u64>>();
        let (base_seeds, new_seeds) = (seeds(&base), seeds(&new));
        let common = base_seeds.intersection(&new_seeds).count();
        let unique = base_seeds.len() == base.len() && new_seeds.len() == new.len();
        let matching = Matching::of(in_lab, unique, common, (base.len(), new.len()));
        if !matches!(matching, Matching::Pairs(_)) {
            return Pairing { base, new, matching };
        }
        base.retain(|run| new_seeds.contains(&run.0.seed));
        new.retain(|run| base_seeds.contains(&run.0.seed));
        base.sort_by_key(|run| run.0.seed);
        new.sort_by_key(|run| run.0.seed);
        Pairing { base, new, matching }
    }

    /// The ratio of the values, new over base, or `None` if a value is unknown or not positive. There is no verdict if
    /// a flag of any trial forbids it.
    pub fn compare_runs(&self, value: impl Fn(&Run<'_>) -> Option<f64>) -> Option<Comparison> {
        self.compare_sides(&value, &value)
    }

    /// The ratio of the values, with a separate measure for each side.
    pub fn compare_sides(
        &self,
        base: impl Fn(&Run<'_>) -> Option<f64>,
        new: impl Fn(&Run<'_>) -> Option<f64>,
    ) -> Option<Comparison> {
        let (base, new) = self.values(base, new)?;
        let comparison = self.t_test(&base, &new)?;
        let is_small = base.len().max(new.len()) <= MAX_RELABELLED;
        let comparison = match self.matching {
            Matching::Unpaired | Matching::Samples if is_small => {
                comparison.with_permutation(two_samples(&base, &new, SEED))
            }
            _ => comparison,
        };
        let forbidden = [&self.base, &self.new]
            .iter()
            .any(|runs| device::flags(runs).iter().any(|flag| flag.forbids_verdict()));
        Some(if forbidden { comparison.without_verdict() } else { comparison })
    }

    fn values(
        &self,
        base: impl Fn(&Run<'_>) -> Option<f64>,
        new: impl Fn(&Run<'_>) -> Option<f64>,
    ) -> Option<(Vec<f64>, Vec<f64>)> {
        let base = self.base.iter().map(base).collect::<Option<_>>()?;
        Some((base, self.new.iter().map(new).collect::<Option<_>>()?))
    }

    fn t_test(&self, base: &[f64], new: &[f64]) -> Option<Comparison> {
        match self.matching {
            Matching::Pairs(_) => {
                paired(&base.iter().copied().zip(new.iter().copied()).collect::<Vec<_>>())
            }
            Matching::Unpaired | Matching::Samples => welch(base, new),
        }
    }
}

/// The values of a row, for many comparisons of which only the p-value is needed.
pub struct Values {
    in_lab: bool,
    /// True if no seed occurs twice.
    unique: bool,
    /// The values by seed.
    by_seed: Vec<(u64, f64)>,
}

impl Values {
    /// The values of these trials, or `None` if one is unknown.
    pub fn of(runs: &[Run<'_>], value: impl Fn(&Run<'_>) -> Option<f64>) -> Option<Values> {
        let by_seed = runs.iter().map(|run| Some((run.0.seed, value(run)?)));
        let mut by_seed: Vec<(u64, f64)> = by_seed.collect::<Option<_>>()?;
        by_seed.sort_by_key(|(seed, _)| *seed);
        let unique = by_seed.windows(2).all(|pair| pair[0].0 != pair[1].0);
        let in_lab = runs.iter().all(|(trial, _)| trial.lab_id.is_some());
        Some(Values { in_lab, unique, by_seed })
    }

    /// The p-value that [`Pairing::compare_runs`] returns for both.
    pub fn p(&self, new: &Values) -> Option<f64> {
        let position = |seed: u64| new.by_seed.binary_search_by_key(&seed, |(seed, _)| *seed).ok();
        let pairs = self.by_seed.iter().filter_map(|(seed, value)| {
            position(*seed).map(|index| (*value, new.by_seed[index].1))
        });
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let (unique, sizes) = (self.unique && new.unique, (self.by_seed.len(), new.by_seed.len()));
        let compared = match Matching::of(self.in_lab && new.in_lab, unique, pairs.len(), sizes) {
            Matching::Pairs(_) => paired(&pairs),
            Matching::Unpaired | Matching::Samples => {
                let [base, new] = [self, new]
                    .map(|side| side.by_seed.iter().map(|(_, value)| *value).collect::<Vec<_>>());
                welch(&base, &new)
            }
        };
        compared?.p
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Trial;
    use fsdyno_stats::compare::{Method, Verdict};

    use super::*;
    use crate::fixture;

    fn runs<'a>(trials: &'a [Trial], label: &str) -> Vec<Run<'a>> {
        let selected =
            trials.iter().filter(|t| t.plan.label == label && t.plan.workload.name == "dirops");
        selected.map(|trial| (trial, &trial.measured.phases[0])).collect()
    }

    fn seconds(run: &Run<'_>) -> Option<f64> {
        Some(run.1.returned_ns.seconds())
    }

    #[test]
    fn lab_trials_are_paired_by_seed_and_host_trials_are_relabelled() {
        let trials = fixture::trials();
        let pairing = Pairing::of(&runs(&trials, "ext4"), &runs(&trials, "xfs")[1..]);
        assert_eq!((pairing.matching, pairing.base.len()), (Matching::Pairs(1), 2));
        assert_eq!(pairing.compare_runs(seconds).unwrap().method, Method::Paired);
        let trials = fixture::on_a_host();
        let pairing = Pairing::of(&runs(&trials, "ext4"), &runs(&trials, "xfs"));
        assert_eq!(pairing.matching, Matching::Samples);
        let comparison = pairing.compare_runs(seconds).unwrap();
        assert_eq!(comparison.method, Method::Welch);
        assert!(comparison.relabelled.unwrap().exact);
    }

    #[test]
    fn the_p_value_alone_equals_that_of_the_comparison() {
        for trials in [fixture::trials(), fixture::on_a_host()] {
            for from in 0..3 {
                let (base, new) = (runs(&trials, "ext4"), &runs(&trials, "xfs")[from..]);
                let p = Values::of(&base, seconds).unwrap().p(&Values::of(new, seconds).unwrap());
                assert_eq!(p, Pairing::of(&base, new).compare_runs(seconds).unwrap().p, "{from}");
            }
        }
    }

    #[test]
    fn a_seed_that_occurs_twice_prevents_pairing() {
        let trials = fixture::trials();
        let mut repeated = runs(&trials, "ext4");
        repeated.push(repeated[0]);
        assert_eq!(Pairing::of(&repeated, &runs(&trials, "xfs")).matching, Matching::Unpaired);
    }

    #[test]
    fn trials_without_calls_get_no_verdict() {
        let mut trials = fixture::trials();
        trials.iter_mut().for_each(|t| t.plan.issuer = fsdyno_record::plan::IssuerPlan::Null);
        let comparison =
            Pairing::of(&runs(&trials, "ext4"), &runs(&trials, "xfs")).compare_runs(seconds);
        assert_eq!(comparison.unwrap().verdict, Verdict::Undecided);
    }
}
