//! Selects the trials to explain, and those to compare with.

use std::collections::BTreeSet;
use std::path::Path;

use fsdyno_axes::naming;
use fsdyno_record::Trial;
use fsdyno_record::trial::Outcome;
use fsdyno_report::compare::{conditions, without_spec};

use crate::failure::Failure;
use crate::notes::say;
use crate::results;

/// Selects the successful trial with the lowest seed of each cell of a result.
pub fn select(folder: &Path, rows: &[String], seed: Option<u64>) -> Result<Vec<Trial>, Failure> {
    let loaded = fsdyno_report::load(&[folder.to_path_buf()])?;
    if let Some(torn) = &loaded.torn {
        say(&format!("fsdyno: {torn}"));
    }
    let trials = crate::without_superseded(&loaded.trials);
    let names = naming::RowNames::of(trials.iter());
    let row_names: BTreeSet<String> = trials.iter().map(|trial| names.row(trial)).collect();
    let labels: BTreeSet<&str> = trials.iter().map(|trial| trial.plan.label.as_str()).collect();
    let known = || labels.iter().copied().chain(row_names.iter().map(String::as_str));
    if let Some(name) = rows.iter().find(|name| !known().any(|it| it == name.as_str())) {
        let hint = fsdyno_record::suggest::hint(name, known().collect::<BTreeSet<_>>());
        let folder = folder.display();
        return Err(Failure::invalid_use(format!(
            "'{folder}' has no configuration '{name}': {hint}"
        )));
    }
    let is_row = |trial: &Trial| {
        rows.iter().any(|name| *name == trial.plan.label || *name == names.row(trial))
    };
    let is_selected = |trial: &&Trial| {
        (rows.is_empty() || is_row(trial)) && seed.is_none_or(|seed| trial.seed == seed)
    };
    let mut selected: Vec<Trial> = Vec::new();
    let mut refusal = None;
    for trial in trials.iter().filter(is_selected) {
        if let Some(reason) = why_irreproducible(trial) {
            refusal.get_or_insert(reason);
            continue;
        }
        // The hash does not include the label.
        let has_same_plan = |other: &&mut Trial| {
            (&other.plan.hash, &other.plan.label) == (&trial.plan.hash, &trial.plan.label)
        };
        match selected.iter_mut().find(has_same_plan) {
            Some(other) if other.seed <= trial.seed => {}
            Some(other) => *other = trial.clone(),
            None => selected.push(trial.clone()),
        }
    }
    if selected.is_empty() {
        let reason = refusal.unwrap_or_else(|| "no trial is selected".into());
        return Err(Failure::invalid_use(format!(
            "'{}' cannot be explained: {reason}",
            folder.display()
        )));
    }
    results::in_order(&mut selected);
    Ok(selected)
}

/// Returns the reason why a trial cannot be repeated bit-identically, or has nothing to explain.
pub fn why_irreproducible(trial: &Trial) -> Option<String> {
    let Some(lab) = trial.plan.lab() else {
        return Some(
            "it did not run in the lab, and only trials of the lab are reproducible".into(),
        );
    };
    if trial.outcome != Outcome::Ok {
        return Some("its trials failed, and there is nothing to explain".into());
    }
    (!lab.accel.is_exact()).then(|| "it ran on KVM, which is not reproducible".into())
}

/// Finds the trial to compare with, by the first of these criteria that exactly one trial meets: the same plan; the
/// same conditions (as in `fsdyno compare`) and kernel; the same conditions; the same conditions except file system
/// and spec, and the same kernel; the same conditions except file system and spec.
fn find_counterpart(trial: &Trial, candidates: &[(usize, &Trial)]) -> Option<usize> {
    let kernel = |trial: &Trial| trial.plan.lab().map(|lab| (lab.kernel.clone(), lab.boot));
    let all = |trial: &Trial| conditions(&trial.plan);
    let except_spec = |trial: &Trial| without_spec(all(trial));
    let criteria: [&dyn Fn(&Trial) -> bool; 5] = [
        &|other| other.plan.hash == trial.plan.hash,
        &|other| all(other) == all(trial) && kernel(other) == kernel(trial),
        &|other| all(other) == all(trial),
        &|other| except_spec(other) == except_spec(trial) && kernel(other) == kernel(trial),
        &|other| except_spec(other) == except_spec(trial),
    ];
    criteria.iter().find_map(|matches| {
        let mut found = candidates.iter().filter(|other| matches(other.1));
        let first = found.next()?;
        found.next().is_none().then_some(first.0)
    })
}

/// Pairs each trial with a trial of the other result that has the same workload and, if possible, the same label.
/// Of several candidates, selects the one with the same conditions.
///
/// # Errors
/// No trial of the workload, or several of which not exactly one has the same conditions.
pub fn pairs(
    trials: &[Trial],
    others: Option<&[Trial]>,
) -> Result<Vec<(usize, Option<usize>)>, Failure> {
    let Some(others) = others else {
        return Ok((0..trials.len()).map(|index| (index, None)).collect());
    };
    let mut pairs = Vec::new();
    for (index, trial) in trials.iter().enumerate() {
        let has_same_workload =
            |other: &(usize, &Trial)| other.1.plan.workload.name == trial.plan.workload.name;
        let same_workload: Vec<(usize, &Trial)> =
            others.iter().enumerate().filter(has_same_workload).collect();
        let candidates: Vec<(usize, &Trial)> = same_workload
            .iter()
            .filter(|it| it.1.plan.label == trial.plan.label)
            .copied()
            .collect();
        let counterpart = match candidates.as_slice() {
            [(other, _)] => Some(*other),
            [] => find_counterpart(trial, &same_workload),
            several => find_counterpart(trial, several),
        };
        match (counterpart, same_workload.as_slice()) {
            (Some(other), _) | (None, &[(other, _)]) => pairs.push((index, Some(other))),
            (None, []) => {
                return Err(Failure::invalid_use(format!(
                    "--against has no trial of {}; give a result with the same workload",
                    trial.plan.workload.name
                )));
            }
            (None, several) => {
                let names = naming::RowNames::of(several.iter().map(|it| it.1));
                let rows: Vec<String> = several.iter().map(|it| names.row(it.1)).collect();
                return Err(Failure::invalid_use(format!(
                    "--against has several rows of {}, but not exactly one with the conditions of {}: {}; \
                     select one with --against-fs, or give a result with just one",
                    trial.plan.workload.name,
                    trial.plan.label,
                    rows.join("; ")
                )));
            }
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;
    use fsdyno_record::plan::{
        DiskPlan, LabPlan, MediumPlan, ModelledPlan, Plan, VenuePlan, WorkloadPlan,
    };

    use super::*;

    fn disk(name: &str) -> DiskPlan {
        DiskPlan { name: name.into(), spec: Default::default() }
    }

    fn plan() -> Plan {
        Plan {
            label: "ext4".into(),
            workload: WorkloadPlan {
                name: "dirops".into(),
                params: Default::default(),
                input: None,
            },
            filesystem: Some(Default::default()),
            medium: MediumPlan::Modelled(disk("hdd").into()),
            venue: VenuePlan::Lab(LabPlan::new("6.1.0", Bytes(1 << 30))),
            threads: 1,
            issuer: Default::default(),
            verify: Default::default(),
            sysctls: Default::default(),
            hash: String::new(),
        }
    }

    /// A change to one condition of a trial.
    type Change = fn(&mut Plan);

    /// All conditions of a trial, each with a change to it.
    const OTHERS: [(&str, Change); 14] = [
        ("a parameter", |plan| drop(plan.workload.params.insert("files".into(), "9".into()))),
        ("threads", |plan| plan.threads = 8),
        ("issuer", |plan| plan.issuer = "io_uring:8".parse().unwrap()),
        ("a sysctl", |plan| drop(plan.sysctls.insert("vm.swappiness".into(), "0".into()))),
        ("period", |plan| plan.filesystem.as_mut().unwrap().period = Some("2001".into())),
        ("disk", |plan| modelled(plan).disk.name = "ssd".into()),
        ("raid", |plan| modelled(plan).raid = Some("5x3".parse().unwrap())),
        ("journal", |plan| modelled(plan).journal = Some(disk("second"))),
        ("journal's size", |plan| modelled(plan).journal_size = Some(Bytes(1 << 20))),
        ("size", |plan| modelled(plan).size = Some(Bytes(1 << 30))),
        ("memory", |plan| lab(plan).ram = Bytes(1 << 28)),
        ("cacheable memory", |plan| lab(plan).cacheable = Some(Bytes(1 << 28))),
        ("scheduler", |plan| lab(plan).scheduler = Some("bfq".into())),
        ("CPU", |plan| lab(plan).cpu = "2".parse().unwrap()),
    ];

    fn lab(plan: &mut Plan) -> &mut LabPlan {
        plan.lab_mut().unwrap()
    }

    fn modelled(plan: &mut Plan) -> &mut ModelledPlan {
        plan.medium.modelled_mut().unwrap()
    }

    fn trial_with(kernel: &str, change: impl Fn(&mut Plan)) -> Trial {
        let mut plan = plan();
        lab(&mut plan).kernel = kernel.into();
        change(&mut plan);
        Trial {
            schema: fsdyno_record::SCHEMA,
            trial_id: String::new(),
            lab_id: None,
            lab: Default::default(),
            seed: 1,
            repeats: None,
            version: String::new(),
            row: None,
            deadline_ns: None,
            outcome: Outcome::Ok,
            reason: None,
            plan: plan.with_hash(),
            conditions: Default::default(),
            measured: Default::default(),
            host: Default::default(),
        }
    }

    fn no_change(_: &mut Plan) {}

    #[test]
    fn among_trials_with_one_label_the_one_with_the_same_conditions_is_selected() {
        for (what, change) in OTHERS {
            let others = [trial_with("6.1.0", change), trial_with("6.1.0", no_change)];
            let trials = [trial_with("6.1.0", no_change), trial_with("6.1.0", change)];
            let found = pairs(&trials, Some(&others)).unwrap();
            assert_eq!(found, [(0, Some(1)), (1, Some(0))], "{what}");
            // A different kernel, or a different spec with the same label, may be the difference of interest.
            let newer = [trial_with("6.12.1", no_change), trial_with("6.12.1", change)];
            assert_eq!(pairs(&newer, Some(&others)).unwrap(), found, "{what}");
            let linear = |plan: &mut Plan| {
                plan.filesystem.as_mut().unwrap().spec = "ext4 -O ^dir_index".into();
                change(plan);
            };
            let linear = [trial_with("6.1.0", linear)];
            assert_eq!(pairs(&linear, Some(&others)).unwrap(), [(0, Some(0))], "{what}");
            // Neither of the two has the conditions of this one.
            let third = |plan: &mut Plan| {
                change(plan);
                plan.threads = 3;
                lab(plan).ram = Bytes(1 << 27);
            };
            let error = pairs(&[trial_with("6.1.0", third)], Some(&others)).unwrap_err();
            assert!(error.message.contains("several rows of dirops"), "{what}: {}", error.message);
        }
    }

    #[test]
    fn the_trial_on_the_same_kernel_is_selected_and_none_of_two_others() {
        let others = [trial_with("5.10.0", no_change), trial_with("6.1.0", no_change)];
        assert_eq!(
            pairs(&[trial_with("6.1.0", no_change)], Some(&others)).unwrap(),
            [(0, Some(1))]
        );
        assert!(pairs(&[trial_with("6.12.1", no_change)], Some(&others)).is_err());
        assert_eq!(
            pairs(&[trial_with("6.12.1", no_change)], Some(&others[..1])).unwrap(),
            [(0, Some(0))]
        );
    }

    #[test]
    fn a_row_with_another_label_is_found_on_each_kernel_and_at_each_point_of_a_curve() {
        let points = |label: &'static str, kind: &'static str| {
            let with_files = move |files: &'static str| {
                move |plan: &mut Plan| {
                    plan.label = label.into();
                    plan.filesystem.as_mut().unwrap().kind = kind.into();
                    plan.workload.params.insert("files".into(), files.into());
                }
            };
            let on_kernel = |kernel: &'static str| {
                [trial_with(kernel, with_files("100")), trial_with(kernel, with_files("200"))]
            };
            [on_kernel("6.1.0"), on_kernel("6.12.1")].concat()
        };
        let mut others = points("ext4", "ext4");
        others.reverse();
        let found = [(0, Some(3)), (1, Some(2)), (2, Some(1)), (3, Some(0))];
        assert_eq!(pairs(&points("ext3", "ext3"), Some(&others)).unwrap(), found);
        // One label for two file systems gives the same pairs.
        let mut renamed = points("ext4", "xfs");
        renamed.reverse();
        assert_eq!(pairs(&points("ext4", "ext4"), Some(&renamed)).unwrap(), found);
        // Two rows with the same conditions are ambiguous.
        others.extend(points("xfs", "xfs"));
        let error = pairs(&points("ext3", "ext3"), Some(&others)).unwrap_err();
        assert!(error.message.contains("with --against-fs"), "{}", error.message);
    }
}
