//! Dry runs: the trials that would run, with exact operation counts, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use fsdyno_axes::naming::RowNames;
use fsdyno_axes::{AXES, venue};
use fsdyno_media::block::InspectedDrive;
use fsdyno_record::plan::{FilesystemPlan, MediumPlan};
use fsdyno_record::{OpKind, Plan};
use fsdyno_report::counted;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::labs::Mode;
use crate::notes::{self, say};
use crate::speed::Speeds;
use crate::{
    Cell, Experiment, RunSpec, Session, Slot, Store, Venues, boots, drive, files, first_look,
    target,
};

/// The drives given with `--on`, keyed by the option's value.
pub type Drives = BTreeMap<String, InspectedDrive>;

/// The trials that a run would make.
pub struct DryRun {
    /// Their description.
    pub text: String,
    /// The requirement that this host lacks for these trials; it has already been reported.
    pub missing: Option<Failure>,
}

/// Performs all checks that a run performs before its first trial, and describes its trials as text or as JSON. If the
/// only error is a requirement that this host lacks, they are described nevertheless.
///
/// # Errors
/// Those of a run, except for a missing requirement.
pub fn of_experiment(
    experiment: &mut Experiment,
    folder: &Path,
    session: &Session<'_>,
    as_json: bool,
) -> Result<DryRun, Failure> {
    let (boots, missing) = match check(experiment, folder, session) {
        Ok(venues) => (boots::missing(experiment.cells.iter(), &venues).len(), None),
        Err(failure) if failure.exit == Exit::Missing => (0, Some(failure)),
        Err(failure) => return Err(failure),
    };
    if let Some(failure) = &missing {
        say(&format!("fsdyno: {failure}"));
    }
    let (cells, schedule) = (&experiment.cells, experiment.schedule());
    let drives = drives(&experiment.spec, cells)?;
    if as_json {
        let text = files::pretty(&value(cells, &schedule, &drives))?;
        return Ok(DryRun { text, missing });
    }
    let planned = schedule.iter().filter_map(|slot| cells.get(slot.cell));
    let speeds = Speeds::load();
    let time = match speeds.estimate(planned, usize::from(experiment.spec.jobs)) {
        Some(estimate) => {
            let estimate = estimate.with_boots(speeds.boots(boots));
            let look = first_look::of(
                &experiment.spec,
                cells,
                &estimate,
                session.command,
                Experiment::trials_time,
            );
            let look = look.filter(|_| notes::are_shown()).map(|line| line + "\n");
            format!("time: {estimate}\n{}", look.unwrap_or_default())
        }
        None => "time: not known before the first such trial on this machine\n".into(),
    };
    Ok(DryRun { text: text(cells, &schedule, &drives) + &time, missing })
}

fn check(
    experiment: &mut Experiment,
    folder: &Path,
    session: &Session<'_>,
) -> Result<Venues, Failure> {
    target::check_permission(&experiment.requests)?;
    let stored = Store::read_trials(folder)?;
    experiment.check_rule(&stored)?;
    experiment.prepare_venues(folder, &stored, session, Mode::Dry)
}

impl Experiment {
    /// Estimates the time of the trials of a request; `None` if it is invalid or their speed is not known.
    pub(crate) fn trials_time(spec: &RunSpec) -> Option<Duration> {
        let experiment = Experiment::resolve(spec.clone()).ok()?;
        let schedule = experiment.schedule();
        let cells = schedule.iter().filter_map(|slot| experiment.cells.get(slot.cell));
        Some(Speeds::load().estimate(cells, usize::from(spec.jobs))?.time)
    }
}

/// Inspects the drives of the cells, as a real run does.
///
/// # Errors
/// A reason not to erase one of them.
pub fn drives(run: &RunSpec, cells: &[Cell]) -> Result<Drives, Failure> {
    let drives = cells.iter().filter_map(|cell| cell.plan.medium.drive()).collect::<BTreeSet<_>>();
    drives.into_iter().map(|on| Ok((on.to_string(), drive::inspect(run, on)?))).collect()
}

/// Describes the trials as JSON.
pub fn value(cells: &[Cell], schedule: &[Slot], drives: &Drives) -> serde_json::Value {
    let order: Vec<_> = schedule
        .iter()
        .map(|slot| json!({"cell": slot.cell, "seed": slot.seed, "round": slot.round}))
        .collect();
    let cells: Vec<_> = cells
        .iter()
        .map(|cell| {
            let phases: Vec<_> = cell
                .phases
                .iter()
                .map(|(name, counts)| json!({"name": name, "ops": counts}))
                .collect();
            json!({
                "plan": cell.plan,
                "phases": phases,
                "skipped": cell.skip,
                "needs": {"bytes": cell.needs.bytes, "inodes": cell.needs.inodes},
            })
        })
        .collect();
    let mut value = json!({"cells": cells, "trials": order});
    let drives = drives.iter().map(|(on, drive)| {
        json!({
            "on": on, "what": drive.what(), "device": drive.data_path(), "steps": drive.steps(),
        })
    });
    let drives: Vec<_> = drives.collect();
    if !drives.is_empty() {
        value["drives"] = json!(drives);
    }
    value
}

/// Describes the trials as text.
pub fn text(cells: &[Cell], schedule: &[Slot], drives: &Drives) -> String {
    let mut text = String::new();
    for drive in drives.values() {
        text.push_str(&format!("{}, all data on it will be lost:\n", drive.what()));
        for step in drive.steps() {
            text.push_str(&format!("   {step}\n"));
        }
    }
    let names = RowNames::of(cells.iter().map(|cell| &cell.plan));
    for (index, cell) in cells.iter().enumerate() {
        text.push_str(&cell_text(cell, index + 1, &names, drives));
    }
    let seed = schedule.iter().map(|slot| slot.seed).min().unwrap_or(0);
    let trials = counted(schedule.len(), "trial");
    text.push_str(&format!("{trials} in this order:"));
    for slot in schedule {
        text.push_str(&format!(" {}/{}", slot.cell + 1, slot.seed));
    }
    text.push_str(&format!(" (number above/seed; shuffled by --seed {seed})\n"));
    if let Some(rule) = schedule.iter().find_map(|slot| slot.repeats) {
        text.push_str(&format!(
            "This is the pilot; --width then adds trials, up to {} of each configuration\n",
            rule.at_most
        ));
    }
    text
}

/// Describes one configuration: its target, how its file system is created, and the ops of its phases.
fn cell_text(cell: &Cell, number: usize, names: &RowNames, drives: &Drives) -> String {
    let mut text = String::new();
    let plan = &cell.plan;
    let target = describe_target(plan);
    let (workload, row) = (names.workload(plan), names.row(plan));
    text.push_str(&format!("{}. {workload} on {row}: {target}\n", number));
    if let Some(reason) = &cell.skip {
        text.push_str(&format!("   skipped: {reason}\n"));
    }
    let params: Vec<String> =
        plan.workload.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
    text.push_str(&format!("   parameters: {}\n", params.join(" ")));
    if let Some(argv) = array_command(plan) {
        text.push_str(&format!("   array: {}\n", argv.join(" ")));
    }
    if let Some(filesystem) = plan.filesystem.as_ref().filter(|it| !it.is_raw()) {
        text.push_str(&filesystem_text(plan, filesystem, drives));
    }
    if !plan.sysctls.is_empty() {
        let sysctls: Vec<String> =
            plan.sysctls.iter().map(|(key, value)| format!("{key}={value}")).collect();
        text.push_str(&format!("   sysctls: {}\n", sysctls.join(" ")));
    }
    for (phase, counts) in &cell.phases {
        let ops = match counts.is_empty() {
            true => "as many ops as time or space permit".to_string(),
            false => format_ops(counts),
        };
        text.push_str(&format!("   phase {phase}: {ops}\n"));
    }
    let needs = &cell.needs;
    text.push_str(&format!("   needs: {} in {} inodes\n", needs.bytes, needs.inodes));
    text
}

/// Describes how a file system is created, mounted and checked.
fn filesystem_text(plan: &Plan, filesystem: &FilesystemPlan, drives: &Drives) -> String {
    let mut text = String::new();
    let shown = |argv: &[String]| {
        let drive = plan.medium.drive().and_then(|path| drives.get(path));
        let device = drive.map(|drive| drive.data_path().display().to_string());
        let argv = argv.join(" ");
        device.map_or(argv.clone(), |device| argv.replace("{device}", &device))
    };
    let journal = filesystem.journal.as_ref().filter(|journal| !journal.make.is_empty());
    if let Some(journal) = journal {
        text.push_str(&format!("   journal: {}\n", journal.make.join(" ")));
    }
    if !filesystem.mkfs.is_empty() {
        text.push_str(&format!("   make:  {}\n", shown(&filesystem.mkfs)));
    }
    let mount = |kind: &str, options: &str| match options {
        "" => format!("   mount: -t {kind}\n"),
        options => format!("   mount: -t {kind} -o {options}\n"),
    };
    if let Some(below) = &filesystem.below {
        text.push_str(&mount(&below.mount_type, &below.mount_options));
    }
    if let Some(pool) = &filesystem.pool {
        text.push_str(&format!("   import: {}\n", shown(&pool.import)));
    }
    match filesystem.mount_command.as_slice() {
        // The model mounts nothing.
        [] if filesystem.mount_type.is_empty() => {}
        [] => text.push_str(&mount(&filesystem.mount_type, &filesystem.mount_options)),
        command => text.push_str(&format!("   mount: {}\n", shown(command))),
    }
    match filesystem.check.as_slice() {
        [] => text.push_str("   check: none\n"),
        check => text.push_str(&format!("   check: {}\n", shown(check))),
    }
    if let Some(age) = &filesystem.age {
        text.push_str(&format!("   age:   {age}, before the first phase\n"));
    }
    if let Some(period) = &filesystem.period {
        let cache = plan.medium.disk().map(|disk| &disk.spec["queue"]["write_cache"]);
        let cache = cache.and_then(|cache| cache.as_str()).unwrap_or("unchanged");
        text.push_str(&format!(
            "   period {period}: options as above, write cache of the disk: {cache}\n"
        ));
    }
    text
}

/// Describes the target of a plan.
fn describe_target(plan: &Plan) -> String {
    let medium = &plan.medium;
    let raid = medium.raid().map(|raid| format!("RAID {raid} of ")).unwrap_or_default();
    let on = match medium {
        MediumPlan::Directory { path } => format!("in a fresh subdirectory of {path}"),
        MediumPlan::Modelled(modelled) => format!("on {raid}{}", modelled.disk.name),
        MediumPlan::Memory { .. } => "in memory".to_string(),
        MediumPlan::Loop(_) | MediumPlan::Ram(_) | MediumPlan::Drive { .. } => {
            format!("newly created on {raid}{}", plan.target())
        }
    };
    let size = medium.journal_size();
    let journal = match (medium.journal(), size) {
        (Some(disk), Some(size)) => {
            Some(format!("{{journal}} on {size} of a second {}", disk.name))
        }
        (None, size) => size.map(|size| format!("{{journal}} on {size} more")),
        (Some(_), None) => None,
    };
    let mut parts = vec![venue::describe(&plan.venue, &on)];
    parts.extend(journal);
    if let Some(lab) = plan.lab() {
        parts.push(format!("kernel {}", lab.kernel));
    }
    parts.extend(AXES.iter().filter_map(|axis| axis.non_default_labels(plan)));
    parts.join(", ")
}

/// Returns the command that creates the md array, if there is one. Its loop devices and array number are not known
/// before they are created, hence the placeholders.
fn array_command(plan: &Plan) -> Option<Vec<String>> {
    let raid = plan.medium.raid()?;
    let name = |disk: u32| match plan.in_lab() {
        true => format!("/dev/nbd{disk}"),
        false => format!("{{loop {}}}", disk + 1),
    };
    Some(fsdyno_filesystem::array::create(raid, &(0..raid.disks).map(name).collect::<Vec<_>>()))
}

fn format_ops(counts: &BTreeMap<OpKind, u64>) -> String {
    let parts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    parts.join(", ")
}
