//! The error of the processor profiles that estimate the lab's CPU times.

use std::collections::BTreeSet;

use fsdyno_record::Trial;
use fsdyno_record::processor::Processor;

use crate::measure::Measure;
use crate::model::Section;
use crate::run::Run;
use crate::validity::cpu_share;

/// The meaning of a ratio that is no larger than the error of the processor profile.
pub const WITHIN_ERROR: &str = "Within the processor model's error: this ratio between two file systems is no larger than the typical error of the \
     processor profile, for the share of the time that the CPU took, so it is not called a difference; no number of \
     seeds makes it one.";

/// A sentence on the processor profiles that estimate the lab's CPU times, with their errors, or `None` without such a
/// profile.
pub fn sentence(sections: &[Section<'_>]) -> Option<String> {
    let trials = sections.iter().flat_map(|section| &section.rows).flat_map(|row| &row.trials);
    let profiles = trials.filter(|(trial, _)| trial.lab_id.is_some());
    let profiles = profiles.filter_map(|(trial, _)| trial.plan.lab()?.cpu.processor());
    let descriptions: BTreeSet<String> = profiles.map(Processor::describe).collect();
    let descriptions: Vec<String> = descriptions.into_iter().collect();
    (!descriptions.is_empty())
        .then(|| format!("CPU times: estimated by {}", descriptions.join(", ")))
}

/// The error that the processor profile may cause in the ratio of two file systems (0.2 is 20 %): its typical error,
/// for the larger share of the time that the CPU took. Zero without a profile or its error, and between two versions
/// or options of one file system, to which that error does not apply.
pub fn error(base: &[Run<'_>], new: &[Run<'_>], measure: Measure) -> f64 {
    let ratio_percent =
        |trial: &Trial| Some(trial.plan.lab()?.cpu.processor()?.error?.ratio_percent);
    let errors = base.iter().chain(new).filter_map(|(trial, _)| ratio_percent(trial));
    let error = errors.max().unwrap_or_default() as f64 / 100.0;
    let kind = |runs: &[Run<'_>]| {
        let (trial, _) = runs.first()?;
        trial.plan.filesystem.as_ref().map(|filesystem| filesystem.kind.clone())
    };
    if error == 0.0 || kind(base) == kind(new) {
        return 0.0;
    }
    match measure {
        Measure::Space => 0.0,
        Measure::Cpu { .. } => error,
        Measure::Durable | Measure::Returned | Measure::Operation | Measure::P99(_) => {
            error * cpu_share(base).max(cpu_share(new)).min(1.0)
        }
    }
}

/// [`error`] for a claim on a CPU time or on an elapsed time.
pub fn of_figure(base: &[Run<'_>], new: &[Run<'_>], is_cpu: bool) -> f64 {
    error(base, new, if is_cpu { Measure::Cpu { each: false } } else { Measure::Returned })
}

#[cfg(test)]
mod tests {
    use fsdyno_record::plan::CpuPlan;
    use fsdyno_stats::compare::Verdict;

    use super::*;
    use crate::{answer, fixture, statistics, view};

    /// Trials of two file systems in the lab, with a profile whose typical error of a ratio is `percent`; the times of
    /// `xfs` are longer by the factor `slower`.
    fn trials(percent: u64, slower: f64) -> Vec<Trial> {
        let profile = fixture::processor(percent);
        let mut trials = fixture::trials();
        trials.retain(|trial| ["ext4", "xfs"].contains(&trial.plan.label.as_str()));
        for trial in &mut trials {
            trial.plan.lab_mut().unwrap().cpu = CpuPlan::Profile(Box::new(profile.clone()));
            let factor = if trial.plan.label == "xfs" { slower } else { 1.0 };
            for phase in &mut trial.measured.phases {
                let ns = factor * 1e9 + trial.seed as f64 * 1e5;
                phase.returned_ns = fsdyno_record::Nanos(ns as u64);
                phase.durable_ns = Some(phase.returned_ns);
                phase.synced_ns = Some(phase.returned_ns);
                phase.cpu_ns = phase.returned_ns;
                phase.kernel_cpu_ns.clear();
            }
        }
        trials
    }

    #[test]
    fn a_ratio_within_the_error_of_the_profile_is_not_called_a_difference() {
        for (percent, slower, verdict) in [
            (20, 1.15, Verdict::WithinError),
            (10, 1.15, Verdict::Slower),
            (20, 1.0, Verdict::WithinError),
        ] {
            let trials = trials(percent, slower);
            let sections = view::sections(&trials, Some("ext4"));
            let row = &sections[0].rows[1];
            assert_eq!(row.comparison.unwrap().verdict, verdict, "{percent} {slower}");
            let inside = verdict == Verdict::WithinError;
            assert_eq!(row.ratio.unwrap().to_string().starts_with("? "), inside);
            let text = answer::sentences(&sections, Some("ext4")).join(" ");
            let sentence = "xfs is within the processor model's error in dirops create";
            assert_eq!(text.contains(sentence), inside, "{text}");
            let json =
                statistics::json(&[crate::part::Part::whole(&trials)], Some("ext4")).unwrap();
            let word = "\"verdict\": \"within the processor model's error\"";
            assert_eq!(json.contains(word), inside, "{json}");
        }
    }

    #[test]
    fn the_disks_share_and_ratios_within_one_file_system_have_no_error() {
        let mut trials = trials(20, 1.0);
        for phase in trials.iter_mut().flat_map(|trial| &mut trial.measured.phases) {
            phase.cpu_ns.0 /= 4;
        }
        let runs = |label: &str| -> Vec<Run<'_>> {
            let labelled = trials.iter().filter(|trial| trial.plan.label == label);
            labelled.map(|trial| (trial, &trial.measured.phases[0])).collect()
        };
        let (base, new) = (runs("ext4"), runs("xfs"));
        let rounded_error = |base: &[Run<'_>], new: &[Run<'_>], measure| {
            (error(base, new, measure) * 1000.0).round()
        };
        assert_eq!(rounded_error(&base, &new, Measure::Returned), 50.0);
        assert_eq!(rounded_error(&base, &new, Measure::Cpu { each: false }), 200.0);
        assert_eq!(rounded_error(&base, &new, Measure::Space), 0.0);
        assert_eq!(rounded_error(&base, &base, Measure::Cpu { each: false }), 0.0);
    }
}
