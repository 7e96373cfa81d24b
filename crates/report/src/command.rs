//! The command that repeats a measurement, derived from the plans of the trials.

use std::collections::BTreeMap;

use fsdyno_axes::{AXES, Axis, Value};
use fsdyno_record::Trial;
use fsdyno_record::plan::MediumPlan;
use fsdyno_record::shell::quote;

use crate::baseline::{Basis, DEFAULT_LEAST_DIFFERENCE};
use crate::number::format_significant;

/// The `fsdyno run` command with every option spelled out, quoted for a shell; several commands if a single command
/// cannot express the trials (two targets, two numbers of threads); empty without trials.
///
/// A command runs every workload on every file system, so it may repeat more than was measured, but never less.
pub fn repeat_command<'b>(trials: &[Trial], basis: impl Into<Basis<'b>>) -> String {
    let basis = basis.into();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for trial in trials {
        let choices = choices(trial);
        match groups.iter_mut().find(|group| group.accepts(&choices)) {
            Some(group) => group.push(trial, choices),
            None => groups.push(Group { trials: vec![trial], choices }),
        }
    }
    groups.iter().map(|group| group.command(basis)).collect::<Vec<_>>().join("\n")
}

/// The options of a command line by subject; a subject that has its default has an empty list.
type Choices = BTreeMap<String, Vec<String>>;

/// The prefix of the keys under which labels' specs are stored. They only separate groups, because `--fs` expresses
/// the specs.
const LABEL: &str = "label ";

/// Trials that one command line can repeat.
struct Group<'a> {
    trials: Vec<&'a Trial>,
    choices: Choices,
}

impl<'a> Group<'a> {
    /// Returns true if no subject would have two different values after these choices were added.
    fn accepts(&self, choices: &Choices) -> bool {
        choices
            .iter()
            .all(|(what, options)| self.choices.get(what).is_none_or(|known| known == options))
    }

    fn push(&mut self, trial: &'a Trial, choices: Choices) {
        self.trials.push(trial);
        self.choices.extend(choices);
    }

    fn command(&self, basis: Basis<'_>) -> String {
        let trials = || self.trials.iter().copied();
        let device =
            trials().map(|trial| &trial.plan.medium).find(|medium| medium.is_host_device());
        let drive = device.and_then(MediumPlan::drive);
        let mut args = vec!["fsdyno".to_string(), "run".to_string()];
        if device.is_some() {
            // Only root can create and mount a device.
            args.insert(0, "sudo".into());
        }
        args.extend(distinct(trials().map(|t| t.plan.workload.name.clone())));
        let mut options = Vec::new();
        let axes = AXES.iter().filter(|axis| axis.joined);
        options.extend(axes.flat_map(|axis| joined_options(axis, &self.trials)));
        let chosen = self.choices.iter().filter(|(what, _)| !what.starts_with(LABEL));
        options.extend(chosen.flat_map(|(_, args)| args).cloned());
        let labels: Vec<&str> = trials().map(|trial| trial.plan.label.as_str()).collect();
        let baseline = basis.baseline.filter(|label| labels.contains(label));
        options.extend(baseline.map(|label| option("baseline", label)));
        if basis.least_difference != DEFAULT_LEAST_DIFFERENCE {
            options.push(format!(
                "--least-difference {}%",
                format_significant(basis.least_difference * 100.0, 4)
            ));
        }
        options.extend(drive.map(|_| "--erase SERIAL".to_string()));
        let seeds = || trials().map(|t| t.seed);
        let first = seeds().min().unwrap_or(0);
        let repeat = seeds().max().unwrap_or(0) - first + 1;
        let rule = trials().find_map(|trial| trial.repeats);
        let number =
            rule.map_or(format!("--repeat {repeat}"), |rule| rule.command_line_arguments());
        options.push(format!("--seed {first} {number}"));
        let indent = " \\\n    ";
        let args: Vec<String> = args.iter().map(|word| quote(word)).collect();
        let command = format!("{}{indent}{}", args.join(" "), options.join(indent));
        match drive {
            None => command,
            Some(drive) => format!(
                "# destroys all data on {}; SERIAL is that drive's serial number, which the command prints \
                 without --erase\n{command}",
                quote(drive)
            ),
        }
    }
}

/// The options for an axis of which one command accepts several values: one option for each value of the trials, or
/// none if all values are the default.
fn joined_options(axis: &Axis, trials: &[&Trial]) -> Vec<String> {
    let value = |trial: &&Trial| axis.text(&trial.plan);
    let values = distinct(trials.iter().filter_map(value));
    match values.iter().all(|value| value == axis.default) {
        true => Vec::new(),
        false => values.iter().map(|value| option(axis.key, value)).collect(),
    }
}

/// The options of a trial that can occur only once in a command line.
fn choices(trial: &Trial) -> Choices {
    let plan = &trial.plan;
    let mut choices = Choices::new();
    let mut add = |subject: String, args: Vec<String>| drop(choices.insert(subject, args));
    // The keys sort in the order of the options.
    for (index, axis) in AXES.iter().enumerate().filter(|(_, axis)| !axis.joined) {
        let args = match (axis.value)(plan) {
            Value::Absent => continue,
            Value::Default => Vec::new(),
            Value::Set(value) => vec![option(axis.key, &value)],
        };
        add(format!("0 {index:02}"), args);
    }
    if let Some(filesystem) = &plan.filesystem {
        // Two specs under one label need two commands.
        add(format!("{LABEL}{}", plan.label), vec![filesystem.spec.clone()]);
    }
    add(format!("1 set {}", plan.workload.name), settings(trial));
    let sysctls =
        plan.sysctls.iter().map(|(key, value)| option("sysctl", &format!("{key}={value}")));
    add("2 sysctls".into(), sysctls.collect());
    choices
}

fn settings(trial: &Trial) -> Vec<String> {
    let workload = &trial.plan.workload;
    let set = |(key, value): (&String, &String)| {
        option("set", &format!("{}.{key}={value}", workload.name))
    };
    // The `curve` parameter sets the number of files of each point.
    let is_implied = |key: &str| key == "files" && crate::view::is_point(trial);
    workload.params.iter().filter(|(key, _)| !is_implied(key)).map(set).collect()
}

/// An option with its value, quoted for a shell.
pub fn option(name: &str, value: &str) -> String {
    format!("--{name} {}", quote(value))
}

/// The items without duplicates, in the order given.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut known = Vec::new();
    for item in items {
        if !known.contains(&item) {
            known.push(item);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use fsdyno_record::Bytes;
    use fsdyno_record::plan::VerifyMode;

    use super::*;
    use crate::fixture;

    #[test]
    fn the_command_names_every_choice_once() {
        insta::assert_snapshot!(repeat_command(&fixture::trials(), None));
    }

    #[test]
    fn a_directory_is_repeated_on_that_directory() {
        assert!(repeat_command(&fixture::on_a_host(), None).contains("--on /srv/scratch"));
    }

    #[test]
    fn a_device_is_created_again_with_its_options() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            fixture::put_on_an_array(trial);
        }
        let text = repeat_command(&trials, None);
        for part in ["--on loop:8G", "--raid 5x3", "--journal-size 64M"] {
            assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
        }
    }

    fn on(mut trials: Vec<Trial>, target: &str) -> Vec<Trial> {
        for trial in &mut trials {
            fixture::put_on(trial, target);
        }
        trials
    }

    #[test]
    fn conditions_that_one_command_line_cannot_express_give_several_commands() {
        let mut several = on(fixture::trials(), "loop:8G");
        several.extend(on(fixture::trials(), "ram:1G"));
        several.extend(fixture::trials());
        let text = repeat_command(&several, None);
        let commands: Vec<&str> =
            text.split("\n").filter(|line| line.contains("fsdyno run")).collect();
        assert_eq!(commands.len(), 3, "{text}");
        assert!(
            commands[0].starts_with("sudo fsdyno run") && commands[2].starts_with("fsdyno run")
        );
        for part in ["--on loop:8G", "--on ram:1G", "--disk hdd-7200"] {
            assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
        }
        let mut threads = fixture::trials();
        threads[0].plan.threads = 4;
        assert_eq!(repeat_command(&threads, None).matches("fsdyno run").count(), 2);
        let mut specs = [fixture::trials(), fixture::trials()].concat();
        specs[0].plan.filesystem.as_mut().unwrap().spec = "ext4 -I 128".into();
        assert_eq!(repeat_command(&specs, None).matches("fsdyno run").count(), 2);
        // Two disks, or two kernels, fit into one command.
        let mut disks = [fixture::trials(), fixture::trials()].concat();
        fixture::set_disk(&mut disks[0], "instant");
        assert_eq!(
            repeat_command(&disks, None).matches("fsdyno run").count(),
            1,
            "{}",
            repeat_command(&disks, None)
        );
    }

    #[test]
    fn the_command_for_a_drive_includes_the_option_for_its_serial_number() {
        let text = repeat_command(&on(fixture::trials(), "/dev/disk/by-id/ata-X"), None);
        assert!(text.starts_with("# destroys all data on /dev/disk/by-id/ata-X"), "{text}");
        assert!(text.contains("--erase SERIAL"), "{text}");
        assert!(!repeat_command(&on(fixture::trials(), "loop:8G"), None).contains("--erase"));
    }

    #[test]
    fn a_period_is_named_and_a_memory_file_system_names_no_disk() {
        let mut trials = fixture::trials();
        let plan = trials[0].plan.filesystem.as_mut().unwrap();
        plan.period = Some("2008".into());
        assert!(repeat_command(&trials[..1], None).contains("--period 2008"));
        trials[0].plan.medium = MediumPlan::Memory { size: None };
        let text = repeat_command(&trials[..1], None);
        assert!(!text.contains("--disk") && !text.contains("--size"), "{text}");
    }

    #[test]
    fn each_machine_has_its_own_command_which_names_it_and_its_parts() {
        let mut trials = [fixture::trials(), fixture::trials()].concat();
        let (first, second) = trials.split_at_mut(fixture::trials().len());
        first.iter_mut().for_each(|trial| fixture::set_machine(trial, "server-2004"));
        second.iter_mut().for_each(|trial| fixture::set_machine(trial, "./mine.toml"));
        let text = repeat_command(&trials, None);
        assert_eq!(text.matches("fsdyno run").count(), 2, "{text}");
        for part in ["--machine server-2004", "--machine ./mine.toml"] {
            assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
        }
        assert_eq!(text.matches("--cpu 1 ").count(), 2, "{text}");
    }

    #[test]
    fn ages_are_named_including_none_for_fresh_file_systems() {
        let trials = [fixture::trials(), vec![fixture::on_an_aged_file_system()]].concat();
        let text = repeat_command(&trials, None);
        assert!(text.contains("--age fill=80%,churn=2,files=lognormal:64K:1.5,seed=1"), "{text}");
        assert!(text.contains("--age none"), "{text}");
        assert!(!repeat_command(&fixture::trials(), None).contains("--age"));
    }

    #[test]
    fn options_that_differ_from_the_defaults_are_named() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            trial.plan.verify = VerifyMode::Names;
            trial.plan.medium.modelled_mut().unwrap().size = Some(Bytes(1536 << 20));
        }
        let text = repeat_command(&trials, Some("ext4"));
        for part in ["--size 1536M", "--verify names", "--baseline ext4"] {
            assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
        }
    }
}
