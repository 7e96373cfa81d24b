//! The command that repeats what was measured, worked out from the plans of the trials.

use fsdyno_record::plan::{DevicePlan, IssuerPlan, LabPlan, MediumPlan, VerifyMode};
use fsdyno_record::shell::quote;
use fsdyno_record::{Bytes, Trial};

/// A `fsdyno run` with every choice spelled out, quoted for a shell; empty without trials.
///
/// One command repeats trials that crossed every workload with every file system; where they did
/// not, it repeats more than was measured, never less.
pub fn of(trials: &[Trial], baseline: Option<&str>) -> String {
    if trials.is_empty() {
        return String::new();
    }
    let mut words = vec!["fsdyno".to_string(), "run".to_string()];
    words.extend(distinct(trials.iter().map(|t| t.plan.workload.name.clone())));
    let mut options = Vec::new();
    options.extend(distinct(trials.iter().filter_map(file_system)));
    options.extend(distinct(trials.iter().flat_map(medium)));
    options.extend(distinct(trials.iter().filter_map(period)));
    options.extend(ages(trials));
    options.extend(distinct(trials.iter().flat_map(settings)));
    let sysctls = trials.iter().flat_map(|t| &t.plan.sysctls);
    options
        .extend(distinct(sysctls.map(|(key, value)| option("sysctl", &format!("{key}={value}")))));
    let threads = distinct(trials.iter().map(|t| t.plan.threads));
    options.extend(threads.iter().map(|n| option("threads", &n.to_string())));
    options.extend(distinct(trials.iter().filter_map(issuer)));
    options.extend(distinct(trials.iter().filter_map(verify)));
    options.extend(baseline.map(|label| option("baseline", label)));
    let seeds = || trials.iter().map(|t| t.seed);
    let first = seeds().min().unwrap_or(0);
    let repeat = seeds().max().unwrap_or(0) - first + 1;
    let rule = trials.iter().find_map(|trial| trial.repeats);
    let number = rule.map_or(format!("--repeat {repeat}"), |rule| rule.typed());
    options.push(format!("--seed {first} {number}"));
    let indent = " \\\n    ";
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("{}{indent}{}", words.join(" "), options.join(indent))
}

fn file_system(trial: &Trial) -> Option<String> {
    let (label, spec) = (&trial.plan.label, &trial.plan.filesystem.as_ref()?.spec);
    let text = if label == spec { spec.clone() } else { format!("{label}={spec}") };
    Some(option("fs", &text))
}

fn period(trial: &Trial) -> Option<String> {
    Some(option("period", trial.plan.filesystem.as_ref()?.period.as_ref()?))
}

/// Every age, that of the fresh ones too, where there is one at all.
fn ages(trials: &[Trial]) -> Vec<String> {
    if trials.iter().all(|trial| trial.plan.age().is_none()) {
        return Vec::new();
    }
    let age =
        |trial: &Trial| option("age", &trial.plan.age().map_or("none".into(), ToString::to_string));
    distinct(trials.iter().map(age))
}

fn medium(trial: &Trial) -> Vec<String> {
    match &trial.plan.medium {
        MediumPlan::Directory { path } => vec![option("on", path)],
        MediumPlan::Device(device) => on_device(device),
        MediumPlan::Lab(lab) => in_lab(lab),
        MediumPlan::Model(model) => vec![
            option("on", "model"),
            option("disk", &model.disk.name),
            option("size", &bytes(model.size)),
        ],
    }
}

fn on_device(device: &DevicePlan) -> Vec<String> {
    let mut options = vec![option("on", &device.on)];
    options.extend(device.raid.map(|raid| option("raid", &raid.to_string())));
    options.extend(device.journal_size.map(|size| option("journal-size", &bytes(size))));
    options
}

/// The options of a lab; what is as usual is left out.
fn in_lab(lab: &LabPlan) -> Vec<String> {
    let kernel = lab.kernel.split_once('@').map_or(lab.kernel.as_str(), |(_, typed)| typed);
    // What lies in memory has no disk, and its size stands in its spec or is that of its neighbours.
    let on_disk = !lab.in_memory();
    let mut options = Vec::new();
    options.extend(on_disk.then(|| option("disk", &lab.disk.name)));
    options.extend([option("kernel", kernel), option("ram", &bytes(lab.ram))]);
    options.extend(on_disk.then(|| option("size", &lab.size.map_or("whole".into(), bytes))));
    options.extend(lab.raid.map(|raid| option("raid", &raid.to_string())));
    options.extend(lab.journal.iter().map(|disk| option("journal-disk", &disk.name)));
    options.extend(lab.journal_size.map(|size| option("journal-size", &bytes(size))));
    options.extend(lab.cacheable.map(|size| option("cacheable", &bytes(size))));
    options.extend(lab.scheduler.iter().map(|s| option("scheduler", s)));
    options.extend((!lab.cpu.is_usual()).then(|| option("cpu", &lab.cpu.to_string())));
    options.extend((!lab.accel.is_exact()).then(|| option("accel", lab.accel.name())));
    options.extend((!lab.boot.is_cold()).then(|| option("boot", lab.boot.name())));
    options
}

/// Exactly as many bytes, in the largest unit that is whole.
fn bytes(Bytes(bytes): Bytes) -> String {
    let whole = [(30, "G"), (20, "M"), (10, "K")].into_iter().find(|(shift, _)| {
        let unit = 1u64 << shift;
        bytes >= unit && bytes % unit == 0
    });
    whole.map_or(bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Nothing where system calls follow each other, as is the rule.
fn issuer(trial: &Trial) -> Option<String> {
    let issuer = trial.plan.issuer;
    (issuer != IssuerPlan::Sync).then(|| option("issuer", &issuer.to_string()))
}

/// Nothing where everything was compared, as is the rule.
fn verify(trial: &Trial) -> Option<String> {
    let mode = trial.plan.verify;
    (mode != VerifyMode::Full).then(|| option("verify", mode.name()))
}

fn settings(trial: &Trial) -> Vec<String> {
    let workload = &trial.plan.workload;
    let set = |(key, value): (&String, &String)| {
        option("set", &format!("{}.{key}={value}", workload.name))
    };
    // A curve says itself how many files its points have.
    let said = |key: &str| key == "files" && crate::curve::is_point(trial);
    workload.params.iter().filter(|(key, _)| !said(key)).map(set).collect()
}

fn option(name: &str, value: &str) -> String {
    format!("--{name} {}", quote(value))
}

fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use fsdyno_record::plan::DiskPlan;

    use super::*;
    use crate::fixture;

    #[test]
    fn the_command_names_every_choice_once() {
        insta::assert_snapshot!(of(&fixture::trials(), None));
    }

    #[test]
    fn a_directory_is_repeated_on_that_directory() {
        assert!(of(&fixture::on_a_host(), None).contains("--on /srv/scratch"));
    }

    #[test]
    fn a_device_is_made_again_as_it_was() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            let (on, raid) = ("loop:8G".to_string(), "5x3".parse().ok());
            let journal_size = Some(Bytes(64 << 20));
            trial.plan.medium = MediumPlan::Device(DevicePlan { on, raid, journal_size });
        }
        let text = of(&trials, None);
        for part in ["--on loop:8G", "--raid 5x3", "--journal-size 64M"] {
            assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
        }
    }

    #[test]
    fn a_period_is_said_and_what_lies_in_memory_names_no_disk() {
        let mut trials = fixture::trials();
        let plan = trials[0].plan.filesystem.as_mut().unwrap();
        plan.period = Some("2008".into());
        assert!(of(&trials[..1], None).contains("--period 2008"));
        let MediumPlan::Lab(lab) = &mut trials[0].plan.medium else { unreachable!() };
        (lab.disk, lab.size) = (DiskPlan::memory(), None);
        let text = of(&trials[..1], None);
        assert!(!text.contains("--disk") && !text.contains("--size"), "{text}");
    }

    #[test]
    fn ages_are_said_with_the_fresh_ones_beside_them() {
        let trials = [fixture::trials(), vec![fixture::on_an_aged_one()]].concat();
        let text = of(&trials, None);
        assert!(text.contains("--age fill=80%,churn=2,files=lognormal:64K:1.5,seed=1"), "{text}");
        assert!(text.contains("--age none"), "{text}");
        assert!(!of(&fixture::trials(), None).contains("--age"));
    }

    #[test]
    fn what_is_not_the_rule_is_said() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            trial.plan.verify = VerifyMode::Names;
            if let MediumPlan::Lab(lab) = &mut trial.plan.medium {
                lab.size = Some(Bytes(1536 << 20));
            }
        }
        let text = of(&trials, Some("ext4"));
        for part in ["--size 1536M", "--verify names", "--baseline ext4"] {
            assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
        }
    }
}
