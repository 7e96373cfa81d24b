//! The step that cuts the power, to find the acknowledged data that each file system loses.

use std::time::Duration;

use fsdyno_campaign::speed::Estimate;
use fsdyno_filesystem::Guarantee;
use fsdyno_record::units::rough;

use crate::answers::{Answers, TrialTarget};
use crate::step::{NO_TIME, Step, args, option_args};

/// The candidate numbers of power cuts, in order of preference.
const CUTS: [u32; 3] = [100, DEFAULT_CUTS, 20];

/// The number of power cuts if times are not known: 50 cuts without a loss show that the loss rate is below 5.9 % (95 %
/// confidence; docs/crash.md).
pub const DEFAULT_CUTS: u32 = 50;

/// The time that one power cut takes: 1,000 cuts of xfs took 15.8 minutes on two processors (docs/crash.md).
const TIME_PER_CUT: Duration = Duration::from_secs(1);

/// Returns the step that cuts the power during a workload, with as many cuts as fit into half of the remaining time,
/// and the time that it takes.
///
/// # Errors
/// The reason to omit the step.
pub fn step_within(
    answers: &Answers,
    remaining: Duration,
    one_trial: Option<Estimate>,
) -> Result<(Step, Duration), String> {
    let count = u32::try_from(testable_filesystems(answers).len()).unwrap_or(u32::MAX);
    let needed =
        |trial: Estimate, cuts: u32| trial.time + TIME_PER_CUT * cuts.saturating_mul(count);
    let (cuts, time) = match one_trial {
        None => (DEFAULT_CUTS, None),
        Some(trial) => {
            let fits = CUTS.into_iter().find(|cuts| needed(trial, *cuts) <= remaining / 2);
            let cuts = fits.ok_or_else(|| {
                let least = CUTS.into_iter().min().unwrap_or(DEFAULT_CUTS);
                let time = rough(needed(trial, least));
                format!("no power cuts: {least} cuts of each file system would take about {time}, more than half of the remaining time")
            })?;
            (cuts, Some(needed(trial, cuts)))
        }
    };
    let time_text = time.map_or(NO_TIME.to_string(), |time| format!("about {}", rough(time)));
    let step = step(answers, &answers.purpose.args(), cuts, time_text)?;
    Ok((step, time.unwrap_or_default()))
}

/// Returns the file systems that can be crash-tested: those whose durability guarantee is known.
fn testable_filesystems(answers: &Answers) -> Vec<&String> {
    answers.filesystems.iter().filter(|name| Guarantee::of(name).is_some()).collect()
}

/// Returns the step for a workload, given as command-line arguments, with a number of cuts and the time as text.
///
/// # Errors
/// The reason to omit the step.
pub fn step(answers: &Answers, work: &[String], cuts: u32, time: String) -> Result<Step, String> {
    if !matches!(answers.on, TrialTarget::Machine(_)) {
        return Err(
            "no power cuts: power cuts are simulated only in the lab; give a machine with --on"
                .into(),
        );
    }
    let testable = testable_filesystems(answers);
    if testable.is_empty() {
        let names = answers.filesystems.join(", ");
        return Err(format!(
            "no power cuts: fsdyno does not know the guarantees of {names} after fsync"
        ));
    }
    // The guests of crash tests always boot cold, so they take no `boot` axis.
    let axes: Vec<_> = answers.on.axes().into_iter().filter(|(axis, _)| *axis != "boot").collect();
    let mut args = args("crash", &[]);
    args.extend(work.iter().cloned());
    args.extend(option_args(&axes));
    args.extend(testable.into_iter().flat_map(|name| ["--fs".to_string(), name.clone()]));
    args.extend(["--cuts".to_string(), cuts.to_string()]);
    Ok(Step::new("Cut the power during the same work, and count the losses", time, args))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::Safety;
    use crate::purpose;

    #[test]
    fn only_testable_file_systems_count_for_the_time_of_power_cuts() {
        let answers = Answers {
            purpose: purpose::parse("mail").unwrap(),
            command: Vec::new(),
            on: TrialTarget::Machine("server-2026".into()),
            safety: Safety::Safe,
            limit: Duration::from_secs(3600),
            filesystems: ["ext4", "tmpfs"].map(String::from).to_vec(),
        };
        let (time, boots) = (Duration::from_secs(10), Duration::ZERO);
        let one = Estimate { time, trials: 1, same_work: true, boots };
        let needed = Duration::from_secs(110);
        let (step, time) = step_within(&answers, 2 * needed, Some(one)).unwrap();
        assert!(step.line().ends_with("--fs ext4 --cuts 100"), "{}", step.line());
        assert_eq!((time, step.time.as_str()), (needed, "about 2 min"));
    }
}
