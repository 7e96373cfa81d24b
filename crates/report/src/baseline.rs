//! Ratios of a section's rows to a base: the best row of the section, or the baseline.

use crate::validity::{self, Flag};
use fsdyno_stats::compare::{Comparison, Verdict, adjust};

use crate::measure::Measure;
use crate::model::{Pair, Ratio, Row, Section, Significance};
use crate::pairing::{Matching, Pairing, Values};
use crate::processor;
use crate::sort::Sort;

/// The default for the smallest difference that matters: 1 %.
pub const DEFAULT_LEAST_DIFFERENCE: f64 = 0.01;

/// The base of ratios, the smallest difference that matters, and what tables show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Basis<'b> {
    /// The label of the baseline, or `None` if ratios are taken to the best row of each section.
    pub baseline: Option<&'b str>,
    /// The smallest difference that matters, relative.
    pub least_difference: f64,
    /// The order of rows in tables, or `None` to keep the order of the trials.
    pub sort: Option<Sort>,
    /// The columns of tables ([`crate::columns::COLUMN_NAMES`]); the default ones if empty.
    pub columns: &'b [&'b str],
}

impl<'b> From<Option<&'b str>> for Basis<'b> {
    fn from(baseline: Option<&'b str>) -> Basis<'b> {
        Basis { baseline, least_difference: DEFAULT_LEAST_DIFFERENCE, sort: None, columns: &[] }
    }
}

/// The comparison of a row with its base.
#[derive(Clone, Copy, Debug)]
pub struct RowComparison {
    /// The displayed ratio.
    pub ratio: Ratio,
    /// Index of the base.
    pub base: usize,
    /// The comparison, or `None` for the base itself.
    pub comparison: Option<(Comparison, Matching)>,
}

/// The ratio of every row to its base, and its comparison. The base is the best row, or the row with the baseline's
/// label and the same disk, kernel and threads. An entry is `None` if there is no such row or a time is zero.
pub fn ratios(rows: &[Row<'_>], basis: Basis<'_>, measure: Measure) -> Vec<Option<RowComparison>> {
    let best = best(rows, measure);
    let ratio = |row: &Row<'_>| {
        if !made_calls(row) {
            return None;
        }
        let base = match basis.baseline {
            Some(label) => base_of(row, rows, label)?,
            None => best?,
        };
        let base_index = rows.iter().position(|other| std::ptr::eq(other, base))?;
        let compared = compare(base, row, measure, basis.least_difference)?;
        if std::ptr::eq(row, base) {
            return Some(RowComparison {
                ratio: Ratio { value: 1.0, significance: Significance::Plain },
                base: base_index,
                comparison: None,
            });
        }
        let ratio = Ratio { value: compared.0.ratio, significance: Significance::Plain };
        Some(RowComparison { ratio, base: base_index, comparison: Some(compared) })
    };
    rows.iter().map(ratio).collect()
}

/// The p-values of the pairs of rows that are not displayed but would be if a different row were the best. Every such
/// pair is one test of the family, because the best row is chosen by the same times that are then compared with it.
/// Pairs of a fresh and an aged row are displayed in any case. The list is empty with a baseline, because the baseline
/// is chosen beforehand.
pub fn unshown_p_values(
    rows: &[Row<'_>],
    basis: Basis<'_>,
    aged: &[Pair],
    measure: Measure,
) -> Vec<f64> {
    if basis.baseline.is_some() {
        return Vec::new();
    }
    let may_be_base = candidates(rows);
    let is_shown = |from: usize, to: usize| {
        rows[to].base == Some(from)
            || rows[from].base == Some(to)
            || aged.iter().any(|pair| (pair.fresh, pair.aged) == (from, to))
            || aged.iter().any(|pair| (pair.aged, pair.fresh) == (from, to))
    };
    let pairs = (0..rows.len()).flat_map(|from| (from + 1..rows.len()).map(move |to| (from, to)));
    let compared = pairs
        .filter(|(from, to)| made_calls(&rows[*from]) && made_calls(&rows[*to]))
        .filter(|(from, to)| may_be_base[*from] || may_be_base[*to])
        .filter(|(from, to)| !is_shown(*from, *to));
    let values = |row: &Row<'_>| Values::of(&row.trials, |run| measure.value(run));
    let values: Vec<Option<Values>> = rows.iter().map(values).collect();
    let p = |(from, to): (usize, usize)| values[from].as_ref()?.p(values[to].as_ref()?);
    compared.filter_map(p).collect()
}

/// Adjusts all verdicts of a report for their number, including the verdicts on aged rows against fresh ones, and marks
/// the ratios that become undecided. Single trials have no verdict.
pub fn adjust_all(sections: &mut [Section<'_>]) {
    let aged =
        || sections.iter().flat_map(|section| &section.aged).filter(|pair| !pair.is_row_comparison);
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let all = rows().filter_map(|row| row.comparison).chain(aged().map(|pair| pair.comparison));
    let mut table: Vec<Comparison> = all.collect();
    let unshown: Vec<f64> = sections.iter().flat_map(|section| &section.unshown).copied().collect();
    adjust(&mut table, &unshown);
    let mut adjusted = table.into_iter();
    for row in sections.iter_mut().flat_map(|section| &mut section.rows) {
        if row.comparison.is_some() {
            row.comparison = adjusted.next();
        }
        let significance = match row.comparison.map(|c| (c.verdict, c.n > 1)) {
            Some((Verdict::Undecided, true)) => Significance::Undecided,
            Some((Verdict::Same, _)) => Significance::Same,
            Some((Verdict::WithinError, _)) => Significance::WithinError,
            _ => Significance::Plain,
        };
        row.ratio = row.ratio.map(|ratio| Ratio { significance, ..ratio });
    }
    for Section { aged, rows, .. } in sections {
        for pair in aged {
            let row_comparison = || rows.get(pair.aged).and_then(|row| row.comparison);
            let corrected = if pair.is_row_comparison { row_comparison() } else { adjusted.next() };
            pair.comparison = corrected.unwrap_or(pair.comparison);
        }
    }
}

/// For each row, whether it can be the best: only rows that do not give up durability can, unless all rows do.
pub fn candidates(rows: &[Row<'_>]) -> Vec<bool> {
    let any_safe = rows.iter().any(|row| made_calls(row) && row.is_safe());
    rows.iter().map(|row| made_calls(row) && (row.is_safe() || !any_safe)).collect()
}

/// The row with the smallest geometric mean among those that can be the best, or `None` if a value of one of them is
/// zero, because then there is no ratio.
pub fn best<'a, 'b>(rows: &'a [Row<'b>], measure: Measure) -> Option<&'a Row<'b>> {
    let may_be_best = candidates(rows);
    let rivals = || rows.iter().zip(&may_be_best).filter(|(_, may)| **may).map(|(row, _)| row);
    let means: Option<Vec<f64>> = rivals().map(|row| log_mean(row, measure)).collect();
    let ranked = rivals().zip(means?);
    ranked.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row)
}

/// For each row, whether its values are noisy without its ratios to other rows being more precise. Paired trials of a
/// lab can give a precise ratio of two rows whose values both scatter.
pub fn noisy(rows: &[Row<'_>]) -> Vec<bool> {
    let is_precise = |row: &Row<'_>| row.comparison.as_ref().is_some_and(validity::is_precise);
    let is_noisy = |(index, row): (usize, &Row<'_>)| {
        let measured = row.durable.as_ref().unwrap_or(&row.returned);
        let mut compared =
            rows.iter().filter(|other| other.base == Some(index) && other.comparison.is_some());
        let has_precise_ratios = match row.comparison {
            Some(_) => is_precise(row),
            None => compared.clone().next().is_some() && compared.all(is_precise),
        };
        validity::noisy(measured) && !has_precise_ratios
    };
    rows.iter().enumerate().map(is_noisy).collect()
}

/// For each row, whether fsdyno's own share of the time limits what the row shows: no other row is compared with it, or
/// its difference from one is at most the larger share of the two. With a share over [`validity::INSTRUMENT_MAXIMUM`],
/// that holds for its difference from any other row. `aged` are the pairs of a fresh and an aged row, which are compared
/// as well.
pub fn instrument_bound(rows: &[Row<'_>], aged: &[Pair]) -> Vec<bool> {
    let shares: Vec<f64> = rows.iter().map(|row| validity::instrument_share(&row.trials)).collect();
    let with_base = |(new, row): (usize, &Row<'_>)| Some((row.base?, new, row.comparison?.ratio));
    let with_fresh = |pair: &Pair| (pair.fresh, pair.aged, pair.comparison.ratio);
    let compared: Vec<(usize, usize, f64)> =
        rows.iter().enumerate().filter_map(with_base).chain(aged.iter().map(with_fresh)).collect();
    let is_within = |row: usize, other: usize, ratio: f64| {
        (ratio - 1.0).abs() <= shares[row].max(shares[other])
    };
    let is_near = |row: usize, other: usize| {
        row != other && is_within(row, other, rows[other].measured.mean / rows[row].measured.mean)
    };
    let is_bound = |row: usize| {
        let own: Vec<_> =
            compared.iter().filter(|(base, new, _)| [*base, *new].contains(&row)).collect();
        let is_large = shares[row] > validity::INSTRUMENT_MAXIMUM;
        own.is_empty()
            || own.iter().any(|(base, new, ratio)| is_within(*base, *new, *ratio))
            || is_large && (0..rows.len()).any(|other| is_near(row, other))
    };
    (0..rows.len()).map(is_bound).collect()
}

/// The logarithm of the geometric mean of a row's values, or `None` unless all of them are positive.
fn log_mean(row: &Row<'_>, measure: Measure) -> Option<f64> {
    let log = |run| measure.value(run).filter(|value| *value > 0.0).map(f64::ln);
    let logs: Option<Vec<f64>> = row.trials.iter().map(log).collect();
    fsdyno_stats::Summary::of(&logs?).map(|summary| summary.mean)
}

/// Returns true if a row's trials made calls.
fn made_calls(row: &Row<'_>) -> bool {
    !row.flags.contains(&Flag::NoCalls)
}

/// The row with this label that differs from `row` only in the label; if there is none, the row with this label, if
/// there is exactly one.
pub fn base_of<'a, 'b>(row: &Row<'_>, rows: &'a [Row<'b>], label: &str) -> Option<&'a Row<'b>> {
    let mut labelled = rows.iter().filter(|other| other.label() == label);
    let same_variant = labelled.clone().find(|other| other.variant == row.variant);
    same_variant.or_else(|| labelled.next().filter(|_| labelled.next().is_none()))
}

/// Compares `new` with `base` without adjustment, given the smallest difference that matters. Also returns how the
/// trials were matched: paired by seed or as samples.
pub fn compare(
    base: &Row<'_>,
    new: &Row<'_>,
    measure: Measure,
    least: f64,
) -> Option<(Comparison, Matching)> {
    let pairing = Pairing::of(&base.trials, &new.trials);
    let error = processor::error(&pairing.base, &pairing.new, measure);
    let comparison = pairing.compare_runs(|run| measure.value(run))?;
    Some((comparison.with_threshold(least).with_systematic(error), pairing.matching))
}

#[cfg(test)]
mod tests {
    use fsdyno_record::{Nanos, Trial};

    use super::*;
    use crate::{fixture, view};

    #[test]
    fn a_file_system_faster_than_the_baseline_has_a_ratio_below_1() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, Some("ext4"));
        let create = &sections[0];
        assert_eq!(create.versus, "ext4");
        assert_eq!(create.rows[0].ratio.unwrap().value, 1.0);
        assert!(create.rows[1].ratio.unwrap().value < 1.0, "xfs creates faster than ext4");
    }

    #[test]
    fn the_displayed_ratio_is_the_one_to_which_its_interval_refers() {
        let mut trials = fixture::trials();
        // Times whose arithmetic means order differently from their geometric means.
        for trial in trials.iter_mut().filter(|trial| trial.plan.label != "far") {
            let seconds: [u64; 3] = if trial.plan.label == "ext4" { [1, 1, 16] } else { [5, 5, 5] };
            let ns = Nanos(seconds[trial.seed as usize - 1] * 1_000_000_000);
            trial.measured.phases.iter_mut().for_each(|phase| phase.durable_ns = Some(ns));
        }
        trials.retain(|trial| trial.plan.label != "far");
        let sections = view::sections(&trials, None);
        let rows = &sections[0].rows;
        assert!(rows[0].measured.mean > rows[1].measured.mean);
        assert!(rows[0].best && !rows[1].best);
        let comparison = compare(&rows[0], &rows[1], Measure::Durable, 0.0).unwrap().0;
        assert_eq!(rows[1].ratio.unwrap().value, comparison.ratio);
        let (low, high) = comparison.interval.unwrap();
        assert!((low..=high).contains(&rows[1].ratio.unwrap().value) && comparison.ratio > 1.0);
    }

    #[test]
    fn every_pair_counts_against_the_best_but_only_displayed_pairs_against_a_baseline() {
        let trials = fixture::trials();
        let raised = |baseline: Option<&str>| {
            let sections = view::sections(&trials, baseline);
            let rows = sections.iter().flat_map(|section| &section.rows);
            let tested = rows.filter_map(|row| row.comparison).filter(|c| c.p.is_some());
            let smallest = tested.min_by(|a, b| a.p.unwrap().total_cmp(&b.p.unwrap())).unwrap();
            smallest.p_in_table.unwrap() / smallest.p.unwrap()
        };
        // Three rows in each of four sections: of 12 pairs 8 are displayed, and one of the others has a smaller p.
        assert!((raised(None) - 11.0).abs() < 1e-9, "{}", raised(None));
        assert!((raised(Some("ext4")) - 8.0).abs() < 1e-9, "{}", raised(Some("ext4")));
    }

    #[test]
    fn a_row_is_noisy_only_if_its_values_vary_independently_of_its_base() {
        let mut trials = fixture::trials();
        trials.retain(|trial| trial.plan.label != "far");
        for trial in &mut trials {
            let factor = if trial.plan.label == "xfs" { 222 } else { 100 };
            let scatter = [10, 17, 8][trial.seed as usize - 1];
            for phase in &mut trial.measured.phases {
                phase.durable_ns = Some(Nanos(factor * scatter * 1_000_000 + trial.seed));
            }
        }
        let is_noisy = |trials: &[Trial]| {
            let sections = view::sections(trials, None);
            sections[0].rows.iter().map(|row| row.flags.contains(&Flag::Noisy)).collect::<Vec<_>>()
        };
        assert_eq!(is_noisy(&trials), [false, false]);
        let alone: Vec<Trial> = trials.iter().filter(|t| t.plan.label == "xfs").cloned().collect();
        assert_eq!(is_noisy(&alone), [true]);
        let xfs = trials.iter_mut().filter(|trial| trial.plan.label == "xfs");
        xfs.for_each(|trial| {
            trial.measured.phases[0].durable_ns = Some(Nanos(trial.seed * 1_000_000_000))
        });
        assert_eq!(is_noisy(&trials), [true, true]);
    }

    /// Trials of these rows, each with its time in milliseconds and fsdyno's own time as thousandths of it.
    fn instrumented(rows: &[(&str, u64, u64)]) -> Vec<Trial> {
        let mut trials = fixture::trials();
        trials.retain(|trial| rows.iter().any(|row| row.0 == trial.plan.label));
        for trial in &mut trials {
            let (_, ms, share) = *rows.iter().find(|row| row.0 == trial.plan.label).unwrap();
            for phase in &mut trial.measured.phases {
                phase.durable_ns = Some(Nanos(ms * 1_000_000 + trial.seed));
                phase.instrument = Default::default();
                phase.instrument.server_cpu_ns = Nanos(ms * share * 1000);
            }
        }
        trials
    }

    /// For each row of the first section, whether it is flagged.
    fn bound(rows: &[(&str, u64, u64)], baseline: Option<&str>) -> Vec<bool> {
        let trials = instrumented(rows);
        let sections = view::sections(&trials, baseline);
        let is_flagged = |row: &Row<'_>| row.flags.contains(&Flag::InstrumentBound);
        sections[0].rows.iter().map(is_flagged).collect()
    }

    #[test]
    fn the_instrument_limits_a_row_only_if_a_difference_may_be_its_own() {
        // The differences are larger than all shares.
        assert_eq!(bound(&[("ext4", 1670, 42), ("xfs", 1000, 38)], None), [false, false]);
        // A difference of 4 %: at most the larger share of the two, whichever of them has it.
        assert_eq!(bound(&[("ext4", 1040, 42), ("xfs", 1000, 38)], None), [true, true]);
        assert_eq!(bound(&[("ext4", 1040, 38), ("xfs", 1000, 42)], None), [true, true]);
        assert_eq!(bound(&[("ext4", 1040, 39), ("xfs", 1000, 39)], None), [false, false]);
        // A share below the limit is never flagged.
        assert_eq!(bound(&[("ext4", 1020, 29), ("xfs", 1000, 42)], None), [false, true]);
    }

    #[test]
    fn the_instrument_limits_the_base_if_it_limits_a_row_compared_with_it() {
        let rows = [("ext4", 1670, 42), ("xfs", 1000, 42), ("far", 1030, 42)];
        assert_eq!(bound(&rows, None), [false, true, true]);
        // Against ext4, both other rows are faster by more than all shares.
        assert_eq!(bound(&rows, Some("ext4")), [false, false, false]);
        let slower = [("ext4", 1000, 42), ("xfs", 970, 42), ("far", 500, 42)];
        assert_eq!(bound(&slower, Some("ext4")), [true, true, false]);
    }

    #[test]
    fn the_instrument_limits_a_row_that_is_compared_with_no_other() {
        assert_eq!(bound(&[("ext4", 1000, 42)], None), [true]);
        assert_eq!(bound(&[("ext4", 1000, 29)], None), [false]);
        // The baseline has no trial.
        assert_eq!(bound(&[("ext4", 1670, 42), ("xfs", 1000, 42)], Some("far")), [true, true]);
    }

    #[test]
    fn a_share_over_the_maximum_is_flagged_next_to_any_row_with_a_smaller_difference() {
        let rows = |share| [("ext4", 5000, share), ("xfs", 1000, 42), ("far", 4700, 42)];
        assert_eq!(bound(&rows(101), None), [true, false, false]);
        assert_eq!(bound(&rows(99), None), [false, false, false]);
        // All differences are larger than the share.
        assert_eq!(bound(&[("ext4", 1670, 160), ("xfs", 1000, 42)], None), [false, false]);
    }

    #[test]
    fn a_fresh_and_an_aged_row_are_compared_too() {
        let mut trials = fixture::fresh_and_aged();
        trials.retain(|trial| trial.plan.label != "far");
        for trial in &mut trials {
            let base = if trial.plan.label == "xfs" { 1000 } else { 1670 };
            let ms = if trial.plan.age().is_some() { base * 104 / 100 } else { base };
            for phase in &mut trial.measured.phases {
                phase.durable_ns = Some(Nanos(ms * 1_000_000 + trial.seed));
                phase.instrument = Default::default();
                phase.instrument.server_cpu_ns = Nanos(ms * 42_000);
            }
        }
        let sections = view::sections(&trials, None);
        let rows = &sections[0].rows;
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| row.flags.contains(&Flag::InstrumentBound)), "{rows:?}");
    }

    #[test]
    fn a_time_of_zero_has_no_ratio_and_no_winner() {
        let mut trials = fixture::trials();
        for trial in trials.iter_mut().filter(|trial| trial.plan.label == "xfs") {
            let phases = trial.measured.phases.iter_mut();
            phases.for_each(|phase| phase.durable_ns = Some(Nanos(0)));
        }
        for section in view::sections(&trials, None) {
            assert!(section.rows.iter().all(|row| row.ratio.is_none() && !row.best));
        }
        let sections = view::sections(&trials, Some("xfs"));
        assert!(sections[0].rows.iter().all(|row| row.ratio.is_none()));
    }

    #[test]
    fn each_row_is_compared_with_the_baseline_on_the_same_disk() {
        let mut trials = fixture::trials();
        let mut other = fixture::trials();
        for trial in &mut other {
            fixture::set_disk(trial, "instant");
        }
        trials.append(&mut other);
        let sections = view::sections(&trials, Some("ext4"));
        let ones = sections[0].rows.iter().filter(|row| row.ratio.unwrap().value == 1.0);
        let names: Vec<&str> = ones.map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["ext4, hdd-7200", "ext4, instant"]);
    }

    #[test]
    fn without_a_trial_of_the_baseline_there_is_no_ratio() {
        let mut trials = fixture::trials();
        trials.retain(|trial| trial.plan.label != "ext4");
        for section in view::sections(&trials, Some("ext4")) {
            assert!(section.rows.iter().all(|row| row.ratio.is_none()));
        }
    }

    #[test]
    fn an_undecided_ratio_is_marked_only_if_there_are_several_seeds() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            let turn = (trial.seed + trial.plan.label.len() as u64) % 3;
            for phase in &mut trial.measured.phases {
                phase.durable_ns = Some(Nanos(1_000_000_000 + turn * 90_000_000));
            }
        }
        let answer = |trials: &[Trial]| {
            let sections = view::sections(trials, Some("ext4"));
            sections[0]
                .rows
                .iter()
                .map(|row| row.ratio.unwrap().significance == Significance::Undecided)
                .collect::<Vec<_>>()
        };
        assert_eq!(answer(&trials), [false, true, true]);
        assert_eq!(answer(&fixture::single()), [false, false, false]);
    }
}
