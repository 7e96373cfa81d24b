//! Description of a row's repeats beyond their mean: outliers, drift, warm-up and variance components. No value is
//! dropped.

use std::collections::BTreeMap;

use fsdyno_stats::describe;
use fsdyno_stats::drift::{Drift, drift};
use fsdyno_stats::interval::LEVEL;
use fsdyno_stats::levels::{VarianceComponents, one_way};
use fsdyno_stats::outlier::{Outlier, outliers};
use fsdyno_stats::warmup::{Warmup, warmup};

use crate::measure::Measure;
use crate::model::{Row, Section};
use crate::number;
use crate::pairing::Matching;

/// The p-value below which a drift or a warm-up is reported below the table: of a hundred rows without either, about
/// one is reported. This limit is our choice; the exports contain every p-value.
const P_LIMIT: f64 = 0.01;

/// The distance from the median, as a fraction of the median, beyond which an outlier outside Tukey's outer fence is
/// reported: if values hardly vary, many lie outside a fence. This limit is our choice.
const MIN_DISTANCE: f64 = 0.01;

/// The maximum number of outliers of a row that are listed individually.
const MAX_LISTED: usize = 3;

/// The repeats of a row.
pub struct Described {
    /// The measure.
    pub measure: Measure,
    /// Seed and value of each trial, in the order in which the trials ran; in the lab, where that order is meaningless,
    /// by seed.
    pub values: Vec<(u64, f64)>,
    /// The values beyond the fences.
    pub outliers: Vec<Outlier>,
    /// The trend of times over the order of the runs, or `None` in the lab.
    pub drift: Option<Drift>,
    /// The difference of the first run from the rest, or `None` in the lab.
    pub warmup: Option<Warmup>,
    /// The variance split into its parts between seeds and between trials of one seed, or `None` if no seed ran twice.
    pub levels: Option<VarianceComponents>,
}

impl Described {
    /// The repeats of a row of a section.
    pub fn of(row: &Row<'_>, section: &Section<'_>) -> Described {
        let mut trials = row.trials.clone();
        let host = trials.iter().all(|(trial, _)| trial.lab_id.is_none());
        if host {
            trials.sort_by(|a, b| a.0.host.started.cmp(&b.0.host.started));
        }
        let measure = section.measure;
        let value = |run| measure.value(run).unwrap_or(f64::NAN);
        let values: Vec<(u64, f64)> = trials.iter().map(|run| (run.0.seed, value(run))).collect();
        let seconds: Vec<f64> = values.iter().map(|(_, seconds)| *seconds).collect();
        let mut seeds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        values.iter().for_each(|(seed, seconds)| seeds.entry(*seed).or_default().push(*seconds));
        let repeated = seeds.values().any(|group| group.len() > 1);
        let groups: Vec<Vec<f64>> = seeds.into_values().collect();
        Described {
            measure,
            outliers: outliers(&seconds),
            drift: drift(&seconds, LEVEL).filter(|_| host),
            warmup: warmup(&seconds, LEVEL).filter(|_| host),
            levels: repeated.then(|| one_way(&groups)).flatten(),
            values,
        }
    }

    /// The values without their seeds.
    pub fn numbers(&self) -> Vec<f64> {
        self.values.iter().map(|(_, value)| *value).collect()
    }
}

/// The notes on the repeats of a section, each in a sentence.
pub fn lines(section: &Section<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &section.rows {
        let described = Described::of(row, section);
        let name = &row.name;
        let mut report = |note: String| lines.push(format!("{name}: {note}"));
        if let Some((drift, change)) = described.drift.and_then(|d| Some((d, d.change?)))
            && drift.p < P_LIMIT
        {
            let verb = if change > 0.0 { "rose" } else { "fell" };
            let by_percent = number::percent(change.abs());
            report(format!(
                "{} {verb} by {by_percent} during the run (drift, p = {:.3}); something else changed \
                 on the machine",
                if described.measure == Measure::Space { "bytes per file" } else { "times" },
                drift.p
            ));
        }
        if let Some((first, share)) = described.warmup.and_then(|w| Some((w, w.share?)))
            && first.p.is_some_and(|p| p < P_LIMIT)
        {
            let comparative = if share > 0.0 { "longer" } else { "shorter" };
            let by_percent = number::percent(share.abs());
            report(format!(
                "the first trial took {by_percent} {comparative} than the rest (warm-up); it is counted"
            ));
        }
        let seconds = described.numbers();
        let median = describe::median(&seconds).unwrap_or(0.0);
        let is_distant = |outlier: &&Outlier| {
            outlier.far && (outlier.value - median).abs() > MIN_DISTANCE * median.abs()
        };
        let distant: Vec<&Outlier> = described.outliers.iter().filter(is_distant).collect();
        for outlier in distant.iter().take(MAX_LISTED) {
            let (seed, _) = described.values[outlier.index];
            let [value, median] =
                [outlier.value, median].map(|value| described.measure.format(value));
            report(format!(
                "seed {seed} is an outlier, {value} against a median of {median}; it is counted"
            ));
        }
        if distant.len() > MAX_LISTED {
            report(format!("{} more outliers", distant.len() - MAX_LISTED));
        }
        if let Some(share) = described.levels.and_then(|levels| levels.share) {
            let share = number::percent(share);
            report(format!(
                "{share} of the variance is between seeds, the rest between trials of one seed"
            ));
        }
    }
    lines.extend(section.rows.iter().filter_map(|row| matching_note(row, section)));
    lines.extend(exact_note(section));
    lines
}

/// A sentence on the rows whose repeats are exactly equal, if there are any.
fn exact_note(section: &Section<'_>) -> Option<String> {
    let compared = section.rows.iter().filter_map(|row| Some((row, row.comparison?)));
    let names: Vec<&str> =
        compared.filter(|(_, c)| c.exact).map(|(row, _)| row.name.as_str()).collect();
    let note = "exact: no two repeats differed, so the verdict is based on the difference alone";
    (!names.is_empty()).then(|| format!("{}: {note}", names.join(", ")))
}

/// A sentence on how a lab row's trials were matched, if some are unmatched.
fn matching_note(row: &Row<'_>, section: &Section<'_>) -> Option<String> {
    let base = row.base.and_then(|index| section.rows.get(index))?;
    let matching = match row.matching? {
        Matching::Pairs(0) | Matching::Samples => return None,
        Matching::Pairs(excluded) => {
            let pairs = row.comparison.map_or(0, |comparison| comparison.n);
            let (pairs, trials) =
                (number::counted(pairs, "pair"), number::counted(excluded, "trial"));
            let (have, are) = if excluded == 1 { ("has", "is") } else { ("have", "are") };
            format!(
                "compared with {} by {pairs} of equal seed; {trials} of the two {have} no match and {are} \
                 not counted in the ratio",
                base.name
            )
        }
        Matching::Unpaired => format!(
            "not paired with {}, because they do not have two seeds in common: compared as samples",
            base.name
        ),
    };
    Some(format!("{}: {matching}", row.name))
}

#[cfg(test)]
mod tests {
    use fsdyno_record::{Nanos, Trial};

    use super::*;
    use crate::{fixture, view};

    /// Ten trials of ext4 on a host, in this order, with these seconds until returned.
    fn host_trials(seconds: [f64; 10]) -> Vec<Trial> {
        let trial = fixture::on_a_host().remove(0);
        let trial = |(index, seconds): (usize, f64)| {
            let mut trial = trial.clone();
            // Seeds in the opposite order of the runs.
            trial.seed = 20 - index as u64;
            trial.host.started = format!("2026-11-22T00:00:{index:02}Z");
            trial.measured.phases.truncate(1);
            trial.measured.phases[0].returned_ns = Nanos((seconds * 1e9) as u64);
            trial
        };
        seconds.into_iter().enumerate().map(trial).collect()
    }

    fn notes(trials: &[Trial]) -> Vec<String> {
        view::sections(trials, None).iter().flat_map(lines).collect()
    }

    #[test]
    fn times_that_rise_with_the_order_of_the_runs_are_reported_and_steady_times_are_not() {
        let lines =
            notes(&host_trials([1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.09]));
        assert!(lines[0].starts_with("ext4: times rose by 8.6 % during the run"), "{lines:?}");
        let steady = [1.0, 1.02, 0.99, 1.01, 1.0, 0.98, 1.02, 1.0, 1.01, 0.99];
        assert_eq!(notes(&host_trials(steady)), Vec::<String>::new());
    }

    #[test]
    fn a_slow_first_run_and_an_outlier_are_reported_and_counted() {
        let lines = notes(&host_trials([2.0, 1.02, 0.99, 1.01, 1.0, 0.98, 1.02, 1.0, 1.01, 0.99]));
        assert!(lines.iter().any(|l| l.contains("first trial took 100 % longer")), "{lines:?}");
        assert!(lines.iter().any(|l| l.contains("seed 20 is an outlier, 2.00 s")), "{lines:?}");
        let trials = host_trials([2.0, 1.02, 0.99, 1.01, 1.0, 0.98, 1.02, 1.0, 1.01, 0.99]);
        let sections = view::sections(&trials, None);
        assert_eq!(sections[0].rows[0].returned.n, 10);
        assert!((sections[0].rows[0].returned.mean - 1.102).abs() < 1e-9);
    }

    #[test]
    fn trials_whose_seed_has_no_match_are_reported() {
        let mut trials = fixture::trials();
        trials.retain(|t| t.plan.label != "far" && (t.plan.label != "xfs" || t.seed > 1));
        let lines = notes(&trials);
        assert!(
            lines[0].contains(
                "by 2 pairs of equal seed; 1 trial of the two has no match and is not counted"
            ),
            "{lines:?}"
        );
        trials.iter_mut().filter(|t| t.plan.label == "xfs").for_each(|trial| trial.seed += 10);
        let lines = notes(&trials);
        assert!(lines[0].contains("not paired with "), "{lines:?}");
        assert_eq!(notes(&fixture::trials()), [""; 0]);
    }

    #[test]
    fn the_lab_has_no_drift_and_the_variance_is_split_if_seeds_ran_twice() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, None);
        let described = Described::of(&sections[0].rows[0], &sections[0]);
        assert!(described.drift.is_none() && described.levels.is_none());
        let mut repeated = host_trials([1.0, 1.2, 0.9, 1.1, 1.3, 1.01, 1.21, 0.91, 1.11, 1.31]);
        repeated.iter_mut().enumerate().for_each(|(index, trial)| trial.seed = index as u64 % 5);
        let lines = notes(&repeated);
        assert!(lines.iter().any(|l| l.contains("of the variance is between seeds")), "{lines:?}");
    }
}
