//! Rows measured against one of them: the best of a section, or the baseline that the user named.

use fsdyno_stats::compare::{Comparison, Verdict, adjust};
use fsdyno_stats::validity::Flag;

use crate::measure::Measure;
use crate::pairing::{How, Pairing};
use crate::view::{Row, Section};

/// How a row's time compares with that of the row it is measured against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Ratio of the geometric means of their times: what the interval and the verdict are about.
    pub value: f64,
    /// Whether several trials of both leave open which is faster; one trial of each opens nothing,
    /// for there nothing is claimed at all.
    pub open: bool,
}

/// How a row was compared with the one it is measured against.
#[derive(Clone, Copy, Debug)]
pub struct Against {
    /// The ratio that is shown.
    pub ratio: Ratio,
    /// Which row it is measured against.
    pub base: usize,
    /// What it is of; none of the row that is measured against itself.
    pub comparison: Option<(Comparison, How)>,
}

/// The ratio of every row to its base, and the comparison that it is of: the best row, or the one of the
/// baseline's label that shares the row's disk, kernel and threads. None where there is no such row, or
/// where a time of zero has no ratio.
pub fn ratios(rows: &[Row<'_>], baseline: Option<&str>, measure: Measure) -> Vec<Option<Against>> {
    let best = best(rows, measure);
    let ratio = |row: &Row<'_>| {
        if !real(row) {
            return None;
        }
        let base = match baseline {
            Some(label) => base_of(row, rows, label)?,
            None => best?,
        };
        let at = rows.iter().position(|other| std::ptr::eq(other, base))?;
        let compared = compare(base, row, measure)?;
        if std::ptr::eq(row, base) {
            return Some(Against {
                ratio: Ratio { value: 1.0, open: false },
                base: at,
                comparison: None,
            });
        }
        let ratio = Ratio { value: compared.0.ratio, open: false };
        Some(Against { ratio, base: at, comparison: Some(compared) })
    };
    rows.iter().map(ratio).collect()
}

/// Corrects all verdicts of one report for their number, those of young against aged among them, and marks the
/// ratios that they leave open. Where
/// one trial of each stands alone nothing is claimed at all, and nothing is open.
pub fn adjust_all(sections: &mut [Section<'_>]) {
    let aged = || sections.iter().flat_map(|section| &section.aged).filter(|pair| !pair.of_row);
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let all = rows().filter_map(|row| row.comparison).chain(aged().map(|pair| pair.comparison));
    let mut table: Vec<Comparison> = all.collect();
    adjust(&mut table);
    let mut adjusted = table.into_iter();
    for row in sections.iter_mut().flat_map(|section| &mut section.rows) {
        if row.comparison.is_some() {
            row.comparison = adjusted.next();
        }
        let open = row.comparison.is_some_and(|c| c.n > 1 && c.verdict == Verdict::Unknown);
        row.ratio = row.ratio.map(|ratio| Ratio { open, ..ratio });
    }
    for Section { aged, rows, .. } in sections {
        for pair in aged {
            let of_row = || rows.get(pair.aged).and_then(|row| row.comparison);
            let told = if pair.of_row { of_row() } else { adjusted.next() };
            pair.comparison = told.unwrap_or(pair.comparison);
        }
    }
}

/// The row whose values have the least geometric mean; none if some row has one of zero, which
/// no ratio measures.
pub fn best<'a, 'b>(rows: &'a [Row<'b>], measure: Measure) -> Option<&'a Row<'b>> {
    let rivals = || rows.iter().filter(|row| real(row));
    let means: Option<Vec<f64>> = rivals().map(|row| log_mean(row, measure)).collect();
    let ranked = rivals().zip(means?);
    ranked.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row)
}

/// The logarithm of the geometric mean of a row's values, which have to be positive.
fn log_mean(row: &Row<'_>, measure: Measure) -> Option<f64> {
    let log = |run| measure.value(run).filter(|value| *value > 0.0).map(f64::ln);
    let logs: Option<Vec<f64>> = row.trials.iter().map(log).collect();
    fsdyno_stats::Summary::of(&logs?).map(|summary| summary.mean)
}

/// Whether a row's trials made calls: what made none is no rival.
fn real(row: &Row<'_>) -> bool {
    !row.flags.contains(&Flag::NoCalls)
}

/// The row of that label that differs from this one in nothing but the label; the only row of the
/// label, if there is but one.
pub fn base_of<'a, 'b>(row: &Row<'_>, rows: &'a [Row<'b>], label: &str) -> Option<&'a Row<'b>> {
    let mut of_label = rows.iter().filter(|other| other.label() == label);
    let alike = of_label.clone().find(|other| other.variant == row.variant);
    alike.or_else(|| of_label.next().filter(|_| of_label.next().is_none()))
}

/// What `new` comes to over what `base` does, alone: paired by seed or as samples, and which.
pub fn compare(base: &Row<'_>, new: &Row<'_>, measure: Measure) -> Option<(Comparison, How)> {
    let pairing = Pairing::of(&base.trials, &new.trials);
    Some((pairing.compare_runs(|run| measure.value(run))?, pairing.how))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixture, view};

    #[test]
    fn against_a_baseline_a_faster_file_system_is_below_1() {
        let trials = fixture::trials();
        let sections = view::sections(&trials, Some("ext4"));
        let create = &sections[0];
        assert_eq!(create.versus, "ext4");
        assert_eq!(create.rows[0].ratio.unwrap().value, 1.0);
        assert!(create.rows[1].ratio.unwrap().value < 1.0, "xfs creates faster than ext4");
    }

    #[test]
    fn the_ratio_shown_is_the_one_that_its_interval_is_about() {
        let mut trials = fixture::trials();
        // Times whose arithmetic means say the opposite of their geometric means.
        for trial in trials.iter_mut().filter(|trial| trial.plan.label != "far") {
            let seconds: [u64; 3] = if trial.plan.label == "ext4" { [1, 1, 16] } else { [5, 5, 5] };
            let ns = fsdyno_record::Nanos(seconds[trial.seed as usize - 1] * 1_000_000_000);
            trial.measured.phases.iter_mut().for_each(|phase| phase.durable_ns = Some(ns));
        }
        trials.retain(|trial| trial.plan.label != "far");
        let sections = view::sections(&trials, None);
        let rows = &sections[0].rows;
        assert!(rows[0].measured.mean > rows[1].measured.mean);
        assert!(rows[0].best && !rows[1].best);
        let comparison = compare(&rows[0], &rows[1], Measure::Durable).unwrap().0;
        assert_eq!(rows[1].ratio.unwrap().value, comparison.ratio);
        let (low, high) = comparison.interval.unwrap();
        assert!((low..=high).contains(&rows[1].ratio.unwrap().value) && comparison.ratio > 1.0);
    }

    #[test]
    fn a_time_of_zero_has_no_ratio_and_no_winner() {
        let mut trials = fixture::trials();
        for trial in trials.iter_mut().filter(|trial| trial.plan.label == "xfs") {
            let phases = trial.measured.phases.iter_mut();
            phases.for_each(|phase| phase.durable_ns = Some(fsdyno_record::Nanos(0)));
        }
        for section in view::sections(&trials, None) {
            assert!(section.rows.iter().all(|row| row.ratio.is_none() && !row.best));
        }
        let sections = view::sections(&trials, Some("xfs"));
        assert!(sections[0].rows.iter().all(|row| row.ratio.is_none()));
    }

    #[test]
    fn on_two_disks_each_row_is_measured_against_the_baseline_of_its_own_disk() {
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
    fn a_ratio_that_several_seeds_leave_open_is_marked_and_one_of_single_trials_is_not() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            let turn = (trial.seed + trial.plan.label.len() as u64) % 3;
            for phase in &mut trial.measured.phases {
                phase.durable_ns = Some(fsdyno_record::Nanos(1_000_000_000 + turn * 90_000_000));
            }
        }
        let open = |trials: &[fsdyno_record::Trial]| {
            let sections = view::sections(trials, Some("ext4"));
            sections[0].rows.iter().map(|row| row.ratio.unwrap().open).collect::<Vec<_>>()
        };
        assert_eq!(open(&trials), [false, true, true]);
        assert_eq!(open(&fixture::single()), [false, false, false]);
    }
}
