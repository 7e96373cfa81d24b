//! Differences between the two sides of a comparison other than the measured values, one line for each difference.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_record::plan::NetworkPlan;
use fsdyno_record::{Plan, Trial};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::cells::{Cell, Pair};
use crate::number::sanitize;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// Its name: `kernel`, `tool mkfs`, `lab identity`.
    pub what: String,
    /// Its values in the base.
    pub base: String,
    /// Its values in the new result.
    pub new: String,
    /// The cells in which it differs, or empty if it differs in all.
    pub cells: Vec<String>,
}

/// The text for a value that a side does not have.
const NONE: &str = "none";

/// The maximum length of a displayed value, in characters.
const MAX_LENGTH: usize = 100;

/// The differences of all pairs; a difference of several pairs is listed once. For steps along an axis, differences
/// that follow from the axis's values are omitted, and steps are named instead of cells.
pub fn differences(pairs: &[Pair<'_>]) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    let place = |pair: &Pair<'_>| match &pair.step {
        Some(step) => step.to_string(),
        None => pair.base.name.clone(),
    };
    let places: BTreeSet<String> = pairs.iter().map(place).collect();
    for pair in pairs {
        let (base, new) = (facts(&pair.base), facts(&pair.new));
        let names: BTreeSet<&(u8, String)> = base.keys().chain(new.keys()).collect();
        for name in names {
            let (base, new) = (format_values(base.get(name)), format_values(new.get(name)));
            let follows =
                pair.step.is_some() && !INDEPENDENT.iter().any(|prefix| name.1.starts_with(prefix));
            if base == new || follows {
                continue;
            }
            let (base, new) = truncate_pair(base, new);
            let same = |d: &&mut Difference| (&d.what, &d.base, &d.new) == (&name.1, &base, &new);
            let cell = place(pair);
            match found.iter_mut().find(same) {
                Some(difference) if difference.cells.contains(&cell) => {}
                Some(difference) => difference.cells.push(cell),
                None => {
                    found.push(Difference { what: name.1.clone(), base, new, cells: vec![cell] })
                }
            }
        }
    }
    for difference in found.iter_mut().filter(|d| d.cells.len() == places.len()) {
        difference.cells.clear();
    }
    found
}

/// Prefixes of fact names. Facts with these names do not follow from the value of an axis.
const INDEPENDENT: [&str; 7] =
    ["schema of records", "fsdyno", "mount", "tool ", "feature ", "queue ", "sysctl "];

type Facts = BTreeMap<(u8, String), BTreeSet<String>>;

/// All facts that may differ, each with the values that occur in trials of the cell; the number in the key determines
/// their order. A trial that failed may have no conditions, so empty values are skipped.
fn facts(cell: &Cell<'_>) -> Facts {
    let mut facts = Facts::new();
    let mut add = |order: u8, what: &str, value: String| {
        if !value.is_empty() {
            facts.entry((order, sanitize(what))).or_default().insert(value);
        }
    };
    let successful: Vec<&Trial> = cell.successful().collect();
    let trials = if successful.is_empty() { &cell.trials } else { &successful };
    for trial in trials {
        let conditions = &trial.conditions;
        add(0, "schema of records", trial.schema.to_string());
        add(1, "fsdyno", trial.program());
        // A prefix is enough to distinguish identities; the records have the whole identity.
        let lab = trial.lab_id.iter().flat_map(|id| id.chars()).take(16);
        add(2, "lab identity", lab.collect());
        add(3, "kernel", conditions.kernel.clone());
        for (what, value) in plan_facts(&trial.plan) {
            add(4, &what, value);
        }
        add(5, "CPU", conditions.cpu.clone());
        // Only for a directory: the device of a loop device or an array is just a number, which changes.
        if trial.plan.medium.directory().is_some() {
            add(6, "device", conditions.device.clone());
        }
        add(6, "mount", conditions.mount.clone());
        add(6, "mount below", conditions.below.clone());
        for (what, values) in [
            ("tool", &conditions.tools),
            ("feature", &conditions.features),
            ("queue", &conditions.queue),
            ("sysctl", &conditions.sysctls),
            ("lab", &trial.lab),
        ] {
            let add = |(key, value): (&String, &String)| {
                add(7, &format!("{what} {key}"), chosen(value).into());
            };
            values.iter().for_each(add);
        }
    }
    facts
}

/// The selected value of a list as in sysfs (`mq-deadline` of `[mq-deadline] none`), because the order of the list
/// differs between kernels; any other value is returned unchanged.
fn chosen(value: &str) -> &str {
    let mut words = value.split_whitespace();
    words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap_or(value)
}

/// The facts of a plan in which matched cells may differ.
fn plan_facts(plan: &Plan) -> Vec<(String, String)> {
    let mut facts = vec![("label".to_string(), plan.label.clone())];
    if let Some(filesystem) = &plan.filesystem {
        facts.push(("file system".into(), filesystem.spec.clone()));
        facts.push(("mkfs".into(), filesystem.mkfs.join(" ")));
        facts.push(("mount options".into(), filesystem.mount_options.clone()));
    }
    let medium = &plan.medium;
    facts.extend(medium.directory().map(|path| ("directory".into(), path.into())));
    if medium.is_host_device() {
        facts.push(("drive".into(), plan.target().to_string()));
    }
    if let Some(lab) = plan.lab() {
        facts.push(("lab's kernel".into(), lab.kernel.to_string()));
        facts.push(("boot".into(), lab.boot.name().into()));
        facts.extend(lab.network.iter().map(|network| {
            let NetworkPlan { bits_per_second, delay_ns, limit, .. } = network;
            ("network".into(), format!("{bits_per_second} bit/s, {delay_ns}, {limit} packets"))
        }));
    }
    for (what, disk) in [("disk", medium.disk()), ("journal's disk", medium.journal())] {
        facts.extend(disk.into_iter().flat_map(|disk| disk_parameters(what, &disk.spec)));
    }
    let input = plan.workload.input.iter().filter_map(|input| {
        let path = plan.workload.params.get(&input.parameter)?;
        Some((format!("name of {}", input.parameter), path.clone()))
    });
    facts.extend(input);
    facts
}

/// The parameters of a disk, each with its value; names start with `prefix`.
fn disk_parameters(prefix: &str, spec: &Value) -> Vec<(String, String)> {
    match spec {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), String::from);
                (format!("{prefix} {key}"), text)
            })
            .collect(),
        other => vec![(prefix.to_string(), other.to_string())],
    }
}

fn format_values(values: Option<&BTreeSet<String>>) -> String {
    let all: Vec<String> = values.into_iter().flatten().map(|value| sanitize(value)).collect();
    if all.is_empty() { NONE.into() } else { all.join(" | ") }
}

/// Truncates two different values to a readable length, from shortly before the point where they differ.
fn truncate_pair(base: String, new: String) -> (String, String) {
    let common = base.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    let from = if base.chars().count().max(new.chars().count()) > MAX_LENGTH {
        common.saturating_sub(MAX_LENGTH / 4)
    } else {
        0
    };
    let truncated = |text: &str| {
        let rest: Vec<char> = text.chars().skip(from).collect();
        let start = if from > 0 { "..." } else { "" };
        let end = if rest.len() > MAX_LENGTH { "..." } else { "" };
        format!("{start}{}{end}", rest.iter().take(MAX_LENGTH).collect::<String>())
    };
    (truncated(&base), truncated(&new))
}

#[cfg(test)]
mod tests {
    use super::super::cells::match_cells;
    use super::*;
    use crate::fixture;

    fn differences_between(base: &[Trial], new: &[Trial]) -> Vec<Difference> {
        differences(&match_cells(base, new).pairs)
    }

    #[test]
    fn equal_conditions_have_no_line() {
        assert_eq!(differences_between(&fixture::trials(), &fixture::trials()), []);
    }

    #[test]
    fn kernel_tools_disk_and_lab_have_a_line_each_with_their_cells() {
        let base = fixture::trials();
        let mut new = fixture::trials();
        for trial in &mut new {
            trial.lab_id = Some("b".repeat(64));
            trial.conditions.kernel = "6.12.3 #1".into();
            trial.lab.insert("agent".into(), "sha256:77cd".into());
            if trial.plan.label == "xfs" {
                trial.conditions.tools.insert("mkfs".into(), "mkfs.xfs 6.9".into());
            }
            trial.plan.medium.modelled_mut().unwrap().disk.spec["rpm"] = 5400.into();
        }
        let found = differences_between(&base, &new);
        let difference = |what: &str| found.iter().find(|d| d.what == what).unwrap().clone();
        assert_eq!(found.len(), 5, "{found:?}");
        assert_eq!(
            (difference("lab agent").base, difference("lab agent").new),
            ("sha256:51ab".into(), "sha256:77cd".into())
        );
        assert_eq!(
            (difference("disk rpm").base, difference("disk rpm").new),
            ("7200".into(), "5400".into())
        );
        assert_eq!(difference("kernel").new, "6.12.3 #1");
        assert!(
            difference("kernel").cells.is_empty() && difference("lab identity").cells.is_empty()
        );
        assert_eq!(difference("tool mkfs").cells, ["dirops on xfs", "tarball on xfs"]);
    }

    #[test]
    fn a_value_of_only_one_side_is_a_difference_without_control_characters() {
        let base = fixture::trials();
        let mut new = fixture::trials();
        for trial in &mut new {
            trial.conditions.sysctls.insert("vm.x\x1b[2J".into(), "1\n2".into());
        }
        let found = differences_between(&base, &new);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].base.as_str(), found[0].new.as_str()), (NONE, "1\u{fffd}2"));
        assert!(!found[0].what.contains('\x1b'));
    }

    #[test]
    fn only_the_scheduler_in_use_counts_in_a_list_of_schedulers() {
        let base = fixture::trials();
        let differences_with = |list: &str| {
            let mut new = fixture::trials();
            for trial in &mut new {
                trial.conditions.queue.insert("scheduler".into(), list.into());
            }
            differences_between(&base, &new)
        };
        assert_eq!(base[0].conditions.queue["scheduler"], "[mq-deadline] none");
        assert_eq!(differences_with("none [mq-deadline]"), []);
        let found = differences_with("[none] mq-deadline");
        assert_eq!((found[0].base.as_str(), found[0].new.as_str()), ("mq-deadline", "none"));
    }

    #[test]
    fn long_values_are_truncated_around_the_point_where_they_differ() {
        let long = |end: &str| format!("{}{end}", "x".repeat(300));
        let (base, new) = truncate_pair(long("one"), long("two"));
        assert!(base.ends_with("one") && new.ends_with("two") && base.len() < 120, "{base}");
    }
}
