//! Two sets of trials compared: the one way in which the ratios of a report and the rows of a comparison
//! are made.
//!
//! In the lab everything arbitrary hangs on the seed, so trials of one seed are a pair. On a host nothing is
//! shared but the time of day, so the trials are two samples: Welch's interval, and a permutation test
//! that asks no distribution of them.

use std::collections::BTreeSet;

use fsdyno_stats::compare::{Comparison, paired, welch};
use fsdyno_stats::permutation::two_samples;

use crate::device;
use crate::view::Run;

/// Up to so many trials on a side they are relabelled too. The counted tests end at ten on each side; with
/// more than some twenty the t test of logarithms asks little of their distribution.
const RELABELLED: usize = 20;

/// Of which relabellings are drawn, where they are not counted.
const SEED: u64 = 1;

/// Trials of two sides, as they are compared.
pub struct Pairing<'a> {
    /// The base's; where they are pairs, by seed.
    pub base: Vec<Run<'a>>,
    /// The new ones, alike.
    pub new: Vec<Run<'a>>,
    /// How.
    pub how: How,
}

/// How two sets of trials are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By seed, so many trials left out whose seed the other side has not.
    Pairs(usize),
    /// Trials of the lab that have not two seeds in common, as two samples.
    Unpaired,
    /// A host's, as two samples.
    Samples,
}

impl How {
    /// How two sides with this number of common seeds are compared; `once` where neither has a seed twice. A single
    /// common seed is a pair only where a side has no more trials, for it tells nothing where more could.
    fn of(in_lab: bool, once: bool, common: usize, (base, new): (usize, usize)) -> How {
        let enough = common > 1 || (common == 1 && base.min(new) == 1);
        match (in_lab, once && enough) {
            (true, true) => How::Pairs(base + new - 2 * common),
            (true, false) => How::Unpaired,
            (false, _) => How::Samples,
        }
    }

    /// How many trials of both sides have no partner.
    pub fn left_out(self) -> usize {
        match self {
            How::Pairs(left_out) => left_out,
            How::Unpaired | How::Samples => 0,
        }
    }
}

impl<'a> Pairing<'a> {
    /// Finds each trial's partner.
    pub fn of(base: &[Run<'a>], new: &[Run<'a>]) -> Pairing<'a> {
        let (mut base, mut new) = (base.to_vec(), new.to_vec());
        let in_lab = base.iter().chain(&new).all(|(trial, _)| trial.lab_id.is_some());
        let seeds = |runs: &[Run<'_>]| runs.iter().map(|run| run.0.seed).collect::<BTreeSet<u64>>();
        let (of_base, of_new) = (seeds(&base), seeds(&new));
        let common = of_base.intersection(&of_new).count();
        let once = of_base.len() == base.len() && of_new.len() == new.len();
        let how = How::of(in_lab, once, common, (base.len(), new.len()));
        if !matches!(how, How::Pairs(_)) {
            return Pairing { base, new, how };
        }
        base.retain(|run| of_new.contains(&run.0.seed));
        new.retain(|run| of_base.contains(&run.0.seed));
        base.sort_by_key(|run| run.0.seed);
        new.sort_by_key(|run| run.0.seed);
        Pairing { base, new, how }
    }

    /// The ratio of what `value` measures, new over base; none where one is not known or not positive. No verdict
    /// follows where a flag of some trial forbids it.
    pub fn compare_runs(&self, value: impl Fn(&Run<'_>) -> Option<f64>) -> Option<Comparison> {
        self.compare_sides(&value, &value)
    }

    /// The same where each side is measured by something of its own.
    pub fn compare_sides(
        &self,
        base: impl Fn(&Run<'_>) -> Option<f64>,
        new: impl Fn(&Run<'_>) -> Option<f64>,
    ) -> Option<Comparison> {
        let (base, new) = self.values(base, new)?;
        let comparison = self.t_test(&base, &new)?;
        let few = base.len().max(new.len()) <= RELABELLED;
        let comparison = match self.how {
            How::Unpaired | How::Samples if few => {
                comparison.relabelled(two_samples(&base, &new, SEED))
            }
            _ => comparison,
        };
        let forbidden = [&self.base, &self.new]
            .iter()
            .any(|runs| device::flags(runs).iter().any(|flag| flag.forbids_verdict()));
        Some(if forbidden { comparison.withheld() } else { comparison })
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
        match self.how {
            How::Pairs(_) => {
                paired(&base.iter().copied().zip(new.iter().copied()).collect::<Vec<_>>())
            }
            How::Unpaired | How::Samples => welch(base, new),
        }
    }
}

/// The values of a row, for many comparisons of which the p-value alone is wanted.
pub struct Values {
    in_lab: bool,
    /// Whether no seed is there twice.
    once: bool,
    /// By seed.
    by_seed: Vec<(u64, f64)>,
}

impl Values {
    /// The values of these trials; none where one is not known.
    pub fn of(runs: &[Run<'_>], value: impl Fn(&Run<'_>) -> Option<f64>) -> Option<Values> {
        let by_seed = runs.iter().map(|run| Some((run.0.seed, value(run)?)));
        let mut by_seed: Vec<(u64, f64)> = by_seed.collect::<Option<_>>()?;
        by_seed.sort_by_key(|(seed, _)| *seed);
        let once = by_seed.windows(2).all(|pair| pair[0].0 != pair[1].0);
        Some(Values { in_lab: runs.iter().all(|(trial, _)| trial.lab_id.is_some()), once, by_seed })
    }

    /// The p-value that [`Pairing::compare_runs`] has of both.
    pub fn p(&self, new: &Values) -> Option<f64> {
        let of = |seed: u64| new.by_seed.binary_search_by_key(&seed, |(seed, _)| *seed).ok();
        let pairs = self
            .by_seed
            .iter()
            .filter_map(|(seed, value)| of(*seed).map(|at| (*value, new.by_seed[at].1)));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let (once, sizes) = (self.once && new.once, (self.by_seed.len(), new.by_seed.len()));
        let compared = match How::of(self.in_lab && new.in_lab, once, pairs.len(), sizes) {
            How::Pairs(_) => paired(&pairs),
            How::Unpaired | How::Samples => {
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
        let of =
            trials.iter().filter(|t| t.plan.label == label && t.plan.workload.name == "dirops");
        of.map(|trial| (trial, &trial.measured.phases[0])).collect()
    }

    fn seconds(run: &Run<'_>) -> Option<f64> {
        Some(run.1.returned_ns.seconds())
    }

    #[test]
    fn the_lab_pairs_by_seed_and_a_host_relabels() {
        let trials = fixture::trials();
        let pairing = Pairing::of(&runs(&trials, "ext4"), &runs(&trials, "xfs")[1..]);
        assert_eq!((pairing.how, pairing.base.len()), (How::Pairs(1), 2));
        assert_eq!(pairing.compare_runs(seconds).unwrap().method, Method::Paired);
        let trials = fixture::on_a_host();
        let pairing = Pairing::of(&runs(&trials, "ext4"), &runs(&trials, "xfs"));
        assert_eq!(pairing.how, How::Samples);
        let comparison = pairing.compare_runs(seconds).unwrap();
        assert_eq!(comparison.method, Method::Welch);
        assert!(comparison.relabelled.unwrap().exact);
    }

    #[test]
    fn a_p_value_alone_is_that_of_the_comparison() {
        for trials in [fixture::trials(), fixture::on_a_host()] {
            for from in 0..3 {
                let (base, new) = (runs(&trials, "ext4"), &runs(&trials, "xfs")[from..]);
                let p = Values::of(&base, seconds).unwrap().p(&Values::of(new, seconds).unwrap());
                assert_eq!(p, Pairing::of(&base, new).compare_runs(seconds).unwrap().p, "{from}");
            }
        }
    }

    #[test]
    fn a_seed_that_stands_twice_pairs_nothing() {
        let trials = fixture::trials();
        let mut twice = runs(&trials, "ext4");
        twice.push(twice[0]);
        assert_eq!(Pairing::of(&twice, &runs(&trials, "xfs")).how, How::Unpaired);
    }

    #[test]
    fn what_was_never_issued_gets_no_verdict() {
        let mut trials = fixture::trials();
        trials.iter_mut().for_each(|t| t.plan.issuer = fsdyno_record::plan::IssuerPlan::Null);
        let comparison =
            Pairing::of(&runs(&trials, "ext4"), &runs(&trials, "xfs")).compare_runs(seconds);
        assert_eq!(comparison.unwrap().verdict, Verdict::Unknown);
    }
}
