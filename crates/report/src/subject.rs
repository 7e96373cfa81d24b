//! The lines above every table that describe what was measured: the target, the workloads with their parameters,
//! and the labels that differ from their spec.

use std::collections::BTreeMap;

use fsdyno_axes::AXES;
use fsdyno_axes::venue::of_medium;
use fsdyno_record::Trial;
use fsdyno_record::age::Aged;
use fsdyno_record::plan::{MediumPlan, VenuePlan};

use crate::number::sanitize;

/// The lines, without wrapping. A value that differs between trials is listed with the others; the names of the rows
/// show which one is theirs.
pub fn lines(trials: &[Trial]) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(lab(trials));
    lines.extend(model(trials));
    lines.extend(directories(trials));
    lines.extend(ages(trials));
    lines.extend(workloads(trials));
    lines.extend(labels(trials));
    lines.extend(not_in_effect(trials));
    lines.iter().map(|line| sanitize(line)).collect()
}

/// The line of the lab: `lab: disk hdd-7200, file system of 8 GiB, kernel 6.1.0-44-amd64, RAM 1 GiB`.
fn lab(trials: &[Trial]) -> Option<String> {
    let (mut disks, mut sizes, mut kernels) = (Vec::new(), Vec::new(), Vec::new());
    let (mut machines, mut periods) = (Vec::new(), Vec::new());
    for trial in trials {
        let Some(lab) = trial.plan.lab() else { continue };
        lab.machine.iter().for_each(|machine| push_unique(&mut machines, machine.clone()));
        push_unique(&mut disks, disks_of(&trial.plan.medium));
        // The size that the trial found takes precedence; a trial that failed early may have found none.
        let size = trial.conditions.device_size.or(trial.plan.medium.size());
        push_unique(&mut sizes, size.map_or("the whole disk".into(), |size| size.to_string()));
        push_unique(&mut kernels, lab.kernel.to_string());
        let period = trial.plan.filesystem.as_ref().and_then(|plan| plan.period.as_deref());
        push_unique(&mut periods, period.unwrap_or("today").to_string());
    }
    let mut parts = Vec::from_iter(labelled_list("machine", "machines", &machines));
    parts.extend([
        labelled_list("disk", "disks", &disks)?,
        format!("file system of {}", sizes.join(", ")),
        labelled_list("kernel", "kernels", &kernels)?,
    ]);
    if periods != ["today"] {
        parts.push(format!("settings of {}", periods.join(", ")));
    }
    let in_lab: Vec<&Trial> = trials.iter().filter(|trial| trial.plan.in_lab()).collect();
    parts.extend(settings(&in_lab));
    let mut times = Vec::new();
    for accel in in_lab.iter().filter_map(|trial| Some(trial.plan.lab()?.accel)) {
        push_unique(
            &mut times,
            if accel.is_exact() { "virtual time" } else { "KVM: host time, not repeatable" },
        );
    }
    Some(format!("lab ({}): {}", times.join("; "), parts.join("; ")))
}

/// A line for each setting without effect: `not in effect: the disk's optimal_io_size is 0, and the guest's driver has
/// 131072 (kernel 6.12.96)`; with the affected trials, if not all are affected, and what the difference does not
/// change, if that is known.
fn not_in_effect(trials: &[Trial]) -> Vec<String> {
    let mut settings: Vec<&String> = Vec::new();
    trials
        .iter()
        .flat_map(|trial| &trial.conditions.not_in_effect)
        .for_each(|setting| push_unique(&mut settings, setting));
    let line = |setting: &String| {
        let (with, without): (Vec<&Trial>, Vec<&Trial>) =
            trials.iter().partition(|trial| trial.conditions.not_in_effect.contains(setting));
        let kernels = |trials: &[&Trial]| {
            let mut kernels = Vec::new();
            let all = trials.iter().filter_map(|trial| trial.plan.lab());
            all.for_each(|lab| push_unique(&mut kernels, lab.kernel.to_string()));
            kernels
        };
        let (affected, others) = (kernels(&with), kernels(&without));
        let suffix = if without.is_empty() {
            String::new()
        } else if !affected.is_empty() && affected.iter().all(|kernel| !others.contains(kernel)) {
            format!(" (kernel {})", affected.join(", "))
        } else {
            format!(" ({} of {} trials)", with.len(), trials.len())
        };
        format!("not in effect: {setting}{suffix}{}", consequence(setting, &with))
    };
    settings.into_iter().map(line).collect()
}

/// What a setting that these trials lack does not change, as a clause; empty if that is not known. From a drive's
/// optimal size, mkfs could derive a stripe and the kernel its read-ahead, but the catalog and the agent set both; the
/// stripe of a RAID is derived from its disks.
fn consequence(setting: &str, trials: &[&Trial]) -> &'static str {
    let is_one_drive = trials.iter().all(|trial| trial.plan.medium.raid().is_none());
    match setting.starts_with("the disk's optimal_io_size ") && is_one_drive {
        true => "; this changes neither mkfs's stripe nor the read-ahead",
        false => "",
    }
}

/// A line for each age: `aged fill=80%,churn=1,files=mix: 79.9 % full, 812 files present, 815 removed during aging`;
/// with ranges for several trials.
fn ages(trials: &[Trial]) -> Vec<String> {
    let mut ages: Vec<(String, Vec<Aged>)> = Vec::new();
    for trial in trials {
        let Some((plan, aged)) = trial.plan.age().zip(trial.conditions.aged) else { continue };
        let plan = plan.to_string();
        match ages.iter_mut().find(|(known, _)| *known == plan) {
            Some((_, all)) => all.push(aged),
            None => ages.push((plan, vec![aged])),
        }
    }
    let line = |(plan, all): (String, Vec<Aged>)| {
        let fill = range(all.iter().map(|aged| format!("{:.1}", aged.fill())));
        let numbers = |count: fn(&Aged) -> u64| {
            let (least, max) = (all.iter().map(count).min(), all.iter().map(count).max());
            range([least, max].into_iter().flatten().map(|n| n.to_string()))
        };
        let (files, removed) = (numbers(|aged| aged.files), numbers(|aged| aged.removed));
        format!("aged {plan}: {fill} % full, {files} files present, {removed} removed during aging")
    };
    ages.into_iter().map(line).collect()
}

/// The range of values as text: `7`, or `5 to 9`.
fn range(values: impl Iterator<Item = String>) -> String {
    let mut values: Vec<String> = values.collect();
    values.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    match (values.first(), values.last()) {
        (Some(least), Some(max)) if least != max => format!("{least} to {max}"),
        (Some(one), _) => one.clone(),
        _ => String::new(),
    }
}

/// The model and its disk.
fn model(trials: &[Trial]) -> Option<String> {
    let (mut disks, mut sizes) = (Vec::new(), Vec::new());
    for plan in trials.iter().map(|trial| &trial.plan) {
        let VenuePlan::Model { block_size } = plan.venue else { continue };
        push_unique(&mut disks, disks_of(&plan.medium));
        let size = plan.medium.size().map_or("the whole disk".into(), |size| size.to_string());
        push_unique(&mut sizes, format!("{size} (blocks of {block_size})"));
    }
    let disk = labelled_list("disk", "disks", &disks)?;
    Some(format!(
        "model (in this program, no kernel): ext2 directories as of 2001; {disk}; file system of {}; \
         counts are exact, CPU time is counts times stated costs, most of them estimates",
        sizes.join(", ")
    ))
}

/// The disks of a medium: `hdd-7200`, `RAID 5x3 of hdd-7200`, `hdd-7200 with its journal on ssd-sata (256 MiB)`.
fn disks_of(medium: &MediumPlan) -> String {
    let journal = medium.journal().map(|disk| {
        let size = medium.journal_size().map(|size| format!(" ({size})")).unwrap_or_default();
        format!(" with its journal on {}{size}", disk.name)
    });
    let disk = medium.disk().map_or("memory", |disk| &disk.name);
    format!("{}{disk}{}", raid_of(medium), journal.unwrap_or_default())
}

/// The RAID of a medium: `RAID 5x3 of `, or nothing.
pub fn raid_of(medium: &MediumPlan) -> String {
    medium.raid().map(|raid| format!("RAID {raid} of ")).unwrap_or_default()
}

/// A line for each directory or device: its mount, its device, and its kernel.
fn directories(trials: &[Trial]) -> Vec<String> {
    let mut lines = Vec::new();
    for trial in trials {
        let Some(place) = host_medium(&trial.plan.medium) else { continue };
        let found = &trial.conditions;
        let first = |text: &str| text.split(' ').next().unwrap_or_default().to_string();
        let (kind, kernel) = (first(&found.mount), first(&found.kernel));
        let is_device = trial.plan.medium.is_host_device();
        let mut parts = vec![place];
        match found.device.as_str() {
            // A skipped trial did not examine it.
            "" if is_device => continue,
            "" if !kind.is_empty() => parts.push(kind),
            "" => {}
            device if is_device => parts.push(device.to_string()),
            device if !kind.is_empty() => parts.push(format!("{kind} on {device}")),
            _ => {}
        }
        parts.extend((!kernel.is_empty()).then(|| format!("kernel {kernel}")));
        parts.extend(settings(&[trial]));
        push_unique(&mut lines, format!("host: {}", parts.join("; ")));
    }
    lines
}

/// The medium of a host: `directory /srv`, `/dev/sdb`, `loop:8G`.
fn host_medium(medium: &MediumPlan) -> Option<String> {
    let directory = medium.directory().map(|path| format!("directory {path}"));
    directory.or(medium.drive().map(String::from)).or_else(|| ephemeral(medium))
}

/// The medium that a trial creates on a host: `loop:8G`, `RAID 5x3 of loop:8G with its journal on another 256 MiB`.
fn ephemeral(medium: &MediumPlan) -> Option<String> {
    let (device, _) = medium.ephemeral()?;
    let journal = medium.journal_size().map(|size| format!(" with its journal on another {size}"));
    Some(format!("{}{device}{}", raid_of(medium), journal.unwrap_or_default()))
}

/// Settings other than the defaults: axes and sysctls.
fn settings(trials: &[&Trial]) -> Vec<String> {
    let mut parts = Vec::new();
    // The machine is printed before them.
    for axis in AXES.iter().filter(|axis| axis.key != "machine") {
        trials
            .iter()
            .filter_map(|trial| axis.non_default_labels(&trial.plan))
            .for_each(|label| push_unique(&mut parts, label));
    }
    for (key, value) in trials.iter().flat_map(|trial| &trial.plan.sysctls) {
        push_unique(&mut parts, format!("{key}={value}"));
    }
    parts
}

/// A line for each workload: `tarball: files=2000 order=readdir`, the number of files first because it determines a
/// trial's length.
fn workloads(trials: &[Trial]) -> Vec<String> {
    let mut workloads: Vec<(&str, BTreeMap<&str, Vec<&str>>)> = Vec::new();
    for trial in trials {
        let workload = &trial.plan.workload;
        let known = workloads.iter().position(|(name, _)| *name == workload.name);
        let index = known.unwrap_or_else(|| {
            workloads.push((&workload.name, BTreeMap::new()));
            workloads.len() - 1
        });
        for (key, value) in &workload.params {
            if key == "files" && crate::view::is_point(trial) {
                continue;
            }
            push_unique(workloads[index].1.entry(key).or_default(), value);
        }
    }
    let line = |(name, params): (&str, BTreeMap<&str, Vec<&str>>)| {
        let mut params: Vec<(&str, Vec<&str>)> = params.into_iter().collect();
        params.sort_by_key(|(key, _)| *key != "files");
        let shown: Vec<String> =
            params.iter().map(|(key, values)| format!("{key}={}", values.join(","))).collect();
        format!("{name}: {}", shown.join(" "))
    };
    workloads.into_iter().map(line).collect()
}

/// The definitions of labels: `small = ext4 -I 128`, for labels that differ from their spec.
fn labels(trials: &[Trial]) -> Vec<String> {
    let mut lines = Vec::new();
    for plan in trials.iter().map(|trial| &trial.plan) {
        if let Some(filesystem) = plan.filesystem.as_ref().filter(|fs| fs.spec != plan.label) {
            push_unique(&mut lines, format!("{} = {}", plan.label, filesystem.spec));
        }
    }
    lines
}

/// The media as phrases for a sentence: `the modelled disk hdd-7200 in the lab (virtual time)`.
pub fn media(trials: &[Trial]) -> Vec<String> {
    let mut media = Vec::new();
    for trial in trials {
        let plan = &trial.plan;
        let medium = match &plan.medium {
            MediumPlan::Directory { path } => format!("the directory {path}"),
            MediumPlan::Drive { path } => format!("the drive {path}"),
            medium @ (MediumPlan::Loop(_) | MediumPlan::Ram(_)) => {
                ephemeral(medium).unwrap_or_default()
            }
            medium @ MediumPlan::Modelled(_) => format!("the modelled disk {}", disks_of(medium)),
            MediumPlan::Memory { .. } => "the memory".to_string(),
        };
        push_unique(&mut media, sanitize(&of_medium(plan, &medium)));
    }
    media.sort();
    media
}

/// The values with their name: `disk a`, or `disks a, b`, or `None` without values.
fn labelled_list(singular: &str, plural: &str, values: &[String]) -> Option<String> {
    let name = if values.len() == 1 { singular } else { plural };
    (!values.is_empty()).then(|| format!("{name} {}", values.join(", ")))
}

fn push_unique<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_machine_comes_first_and_its_cpu_is_stated() {
        let mut trials = fixture::trials();
        trials.iter_mut().for_each(|trial| fixture::set_machine(trial, "server-2004"));
        let line = &lines(&trials)[0];
        let expected = "lab (virtual time): machine server-2004; disk hdd-7200; file system of 8 GiB; kernel \
                     6.1.0-44-amd64; CPU 1; RAM 1 GiB;";
        assert!(line.starts_with(expected), "{line}");
    }

    #[test]
    fn the_lab_the_workloads_and_the_labels_are_listed_once() {
        assert_eq!(
            lines(&fixture::trials()),
            [
                "lab (virtual time): disk hdd-7200; file system of 8 GiB; kernel 6.1.0-44-amd64; \
                 RAM 1 GiB; scheduler mq-deadline; vm.dirty_ratio=20",
                "dirops: files=10000",
                "tarball: files=10000",
                "far = ext4 -J device={journal}",
            ]
        );
    }

    #[test]
    fn a_setting_that_is_not_in_effect_has_a_line() {
        let difference = "the disk's optimal_io_size is 0, and the guest's driver has 131072";
        let clause = "; this changes neither mkfs's stripe nor the read-ahead";
        let mut trials = fixture::trials();
        let last = |trials: &[Trial]| lines(trials).pop().unwrap();
        let count = trials.len();
        trials[0].conditions.not_in_effect.push(difference.into());
        let line = |suffix: &str| format!("not in effect: {difference}{suffix}");
        assert_eq!(last(&trials), line(&format!(" (1 of {count} trials){clause}")));
        trials[0].plan.lab_mut().unwrap().kernel = "6.12.96".into();
        assert_eq!(last(&trials), line(&format!(" (kernel 6.12.96){clause}")));
        assert_eq!(last(&trials[..1]), line(clause));
        trials[0].plan.medium.modelled_mut().unwrap().raid = "0x2".parse().ok();
        assert_eq!(last(&trials[..1]), line(""));
    }

    #[test]
    fn every_medium_has_a_description() {
        let on = |target: &str| {
            let mut trial = fixture::on_a_loop().remove(0);
            fixture::put_on(&mut trial, target);
            trial
        };
        let all = [
            fixture::trials().remove(0),
            fixture::on_a_host().remove(0),
            fixture::in_a_model(),
            on("loop:8G"),
            on("ram:1G"),
            on("/dev/sdb"),
        ];
        assert_eq!(
            media(&all),
            [
                "loop:8G of this host",
                "ram:1G of this host",
                "the directory /srv/scratch of this host",
                "the drive /dev/sdb of this host",
                "the modelled disk hdd-7200 below a model of ext2 directories",
                "the modelled disk hdd-7200 in the lab (virtual time)",
            ]
        );
    }

    #[test]
    fn the_period_of_the_settings_is_named() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            if let Some(plan) = &mut trial.plan.filesystem {
                plan.period = Some("2008".into());
            }
        }
        assert!(lines(&trials)[0].contains("; settings of 2008; "), "{:?}", lines(&trials));
        trials[0].plan.filesystem = None;
        assert!(lines(&trials)[0].contains("; settings of today, 2008; "));
    }

    #[test]
    fn a_model_is_described_as_a_model() {
        let line = lines(&[fixture::in_a_model()]).remove(0);
        assert!(line.starts_with("model (in this program, no kernel): ext2 directories"), "{line}");
        assert!(line.contains("disk hdd-7200; file system of 1 GiB (blocks of 4096)"), "{line}");
    }

    #[test]
    fn an_array_and_the_disk_of_an_external_journal_are_named() {
        let line = lines(&[fixture::on_several_disks()]).remove(0);
        let expected = "disk RAID 0x2:64K of hdd-7200 with its journal on hdd-7200 (256 MiB); file";
        assert!(line.contains(expected), "{line}");
    }

    #[test]
    fn the_result_of_aging_is_listed_with_its_range_over_trials() {
        let mut trials = vec![fixture::on_an_aged_file_system(), fixture::on_an_aged_file_system()];
        if let Some(aged) = &mut trials[1].conditions.aged {
            aged.files = 9_999;
        }
        assert_eq!(
            lines(&trials)[1],
            "aged fill=80%,churn=2,files=lognormal:64K:1.5,seed=1: 80.0 % full, 9999 to 30000 files \
             present, 60001 removed during aging"
        );
    }

    #[test]
    fn two_disks_and_two_sizes_of_a_workload_are_listed_and_not_repeated() {
        let mut trials = fixture::trials();
        fixture::set_disk(&mut trials[0], "instant");
        let params = &mut trials[1].plan.workload.params;
        params.insert("files".into(), "7".into());
        params.insert("alone".into(), "yes".into());
        let lines = lines(&trials);
        assert!(lines[0].starts_with("lab (virtual time): disks instant, hdd-7200; "), "{lines:?}");
        assert_eq!(lines[1], "dirops: files=10000,7 alone=yes");
    }

    #[test]
    fn a_device_is_named_with_its_kind_and_one_that_was_never_created_is_not() {
        let mut trials = fixture::on_a_host();
        for trial in &mut trials {
            fixture::put_on_an_array(trial);
            trial.conditions.device = "loop over a file on ext4".into();
        }
        trials[0].conditions.device.clear();
        let text = lines(&trials);
        assert_eq!(
            text[0],
            "host: RAID 5x3 of loop:8G with its journal on another 64 MiB; loop over a file on ext4; \
             kernel 6.1.0-44-amd64; vm.dirty_ratio=20"
        );
        assert!(!text[1].starts_with("host"), "{text:?}");
    }

    #[test]
    fn a_directory_is_named_with_its_mount_and_its_kernel() {
        let mut trials = fixture::on_a_host();
        for trial in &mut trials {
            trial.conditions.mount = "xfs rw,relatime".into();
            trial.conditions.device = "/dev/sda2".into();
            trial.plan.threads = 4;
        }
        assert_eq!(
            lines(&trials)[0],
            "host: directory /srv/scratch; xfs on /dev/sda2; kernel 6.1.0-44-amd64; \
             4 threads; vm.dirty_ratio=20"
        );
    }
}
