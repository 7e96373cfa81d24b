//! Rows measured against one of them: the best of a section, or the baseline that the user named.

use fsdyno_stats::compare::{Comparison, Verdict, paired, welch};

use crate::view::{Row, Run};

/// How a row's time compares with that of the row it is measured against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Mean time over the other's mean time.
    pub value: f64,
    /// Whether several trials of both leave open which is faster; one trial of each opens nothing,
    /// for there nothing is claimed at all.
    pub open: bool,
}

/// The ratio of every row to its base: the row of least mean time, or the one of the baseline's
/// label that shares the row's disk, kernel and threads. None where there is no such row.
pub fn ratios(rows: &[Row<'_>], baseline: Option<&str>, by_durable: bool) -> Vec<Option<Ratio>> {
    let ratio = |row: &Row<'_>| {
        let base = match baseline {
            Some(label) => base_of(row, rows, label)?,
            None => best(rows, by_durable)?,
        };
        let (time, base_time) = (row.time(by_durable).mean, base.time(by_durable).mean);
        let same = std::ptr::eq(row, base);
        let several = row.returned.n > 1 && base.returned.n > 1;
        let unknown =
            || compare(base, row, by_durable).is_none_or(|c| c.verdict == Verdict::Unknown);
        let value = if same || base_time <= 0.0 { 1.0 } else { time / base_time };
        Some(Ratio { value, open: !same && several && unknown() })
    };
    rows.iter().map(ratio).collect()
}

/// The row of least mean time.
pub fn best<'a, 'b>(rows: &'a [Row<'b>], by_durable: bool) -> Option<&'a Row<'b>> {
    let mean = |row: &Row<'_>| row.time(by_durable).mean;
    rows.iter().min_by(|a, b| mean(a).total_cmp(&mean(b)))
}

/// The row of that label that differs from this one in nothing but the label; the only row of the
/// label, if there is but one.
pub fn base_of<'a, 'b>(row: &Row<'_>, rows: &'a [Row<'b>], label: &str) -> Option<&'a Row<'b>> {
    let mut of_label = rows.iter().filter(|other| other.label() == label);
    let alike = of_label.clone().find(|other| other.variant == row.variant);
    alike.or_else(|| of_label.next().filter(|_| of_label.next().is_none()))
}

/// The times of `new` over those of `base`: paired by seed where every trial is of one lab and
/// has its pair, by Welch's test elsewhere.
pub fn compare(base: &Row<'_>, new: &Row<'_>, by_durable: bool) -> Option<Comparison> {
    let times = |row: &Row<'_>| -> Vec<(u64, f64)> {
        let time = |(trial, phase): &Run<'_>| {
            let ns = phase.durable_ns.filter(|_| by_durable).unwrap_or(phase.returned_ns);
            (trial.seed, ns.seconds())
        };
        row.trials.iter().map(time).collect()
    };
    let (a, b) = (times(base), times(new));
    let in_lab = base.trials.iter().chain(&new.trials).all(|(trial, _)| trial.lab_id.is_some());
    let same_seeds = a.iter().map(|x| x.0).eq(b.iter().map(|x| x.0));
    if in_lab && same_seeds {
        let pairs: Vec<(f64, f64)> = a.iter().zip(&b).map(|(a, b)| (a.1, b.1)).collect();
        return paired(&pairs, 0.0);
    }
    let values = |times: Vec<(u64, f64)>| times.into_iter().map(|t| t.1).collect::<Vec<f64>>();
    welch(&values(a), &values(b), 0.0)
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
        let means = |row: &Row<'_>| row.time(true).mean;
        let expected = means(&create.rows[1]) / means(&create.rows[0]);
        assert_eq!(create.rows[1].ratio.unwrap().value, expected);
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
