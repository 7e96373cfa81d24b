//! The setup of power cuts: the facts and commands that reproduce a page of them.

use fsdyno_axes::{AXES, Crash, Value};
use fsdyno_crash::{DiskFault, Row};
use fsdyno_record::Bytes;
use fsdyno_record::shell::quote;

use crate::command::option;
use crate::crash::name_with_disk;
use crate::number;

/// The file with all details.
pub const FILE: &str = "crash.json";

/// A line for each distinct setup of the rows, for the top of the page.
pub fn subject(rows: &[Row]) -> Vec<String> {
    let line = |row: &Row| {
        let kernel = row.plan.lab().map(|lab| lab.kernel.release.clone()).unwrap_or_default();
        let disk = row.plan.disk_name().unwrap_or_default();
        let workload = &row.plan.workload.name;
        number::sanitize(&format!(
            "{workload} in the lab on {disk}, writes torn at {}, kernel {kernel}, seed {}",
            row.atomic_unit, row.seed
        ))
    };
    crate::command::distinct(rows.iter().map(line))
}

/// A block of names and values for each row.
pub fn blocks(rows: &[Row]) -> Vec<(String, Vec<(String, String)>)> {
    rows.iter().map(|row| (name_with_disk(row), facts(row))).collect()
}

fn facts(row: &Row) -> Vec<(String, String)> {
    let plan = &row.plan;
    let set = plan.workload.params.iter().map(|(key, value)| format!("{key}={value}"));
    let spec = plan.filesystem.as_ref().map(|filesystem| filesystem.spec.clone());
    let lab = plan.lab();
    let text = |bytes: Bytes| bytes.to_string();
    let all = [
        ("workload", plan.workload.name.clone()),
        ("parameters", set.collect::<Vec<_>>().join(" ")),
        ("requested", spec.unwrap_or_default()),
        ("cuts", row.outcomes.len().to_string()),
        ("disk", plan.disk_name().unwrap_or_default().to_string()),
        ("disk's behaviour on a flush", fault_name(row.disk).to_string()),
        ("atomic write unit", row.atomic_unit.to_string()),
        ("kernel", lab.map(|lab| lab.kernel.release.clone()).unwrap_or_default()),
        ("guest memory", lab.map(|lab| lab.ram.to_string()).unwrap_or_default()),
        ("memory for file caches", lab.and_then(|lab| lab.cacheable).map(text).unwrap_or_default()),
        ("CPU", lab.map(|lab| lab.cpu.to_string()).unwrap_or_default()),
        ("scheduler", lab.and_then(|lab| lab.scheduler.clone()).unwrap_or_default()),
        ("period", period(row).unwrap_or_default()),
        ("threads", plan.threads.to_string()),
        ("size", plan.medium.size().map(|size| size.to_string()).unwrap_or_default()),
        ("sysctls", sysctls(row).collect::<Vec<_>>().join(" ")),
        ("seed", row.seed.to_string()),
        ("lab", row.lab_id.clone().unwrap_or_default()),
    ];
    let known = all.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.to_string(), number::sanitize(&value))).collect()
}

/// The period of the spec's settings.
fn period(row: &Row) -> Option<String> {
    row.plan.filesystem.as_ref()?.period.clone()
}

/// The command line's name for a disk fault.
fn fault_name(disk: DiskFault) -> &'static str {
    let known = DiskFault::ALL.iter().find(|(_, _, other)| *other == disk);
    known.map_or("honest", |(name, ..)| name)
}

fn sysctls(row: &Row) -> impl Iterator<Item = String> {
    row.plan.sysctls.iter().map(|(key, value)| format!("{key}={value}"))
}

/// A command line: the file systems, and their shared workload and options.
type Line = (Vec<String>, (String, Vec<String>));

/// The commands that reproduce the rows, one for each set of options; file systems with equal options share one.
pub fn commands(rows: &[Row]) -> String {
    let mut commands: Vec<Line> = Vec::new();
    for row in rows.iter().filter(|row| !row.outcomes.is_empty()) {
        let spec = row.plan.filesystem_request().unwrap_or_else(|| row.plan.label.clone());
        let (file_system, choices) = (option("fs", &spec), choices(row));
        match commands.iter_mut().find(|(_, known)| *known == choices) {
            Some((file_systems, _)) if file_systems.contains(&file_system) => {}
            Some((file_systems, _)) => file_systems.push(file_system),
            None => commands.push((vec![file_system], choices)),
        }
    }
    let command = |(file_systems, (workload, options)): &Line| {
        let options = file_systems.iter().chain(options).map(String::as_str);
        let options = options.collect::<Vec<_>>().join(" \\\n    ");
        format!("fsdyno crash {workload} \\\n    {options}")
    };
    commands.iter().map(command).collect::<Vec<_>>().join("\n")
}

/// The workload, and every option except the file system.
fn choices(row: &Row) -> (String, Vec<String>) {
    let plan = &row.plan;
    let mut args = Vec::new();
    let set = plan.workload.params.iter().map(|(key, value)| format!("{key}={value}"));
    args.extend(set.map(|set| option("set", &set)));
    for axis in AXES.iter().filter(|axis| axis.crash == Crash::One) {
        if let Value::Set(value) = (axis.value)(plan)
            && (value != axis.default || axis.of_machine)
        {
            args.push(option(axis.key, &value));
        }
    }
    args.extend(sysctls(row).map(|sysctl| option("sysctl", &sysctl)));
    if row.disk != DiskFault::Honest {
        args.push(option("misbehave", fault_name(row.disk)));
    }
    args.push(format!("--tear {}", row.atomic_unit.bytes()));
    args.push(format!("--cuts {} --seed {}", row.outcomes.len(), row.seed));
    (quote(&plan.workload.name), args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash_fixture;

    #[test]
    fn equal_conditions_share_a_command_and_others_do_not() {
        let mut rows = crash_fixture::crashed();
        let text = commands(&rows);
        assert_eq!(text.matches("fsdyno crash dirops").count(), 2, "{text}");
        assert_eq!(text.matches("--misbehave drops-flushes").count(), 1, "{text}");
        assert_eq!(text.matches("--cuts 3 --seed 1").count(), 2, "{text}");
        rows[1].disk = DiskFault::Honest;
        let text = commands(&rows);
        assert_eq!(text.matches("fsdyno crash dirops").count(), 1, "{text}");
        assert_eq!(text.matches("--fs").count(), 2, "{text}");
        rows[1].atomic_unit = 512.try_into().unwrap();
        rows[0].atomic_unit = 4096.try_into().unwrap();
        assert_eq!(commands(&rows).matches("fsdyno crash dirops").count(), 2);
        rows[0].plan.threads = 4;
        let lab = rows[0].plan.lab_mut().unwrap();
        (lab.cpu, lab.scheduler) = ("8".parse().unwrap(), Some("bfq".into()));
        for option in ["--cpu 8", "--scheduler bfq", "--threads 4"] {
            assert_eq!(commands(&rows).matches(option).count(), 1, "{option}");
        }
        assert_eq!(subject(&rows).len(), 2);
        assert!(blocks(&rows)[1].1.contains(&("atomic write unit".into(), "512 bytes".into())));
    }
}
