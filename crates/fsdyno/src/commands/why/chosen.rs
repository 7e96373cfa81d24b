//! Which trials are explained, and against which.

use std::collections::BTreeSet;
use std::path::Path;

use fsdyno_record::trial::Outcome;
use fsdyno_record::{Trial, naming};

use crate::commands::report;
use crate::exit::Failure;
use crate::output::say;

/// Of each cell of a result the good trial with the lowest seed.
pub fn chosen(folder: &Path, rows: &[String], seed: Option<u64>) -> Result<Vec<Trial>, Failure> {
    let loaded = fsdyno_report::load(&[folder.to_path_buf()])?;
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let trials = fsdyno_study::without_superseded(&loaded.trials);
    let labels: BTreeSet<&str> = trials.iter().map(|trial| trial.plan.label.as_str()).collect();
    if let Some(name) = rows.iter().find(|name| !labels.contains(name.as_str())) {
        let hint = fsdyno_record::suggest::hint(name, labels);
        let folder = folder.display();
        return Err(Failure::wrong(format!("'{folder}' has no row '{name}': {hint}")));
    }
    let wanted = |trial: &&Trial| {
        (rows.is_empty() || rows.contains(&trial.plan.label))
            && seed.is_none_or(|seed| trial.seed == seed)
    };
    let mut chosen: Vec<Trial> = Vec::new();
    let mut why_not = None;
    for trial in trials.iter().filter(wanted) {
        if let Some(reason) = cannot(trial) {
            why_not.get_or_insert(reason);
            continue;
        }
        // The hash leaves out the label.
        let same = |held: &&mut Trial| {
            (&held.plan.hash, &held.plan.label) == (&trial.plan.hash, &trial.plan.label)
        };
        match chosen.iter_mut().find(same) {
            Some(held) if held.seed <= trial.seed => {}
            Some(held) => *held = trial.clone(),
            None => chosen.push(trial.clone()),
        }
    }
    if chosen.is_empty() {
        let reason = why_not.unwrap_or_else(|| "no trial of it is asked for".into());
        return Err(Failure::wrong(format!(
            "'{}' cannot be explained: {reason}",
            folder.display()
        )));
    }
    report::in_order(&mut chosen, &[]);
    Ok(chosen)
}

/// Why a trial cannot be repeated to the digit.
fn cannot(trial: &Trial) -> Option<String> {
    let Some(lab) = trial.plan.lab() else {
        return Some("it did not run in the lab, and nothing else repeats to the digit".into());
    };
    if trial.outcome != Outcome::Ok {
        return Some("its trials failed, and there is nothing to explain".into());
    }
    (!lab.accel.is_exact()).then(|| "it ran on KVM, and nothing of that repeats".into())
}

/// What two trials of one label are told apart by.
fn conditions(trial: &Trial) -> impl PartialEq {
    let plan = &trial.plan;
    let lab = plan.lab().map(|lab| (lab.kernel.clone(), lab.raid, lab.size, lab.cpu, lab.ram));
    let period = plan.filesystem.as_ref().and_then(|filesystem| filesystem.period.clone());
    let age = plan.age().map(ToString::to_string);
    let disk = plan.disk_name().map(String::from);
    (plan.workload.params.clone(), disk, lab, period, age, plan.threads, plan.sysctls.clone())
}

/// Each trial with the one of the other result that it is compared with: of the same workload, with the
/// same label where there is one, else the only one. Of several of a label it is the one that ran under the
/// same conditions; where there is no such one, nobody guesses.
pub fn pairs(
    trials: &[Trial],
    others: Option<&[Trial]>,
) -> Result<Vec<(usize, Option<usize>)>, Failure> {
    let Some(others) = others else { return Ok((0..trials.len()).map(|at| (at, None)).collect()) };
    let mut pairs = Vec::new();
    for (at, trial) in trials.iter().enumerate() {
        let same =
            |other: &&(usize, &Trial)| other.1.plan.workload.name == trial.plan.workload.name;
        let same: Vec<(usize, &Trial)> =
            others.iter().enumerate().collect::<Vec<_>>().iter().filter(same).copied().collect();
        let named: Vec<(usize, &Trial)> =
            same.iter().filter(|it| it.1.plan.label == trial.plan.label).copied().collect();
        let alike: Vec<(usize, &Trial)> =
            named.iter().filter(|it| conditions(it.1) == conditions(trial)).copied().collect();
        let of_label = if named.len() > 1 { &alike } else { &named };
        match (of_label.as_slice(), same.as_slice()) {
            ([(other, _)], _) => pairs.push((at, Some(*other))),
            ([], [(other, _)]) => pairs.push((at, Some(*other))),
            (_, []) => {
                return Err(Failure::wrong(format!(
                    "--against has no trial of {}; it is compared with one of the same workload",
                    trial.plan.workload.name
                )));
            }
            (_, several) => {
                let names = naming::Names::of(several.iter().map(|it| it.1));
                let rows: Vec<String> = several.iter().map(|it| names.row(it.1)).collect();
                return Err(Failure::wrong(format!(
                    "--against has several rows of {} and not just one of the conditions of {}: {}; \
                     explain a result that has one of them",
                    trial.plan.workload.name,
                    trial.plan.label,
                    rows.join("; ")
                )));
            }
        }
    }
    Ok(pairs)
}

pub fn check_phase(phase: Option<&str>, trials: &[Trial]) -> Result<(), Failure> {
    let Some(name) = phase else { return Ok(()) };
    let names: BTreeSet<&str> = trials
        .iter()
        .flat_map(|trial| &trial.measured.phases)
        .map(|phase| phase.name.as_str())
        .collect();
    match names.contains(name) {
        true => Ok(()),
        false => {
            let hint = fsdyno_record::suggest::hint(name, names);
            Err(Failure::wrong(format!("--phase '{name}' is no phase of the result: {hint}")))
        }
    }
}
