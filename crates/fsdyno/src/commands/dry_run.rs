//! `fsdyno run --dry-run`: what would be run, with exact op counts; touches nothing.

use std::collections::BTreeMap;

use fsdyno_media::block::Seen;
use fsdyno_record::OpKind;
use fsdyno_record::plan::{IssuerPlan, MediumPlan};
use fsdyno_report::Format;
use fsdyno_study::{Cell, Slot};
use serde_json::json;

use crate::cli::Run;
use crate::drive;
use crate::exit::{Exit, Failure};
use crate::output;

/// Prints the trials.
pub fn show(run: &Run, cells: &[Cell], schedule: &[Slot]) -> Result<Exit, Failure> {
    // A drive is asked everything that a real run asks it.
    let drive = drive::is_named(run).then(|| drive::look(run)).transpose()?;
    match run.format {
        Format::Text => output::data(&text(cells, schedule, drive.as_ref()))?,
        Format::Json => output::json(&value(cells, schedule, drive.as_ref()))?,
        Format::Mail
        | Format::Csv
        | Format::Statistics
        | Format::StatisticsCsv
        | Format::Markdown
        | Format::Original => {
            return Err(Failure::wrong("--dry-run takes --format text or json"));
        }
    }
    Ok(Exit::Good)
}

fn value(cells: &[Cell], schedule: &[Slot], drive: Option<&Seen>) -> serde_json::Value {
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
    if let Some(drive) = drive {
        value["drive"] =
            json!({"what": drive.what(), "device": drive.data_path(), "steps": drive.steps()});
    }
    value
}

fn text(cells: &[Cell], schedule: &[Slot], drive: Option<&Seen>) -> String {
    let mut text = String::new();
    if let Some(drive) = drive {
        text.push_str(&format!("{}, of which all is lost:\n", drive.what()));
        for step in drive.steps() {
            text.push_str(&format!("   {step}\n"));
        }
    }
    let shown = |argv: &[String]| {
        let argv = argv.join(" ");
        let device = drive.map(|drive| drive.data_path().display().to_string());
        device.map_or(argv.clone(), |device| argv.replace("{device}", &device))
    };
    for (at, cell) in cells.iter().enumerate() {
        let plan = &cell.plan;
        let place = match &plan.medium {
            MediumPlan::Directory { path } => format!("in a fresh subdirectory of {path}"),
            MediumPlan::Model(model) => {
                format!("a model in this program, no kernel, on {}", model.disk.name)
            }
            MediumPlan::Device(device) => {
                let raid = device.raid.map(|raid| format!("RAID {raid} of ")).unwrap_or_default();
                let journal =
                    device.journal_size.map(|size| format!(", {{journal}} on {size} more"));
                format!("made on {raid}{}{}", device.on, journal.unwrap_or_default())
            }
            MediumPlan::Lab(lab) => {
                let raid = lab.raid.map(|raid| format!("RAID {raid} of ")).unwrap_or_default();
                let journal = lab.journal.as_ref().zip(lab.journal_size).map(|(disk, size)| {
                    format!(", {{journal}} on {size} of another {}", disk.name)
                });
                let journal = journal.unwrap_or_default();
                let (disk, ram, kernel) = (&lab.disk.name, lab.ram, &lab.kernel);
                format!("in the lab on {raid}{disk}{journal}, {ram} of RAM, kernel {kernel}")
            }
        };
        text.push_str(&format!("{}. {} on {}, {place}\n", at + 1, plan.workload.name, plan.label));
        if let Some(reason) = &cell.skip {
            text.push_str(&format!("   skipped: {reason}\n"));
        }
        let params: Vec<String> =
            plan.workload.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
        text.push_str(&format!("   parameters: {}\n", params.join(" ")));
        let array = match &plan.medium {
            MediumPlan::Lab(lab) => lab.raid.map(|raid| (raid, "nbd")),
            MediumPlan::Device(device) => device.raid.map(|raid| (raid, "loop")),
            MediumPlan::Directory { .. } | MediumPlan::Model(_) => None,
        };
        if let Some((raid, kind)) = array {
            let disks: Vec<String> = (0..raid.disks).map(|at| format!("/dev/{kind}{at}")).collect();
            let argv = fsdyno_filesystem::array::create(raid, &disks);
            text.push_str(&format!("   array: {}\n", argv.join(" ")));
        }
        if let Some(filesystem) = plan.filesystem.as_ref().filter(|it| !it.is_raw()) {
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
            match filesystem.mount_command.as_slice() {
                [] => text.push_str(&mount(&filesystem.mount_type, &filesystem.mount_options)),
                command => text.push_str(&format!("   mount: {}\n", shown(command))),
            }
            match filesystem.check.as_slice() {
                [] => text.push_str("   check: there is none\n"),
                check => text.push_str(&format!("   check: {}\n", shown(check))),
            }
            if let Some(period) = &filesystem.period {
                let cache = plan.lab().map(|lab| &lab.disk.spec["queue"]["write_cache"]);
                let cache = cache.and_then(|cache| cache.as_str()).unwrap_or("as it is");
                text.push_str(&format!(
                    "   as in {period}: options as above, write cache of the disk: {cache}\n"
                ));
            }
        }
        if !plan.sysctls.is_empty() {
            let sysctls: Vec<String> =
                plan.sysctls.iter().map(|(key, value)| format!("{key}={value}")).collect();
            text.push_str(&format!("   sysctls: {}\n", sysctls.join(" ")));
        }
        if plan.threads != 1 || plan.issuer != IssuerPlan::Sync {
            text.push_str(&format!("   threads: {}, issued by {}\n", plan.threads, plan.issuer));
        }
        for (phase, counts) in &cell.phases {
            let ops = match counts.is_empty() {
                true => "as many ops as there is time or space for".to_string(),
                false => ops(counts),
            };
            text.push_str(&format!("   phase {phase}: {ops}\n"));
        }
        let needs = &cell.needs;
        text.push_str(&format!("   needs: {} in {} inodes\n", needs.bytes, needs.inodes));
    }
    let seed = schedule.iter().map(|slot| slot.seed).min().unwrap_or(0);
    let trials = schedule.len();
    text.push_str(&format!("{trials} trials in this order:"));
    for slot in schedule {
        text.push_str(&format!(" {}/{}", slot.cell + 1, slot.seed));
    }
    text.push_str(&format!(" (number above/seed; shuffled by --seed {seed})\n"));
    if let Some(rule) = schedule.iter().find_map(|slot| slot.repeats) {
        text.push_str(&format!(
            "That is the pilot; then as many more as --width takes, {} of each at most\n",
            rule.at_most
        ));
    }
    text
}

fn ops(counts: &BTreeMap<OpKind, u64>) -> String {
    let parts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    parts.join(", ")
}
